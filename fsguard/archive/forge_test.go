package archive

import (
	"archive/tar"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"testing"
)

// member is an entry of a forged tar: what a careful writer would not let through.
type member struct {
	name, link string
	kind       byte // type flag; 0 is '0'
	mode       int64
	body       string
	size       int64             // claimed; 0 is len(body)
	pax        map[string]string // records of an own header before it
	raw        func(header []byte)
}

func octal(field []byte, n int64) { copy(field, fmt.Sprintf("%0*o", len(field)-1, n)) }

func seal(header []byte) {
	copy(header[148:156], "        ")
	sum := int64(0)
	for _, c := range header[:512] {
		sum += int64(c)
	}
	copy(header[148:], fmt.Sprintf("%06o\x00 ", sum))
}

func block(text string) string {
	if n := len(text) % 512; n != 0 {
		text += strings.Repeat("\x00", 512-n)
	}
	return text
}

func (m member) bytes() string {
	var out strings.Builder
	if len(m.pax) > 0 {
		out.WriteString(member{name: "pax", kind: 'x', body: records(m.pax)}.bytes())
	}
	header := make([]byte, 512)
	copy(header[:100], m.name)
	if m.mode == 0 {
		m.mode = 0o644
	}
	if m.kind == 0 {
		m.kind = '0'
	}
	if m.size == 0 {
		m.size = int64(len(m.body))
	}
	octal(header[100:108], m.mode)
	octal(header[108:116], 0)
	octal(header[116:124], 0)
	octal(header[124:136], m.size)
	octal(header[136:148], 1_000_000_000)
	header[156] = m.kind
	copy(header[157:257], m.link)
	copy(header[257:], "ustar\x0000")
	if m.raw != nil {
		m.raw(header)
	}
	seal(header)
	out.Write(header)
	out.WriteString(block(m.body))
	return out.String()
}

// records is the content of a PAX header.
func records(pairs map[string]string) string {
	var out strings.Builder
	for key, value := range pairs {
		text := " " + key + "=" + value + "\n"
		n := len(text) + 1
		for len(fmt.Sprint(n))+len(text) != n {
			n++
		}
		out.WriteString(fmt.Sprint(n) + text)
	}
	return out.String()
}

const tarEnd = 1024

func forgeTar(members ...member) []byte {
	var out bytes.Buffer
	for _, m := range members {
		out.WriteString(m.bytes())
	}
	out.Write(make([]byte, tarEnd))
	return out.Bytes()
}

func file(name string) member          { return member{name: name, body: "text"} }
func folderNamed(name string) member   { return member{name: name, kind: '5', mode: 0o755} }
func symlinkTo(name, to string) member { return member{name: name, kind: '2', link: to, mode: 0o777} }
func hardlinkTo(name, to string) member {
	return member{name: name, kind: '1', link: to}
}

// gnuLong is a member whose name or target comes in a GNU header before it.
func gnuLong(kind byte, long string, m member) []byte {
	return forgeTar(member{name: "././@LongLink", kind: kind, body: long + "\x00"}, m)
}

func gzipped(data []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(data)
	_ = w.Close()
	return out.Bytes()
}

// zeros is a tar with one blank file.
func zeros(t testing.TB, w io.Writer, size int64) {
	out := tar.NewWriter(w)
	if err := out.WriteHeader(&tar.Header{Name: "zeros", Mode: 0o644, Size: size}); err != nil {
		t.Fatal(err)
	}
	blank := make([]byte, 1<<20)
	for left := size; left > 0; {
		n, err := out.Write(blank[:min(left, int64(len(blank)))])
		if err != nil {
			t.Fatal(err)
		}
		left -= int64(n)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

// zipMember is an entry of a forged zip. local and central may say different things.
type zipMember struct {
	name    string
	body    string
	deflate bool
	flags   uint16
	method  uint16 // beside that which deflate says
	mode    uint32 // Unix st_mode; 0: made by MS-DOS
	extra   string
	packed  string // instead of the packed body
	local   func(header []byte)
	central func(header []byte)
	name2   string // in the local header
	tail    string // behind the content
	at      *int   // the offset of another's local header instead of an own one
}

type zipForge struct {
	members []zipMember
	prefix  string
	gap     string // between the entries and the directory
	comment string
	end     func(record []byte)
	suffix  string
}

func (z zipForge) bytes() []byte {
	var out, dir bytes.Buffer
	le := binary.LittleEndian
	out.WriteString(z.prefix)
	for _, m := range z.members {
		packed := m.body
		method := m.method
		if m.deflate {
			var buf bytes.Buffer
			w, _ := flate.NewWriter(&buf, 9)
			_, _ = io.WriteString(w, m.body)
			_ = w.Close()
			packed, method = buf.String(), 8
		}
		if m.packed != "" {
			packed = m.packed
		}
		local := make([]byte, 30)
		le.PutUint32(local, zipLocal)
		le.PutUint16(local[4:], 20)
		le.PutUint16(local[6:], m.flags)
		le.PutUint16(local[8:], method)
		le.PutUint16(local[12:], 0x21)
		le.PutUint32(local[14:], crc32.ChecksumIEEE([]byte(m.body)))
		le.PutUint32(local[18:], uint32(len(packed)))
		le.PutUint32(local[22:], uint32(len(m.body)))
		name := m.name
		if m.name2 != "" {
			name = m.name2
		}
		le.PutUint16(local[26:], uint16(len(name)))
		central := make([]byte, 46)
		le.PutUint32(central, zipCentral)
		le.PutUint16(central[4:], 20)
		copy(central[6:], local[4:26])
		le.PutUint16(central[28:], uint16(len(m.name)))
		le.PutUint16(central[30:], uint16(len(m.extra)))
		if m.mode != 0 {
			central[5] = 3
			le.PutUint32(central[38:], m.mode<<16)
		}
		le.PutUint32(central[42:], uint32(out.Len()))
		if m.at != nil {
			le.PutUint32(central[42:], uint32(*m.at))
		}
		if m.local != nil {
			m.local(local)
		}
		if m.central != nil {
			m.central(central)
		}
		if m.at == nil {
			out.Write(local)
			out.WriteString(name + packed + m.tail)
		}
		dir.Write(central)
		dir.WriteString(m.name + m.extra)
	}
	out.WriteString(z.gap)
	end := make([]byte, 22)
	le.PutUint32(end, zipEnd)
	le.PutUint16(end[8:], uint16(len(z.members)))
	le.PutUint16(end[10:], uint16(len(z.members)))
	le.PutUint32(end[12:], uint32(dir.Len()))
	le.PutUint32(end[16:], uint32(out.Len()))
	le.PutUint16(end[20:], uint16(len(z.comment)))
	if z.end != nil {
		z.end(end)
	}
	out.Write(dir.Bytes())
	out.Write(end)
	out.WriteString(z.comment + z.suffix)
	return out.Bytes()
}

func forgeZip(members ...zipMember) []byte { return zipForge{members: members}.bytes() }

func put16(at int, v uint16) func([]byte) {
	return func(b []byte) { binary.LittleEndian.PutUint16(b[at:], v) }
}

func put32(at int, v uint32) func([]byte) {
	return func(b []byte) { binary.LittleEndian.PutUint32(b[at:], v) }
}
