package fsguard

import (
	"context"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// CopyLimits bounds a copy. A zero field has no bound.
type CopyLimits struct {
	Size int64 // apparent size in bytes
	Real int64 // bytes of data, holes left out
}

// copyStep is how much is asked of the kernel at once, so that ctx is looked at in between.
const copyStep = 4 << 20

// Copy makes newname in the root to, which must not be there, a copy of the regular file oldname of r. perm, at
// most 0o777, is subject to the umask; nothing else of the original's attributes is kept. Holes stay holes. Data goes by
// copy_file_range(2) where the file systems can. It gives the apparent size copied: that of the file when it
// was opened, or less when it was cut meanwhile. Over a limit it fails with a *LimitError. On every error
// newname is removed.
func (r *Root) Copy(ctx context.Context, oldname string, to *Root, newname string, perm fs.FileMode, limits CopyLimits) (int64, error) {
	src, err := r.Open(oldname)
	if err != nil {
		return 0, err
	}
	defer src.Close()
	dst, err := to.OpenFile(newname, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return 0, err
	}
	n, err := CopyFile(ctx, dst, src, limits)
	if closeErr := dst.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		_ = to.Remove(newname) // the copy's own failure is what the caller must know
		return 0, r.fail("copy", oldname, err)
	}
	return n, nil
}

// CopyFile copies src, a regular file from its beginning, into the empty file dst, as [Root.Copy] does. Both
// stay the caller's, also their offsets are undefined afterwards.
func CopyFile(ctx context.Context, dst, src *os.File, limits CopyLimits) (int64, error) {
	info, err := src.Stat()
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, ErrNotRegular
	}
	size := info.Size()
	if limits.Size > 0 && size > limits.Size {
		return 0, &LimitError{"bytes of size", limits.Size}
	}
	c := copying{ctx: ctx, dst: dst, src: src, limit: limits.Real}
	for at := int64(0); at < size; {
		data, end, err := c.nextData(at, size)
		if err != nil {
			return 0, err
		}
		if data == size {
			break
		}
		at, err = c.extent(data, end)
		if err != nil {
			return 0, err
		}
		if at < end { // cut meanwhile
			size = at
		}
	}
	return size, dst.Truncate(size)
}

type copying struct {
	ctx      context.Context
	dst, src *os.File
	copied   int64 // data, not holes
	limit    int64
	slow     []byte // set once copy_file_range has turned out not to work here
}

// nextData finds the next extent of data from at on; data == size when there is none (lseek(2)).
func (c *copying) nextData(at, size int64) (data, end int64, err error) {
	data, err = unix.Seek(int(c.src.Fd()), at, unix.SEEK_DATA)
	switch err {
	case nil:
	case unix.ENXIO:
		return size, size, nil
	case unix.EINVAL, unix.EOPNOTSUPP:
		return at, size, nil // a file system that knows no holes
	default:
		return 0, 0, err
	}
	if data >= size {
		return size, size, nil
	}
	end, err = unix.Seek(int(c.src.Fd()), data, unix.SEEK_HOLE)
	if err == unix.ENXIO {
		return size, size, nil
	}
	return data, min(end, size), err
}

// extent copies from at to end and tells how far it came: less only when the file ends before.
func (c *copying) extent(at, end int64) (int64, error) {
	for at < end {
		if err := c.ctx.Err(); err != nil {
			return at, err
		}
		n, err := c.step(at, int(min(end-at, copyStep)))
		if err != nil {
			return at, err
		}
		if n == 0 {
			break
		}
		at += int64(n)
		c.copied += int64(n)
		if c.limit > 0 && c.copied > c.limit {
			return at, &LimitError{"bytes of data", c.limit}
		}
	}
	return at, nil
}

func (c *copying) step(at int64, length int) (int, error) {
	if c.slow == nil {
		from, to := at, at
		n, err := retry(func() (int, error) {
			return unix.CopyFileRange(int(c.src.Fd()), &from, int(c.dst.Fd()), &to, length, 0)
		})
		switch err {
		case nil:
			if n > 0 {
				return n, nil
			}
			// Some file systems answer 0 for what they cannot copy: reading decides.
		case unix.EXDEV, unix.EINVAL, unix.EOPNOTSUPP, unix.ENOSYS, unix.EPERM:
		default:
			return 0, err
		}
		c.slow = make([]byte, 256<<10)
	}
	n, err := retry(func() (int, error) {
		return unix.Pread(int(c.src.Fd()), c.slow[:min(length, len(c.slow))], at)
	})
	if err != nil || n == 0 {
		return n, err
	}
	if _, err := c.dst.WriteAt(c.slow[:n], at); err != nil {
		return 0, err
	}
	return n, nil
}
