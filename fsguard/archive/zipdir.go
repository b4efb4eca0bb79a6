package archive

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
)

// The structures of a zip (PKWARE APPNOTE.TXT 6.3.10). archive/zip reads the central directory alone; what is
// wanted here is that both places where a zip describes an entry say the same, and that no byte belongs to two entries.
const (
	zipLocal      = 0x04034b50
	zipCentral    = 0x02014b50
	zipEnd        = 0x06054b50
	zip64End      = 0x06064b50
	zip64Locator  = 0x07064b50
	zipDescriptor = 0x08074b50

	zipStored   = 0
	zipDeflated = 8

	flagEncrypted  = 1 << 0
	flagDescriptor = 1 << 3
	flagPatched    = 1 << 5
	flagStrong     = 1 << 6
	flagUTF8       = 1 << 11
	flagMasked     = 1 << 13

	extraZip64       = 0x0001
	extraTime        = 0x5455
	extraUnicodePath = 0x7075
)

// zipEntry is one entry of the central directory, held against its local header.
type zipEntry struct {
	name       string
	creator    byte // the system that made it: 3 Unix, 19 macOS
	flags      uint16
	method     uint16
	date, time uint16 // MS-DOS
	crc        uint32
	packed     int64
	size       int64
	at         int64 // of the local header
	data       int64 // of the content
	attributes uint32
	unixTime   int64 // from the extra field; only with hasTime
	hasTime    bool
}

// zipEndRecord is where the central directory is.
type zipEndRecord struct {
	entries  int64
	at, size int64
}

// readEnd finds the end record, which must be the only one there could be.
func (s *source) readEnd() (zipEndRecord, error) {
	const fixed, comment = 22, 1<<16 - 1
	tail := make([]byte, min(s.size, fixed+comment))
	start := s.size - int64(len(tail))
	if err := s.full(tail, start); err != nil {
		return zipEndRecord{}, err
	}
	mark := []byte("PK\x05\x06")
	at := bytes.LastIndex(tail, mark)
	if at < 0 || len(tail)-at < fixed {
		return zipEndRecord{}, broken(errors.New("no end of the central directory"))
	}
	le := binary.LittleEndian
	end := tail[at:]
	if int(le.Uint16(end[20:])) != len(end)-fixed {
		return zipEndRecord{}, ambiguous("data behind the end record, or two end records")
	}
	disk, dirDisk, here, all := le.Uint16(end[4:]), le.Uint16(end[6:]), le.Uint16(end[8:]), le.Uint16(end[10:])
	e := zipEndRecord{entries: int64(all), size: int64(le.Uint32(end[12:])), at: int64(le.Uint32(end[16:]))}
	edge := start + int64(at) // the central directory must end here
	if wide, ok, err := s.readEnd64(edge); err != nil {
		return e, err
	} else if ok {
		for _, f := range []struct{ short, full, all int64 }{
			{e.entries, wide.entries, 0xffff}, {e.size, wide.size, 0xffffffff}, {e.at, wide.at, 0xffffffff},
		} {
			if f.short != f.all && f.short != f.full {
				return e, ambiguous("the two end records say different things")
			}
		}
		edge, e = wide.edge, wide.zipEndRecord
	} else if disk != 0 || dirDisk != 0 || here != all {
		return e, broken(errors.New("it is one of several parts"))
	}
	if e.at < 0 || e.size < 0 || e.at > edge || e.at+e.size != edge {
		return e, ambiguous("the central directory is not where the end record says")
	}
	return e, nil
}

type zipEndRecord64 struct {
	zipEndRecord
	edge int64
}

// readEnd64 reads the zip64 end record before the locator, which is right before edge.
func (s *source) readEnd64(edge int64) (e zipEndRecord64, ok bool, err error) {
	locator := make([]byte, 20)
	if edge < 20+56 {
		return e, false, nil
	}
	if err := s.full(locator, edge-20); err != nil {
		return e, false, err
	}
	le := binary.LittleEndian
	if le.Uint32(locator) != zip64Locator {
		return e, false, nil
	}
	e.edge = int64(le.Uint64(locator[8:]))
	record := make([]byte, 56)
	if e.edge < 0 || e.edge > edge-20-56 || le.Uint32(locator[4:]) != 0 || le.Uint32(locator[16:]) > 1 {
		return e, false, broken(errors.New("a zip64 locator that points nowhere"))
	}
	if err := s.full(record, e.edge); err != nil {
		return e, false, err
	}
	if le.Uint32(record) != zip64End || e.edge+12+int64(le.Uint64(record[4:])) != edge-20 {
		return e, false, ambiguous("the zip64 end record is not where its locator says")
	}
	if le.Uint64(record[24:]) != le.Uint64(record[32:]) || le.Uint32(record[16:]) != 0 || le.Uint32(record[20:]) != 0 {
		return e, false, broken(errors.New("it is one of several parts"))
	}
	e.entries, e.size, e.at = int64(le.Uint64(record[32:])), int64(le.Uint64(record[40:])), int64(le.Uint64(record[48:]))
	return e, true, nil
}

// full reads all of p at the offset.
func (s *source) full(p []byte, at int64) error {
	n, err := s.ReadAt(p, at)
	if n == len(p) {
		return nil
	}
	if err == io.EOF {
		err = broken(io.ErrUnexpectedEOF)
	}
	return err
}

// readDirectory reads the central directory and checks it against the local headers.
func (s *source) readDirectory(limits Limits) ([]zipEntry, error) {
	end, err := s.readEnd()
	if err != nil {
		return nil, err
	}
	if limits.Entries > 0 && end.entries > limits.Entries {
		return nil, &LimitError{"entries", limits.Entries}
	}
	in := bufio.NewReaderSize(io.NewSectionReader(s, end.at, end.size), 64<<10)
	var entries []zipEntry
	var spans [][2]int64
	left, names := end.size, int64(0)
	for left > 0 {
		e, length, err := readCentral(in)
		if err != nil {
			return nil, &RefusedError{len(entries) + 1, e.name, err}
		}
		left -= length
		if names += length; names > 4*namesMax {
			return nil, &LimitError{"names", 4 * namesMax}
		}
		if int64(len(entries)) >= end.entries {
			return nil, ambiguous("more entries than the end record says")
		}
		stop, err := s.checkLocal(&e)
		if err != nil {
			return nil, &RefusedError{len(entries) + 1, e.name, err}
		}
		entries = append(entries, e)
		spans = append(spans, [2]int64{e.at, stop})
	}
	if int64(len(entries)) != end.entries {
		return nil, ambiguous("fewer entries than the end record says")
	}
	slices.SortFunc(spans, func(a, b [2]int64) int {
		if a[0] != b[0] {
			return int(min(1, max(-1, a[0]-b[0])))
		}
		return int(min(1, max(-1, a[1]-b[1])))
	})
	for i, span := range spans {
		next := end.at
		if i+1 < len(spans) {
			next = spans[i+1][0]
		}
		if span[1] > next {
			return nil, ambiguous("entries overlap at byte %d", next)
		}
	}
	return entries, nil
}

// readCentral reads one header of the central directory and gives its length.
func readCentral(in io.Reader) (e zipEntry, length int64, err error) {
	fixed := make([]byte, 46)
	if _, err := io.ReadFull(in, fixed); err != nil {
		return e, 0, broken(io.ErrUnexpectedEOF)
	}
	le := binary.LittleEndian
	if le.Uint32(fixed) != zipCentral {
		return e, 0, broken(errors.New("no header of an entry where one should be"))
	}
	e = zipEntry{
		creator: fixed[5], flags: le.Uint16(fixed[8:]), method: le.Uint16(fixed[10:]),
		time: le.Uint16(fixed[12:]), date: le.Uint16(fixed[14:]), crc: le.Uint32(fixed[16:]),
		packed: int64(le.Uint32(fixed[20:])), size: int64(le.Uint32(fixed[24:])),
		attributes: le.Uint32(fixed[38:]), at: int64(le.Uint32(fixed[42:])),
	}
	nameLen, extraLen, commentLen := int(le.Uint16(fixed[28:])), int(le.Uint16(fixed[30:])), int(le.Uint16(fixed[32:]))
	rest := make([]byte, nameLen+extraLen+commentLen)
	if _, err := io.ReadFull(in, rest); err != nil {
		return e, 0, broken(io.ErrUnexpectedEOF)
	}
	e.name = string(rest[:nameLen])
	extra := rest[nameLen : nameLen+extraLen]
	wide, err := zip64Fields(extra, &e.size, &e.packed, &e.at)
	if err != nil {
		return e, 0, err
	}
	if le.Uint16(fixed[34:]) != 0 && !wide {
		return e, 0, broken(errors.New("it is on another part"))
	}
	err = eachExtra(extra, func(id uint16, data []byte) error {
		switch {
		case id == extraTime && len(data) >= 5 && data[0]&1 != 0:
			e.unixTime, e.hasTime = int64(int32(le.Uint32(data[1:]))), true
		case id == extraUnicodePath && len(data) >= 5 && data[0] == 1:
			if le.Uint32(data[1:]) == crc32.ChecksumIEEE([]byte(e.name)) && string(data[5:]) != e.name {
				return ambiguous("a second name, %q", data[5:])
			}
		}
		return nil
	})
	return e, int64(len(fixed) + len(rest)), err
}

// eachExtra calls fn for each field of an extra area. A tail too short for a field is padding.
func eachExtra(extra []byte, fn func(id uint16, data []byte) error) error {
	for len(extra) >= 4 {
		id, length := binary.LittleEndian.Uint16(extra), int(binary.LittleEndian.Uint16(extra[2:]))
		if extra = extra[4:]; length > len(extra) {
			return broken(errors.New("an extra field beyond its area"))
		}
		if err := fn(id, extra[:length]); err != nil {
			return err
		}
		extra = extra[length:]
	}
	return nil
}

// zip64Fields replaces those of the values that are 0xffffffff by the next number of the zip64 field.
func zip64Fields(extra []byte, values ...*int64) (found bool, err error) {
	err = eachExtra(extra, func(id uint16, data []byte) error {
		if id != extraZip64 {
			return nil
		}
		if found {
			return ambiguous("two zip64 fields")
		}
		found = true
		for _, v := range values {
			if *v != 0xffffffff {
				continue
			}
			if len(data) < 8 {
				return broken(errors.New("a zip64 field too short"))
			}
			if *v = int64(binary.LittleEndian.Uint64(data)); *v < 0 {
				return broken(errors.New("a size beyond all measure"))
			}
			data = data[8:]
		}
		return nil
	})
	return found, err
}

// checkLocal holds an entry against its local header, notes where its content is, and gives the offset at
// which the entry ends, its data descriptor included.
func (s *source) checkLocal(e *zipEntry) (int64, error) {
	switch {
	case e.flags&(flagEncrypted|flagStrong|flagMasked) != 0:
		return 0, ErrEncrypted
	case e.flags&flagPatched != 0, e.method != zipStored && e.method != zipDeflated:
		return 0, fmt.Errorf("%w: method %d", ErrMethod, e.method)
	case e.method == zipStored && e.packed != e.size:
		return 0, ambiguous("a stored entry of two sizes")
	}
	fixed := make([]byte, 30)
	if err := s.full(fixed, e.at); err != nil {
		return 0, err
	}
	le := binary.LittleEndian
	if le.Uint32(fixed) != zipLocal {
		return 0, broken(errors.New("no local header where the central directory says"))
	}
	nameLen, extraLen := int(le.Uint16(fixed[26:])), int(le.Uint16(fixed[28:]))
	rest := make([]byte, nameLen+extraLen)
	if err := s.full(rest, e.at+30); err != nil {
		return 0, err
	}
	e.data = e.at + 30 + int64(len(rest))
	const compared = flagEncrypted | flagDescriptor | flagStrong | flagUTF8 | flagMasked
	flags := le.Uint16(fixed[6:])
	switch {
	case string(rest[:nameLen]) != e.name:
		return 0, ambiguous("the local header has the name %q", rest[:nameLen])
	case flags&compared != e.flags&compared:
		return 0, ambiguous("the local header has other flags")
	case le.Uint16(fixed[8:]) != e.method:
		return 0, ambiguous("the local header has another method")
	}
	crc, packed, size := le.Uint32(fixed[14:]), int64(le.Uint32(fixed[18:])), int64(le.Uint32(fixed[22:]))
	wide, err := zip64Fields(rest[nameLen:], &size, &packed)
	if err != nil {
		return 0, err
	}
	// With a descriptor the local header may leave these open.
	open := flags&flagDescriptor != 0 && (size == 0 || wide) && (packed == 0 || wide) && crc == 0
	if same := crc == e.crc && packed == e.packed && size == e.size; !same && !open {
		return 0, ambiguous("the local header has another size or checksum")
	}
	stop := e.data + e.packed
	if e.packed > s.size || stop > s.size {
		return 0, broken(io.ErrUnexpectedEOF)
	}
	if flags&flagDescriptor != 0 {
		length, err := s.descriptor(e, stop)
		if err != nil {
			return 0, err
		}
		stop += length
	}
	return stop, nil
}

// descriptor checks the data descriptor behind the content: with or without its mark, with sizes of four or
// eight bytes, as programs write it.
func (s *source) descriptor(e *zipEntry, at int64) (int64, error) {
	buf := make([]byte, 24)
	n, err := s.ReadAt(buf, at)
	if err != nil && err != io.EOF {
		return 0, err
	}
	le := binary.LittleEndian
	want := make([]byte, 0, 24)
	for _, mark := range []bool{true, false} {
		for _, wide := range []bool{false, true} {
			if want = want[:0]; mark {
				want = le.AppendUint32(want, zipDescriptor)
			}
			want = le.AppendUint32(want, e.crc)
			if wide {
				want = le.AppendUint64(le.AppendUint64(want, uint64(e.packed)), uint64(e.size))
			} else {
				want = le.AppendUint32(le.AppendUint32(want, uint32(e.packed)), uint32(e.size))
			}
			if bytes.HasPrefix(buf[:n], want) {
				return int64(len(want)), nil
			}
		}
	}
	return 0, ambiguous("the data descriptor says something else than the central directory")
}
