package archive

import (
	"encoding/binary"
	"hash/crc32"
	"strings"

	"golang.org/x/sys/unix"
)

func hostileZips() []hostile {
	var cases []hostile
	add := func(name string, want error, members ...zipMember) {
		cases = append(cases, hostile{"zip/" + name, forgeZip(members...), want})
	}
	forge := func(name string, want error, z zipForge) {
		cases = append(cases, hostile{"zip/" + name, z.bytes(), want})
	}
	plain := func(name string) zipMember { return zipMember{name: name, body: "text"} }
	link := func(name, to string) zipMember { return zipMember{name: name, body: to, mode: unix.S_IFLNK | 0o777} }
	for _, name := range []string{"../x", "a/../../x", "/x", "..", "", ".", "C:/x", "a\x00b", strings.Repeat("n", 256)} {
		add("name "+name[:min(9, len(name))], ErrName, plain(name))
	}
	for _, name := range []string{`..\x`, `C:\x`, `a\b`} {
		add("name "+name, ErrBackslash, plain(name))
	}
	add("folder outside", ErrName, zipMember{name: "../"})
	add("name that is no UTF-8", ErrAmbiguous, zipMember{name: "\xff", flags: flagUTF8})
	for _, to := range []string{"/etc", "../x", "a/../../x", "", "a\x00b", strings.Repeat("a/", 3000)} {
		add("symlink to "+to[:min(9, len(to))], ErrLink, link("l", to))
	}
	add("symlinks together", ErrLink, link("here", "."), link("l", "here/../x"))
	add("file through a symlink", ErrThrough, link("l", "d"), plain("l/x"))
	add("file over a symlink", ErrTwice, link("l", "d"), plain("l"))
	add("file twice", ErrTwice, plain("f"), plain("f"))
	add("case", ErrFold, plain("f"), plain("F"))
	add("file over a folder", ErrTwice, zipMember{name: "d/"}, plain("d"))
	add("beneath a file", ErrTwice, plain("f"), plain("f/g"))
	add("folder with content", ErrAmbiguous, plain("d/"))
	add("folder by mode alone", ErrAmbiguous, zipMember{name: "d", mode: unix.S_IFDIR | 0o755})
	add("file by mode with a folder's name", ErrAmbiguous, zipMember{name: "d/", mode: unix.S_IFREG | 0o644})
	add("unknown type", ErrType, zipMember{name: "d", mode: 0o110000 | 0o644})
	first := 0
	add("two entries of one content", ErrAmbiguous, plain("f"), zipMember{name: "g", body: "text", at: &first, name2: "f"})
	add("an entry twice", ErrAmbiguous, plain("f"), zipMember{name: "f", body: "text", at: &first})
	inner := string(forgeZip(zipMember{name: "in", body: strings.Repeat("x", 50)}))
	within := 30 + len("out")
	add("an entry within another", ErrAmbiguous, zipMember{name: "out", body: inner}, zipMember{name: "in", body: strings.Repeat("x", 50), at: &within})
	add("another local name", ErrAmbiguous, zipMember{name: "f", name2: "g", body: "text"})
	add("a local name outside", ErrAmbiguous, zipMember{name: "f", name2: "../x", body: "text"})
	add("another local method", ErrAmbiguous, zipMember{name: "f", body: "text", local: put16(8, 8)})
	add("another local size", ErrAmbiguous, zipMember{name: "f", body: "text", local: put32(22, 5)})
	add("another local checksum", ErrAmbiguous, zipMember{name: "f", body: "text", local: put32(14, 5)})
	add("another local flag", ErrAmbiguous, zipMember{name: "f", body: "text", local: put16(6, flagUTF8)})
	add("another local packed size", ErrAmbiguous, zipMember{name: "f", body: "text", deflate: true, local: put32(18, 5)})
	add("no local header", ErrBroken, plain("e"), zipMember{name: "f", body: "text", local: put32(0, 0)})
	add("encrypted", ErrEncrypted, zipMember{name: "f", body: "text", flags: flagEncrypted})
	add("encrypted strongly", ErrEncrypted, zipMember{name: "f", body: "text", flags: flagStrong})
	add("encrypted directory", ErrEncrypted, zipMember{name: "f", body: "text", flags: flagMasked})
	add("encrypted in the local header alone", ErrAmbiguous, zipMember{name: "f", body: "text", local: put16(6, flagEncrypted)})
	add("method bzip2", ErrMethod, zipMember{name: "f", body: "text", method: 12})
	add("method AES", ErrMethod, zipMember{name: "f", body: "text", method: 99})
	add("patch", ErrMethod, zipMember{name: "f", body: "text", flags: flagPatched})
	add("stored with two sizes", ErrAmbiguous, zipMember{name: "f", body: "text", packed: "texttext"})
	wrong := put32(14, 1)
	add("wrong checksum", ErrBroken, zipMember{name: "f", body: "text", local: wrong, central: put32(16, 1)})
	long := func(at int) func([]byte) { return put32(at, 100) }
	add("content shorter", ErrAmbiguous, zipMember{name: "f", body: "text", deflate: true, local: long(22), central: long(24)})
	short := func(at int) func([]byte) { return put32(at, 2) }
	add("content longer", ErrAmbiguous, zipMember{name: "f", body: "text", deflate: true, local: short(22), central: short(24)})
	add("data behind the content", ErrAmbiguous, zipMember{name: "f", body: "text", method: 8, packed: "\x01\x04\x00\xfb\xfftextmore"})
	add("deflate garbage", ErrBroken, zipMember{name: "f", body: "text", method: 8, packed: "\xff\xff\xff"})
	add("wrong descriptor", ErrAmbiguous, zipMember{name: "f", body: "text", flags: flagDescriptor, tail: strings.Repeat("d", 16)})
	add("no descriptor", ErrAmbiguous, zipMember{name: "f", body: "text", flags: flagDescriptor})
	add("second name", ErrAmbiguous, zipMember{name: "f", body: "text", extra: unicodePath("f", "../x")})
	add("extra field beyond its area", ErrBroken, zipMember{name: "f", body: "text", extra: "\x01\x00\xff\x00"})
	add("two zip64 fields", ErrAmbiguous, zipMember{name: "f", body: "text", extra: "\x01\x00\x00\x00\x01\x00\x00\x00"})
	add("zip64 field too short", ErrBroken, zipMember{name: "f", body: "text", extra: "\x01\x00\x00\x00", central: put32(24, 0xffffffff)})
	add("zip64 size beyond measure", ErrBroken, zipMember{name: "f", body: "text", extra: "\x01\x00\x08\x00\xff\xff\xff\xff\xff\xff\xff\xff", central: put32(24, 0xffffffff)})
	add("ratio", ErrLimit, zipMember{name: "f", body: strings.Repeat("\x00", 64<<20), deflate: true})
	half := zipMember{body: strings.Repeat("\x00", 12<<20), deflate: true}
	var parts []zipMember
	for i := range 6 {
		part := half
		part.name = string(rune('a' + i))
		parts = append(parts, part)
	}
	add("ratio of many", ErrLimit, parts...)
	add("claimed size", ErrLimit, zipMember{name: "f", body: "text", deflate: true, local: put32(22, 1<<31), central: put32(24, 1<<31)})
	many := make([]zipMember, 1001)
	for i := range many {
		many[i] = zipMember{name: "d/"}
	}
	add("entries", ErrLimit, many...)
	f := []zipMember{plain("f")}
	forge("data before", ErrFormat, zipForge{members: f, prefix: "MZ"})
	forge("a gap before the directory", ErrAmbiguous, zipForge{members: f, gap: "hidden", end: put32(16, 30+1+4)})
	forge("data behind", ErrAmbiguous, zipForge{members: f, suffix: "behind"})
	forge("two end records", ErrAmbiguous, zipForge{members: f, comment: string(zipForge{}.bytes()) + "."})
	forge("more entries than said", ErrAmbiguous, zipForge{members: append(f, plain("g")), end: func(b []byte) { put16(8, 1)(b); put16(10, 1)(b) }})
	forge("fewer entries than said", ErrAmbiguous, zipForge{members: f, end: func(b []byte) { put16(8, 9)(b); put16(10, 9)(b) }})
	forge("several parts", ErrBroken, zipForge{members: f, end: put16(4, 1)})
	forge("a directory outside", ErrAmbiguous, zipForge{members: f, end: put32(16, 1<<30)})
	forge("a directory too long", ErrAmbiguous, zipForge{members: f, end: put32(12, 1<<30)})
	whole := forgeZip(plain("f"))
	cases = append(cases, hostile{"zip/cut", whole[:len(whole)-30], ErrBroken}, hostile{"zip/begin only", whole[:20], ErrBroken})
	return cases
}

func unicodePath(name, second string) string {
	data := append([]byte{1}, binary.LittleEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte(name)))...)
	data = append(data, second...)
	head := binary.LittleEndian.AppendUint16([]byte{0x75, 0x70}, uint16(len(data)))
	return string(head) + string(data)
}
