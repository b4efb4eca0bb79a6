package archive

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"hash/crc64"
	"io"

	"github.com/ulikunitz/xz/lzma"
)

// dictMax is the largest LZMA2 dictionary taken: that of xz -9. It is the memory a stream costs.
const dictMax = 64 << 20

// xzReader reads the .xz container (The .xz File Format, version 1.2.1) around the LZMA2 decoder of
// ulikunitz/xz/lzma. That module's own container reader allocates whatever dictionary a file asks for, up
// to 4 GiB, and builds tables when the program starts.
type xzReader struct {
	in      *counted
	err     error
	check   byte // kind of integrity check of the stream, 0 for none
	sum     hash.Hash
	data    io.Reader // of the block in work, nil between blocks
	begun   int64     // where the block began
	header  int64     // bytes of its header
	out     int64     // bytes decompressed of it
	claimed [2]int64  // its compressed and decompressed size as its header has them; -1 when it has not
	blocks  int64     // of the stream
	records hash.Hash // over the sizes of its blocks, to compare with the index
}

// counted counts the bytes taken, one by one or together.
type counted struct {
	r *bufio.Reader
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

func (c *counted) ReadByte() (byte, error) {
	b, err := c.r.ReadByte()
	if err == nil {
		c.n++
	}
	return b, err
}

func newXZReader(r *bufio.Reader) io.Reader {
	return &xzReader{in: &counted{r: r}}
}

func (x *xzReader) Read(p []byte) (int, error) {
	for x.err == nil {
		if x.data == nil {
			x.err = x.next()
			continue
		}
		n, err := x.data.Read(p)
		x.out += int64(n)
		x.sum.Write(p[:n])
		if err == io.EOF {
			x.data = nil
			err = x.endBlock()
		}
		x.err = err
		if n > 0 || len(p) == 0 {
			return n, nil
		}
	}
	return 0, x.err
}

func xzError(format string, args ...any) error { return fmt.Errorf("xz: "+format, args...) }

// full reads all of p.
func (x *xzReader) full(p []byte) error {
	_, err := io.ReadFull(x.in, p)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// next goes on to the next block, over the ends and beginnings of streams.
func (x *xzReader) next() error {
	if x.records == nil {
		if err := x.beginStream(); err != nil {
			return err
		}
	}
	size, err := x.in.ReadByte()
	if err != nil {
		return io.ErrUnexpectedEOF
	}
	if size == 0 {
		return x.endStream()
	}
	return x.beginBlock(size)
}

const xzMagic = "\xfd7zXZ\x00"

// beginStream reads a stream header, after padding where it is not the first; io.EOF when there is none.
func (x *xzReader) beginStream() error {
	header := make([]byte, 12)
	for {
		if _, err := io.ReadFull(x.in, header[:4]); err != nil {
			if err == io.EOF && x.in.n > 0 {
				return io.EOF
			}
			return io.ErrUnexpectedEOF
		}
		if x.in.n == 4 || !bytes.Equal(header[:4], make([]byte, 4)) {
			break
		}
	}
	if err := x.full(header[4:]); err != nil {
		return err
	}
	if string(header[:6]) != xzMagic || crc32.ChecksumIEEE(header[6:8]) != binary.LittleEndian.Uint32(header[8:]) {
		return xzError("no stream header")
	}
	if header[6] != 0 || header[7] > 0x0f {
		return xzError("unknown stream flags")
	}
	x.check = header[7]
	switch x.check {
	case 0:
		x.sum = noCheck{}
	case 1:
		x.sum = crc32.NewIEEE()
	case 4:
		x.sum = crc64.New(crc64.MakeTable(crc64.ECMA))
	case 10:
		x.sum = sha256.New()
	default:
		return xzError("unknown integrity check %d", x.check)
	}
	x.records, x.blocks = sha256.New(), 0
	return nil
}

// noCheck is the check of a stream that has none.
type noCheck struct{}

func (noCheck) Write(p []byte) (int, error) { return len(p), nil }
func (noCheck) Sum(b []byte) []byte         { return b }
func (noCheck) Reset()                      {}
func (noCheck) Size() int                   { return 0 }
func (noCheck) BlockSize() int              { return 1 }

func (x *xzReader) beginBlock(size byte) error {
	x.begun = x.in.n - 1
	header := make([]byte, (int(size)+1)*4)
	header[0] = size
	if err := x.full(header[1:]); err != nil {
		return err
	}
	x.header = int64(len(header))
	body, sum := header[:len(header)-4], binary.LittleEndian.Uint32(header[len(header)-4:])
	if crc32.ChecksumIEEE(body) != sum {
		return xzError("wrong checksum of a block header")
	}
	flags, rest := body[1], bytes.NewReader(body[2:])
	if flags&0x3c != 0 {
		return xzError("unknown block flags")
	}
	x.claimed = [2]int64{-1, -1}
	for i, flag := range []byte{0x40, 0x80} {
		if flags&flag == 0 {
			continue
		}
		n, err := varint(rest)
		if err != nil {
			return err
		}
		x.claimed[i] = n
	}
	if flags&3 != 0 {
		return xzError("filters besides LZMA2 are not supported")
	}
	id, err := varint(rest)
	if err != nil {
		return err
	}
	length, err := varint(rest)
	if err != nil {
		return err
	}
	if id != 0x21 || length != 1 {
		return xzError("filters besides LZMA2 are not supported")
	}
	bits, _ := rest.ReadByte()
	if bits > 40 {
		return xzError("unknown dictionary size")
	}
	dict := int64(2|bits&1) << (bits/2 + 11)
	if bits == 40 {
		dict = 1<<32 - 1
	}
	if dict > dictMax {
		return fmt.Errorf("xz: %w: a dictionary of more than %d MiB", ErrMethod, dictMax>>20)
	}
	for rest.Len() > 0 {
		if b, _ := rest.ReadByte(); b != 0 {
			return xzError("unknown data in a block header")
		}
	}
	x.out = 0
	x.sum.Reset()
	x.data, err = lzma.Reader2Config{DictCap: max(int(dict), lzma.MinDictCap)}.NewReader2(x.in)
	return err
}

// endBlock checks what follows the compressed data: padding and the integrity check.
func (x *xzReader) endBlock() error {
	unpadded := x.in.n - x.begun
	if compressed := unpadded - x.header; x.claimed[0] >= 0 && compressed != x.claimed[0] || x.claimed[1] >= 0 && x.out != x.claimed[1] {
		return xzError("a block has another size than its header says")
	}
	if err := x.padding(unpadded); err != nil {
		return err
	}
	sum := x.sum.Sum(nil)
	switch x.check { // hash.Hash has the most significant byte first, xz the least
	case 1:
		binary.LittleEndian.PutUint32(sum, binary.BigEndian.Uint32(sum))
	case 4:
		binary.LittleEndian.PutUint64(sum, binary.BigEndian.Uint64(sum))
	}
	stored := make([]byte, len(sum))
	if err := x.full(stored); err != nil {
		return err
	}
	if !bytes.Equal(stored, sum) {
		return xzError("wrong checksum of a block")
	}
	x.blocks++
	x.record(unpadded+int64(len(sum)), x.out)
	return nil
}

func (x *xzReader) record(unpadded, size int64) {
	var pair [16]byte
	binary.LittleEndian.PutUint64(pair[:], uint64(unpadded))
	binary.LittleEndian.PutUint64(pair[8:], uint64(size))
	x.records.Write(pair[:])
}

// padding reads the zeros that fill n up to a multiple of four.
func (x *xzReader) padding(n int64) error {
	for ; n%4 != 0; n++ {
		b, err := x.in.ReadByte()
		if err != nil {
			return io.ErrUnexpectedEOF
		}
		if b != 0 {
			return xzError("padding is not blank")
		}
	}
	return nil
}

// endStream reads the index, which must tell of the blocks that were there, and the footer.
func (x *xzReader) endStream() error {
	begun := x.in.n - 1
	sum := crc32.NewIEEE()
	sum.Write([]byte{0})
	in := &summed{x.in, sum}
	count, err := varint(in)
	if err != nil {
		return err
	}
	if count != x.blocks {
		return xzError("the index has another number of blocks")
	}
	want := x.records.Sum(nil)
	x.records = sha256.New()
	for range count {
		unpadded, err := varint(in)
		if err != nil {
			return err
		}
		size, err := varint(in)
		if err != nil {
			return err
		}
		x.record(unpadded, size)
	}
	if !bytes.Equal(x.records.Sum(nil), want) {
		return xzError("the index has other sizes than the blocks")
	}
	for (x.in.n-begun)%4 != 0 {
		if b, err := in.ReadByte(); err != nil || b != 0 {
			return xzError("padding is not blank")
		}
	}
	size := x.in.n - begun + 4
	tail := make([]byte, 4+12)
	if err := x.full(tail); err != nil {
		return err
	}
	le := binary.LittleEndian
	if le.Uint32(tail) != sum.Sum32() {
		return xzError("wrong checksum of the index")
	}
	footer := tail[4:]
	if string(footer[10:]) != "YZ" || le.Uint32(footer) != crc32.ChecksumIEEE(footer[4:10]) ||
		(int64(le.Uint32(footer[4:]))+1)*4 != size || footer[8] != 0 || footer[9] != x.check {
		return xzError("wrong stream footer")
	}
	x.records = nil
	return nil
}

// summed feeds a checksum with each byte it gives.
type summed struct {
	r   *counted
	sum hash.Hash
}

func (s *summed) ReadByte() (byte, error) {
	b, err := s.r.ReadByte()
	if err == nil {
		s.sum.Write([]byte{b})
	}
	return b, err
}

// varint reads a number of the container: seven bits a byte, nine bytes at most.
func varint(r io.ByteReader) (int64, error) {
	n := int64(0)
	for shift := 0; shift < 63; shift += 7 {
		b, err := r.ReadByte()
		if err != nil {
			return 0, io.ErrUnexpectedEOF
		}
		n |= int64(b&0x7f) << shift
		if b < 0x80 {
			if b == 0 && shift > 0 {
				break
			}
			return n, nil
		}
	}
	return 0, errors.New("xz: a number that is none")
}
