package archive

import (
	"bufio"
	"compress/flate"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// readZip adds the entries of a zip to the tree. Nothing is made before all headers have been checked.
func readZip(s *source, t *tree) error {
	entries, err := s.readDirectory(t.options.Limits)
	if err != nil {
		return err
	}
	// A zip's names have no backslash: programs that write one mean a slash.
	t.options.AllowBackslash = false
	total := int64(0)
	for i := range entries {
		if total += entries[i].size; total < 0 || entries[i].size < 0 {
			return broken(errors.New("sizes beyond all measure"))
		}
	}
	if most := t.options.Size; most > 0 && total > most {
		return &LimitError{"size", most}
	}
	if most := t.options.Ratio; most > 0 && (total-ratioFree)/most > s.size {
		return &LimitError{"ratio", most}
	}
	for i := range entries {
		z := &entries[i]
		e, err := z.entry()
		if err != nil {
			t.index++
			return t.refused(z.name, err)
		}
		if e.mode&fs.ModeSymlink != 0 {
			if e.link, err = z.readLink(s); err != nil {
				t.index++
				return t.refused(z.name, err)
			}
		} else {
			e.body = z.open(s)
		}
		if err := t.add(e); err != nil {
			return err
		}
	}
	return nil
}

// entry says what an entry of the directory is.
func (z *zipEntry) entry() (*entry, error) {
	e := &entry{name: z.name, size: z.size, mode: 0o666, mtime: z.mtime()}
	if z.flags&flagUTF8 != 0 && !utf8.ValidString(z.name) {
		return nil, ambiguous("the name is marked as UTF-8 and is none")
	}
	slash := strings.HasSuffix(z.name, "/")
	if slash {
		e.mode = fs.ModeDir | 0o777
	}
	const unixMade, macMade = 3, 19
	if mode := z.attributes >> 16; (z.creator == unixMade || z.creator == macMade) && mode != 0 {
		e.mode = tarMode(int64(mode))
		switch mode & unix.S_IFMT {
		case 0:
			if slash {
				e.mode |= fs.ModeDir
			}
		case unix.S_IFREG:
		case unix.S_IFDIR:
			e.mode |= fs.ModeDir
		case unix.S_IFLNK:
			e.mode |= fs.ModeSymlink
		case unix.S_IFIFO:
			e.mode |= fs.ModeNamedPipe
		case unix.S_IFSOCK:
			e.mode |= fs.ModeSocket
		case unix.S_IFCHR, unix.S_IFBLK:
			e.mode |= fs.ModeDevice
		default:
			return nil, fmt.Errorf("%w: mode %#o", ErrType, mode)
		}
	}
	if e.mode.IsDir() != slash {
		return nil, ambiguous("its name and its mode do not agree whether it is a folder")
	}
	if e.mode.IsDir() && z.size != 0 {
		return nil, ambiguous("a folder with content")
	}
	return e, nil
}

// mtime is the time of the extra field or, in local time as other programs do it, the MS-DOS time.
func (z *zipEntry) mtime() time.Time {
	if z.hasTime {
		return time.Unix(z.unixTime, 0)
	}
	return time.Date(1980+int(z.date>>9), time.Month(z.date>>5&0xf), int(z.date&0x1f),
		int(z.time>>11), int(z.time>>5&0x3f), int(z.time&0x1f)*2, 0, time.Local)
}

// readLink reads the target of a symbolic link: its content.
func (z *zipEntry) readLink(s *source) (string, error) {
	if z.size > targetMax {
		return "", fmt.Errorf("%w: its target is no path", ErrLink)
	}
	target, err := io.ReadAll(z.open(s))
	return string(target), err
}

// open gives the content, and at its end an error unless size, checksum and packed size are what the headers
// say.
func (z *zipEntry) open(s *source) io.Reader {
	c := &zipContent{entry: z, packed: bufio.NewReaderSize(io.NewSectionReader(s, z.data, z.packed), 32<<10)}
	c.r = c.packed
	if z.method == zipDeflated {
		c.r = flate.NewReader(c.packed)
	}
	return c
}

type zipContent struct {
	entry  *zipEntry
	packed *bufio.Reader
	r      io.Reader
	n      int64
	crc    uint32
}

func (c *zipContent) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	c.crc = crc32.Update(c.crc, crc32.IEEETable, p[:n])
	if c.n > c.entry.size {
		return 0, ambiguous("the content is longer than the headers say")
	}
	if err == io.EOF {
		_, more := c.packed.ReadByte()
		switch {
		case c.n != c.entry.size:
			err = ambiguous("the content is shorter than the headers say")
		case more != io.EOF:
			err = ambiguous("data behind the compressed content")
		case c.crc != c.entry.crc:
			err = fmt.Errorf("%w: wrong checksum", ErrBroken)
		}
	} else if err != nil && err != io.EOF {
		err = broken(err)
	}
	return n, err
}
