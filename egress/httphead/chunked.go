package httphead

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

var errChunk = errors.New("malformed chunk")

// maxTrailer bounds the trailer section and the extensions of one chunk, both of which are dropped.
const maxTrailer = 16 << 10

// CopyChunked passes a chunked body on (RFC 9112, 7.1), each chunk framed anew, without extensions and trailer fields, up to
// and with its end. Errors of reading and writing come as they are.
func CopyChunked(dst io.Writer, src *bufio.Reader) error {
	for {
		size, err := chunkSize(src)
		if err != nil {
			return err
		}
		if size == 0 {
			break
		}
		if _, err := fmt.Fprintf(dst, "%x\r\n", size); err != nil {
			return err
		}
		if _, err := io.CopyN(dst, src, size); err != nil {
			return unexpected(err)
		}
		if err := crlf(src); err != nil {
			return err
		}
		if _, err := io.WriteString(dst, "\r\n"); err != nil {
			return err
		}
	}
	for left := maxTrailer; ; {
		line, err := readLine(src, left)
		if err != nil {
			return err
		}
		if line == "" {
			break
		}
		left -= len(line) + 2
	}
	_, err := io.WriteString(dst, "0\r\n\r\n")
	return err
}

// chunkSize reads a chunk's first line: up to 15 hexadecimal digits, then maybe an extension.
func chunkSize(src *bufio.Reader) (int64, error) {
	line, err := readLine(src, maxTrailer)
	if err != nil {
		return 0, err
	}
	var n int64
	i := 0
	for ; i < len(line); i++ {
		c := line[i] | 0x20
		switch {
		case line[i] >= '0' && line[i] <= '9':
			n = n<<4 | int64(line[i]-'0')
		case c >= 'a' && c <= 'f':
			n = n<<4 | int64(c-'a'+10)
		default:
			c = 0
		}
		if c == 0 {
			break
		}
		if i >= 15 {
			return 0, errChunk
		}
	}
	if i == 0 || i < len(line) && line[i] != ';' {
		return 0, errChunk
	}
	return n, nil
}

// readLine reads up to CR LF, of at most limit bytes.
func readLine(src *bufio.Reader, limit int) (string, error) {
	var line []byte
	for {
		c, err := src.ReadByte()
		if err != nil {
			return "", unexpected(err)
		}
		switch {
		case c == '\r':
			if c, err = src.ReadByte(); err != nil {
				return "", unexpected(err)
			}
			if c != '\n' {
				return "", errChunk
			}
			return string(line), nil
		case c < ' ' && c != '\t', c == 0x7f, len(line) >= limit:
			return "", errChunk
		}
		line = append(line, c)
	}
}

func crlf(src *bufio.Reader) error {
	var b [2]byte
	if _, err := io.ReadFull(src, b[:]); err != nil {
		return unexpected(err)
	}
	if b != [2]byte{'\r', '\n'} {
		return errChunk
	}
	return nil
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
