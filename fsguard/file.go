package fsguard

import (
	"crypto/rand"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Open opens the regular file name for reading. The caller closes it.
func (r *Root) Open(name string) (*os.File, error) {
	return r.OpenFile(name, os.O_RDONLY, 0)
}

// Create makes the regular file name, or empties it when it is there, and opens it for reading and writing.
// The caller closes it.
func (r *Root) Create(name string) (*os.File, error) {
	return r.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
}

// fileFlags are the flags of open(2) that OpenFile takes.
const fileFlags = unix.O_ACCMODE | unix.O_APPEND | unix.O_CREAT | unix.O_EXCL | unix.O_TRUNC | unix.O_SYNC | unix.O_CLOEXEC

// OpenFile opens the regular file name. flag may have os.O_RDONLY, O_WRONLY or O_RDWR, with O_APPEND,
// O_CREATE, O_EXCL, O_TRUNC and O_SYNC; perm, at most 0o777, is subject to the umask. All but a regular file
// is refused with ErrNotRegular without being opened. A file that somebody holds a lease on (fcntl(2),
// F_SETLEASE) fails with EAGAIN instead of waiting for it. The caller closes the file.
func (r *Root) OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error) {
	if perm&^0o777 != 0 {
		return nil, r.fail("open", name, ErrMode)
	}
	if flag&^fileFlags != 0 {
		return nil, r.fail("open", name, unix.EINVAL)
	}
	const tries = 64
	for range tries {
		if flag&(os.O_CREATE|os.O_EXCL) != os.O_CREATE|os.O_EXCL {
			f, err := r.openExisting(name, flag&^(os.O_CREATE|os.O_EXCL))
			if err != unix.ENOENT || flag&os.O_CREATE == 0 {
				return f, r.fail("open", name, err)
			}
		}
		f, err := r.createNew(name, flag, perm)
		if err != unix.EEXIST || flag&os.O_EXCL != 0 {
			return f, r.fail("create", name, err)
		}
	}
	return nil, r.fail("create", name, ErrChanged)
}

func (r *Root) openExisting(name string, flag int) (*os.File, error) {
	path, err := r.openPath(name, true)
	if err != nil {
		return nil, err
	}
	defer unix.Close(path)
	return openRegular(path, name, flag)
}

// createNew makes a file that was not there. O_EXCL never follows a link nor opens what exists.
func (r *Root) createNew(name string, flag int, perm fs.FileMode) (*os.File, error) {
	cleaned, err := clean(name)
	if err != nil {
		return nil, err
	}
	fd, err := r.openat(r.fd, cleaned, unix.OpenHow{
		Flags: uint64(flag | unix.O_CREAT | unix.O_EXCL), Mode: uint64(perm), Resolve: r.resolve(true),
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// openRegular opens what the O_PATH descriptor refers to, when that is a regular file.
func openRegular(path int, name string, flag int) (*os.File, error) {
	var st unix.Stat_t
	if err := unix.Fstat(path, &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, ErrNotRegular
	}
	// Without O_NONBLOCK a lease on the file would hold the open for /proc/sys/fs/lease-break-time.
	fd, err := retry(func() (int, error) {
		return unix.Open(procFd(path), flag|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	})
	if err != nil {
		return nil, err
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, flag&unix.O_APPEND); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// CreateTemp makes a new file in the directory dir, mode 0600, with a name that begins with prefix, and opens
// it for reading and writing. It gives the file's name beneath the root. The caller closes the file and
// removes or renames it.
func (r *Root) CreateTemp(dir, prefix string) (name string, f *os.File, err error) {
	name = join(dir, prefix+rand.Text())
	f, err = r.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	return name, f, err
}

// MkdirTemp makes a new directory in the directory dir, mode 0700, with a name that begins with prefix, and
// gives its name beneath the root.
func (r *Root) MkdirTemp(dir, prefix string) (name string, err error) {
	name = join(dir, prefix+rand.Text())
	return name, r.Mkdir(name, 0o700)
}
