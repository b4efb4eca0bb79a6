package archive

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"strings"
	"testing"
)

func hostileTars(t testing.TB) []hostile {
	long := strings.Repeat("n", 256)
	var cases []hostile
	add := func(name string, want error, members ...member) {
		cases = append(cases, hostile{"tar/" + name, forgeTar(members...), want})
	}
	for _, name := range []string{
		"../x", "a/../../x", "/x", "//x", "..", "a/..", "", ".", "./", "a/./", "C:/x", "c:x", "../target/../x", long[:90] + "/../..",
	} {
		add("name "+name, ErrName, file(name))
	}
	for _, name := range []string{`C:\x`, `\x`, `..\x`, `a\..\..\x`, `a\b`, `\\host\share`} {
		add("name "+name, ErrBackslash, file(name))
	}
	for _, name := range []string{"../x", "/x", "a/../../x", long, strings.Repeat("d/", 2100) + "f", "C:/x"} {
		add("pax name "+name[:min(8, len(name))], ErrName, member{name: "a", body: "text", pax: map[string]string{"path": name}})
		cases = append(cases, hostile{"tar/gnu name " + name[:min(8, len(name))], gnuLong('L', name, file("a")), ErrName})
	}
	add("pax name NUL", ErrBroken, member{name: "a", body: "text", pax: map[string]string{"path": "a\x00b"}})
	add("prefix", ErrName, member{name: "x", body: "text", raw: func(h []byte) { copy(h[345:], "..") }})
	add("depth", ErrLimit, member{name: "a", pax: map[string]string{"path": strings.Repeat("d/", 60) + "f"}})
	add("folder outside", ErrName, folderNamed("../d/"))
	add("device outside", ErrName, member{name: "../null", kind: '3'})

	for _, to := range []string{"/etc", "/", "..", "../x", "../target/../x", "a/../../x", "./../x", "a/b/../../../x", "", "/proc/self/root"} {
		add("symlink to "+to, ErrLink, symlinkTo("l", to))
	}
	add("symlink deep", ErrLink, symlinkTo("a/b/l", "../../../x"))
	add("symlink by pax", ErrLink, member{name: "l", kind: '2', link: "a", pax: map[string]string{"linkpath": "../x"}})
	cases = append(cases, hostile{"tar/symlink by gnu", gnuLong('K', "../x", symlinkTo("l", "a")), ErrLink})
	add("symlink by a symlink to .", ErrLink, symlinkTo("here", "."), symlinkTo("l", "here/../x"))
	add("symlink by a symlink up", ErrLink, folderNamed("a/b/"), symlinkTo("a/b/up", ".."), symlinkTo("l", "a/b/up/../../x"))
	add("symlink by a later symlink", ErrLink, symlinkTo("l", "here/../x"), symlinkTo("here", "."))
	add("symlink by three", ErrLink, symlinkTo("a", "b"), symlinkTo("b", "c/.."), symlinkTo("c", "."))
	add("symlink by a missing folder", ErrLink, symlinkTo("l", "none/../../x"))
	add("file through a symlink out", ErrThrough, symlinkTo("l", ".."), file("l/x"))
	add("file through an absolute symlink", ErrLink, symlinkTo("l", "/tmp"), file("l/x"))
	add("file through a symlink inside", ErrThrough, folderNamed("d/"), symlinkTo("l", "d"), file("l/f"))
	add("folder through a symlink", ErrThrough, symlinkTo("l", "d"), folderNamed("l/f/"))
	add("symlink through a symlink", ErrThrough, folderNamed("d/"), symlinkTo("l", "d"), symlinkTo("l/m", ".."))
	add("hard link through a symlink", ErrThrough, file("f"), symlinkTo("l", "."), hardlinkTo("l/h", "f"))
	add("dot through a symlink", ErrThrough, symlinkTo("l", "d"), file("l/./f"))
	add("file over a symlink", ErrTwice, symlinkTo("l", "f"), file("l"))
	add("file over a symlink, spelled otherwise", ErrTwice, symlinkTo("l", "f"), file("./l"))
	add("folder over a symlink", ErrTwice, symlinkTo("l", "d"), folderNamed("l/"))
	add("symlink over a folder", ErrTwice, folderNamed("d/"), symlinkTo("d", "."))
	add("symlink over a file", ErrTwice, file("f"), symlinkTo("f", "g"))
	add("symlink named as a folder", ErrName, symlinkTo("l/", "d"))

	for _, to := range []string{"../x", "/etc/passwd", "a/../../x", "", `..\x`, "."} {
		add("hard link to "+to, ErrLink, hardlinkTo("h", to))
	}
	add("hard link to a symlink", ErrLink, symlinkTo("l", "f"), hardlinkTo("h", "l"))
	add("hard link to a later file", ErrLink, hardlinkTo("h", "f"), file("f"))
	add("hard link to a later symlink", ErrLink, hardlinkTo("h", "l"), symlinkTo("l", "../x"))
	add("hard link to a folder", ErrLink, folderNamed("d/"), hardlinkTo("h", "d"))
	add("hard link to a device", ErrLink, member{name: "null", kind: '3'}, hardlinkTo("h", "null"))
	add("hard link to itself", ErrLink, hardlinkTo("h", "h"))
	add("hard link by a symlinked folder", ErrLink, folderNamed("d/"), file("d/f"), symlinkTo("l", "d"), hardlinkTo("h", "l/f"))
	add("hard link over a file", ErrTwice, file("f"), file("g"), hardlinkTo("g", "f"))
	add("hard link, then a file over it", ErrTwice, file("f"), hardlinkTo("h", "f"), file("h"))

	add("file twice", ErrTwice, file("f"), file("f"))
	add("file, symlink, file", ErrTwice, file("f"), symlinkTo("f", "../x"), file("f"))
	add("file over a folder", ErrTwice, folderNamed("d/"), file("d"))
	add("folder over a file", ErrTwice, file("f"), folderNamed("f/"))
	add("beneath a file", ErrTwice, file("f"), file("f/g"))
	add("beneath a device", ErrTwice, member{name: "null", kind: '3'}, file("null/f"))
	add("over a device", ErrTwice, member{name: "null", kind: '3'}, file("null"))
	add("case", ErrFold, file("README"), file("readme"))
	add("case of a folder", ErrFold, file("A/f"), file("a/g"))
	add("case of a symlink's folder", ErrFold, symlinkTo("Sub", "d"), file("sub/f"))
	add("case beyond ASCII", ErrFold, file("É"), file("é"))
	add("case with three forms, k", ErrFold, file("mask"), file("mas\u212a")) // the Kelvin sign
	add("case with three forms, s", ErrFold, file("mask"), file("ma\u017fk")) // the long s
	add("case with three forms, K and s", ErrFold, file("MASK"), file("ma\u017f\u212a"))
	add("case .git", ErrFold, file(".git/config"), file(".GIT/config"))

	add("unknown type", ErrType, member{name: "z", kind: 'Z'})
	add("volume", ErrType, member{name: "v", kind: 'V'})
	add("continued", ErrType, member{name: "m", kind: 'M'})
	add("global path", ErrAmbiguous, member{name: "g", kind: 'g', body: records(map[string]string{"path": "../x"})}, file("a"))
	add("global linkpath", ErrAmbiguous, member{name: "g", kind: 'g', body: records(map[string]string{"linkpath": "../x"})}, file("a"))
	add("file with a folder's name", ErrName, file("d/"))

	many := make([]member, 1001)
	for i := range many {
		many[i] = folderNamed("d")
	}
	add("entries", ErrLimit, many...)
	deep := make([]member, 30)
	for i := range deep {
		deep[i] = member{name: "a", pax: map[string]string{"path": strings.Repeat(string(rune('a'+i))+"/", 45) + "f"}}
	}
	add("implied folders", ErrLimit, deep...)
	add("file size", ErrLimit, member{name: "f", size: 129 << 20})
	sum := make([]member, 3)
	for i := range sum {
		sum[i] = member{name: "f" + string(rune('0'+i)), body: strings.Repeat("x", 100<<20)}
	}
	add("total size", ErrLimit, sum...)
	add("giant pax header", ErrBroken, member{name: "a", pax: map[string]string{"comment": strings.Repeat("c", 2<<20)}})
	cases = append(cases, hostile{"tar/giant gnu name", gnuLong('L', strings.Repeat("n", 2<<20), file("a")), ErrBroken})
	add("pax size beyond", ErrBroken, member{name: "a", pax: map[string]string{"size": "99999999999999999999"}})
	add("negative size", ErrBroken, member{name: "a", raw: func(h []byte) { copy(h[124:136], bytes.Repeat([]byte{0xff}, 12)) }})
	add("huge size", ErrLimit, member{name: "a", raw: func(h []byte) {
		copy(h[124:136], append([]byte{0x80, 0, 0, 0, 0x3f}, make([]byte, 7)...))
	}})
	sparse := map[string]string{"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "s", "GNU.sparse.realsize": "1099511627776"}
	add("sparse of 1 TiB", ErrLimit, member{name: "GNUSparseFile.0/s", pax: sparse, body: block("1\n0\n4\n") + "text"})
	add("sparse map with no end", ErrBroken, member{name: "s", pax: sparse, body: block("100000000\n" + strings.Repeat("0\n", 2000))})
	add("sparse name outside", ErrName, member{name: "s", body: block("1\n0\n4\n") + "text", pax: map[string]string{
		"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "../x", "GNU.sparse.realsize": "4",
	}})
	oldSparse := func(h []byte) {
		copy(h[257:], "ustar  \x00")
		octal(h[386:398], 0)
		octal(h[398:410], 4)
		octal(h[483:495], 0o77777777777)
	}
	add("old sparse of 8 GiB", ErrLimit, member{name: "s", kind: 'S', body: "text", raw: oldSparse})
	add("old sparse that overlaps", ErrBroken, member{name: "s", kind: 'S', body: "texttext", raw: func(h []byte) {
		oldSparse(h)
		octal(h[410:422], 2)
		octal(h[422:434], 4)
	}})
	add("old sparse without end", ErrBroken, member{name: "s", kind: 'S', body: strings.Repeat("\x00", 504) + "\x01\x00\x00\x00\x00\x00\x00\x00", raw: func(h []byte) {
		oldSparse(h)
		octal(h[483:495], 4)
		h[482] = 1
	}})

	good := forgeTar(file("a"), file("b"))
	flipped := bytes.Clone(good)
	flipped[1024+5] ^= 1
	cases = append(cases,
		hostile{"tar/wrong checksum", flipped, ErrBroken},
		hostile{"tar/cut in a header", good[:1024+100], ErrBroken},
		hostile{"tar/cut in a body", forgeTar(member{name: "a", body: strings.Repeat("x", 2000)})[:1500], ErrBroken},
		hostile{"nothing", nil, ErrFormat},
		hostile{"text", bytes.Repeat([]byte("no archive "), 100), ErrFormat},
		hostile{"other file", []byte("\x7fELF" + strings.Repeat("\x00", 600)), ErrFormat},
	)

	// Compressed ones. The bombs are of 64 MiB: four times what a short archive may have without question.
	var blank bytes.Buffer
	zeros(t, &blank, 64<<20)
	cases = append(cases,
		hostile{"gz/ratio", gzipped(blank.Bytes()), ErrLimit},
		hostile{"zst/ratio", zstdBlank(64 << 20), ErrLimit},
		hostile{"gz/pax headers for ever", gzipped(bytes.Repeat([]byte(member{name: "x", kind: 'x', body: strings.Repeat("\x00", 1<<20)}.bytes()), 40)), ErrBroken},
		hostile{"gz/long names for ever", gzipped(bytes.Repeat([]byte(member{name: "L", kind: 'L', body: strings.Repeat("n", 1<<20)}.bytes()), 40)), ErrLimit},
		hostile{"gz/blank behind the end", gzipped(append(bytes.Clone(good), make([]byte, 64<<20)...)), ErrLimit},
		hostile{"gz/cut", gzipped(good)[:len(gzipped(good))-6], ErrBroken},
		hostile{"gz/garbage behind", append(gzipped(good), "garbage"...), ErrBroken},
		hostile{"gz/of gz", gzipped(gzipped(good)), ErrFormat},
		hostile{"gz/of text", gzipped([]byte("text")), ErrFormat},
		hostile{"gz/of zip", gzipped(forgeZip(zipMember{name: "a", body: "text"})), ErrFormat},
		hostile{"gz/header only", []byte("\x1f\x8b\x08\x00"), ErrBroken},
		hostile{"bz2/garbage", []byte("BZh9" + strings.Repeat("x", 100)), ErrBroken},
		hostile{"zst/garbage", []byte("\x28\xb5\x2f\xfd" + strings.Repeat("x", 100)), ErrBroken},
		hostile{"zst/dictionary", append([]byte("\x28\xb5\x2f\xfd\x21\x07\x00"), make([]byte, 100)...), ErrBroken},
		hostile{"zst/cut", zstdRaw(good)[:700], ErrBroken},
		hostile{"xz/garbage", []byte(xzMagic + strings.Repeat("x", 100)), ErrBroken},
		hostile{"xz/dictionary of 4 GiB", xzHeader("\x02\x00\x21\x01\x28\x00\x00\x00"), ErrMethod},
		hostile{"xz/BCJ filter", xzHeader("\x02\x01\x04\x00\x21\x01\x16\x00"), ErrBroken},
		hostile{"xz/cut", []byte(xzMagic + "\x00"), ErrBroken},
	)
	wrongSum := gzipped(good)
	wrongSum[len(wrongSum)-8] ^= 1
	cases = append(cases, hostile{"gz/wrong checksum", wrongSum, ErrBroken})
	return cases
}

// zstdRaw is a frame of raw blocks (RFC 8878, 3.1.1), single segment, 8-byte size.
func zstdRaw(data []byte) []byte {
	out := append([]byte("\x28\xb5\x2f\xfd\xe0"), binary.LittleEndian.AppendUint64(nil, uint64(len(data)))...)
	for len(data) > 0 {
		n := min(len(data), 100_000)
		head := n << 3
		if n == len(data) {
			head |= 1
		}
		out = append(out, byte(head), byte(head>>8), byte(head>>16))
		out = append(out, data[:n]...)
		data = data[n:]
	}
	return out
}

// zstdBlank is a tar of one blank file in blocks of run-length zeros.
func zstdBlank(size int64) []byte {
	header := []byte(member{name: "zeros", size: size}.bytes())[:512]
	out := append([]byte("\x28\xb5\x2f\xfd\xe0"), binary.LittleEndian.AppendUint64(nil, uint64(size+512+1024))...)
	head := len(header) << 3
	out = append(append(out, byte(head), byte(head>>8), byte(head>>16)), header...)
	for left := size + 1024; left > 0; {
		n := min(left, 128<<10)
		head := int(n)<<3 | 1<<1
		if n == left {
			head |= 1
		}
		out = append(out, byte(head), byte(head>>8), byte(head>>16), 0)
		left -= n
	}
	return out
}

// xzHeader is a stream header and one block header with valid checksums.
func xzHeader(block string) []byte {
	out := []byte(xzMagic + "\x00\x01")
	out = binary.LittleEndian.AppendUint32(out, crc32.ChecksumIEEE(out[6:8]))
	out = append(out, block...)
	out = binary.LittleEndian.AppendUint32(out, crc32.ChecksumIEEE([]byte(block)))
	return append(out, make([]byte, 64)...)
}
