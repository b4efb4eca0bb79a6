package changes

import (
	"context"
	"errors"
	"io"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// sparse reads a file from its beginning, and its holes without asking the file system for each page of zeros (lseek(2)).
type sparse struct {
	ctx  context.Context // ends the reading
	file *os.File
	pos  int64
	data int64 // where the next data begins; up to there is a hole
	end  int64 // where that data ends
	last bool  // no data is left
}

func (s *sparse) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	if s.pos >= s.end && !s.last {
		if err := s.seek(); err != nil {
			return 0, err
		}
	}
	switch {
	case s.pos < s.data:
		n := int(min(int64(len(p)), s.data-s.pos))
		clear(p[:n])
		s.pos += int64(n)
		return n, nil
	case s.last:
		return 0, io.EOF
	}
	n, err := s.file.ReadAt(p[:min(int64(len(p)), s.end-s.pos)], s.pos)
	s.pos += int64(n)
	if n > 0 && err == io.EOF {
		err = nil
	}
	return n, err
}

func (s *sparse) seek() error {
	data, err := unix.Seek(int(s.file.Fd()), s.pos, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) {
		info, err := s.file.Stat()
		if err != nil {
			return err
		}
		s.data, s.last = info.Size(), true
		return nil
	}
	s.data, s.end = data, math.MaxInt64
	if err != nil {
		s.data = s.pos // a file system that does not tell
		return nil
	}
	if end, err := unix.Seek(int(s.file.Fd()), data, unix.SEEK_HOLE); err == nil && end > data {
		s.end = end
	}
	return nil
}
