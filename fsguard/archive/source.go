package archive

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
)

// source is the archive's own bytes: each read looks at ctx and is counted.
type source struct {
	ctx  context.Context
	r    io.ReaderAt
	size int64
	read int64 // the highest offset read so far
}

func (s *source) ReadAt(p []byte, at int64) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	if at >= s.size {
		return 0, io.EOF
	}
	if left := s.size - at; int64(len(p)) > left {
		n, err := s.r.ReadAt(p[:left], at)
		s.read = max(s.read, at+int64(n))
		if err == nil {
			err = io.EOF
		}
		return n, err
	}
	n, err := s.r.ReadAt(p, at)
	s.read = max(s.read, at+int64(n))
	return n, err
}

// format is what the first bytes say; "" is none known. A tar has no mark at its beginning, so that it is what
// is left when its first header has the right checksum.
func (s *source) format() (string, error) {
	head := make([]byte, 512)
	n, err := s.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return "", err
	}
	head = head[:n]
	for _, f := range []struct{ name, magic string }{
		{"zip", "PK\x03\x04"}, {"zip", "PK\x05\x06"},
		{"tar.gz", "\x1f\x8b\x08"}, {"tar.xz", "\xfd7zXZ\x00"}, {"tar.bz2", "BZh"}, {"tar.zst", "\x28\xb5\x2f\xfd"},
	} {
		if bytes.HasPrefix(head, []byte(f.magic)) {
			return f.name, nil
		}
	}
	// A skippable frame of zstd: 0x184D2A5? (RFC 8878, 3.1.2).
	if n >= 4 && head[0]&0xf0 == 0x50 && string(head[1:4]) == "\x2a\x4d\x18" {
		return "tar.zst", nil
	}
	if isTar(head) {
		return "tar", nil
	}
	return "", nil
}

// isTar tells whether head begins a tar: a header with the right checksum (tar(5)), or the two blank blocks
// of an empty one.
func isTar(head []byte) bool {
	if len(head) < 512 {
		return false
	}
	sum, blank := int64(0), true
	for i, c := range head[:512] {
		blank = blank && c == 0
		if i >= 148 && i < 156 {
			c = ' '
		}
		sum += int64(c)
	}
	if blank {
		return true
	}
	want, digits := int64(0), false
	for _, c := range bytes.Trim(head[148:156], " \x00") {
		if c < '0' || c > '7' {
			return false
		}
		want, digits = want*8+int64(c-'0'), true
	}
	return digits && want == sum
}

// stream gives what the archive holds, decompressed. It reads ahead a bounded amount and holds no more than a
// window: 8 MiB for zstd, 64 MiB for xz.
func (s *source) stream(format string) (io.Reader, error) {
	raw := bufio.NewReaderSize(io.NewSectionReader(s, 0, s.size), 64<<10)
	switch format {
	case "tar":
		return raw, nil
	case "tar.gz":
		r, err := gzip.NewReader(raw)
		if err != nil {
			return nil, broken(err)
		}
		return r, nil
	case "tar.bz2":
		return bzip2.NewReader(raw), nil
	case "tar.xz":
		return newXZReader(raw), nil
	default:
		return newZstdReader(s)
	}
}

// newZstdReader decompresses with the standard library's own decoder (internal/zstd), which has one public
// door: a compressed section of an ELF file. The archive poses as the content of such a section, behind
// a header made here. The decoder keeps a window of 8 MiB, as RFC 8878 asks of every decoder; what refers further
// back is refused. docs/dependencies.md says why no other decoder is used.
func newZstdReader(s *source) (io.Reader, error) {
	const (
		sections = 64                // offset of the section headers in the file: right after the ELF header
		names    = sections + 3*64   // of the string table: one NUL, padded
		content  = names + 8         // of the section that poses
		chdr     = content           // its compression header
		data     = content + 24      // what follows it
		size     = uint64(1<<62 - 1) // decompressed size; not known and not looked at
	)
	header := make([]byte, data)
	le := binary.LittleEndian
	copy(header, elf.ELFMAG)
	header[elf.EI_CLASS], header[elf.EI_DATA], header[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
	le.PutUint16(header[16:], uint16(elf.ET_REL))
	le.PutUint16(header[18:], uint16(elf.EM_X86_64))
	le.PutUint32(header[20:], uint32(elf.EV_CURRENT))
	le.PutUint64(header[40:], sections)
	le.PutUint16(header[52:], 64) // e_ehsize
	le.PutUint16(header[58:], 64) // e_shentsize
	le.PutUint16(header[60:], 3)  // e_shnum
	le.PutUint16(header[62:], 1)  // e_shstrndx
	table := header[sections+64:]
	le.PutUint32(table[4:], uint32(elf.SHT_STRTAB))
	le.PutUint64(table[24:], names)
	le.PutUint64(table[32:], 1)
	posing := header[sections+128:]
	le.PutUint32(posing[4:], uint32(elf.SHT_PROGBITS))
	le.PutUint64(posing[8:], uint64(elf.SHF_COMPRESSED))
	le.PutUint64(posing[24:], content)
	le.PutUint64(posing[32:], uint64(data-content)+uint64(s.size))
	le.PutUint32(header[chdr:], uint32(elf.COMPRESS_ZSTD))
	le.PutUint64(header[chdr+8:], size)
	le.PutUint64(header[chdr+16:], 1)

	file, err := elf.NewFile(&behind{header: header, r: s})
	if err != nil {
		return nil, err
	}
	return file.Sections[2].Open(), nil
}

// behind is a reader's bytes behind a header.
type behind struct {
	header []byte
	r      io.ReaderAt
}

func (b *behind) ReadAt(p []byte, at int64) (int, error) {
	n := 0
	if at < int64(len(b.header)) {
		n = copy(p, b.header[at:])
	}
	if n == len(p) {
		return n, nil
	}
	m, err := b.r.ReadAt(p[n:], at+int64(n)-int64(len(b.header)))
	return n + m, err
}

// guarded is a decompressed stream within limits. Its errors are the archive's.
type guarded struct {
	source *source
	r      io.Reader
	limits Limits
	plain  bool // not compressed: no ratio
	out    int64

	pending []byte // read already
}

func (g *guarded) Read(p []byte) (int, error) {
	if len(g.pending) > 0 {
		n := copy(p, g.pending)
		g.pending = g.pending[n:]
		return n, nil
	}
	if err := g.source.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := g.r.Read(p)
	g.out += int64(n)
	if limit := g.over(); limit != nil {
		return n, limit
	}
	if err != nil && err != io.EOF && g.source.ctx.Err() == nil {
		err = broken(err)
	}
	if err == io.ErrUnexpectedEOF {
		err = broken(err)
	}
	return n, err
}

// over also bounds what is not content: headers of entries, up to 4 KiB for each, and padding.
func (g *guarded) over() error {
	l := g.limits
	if l.Size > 0 && l.Entries > 0 && g.out > l.Size+4096*l.Entries+ratioFree {
		return &LimitError{"size", l.Size}
	}
	if !g.plain && l.Ratio > 0 && (g.out-ratioFree)/l.Ratio > g.source.read {
		return &LimitError{"ratio", l.Ratio}
	}
	return nil
}

// rest reads what follows the end of the archive, so that checksums at the end of the stream are checked, and
// tells whether it is more than blanks.
func (g *guarded) rest() (more bool, err error) {
	buf := make([]byte, 64<<10)
	for {
		n, err := g.Read(buf)
		more = more || len(bytes.Trim(buf[:n], "\x00")) > 0
		switch {
		case errors.Is(err, io.EOF):
			return more, nil
		case err != nil:
			return more, err
		}
	}
}
