package fsguard

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Options loosens a [Root]. The zero value is the strictest.
type Options struct {
	// CrossMounts lets names lead into other file systems and bind mounts beneath the root
	// (no RESOLVE_NO_XDEV).
	CrossMounts bool
	// FollowLinks follows symbolic links that stay beneath the root (no RESOLVE_NO_SYMLINKS). A link that is
	// absolute or leads out fails with ErrEscape. Walk and RemoveAll follow none even then.
	FollowLinks bool
}

// Root is a directory and all beneath it. Names are cleaned as path.Clean does, so that "a//b/." is "a/b". Its methods may be called from several goroutines; Close must come
// after the last of them.
type Root struct {
	fd      int // O_PATH | O_DIRECTORY
	options Options
}

// OpenRoot opens the directory dir, itself trusted: links in it are followed, as os.Open does. The caller
// closes the Root.
func OpenRoot(dir string, options Options) (*Root, error) {
	fd, err := retry(func() (int, error) {
		return unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, &os.PathError{Op: "open root", Path: dir, Err: err}
	}
	return &Root{fd: fd, options: options}, nil
}

// NewRoot makes a Root of the open directory fd, which may be O_PATH. The Root has its own duplicate; fd
// stays the caller's.
func NewRoot(fd int, options Options) (*Root, error) {
	own, err := unix.Openat(fd, ".", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("openat", err)
	}
	return &Root{fd: own, options: options}, nil
}

// OpenRoot opens the directory name as a Root of its own, with the same options. The caller closes it.
func (r *Root) OpenRoot(name string) (*Root, error) {
	fd, err := r.openDir(name, unix.O_PATH)
	if err != nil {
		return nil, r.fail("open root", name, err)
	}
	return &Root{fd: fd, options: r.options}, nil
}

// Close gives the directory up.
func (r *Root) Close() error {
	fd := r.fd
	r.fd = -1
	return os.NewSyscallError("close", unix.Close(fd))
}

// Fd is the O_PATH descriptor of the root directory. It stays the Root's own and is valid until Close.
func (r *Root) Fd() int { return r.fd }

// resolve is how names are resolved, with or without following links.
func (r *Root) resolve(follow bool) uint64 {
	how := uint64(unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS)
	if !follow || !r.options.FollowLinks {
		how |= unix.RESOLVE_NO_SYMLINKS
	}
	if !r.options.CrossMounts {
		how |= unix.RESOLVE_NO_XDEV
	}
	return how
}

// openat opens the clean name, of any length, beneath the directory at. The descriptor is the caller's.
func (r *Root) openat(at int, name string, how unix.OpenHow) (int, error) {
	how.Flags |= unix.O_CLOEXEC
	from := at
	defer func() {
		if from != at {
			unix.Close(from)
		}
	}()
	for {
		head, rest := headOf(name)
		if rest == "" {
			return openat2(from, name, &how)
		}
		next, err := openat2(from, head, &unix.OpenHow{
			Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: how.Resolve,
		})
		if err != nil {
			return -1, err
		}
		if from != at {
			unix.Close(from)
		}
		from, name = next, rest
	}
}

// openDir opens a directory, which no device or FIFO can pose as: O_DIRECTORY is checked before the open.
func (r *Root) openDir(name string, flags int) (int, error) {
	name, err := clean(name)
	if err != nil {
		return -1, err
	}
	return r.openat(r.fd, name, unix.OpenHow{Flags: uint64(flags | unix.O_DIRECTORY), Resolve: r.resolve(true)})
}

// openPath refers to name without opening it. With follow, a link at the end is followed if the Root does so,
// else refused; without, the link itself is meant.
func (r *Root) openPath(name string, follow bool) (int, error) {
	name, err := clean(name)
	if err != nil {
		return -1, err
	}
	how := unix.OpenHow{Flags: unix.O_PATH, Resolve: r.resolve(true)}
	if !follow {
		how.Flags |= unix.O_NOFOLLOW
	}
	return r.openat(r.fd, name, how)
}

// parent opens the directory that holds name, and gives the last component. The root has no name in itself.
func (r *Root) parent(name string) (dir int, base string, err error) {
	name, err = clean(name)
	if err != nil {
		return -1, "", err
	}
	if name == "." {
		return -1, "", ErrName
	}
	up, base := split(name)
	dir, err = r.openDir(up, unix.O_PATH)
	return dir, base, err
}

// inParent does what changes a directory's entry: the last component is never resolved by these calls.
func (r *Root) inParent(op, name string, do func(dir int, base string) error) error {
	dir, base, err := r.parent(name)
	if err != nil {
		return r.fail(op, name, err)
	}
	defer unix.Close(dir)
	return r.fail(op, name, ignoreEINTR(func() error { return do(dir, base) }))
}

// resolutionTries bounds the EAGAIN of openat2, which says that a rename elsewhere disturbed a ".." of a link.
const resolutionTries = 64

func openat2(dir int, name string, how *unix.OpenHow) (int, error) {
	for tries := 0; ; {
		fd, err := unix.Openat2(dir, name, how)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN && tries < resolutionTries:
			tries++
		default:
			return fd, err
		}
	}
}

func retry(do func() (int, error)) (int, error) {
	for {
		if n, err := do(); err != unix.EINTR {
			return n, err
		}
	}
}

func ignoreEINTR(do func() error) error {
	for {
		if err := do(); err != unix.EINTR {
			return err
		}
	}
}

// procFd names an open descriptor for the calls that take no O_PATH descriptor. It is this process's own
// magic link, so that nothing is resolved anew.
func procFd(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }
