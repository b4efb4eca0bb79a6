package record

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Status writes events to a descriptor that the caller of gobox reads. A reader that is gone or does not read
// loses events and holds nothing up.
type Status struct {
	fd   int
	lost bool
}

// OpenStatus checks that fd, which stays the caller's, is open for writing and not one of the command's own.
func OpenStatus(fd int) (*Status, error) {
	path := fmt.Sprintf("%d", fd)
	if fd < 3 {
		return nil, invalid("use status descriptor", path, "0, 1 and 2 are the command's")
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return nil, invalid("use status descriptor", path, "it is not open")
	}
	if flags&unix.O_ACCMODE == unix.O_RDONLY {
		return nil, invalid("use status descriptor", path, "it is not open for writing")
	}
	unix.CloseOnExec(fd)
	return &Status{fd: fd}, nil
}

// write sends one line of at most maxLine bytes, for which a pipe that poll calls writable has room.
func (s *Status) write(line []byte) {
	if s == nil || s.lost {
		return
	}
	p := []unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLOUT}}
	n, err := unix.Poll(p, 0)
	if err != nil || n != 1 || p[0].Revents&unix.POLLOUT == 0 {
		s.lost = p[0].Revents&(unix.POLLERR|unix.POLLHUP|unix.POLLNVAL) != 0
		return
	}
	if got, err := unix.Write(s.fd, line); err != nil && err != unix.EAGAIN && err != unix.EINTR || got >= 0 && got < len(line) {
		s.lost = true
	}
}

// ResultFile is the file of --result, made before the run starts so that one that cannot be written refuses the run.
type ResultFile struct {
	dir    dir
	name   string
	temp   string // its name until it has its own; "" where it needs none
	direct bool   // it is no regular one and is written to as it is
	fd     int
	sync   bool
}

// OpenResultFile prepares to make the file at path. What is there is removed, so that the result of an earlier run never
// stands for one that was refused or killed; a device, fifo or socket is written to instead.
func OpenResultFile(path string, sync bool) (*ResultFile, error) {
	const op = "open result file"
	abs, err := filepath.Abs(path)
	if err != nil || path == "" {
		return nil, invalid(op, path, "no such path")
	}
	parent, name := filepath.Split(abs)
	if name == "" {
		return nil, invalid(op, path, "it is a directory")
	}
	fd, err := walk(parent, false)
	if err != nil {
		return nil, resultError(op, path, err)
	}
	f := &ResultFile{dir: dir{fd, filepath.Clean(parent)}, name: name, fd: -1, sync: sync}
	if err := f.prepare(path); err != nil {
		f.Discard()
		return nil, resultError(op, path, err)
	}
	return f, nil
}

// resultError names the file that was asked for in place of the folder or hidden name that failed on the way.
func resultError(op, path string, err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return failure(op, path, err)
	}
	return &Error{Op: op, Path: path, Err: e.Err, Reason: e.Reason}
}

func (f *ResultFile) prepare(path string) (err error) {
	mode := uint32(0o600)
	var st unix.Stat_t
	err = unix.Fstatat(f.dir.fd, f.name, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case err == unix.ENOENT:
	case err != nil:
		return err
	case st.Mode&unix.S_IFMT == unix.S_IFREG:
		mode = st.Mode & 0o777
	case st.Mode&unix.S_IFMT == unix.S_IFLNK:
		// /dev/stderr and /dev/fd/N are links, of root's or our own, to what is no regular file.
		if st.Uid != 0 && int(st.Uid) != os.Geteuid() {
			return untrusted("open result file", path, fmt.Sprintf("a symbolic link of user %d", st.Uid))
		}
		if unix.Stat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
			return untrusted("open result file", path, "a symbolic link to a file, which could be led elsewhere meanwhile")
		}
		return f.openDirect(path)
	default:
		return f.openDirect(path)
	}
	if err := ignoreMissing(unix.Unlinkat(f.dir.fd, f.name, 0)); err != nil {
		return err
	}
	if err := f.create(); err != nil {
		return err
	}
	if f.sync {
		// As in the record, a disk that the command fills does not cost the result.
		err := unix.Fallocate(f.fd, unix.FALLOC_FL_KEEP_SIZE, 0, reserved)
		if err != nil && err != unix.EOPNOTSUPP && err != unix.ENOSYS {
			return err
		}
	}
	return unix.Fchmod(f.fd, mode)
}

// create makes a file without a name, of which a killed gobox leaves nothing, or where there are none, a hidden one.
func (f *ResultFile) create() (err error) {
	f.fd, err = unix.Openat(f.dir.fd, ".", unix.O_WRONLY|unix.O_TMPFILE|unix.O_CLOEXEC, 0o600)
	if err == nil || err != unix.EOPNOTSUPP && err != unix.EISDIR && err != unix.ENOENT {
		return err
	}
	f.temp = f.hidden()
	if f.fd, err = f.dir.create(f.temp, 0); err != nil {
		f.temp = ""
	}
	return err
}

// hidden is a new name beside the file.
func (f *ResultFile) hidden() string {
	name := "." + f.name
	if len(name) > 200 {
		name = name[:200]
	}
	return name + "." + random(8)
}

func (f *ResultFile) openDirect(path string) (err error) {
	f.direct = true
	f.fd, err = unix.Open(path, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	return err
}

// Write writes the result and closes the file. Nothing half-written is ever at the path.
func (f *ResultFile) Write(r *Result) error { return f.WriteJSON(r.AppendJSON(nil)) }

// WriteJSON is Write with a result as it was written before, such as [Replay.JSON].
func (f *ResultFile) WriteJSON(content []byte) error {
	defer f.Discard()
	const op = "write result file"
	path := f.dir.path + "/" + f.name
	if f.direct {
		return failure(op, path, f.writeBounded(content))
	}
	if f.temp != "" {
		fd, temp := f.fd, f.temp
		f.fd, f.temp = -1, ""
		if err := f.dir.settle(fd, temp, f.name, path, content, f.sync); err != nil {
			return resultError(op, path, err)
		}
		return nil
	}
	err := writeAll(f.fd, content)
	if err == nil {
		err = unix.Ftruncate(f.fd, int64(len(content))) // gives back what was reserved
	}
	if err == nil && f.sync {
		err = unix.Fsync(f.fd)
	}
	if err == nil {
		err = f.link()
	}
	if err == nil && f.sync {
		err = syncDir(f.dir.fd)
	}
	return failure(op, path, err)
}

// link gives the nameless file its name, in place of what may have come there meanwhile.
func (f *ResultFile) link() error {
	as := func(name string) error {
		// AT_EMPTY_PATH would take a capability (linkat(2)).
		return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", f.fd), f.dir.fd, name, unix.AT_SYMLINK_FOLLOW)
	}
	err := as(f.name)
	if err != unix.EEXIST {
		return err
	}
	temp := f.hidden()
	if err := as(temp); err != nil {
		return err
	}
	if err := unix.Renameat(f.dir.fd, temp, f.dir.fd, f.name); err != nil {
		return errors.Join(err, unix.Unlinkat(f.dir.fd, temp, 0))
	}
	return nil
}

// directLimit is how long a fifo or socket without a reader may hold up the end of a run.
const directLimit = 5 * time.Second

func (f *ResultFile) writeBounded(b []byte) error {
	until := time.Now().Add(directLimit)
	for len(b) > 0 {
		n, err := unix.Write(f.fd, b)
		switch {
		case err == unix.EAGAIN && time.Now().Before(until):
			p := []unix.PollFd{{Fd: int32(f.fd), Events: unix.POLLOUT}}
			_, _ = unix.Poll(p, int(time.Until(until).Milliseconds())+1)
		case err == unix.EINTR:
		case err != nil:
			return err
		default:
			b = b[n:]
		}
	}
	return nil
}

// Discard closes what Write has not; there is then no file at the path.
func (f *ResultFile) Discard() {
	if f == nil {
		return
	}
	if f.fd >= 0 {
		unix.Close(f.fd)
		f.fd = -1
	}
	if f.temp != "" {
		_ = unix.Unlinkat(f.dir.fd, f.temp, 0)
		f.temp = ""
	}
	f.dir.close()
	f.dir.fd = -1
}
