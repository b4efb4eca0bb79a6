package changes

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"gobox/fsguard"
)

// Old contents up to keepEach are kept beside the new ones, keepAll together, so that a diff can be shown
// when the workspace has moved on.
const (
	keepEach = 1 << 20
	keepAll  = 64 << 20
)

// storeError is a failure of the run directory, as opposed to one of what is being collected.
type storeError struct{ err error }

func (e *storeError) Error() string { return "store changes: " + e.err.Error() }
func (e *storeError) Unwrap() error { return e.err }

// store writes the changes directory of a run directory.
type store struct {
	run    *fsguard.Root
	sync   bool
	made   bool
	limit  int64 // of new contents
	size   int64 // of it, still to spend
	hashed int64 // of the old ones
	kept   int64 // of old contents, so far
	// The old content last described, which is worth keeping if it turns out to be changed.
	old    []byte
	oldSum string
	buf    []byte
}

// open makes the directory, which must not be there.
func (s *store) open() error {
	if s.made {
		return nil
	}
	err := s.run.Mkdir(changesDir, 0o700)
	if err == nil {
		err = s.run.Mkdir(blobsDir, 0o700)
		s.made = true
	}
	if err != nil {
		return &storeError{err}
	}
	return nil
}

// abandon removes what was stored and gives err, or the removal's own error.
func (s *store) abandon(err error) error {
	if !s.made {
		return err
	}
	s.made = false
	// Not with the collector's context: it may be what ended it.
	if gone := s.run.RemoveAll(context.Background(), changesDir); err == nil && gone != nil {
		err = &storeError{gone}
	}
	return err
}

func (s *store) finish(set *Set) error {
	if err := s.open(); err != nil {
		return err
	}
	b, err := set.MarshalJSON()
	if err != nil {
		return &storeError{err}
	}
	if s.sync {
		if err := s.run.Sync(blobsDir); err != nil {
			return &storeError{err}
		}
	}
	if err := replace(s.run, manifestName, append(b, '\n'), s.sync); err != nil {
		return &storeError{err}
	}
	if s.sync {
		if err := s.run.Sync("."); err != nil {
			return &storeError{err}
		}
	}
	return nil
}

// put stores the content of f unless it is that of old, and gives its size and SHA-256.
func (s *store) put(ctx context.Context, f *os.File, old *State) (int64, string, error) {
	if err := s.open(); err != nil {
		return 0, "", err
	}
	n, err := io.ReadFull(f, s.buffer())
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return s.putSmall(s.buf[:n], old)
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return 0, "", err
	}
	temp, to, err := s.run.CreateTemp(blobsDir, ".new-")
	if err != nil {
		return 0, "", &storeError{err}
	}
	size, sum, err := s.copy(ctx, to, f, s.size)
	s.size -= size
	if errors.Is(err, fsguard.ErrLimit) {
		err = &fsguard.LimitError{What: "bytes of content", Max: s.limit}
	}
	if err == nil && s.sync {
		err = to.Sync()
	}
	if closeErr := to.Close(); err == nil && closeErr != nil {
		err = &storeError{closeErr}
	}
	if err == nil && (old == nil || old.SHA256 != sum) {
		err = s.settle(temp, sum)
	} else {
		_ = s.run.Remove(temp)
	}
	return size, sum, err
}

// putSmall stores a content that is in memory.
func (s *store) putSmall(content []byte, old *State) (int64, string, error) {
	size := int64(len(content))
	if size > s.size {
		return size, "", &fsguard.LimitError{What: "bytes of content", Max: s.limit}
	}
	s.size -= size
	digest := sha256.Sum256(content)
	sum := hex.EncodeToString(digest[:])
	if old != nil && old.SHA256 == sum {
		return size, sum, nil
	}
	return size, sum, s.write(sum, content)
}

// write makes a blob of what is in memory, unless it is there.
func (s *store) write(sum string, content []byte) error {
	f, err := s.run.OpenFile(blobName(sum), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		_, err = f.Write(content)
		if err == nil && s.sync {
			err = f.Sync()
		}
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
	}
	if err != nil {
		return &storeError{err}
	}
	return nil
}

// settle gives a blob its name.
func (s *store) settle(temp, sum string) error {
	if err := s.run.Rename(temp, blobName(sum), 0); err != nil {
		return &storeError{err}
	}
	return nil
}

func blobName(sum string) string { return blobsDir + "/" + sum }

// copy copies from into to, which may be nil, and hashes it. Blocks of zeros become holes. More than limit bytes are a
// *fsguard.LimitError.
func (s *store) copy(ctx context.Context, to *os.File, from io.Reader, limit int64) (int64, string, error) {
	if f, ok := from.(*os.File); ok {
		from = &sparse{ctx: ctx, file: f}
	}
	return copyHash(ctx, to, from, limit, s.buffer())
}

func (s *store) buffer() []byte {
	if s.buf == nil {
		s.buf = make([]byte, 256<<10)
	}
	return s.buf
}

func copyHash(ctx context.Context, to *os.File, from io.Reader, limit int64, buf []byte) (int64, string, error) {
	h := sha256.New()
	var size int64
	for {
		if err := ctx.Err(); err != nil {
			return size, "", err
		}
		n, err := io.ReadFull(from, buf)
		h.Write(buf[:n])
		if n > 0 && to != nil && !isZero(buf[:n]) {
			if _, err := to.WriteAt(buf[:n], size); err != nil {
				return size, "", &storeError{err}
			}
		}
		size += int64(n)
		if size > limit {
			return size, "", &fsguard.LimitError{What: "bytes of content", Max: limit}
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			break
		}
		if err != nil {
			return size, "", err
		}
	}
	if to != nil {
		if err := to.Truncate(size); err != nil {
			return size, "", &storeError{err}
		}
	}
	return size, hexSum(h), nil
}

func isZero(b []byte) bool {
	return b[0] == 0 && bytes.Equal(b[1:], b[:len(b)-1])
}

func hexSum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// describe gives the state of a path of the workspace, and notes a small content for keepOld. met, where not nil, is the file as
// a walk met it.
func (s *store) describe(ctx context.Context, root *fsguard.Root, path string, info *fsguard.Info, met *fsguard.Entry) (*State, error) {
	st := &State{}
	s.old, s.oldSum = nil, ""
	switch {
	case info.Mode.IsDir():
		st.Type, st.Mode = Folder, uint32(info.Mode&0o777)
		return st, nil
	case info.Mode&fs.ModeType == fs.ModeSymlink:
		var err error
		st.Type = Symlink
		st.Target, err = root.Readlink(path)
		return st, err
	case !info.Mode.IsRegular():
		st.Type = Special
		return st, nil
	}
	st.Type, st.Mode, st.Size = File, uint32(info.Mode&0o777), info.Size
	if info.Size > s.hashed {
		st.Mtime = info.Mtime.UnixNano()
		return st, nil
	}
	open := func() (*os.File, error) { return root.Open(path) }
	if met != nil {
		open = met.Open
	}
	f, err := open()
	if errors.Is(err, unix.EACCES) {
		st.Mtime = info.Mtime.UnixNano()
		return st, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s.hashed -= info.Size
	if info.Size > keepEach || s.kept+info.Size > keepAll {
		st.Size, st.SHA256, err = s.copy(ctx, nil, f, info.Size)
		return st, grown(path, err)
	}
	b, err := io.ReadAll(io.LimitReader(f, info.Size+1))
	if err == nil && int64(len(b)) > info.Size {
		err = fsguard.ErrChanged
	}
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b)
	st.Size, st.SHA256 = int64(len(b)), hex.EncodeToString(sum[:])
	s.old, s.oldSum = b, st.SHA256
	return st, nil
}

// grown says what a limit means that was the file's own size.
func grown(path string, err error) error {
	if errors.Is(err, fsguard.ErrLimit) {
		return fmt.Errorf("read %q: %w", path, fsguard.ErrChanged)
	}
	return err
}

// keepOld stores the old content last described.
func (s *store) keepOld() error {
	if s.old == nil {
		return nil
	}
	if err := s.open(); err != nil {
		return err
	}
	if err := s.write(s.oldSum, s.old); err != nil {
		return err
	}
	s.kept += int64(len(s.old))
	return nil
}
