package record

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// StateDir is where records go without --audit: gobox below $XDG_STATE_HOME, or below ~/.local/state (XDG base
// directory specification, by which a relative value counts for nothing).
func StateDir(getenv func(string) string) (string, error) {
	if d := getenv("XDG_STATE_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, "gobox"), nil
	}
	if h := getenv("HOME"); filepath.IsAbs(h) {
		var st unix.Stat_t
		if err := unix.Stat(h, &st); err != nil {
			// Nobody's home (/nonexistent) must not come to be.
			return "", failure("find state directory", h, err)
		}
		return filepath.Join(h, ".local/state/gobox"), nil
	}
	return "", invalid("find state directory", "", "neither XDG_STATE_HOME nor HOME is an absolute path")
}

// dir is an open directory. The descriptor belongs to whoever opened it.
type dir struct {
	fd   int
	path string // for messages only
}

const dirFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// openState opens the state directory, and makes it if create is set. The way to it may lead over symbolic links of
// the caller's or of root's and of nobody else's.
// On an error, as from all that give a dir, it has no descriptor: 0 would be the caller's stdin.
func openState(path string, create bool) (dir, error) {
	op := "open state directory"
	abs, err := filepath.Abs(path)
	if err != nil || path == "" {
		return dir{fd: -1}, invalid(op, path, "no such path")
	}
	// Almost always it is there, without a link on the way.
	fd, err := unix.Openat2(unix.AT_FDCWD, abs, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		if fd, err = walk(abs, create); err != nil {
			return dir{fd: -1}, wrap(op, abs, err)
		}
	}
	d := dir{fd, abs}
	if err := d.check(); err != nil {
		d.close()
		return dir{fd: -1}, err
	}
	return d, nil
}

func wrap(op, path string, err error) error {
	var e *Error
	if errors.As(err, &e) {
		return err
	}
	return failure(op, path, err)
}

// check refuses a directory that somebody else could change.
func (d dir) check() error {
	var st unix.Stat_t
	if err := unix.Fstat(d.fd, &st); err != nil {
		return failure("check directory", d.path, err)
	}
	if int(st.Uid) != unix.Geteuid() {
		return untrusted("check directory", d.path, fmt.Sprintf("it belongs to user %d", st.Uid))
	}
	if st.Mode&0o022 != 0 {
		return untrusted("check directory", d.path, "others can write to it")
	}
	return nil
}

// Beneath gives the first of places that the way to path leads into, by whatever name, or "". What of the way is not
// there yet leads nowhere.
func Beneath(path string, places []string) (string, error) {
	if len(places) == 0 {
		return "", nil
	}
	type id struct{ dev, ino uint64 }
	at := make(map[id]string, len(places))
	for _, p := range places {
		var st unix.Stat_t
		if err := unix.Stat(p, &st); err != nil {
			return "", failure("find", p, err)
		}
		if at[id{st.Dev, st.Ino}] == "" {
			at[id{st.Dev, st.Ino}] = p
		}
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", failure("find", path, err)
	}
	found := ""
	fd, err := walkBy(abs, false, func(st *unix.Stat_t) {
		if found == "" {
			found = at[id{st.Dev, st.Ino}]
		}
	})
	if err == nil {
		unix.Close(fd)
	} else if found == "" && err != unix.ENOENT && err != unix.ENOTDIR {
		return "", wrap("find", abs, err)
	}
	return found, nil
}

// maxLinks is the kernel's own bound on symbolic links in one path (path_resolution(7)).
const maxLinks = 40

// walk opens the directory at the absolute path one name at a time.
func walk(path string, create bool) (int, error) { return walkBy(path, create, nil) }

// walkBy is walk, and shows visit all that is on the way, the end included.
func walkBy(path string, create bool, visit func(*unix.Stat_t)) (int, error) {
	cur, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer func() { unix.Close(cur) }()
	if visit != nil {
		var st unix.Stat_t
		if err := unix.Fstat(cur, &st); err != nil {
			return -1, err
		}
		visit(&st)
	}
	names := strings.Split(path, "/")
	for links := 0; len(names) > 0; {
		name := names[0]
		names = names[1:]
		if name == "" || name == "." {
			continue
		}
		next, err := unix.Openat(cur, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err == unix.ENOENT && create {
			made := unix.Mkdirat(cur, name, 0o700)
			if err = made; err == nil || err == unix.EEXIST {
				next, err = unix.Openat(cur, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
			}
			if made == nil && err == nil {
				unmask(next)
				syncNames(cur)
			}
		}
		if err != nil {
			return -1, err
		}
		var st unix.Stat_t
		if err := unix.Fstat(next, &st); err != nil {
			unix.Close(next)
			return -1, err
		}
		if visit != nil {
			visit(&st)
		}
		if st.Mode&unix.S_IFMT != unix.S_IFLNK {
			unix.Close(cur)
			cur = next
			continue
		}
		target := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(next, "", target)
		unix.Close(next)
		if err != nil {
			return -1, err
		}
		if st.Uid != 0 && int(st.Uid) != unix.Geteuid() {
			return -1, untrusted("follow link", path, fmt.Sprintf("%s is a symbolic link of user %d", name, st.Uid))
		}
		if links++; links > maxLinks {
			return -1, unix.ELOOP
		}
		names = append(strings.Split(string(target[:n]), "/"), names...)
		if target[0] == '/' {
			root, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			if err != nil {
				return -1, err
			}
			unix.Close(cur)
			cur = root
		}
	}
	return unix.Openat(cur, ".", dirFlags, 0)
}

// sub opens the directory name in d, and makes it if create is set.
func (d dir) sub(name string, create bool) (dir, error) {
	path := d.path + "/" + name
	fd, err := unix.Openat(d.fd, name, dirFlags, 0)
	if err == unix.ENOENT && create {
		if err = mkdir(d.fd, name); err == nil || err == unix.EEXIST {
			fd, err = unix.Openat(d.fd, name, dirFlags, 0)
		}
	}
	if err != nil {
		return dir{fd: -1}, failure("open directory", path, err)
	}
	s := dir{fd, path}
	if err := s.check(); err != nil {
		s.close()
		return dir{fd: -1}, err
	}
	return s, nil
}

func (d dir) close() {
	if d.fd >= 0 {
		unix.Close(d.fd)
	}
}

// mkdir makes a directory of the caller's alone.
func mkdir(at int, name string) error {
	err := unix.Mkdirat(at, name, 0o700)
	if err != nil {
		return err
	}
	if fd, err := unix.Openat(at, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err == nil {
		unmask(fd)
		unix.Close(fd)
	}
	return nil
}

// syncNames puts a directory's names on the disk, once a folder on the way to the records was made in it. Those that the caller
// may not read are nearly always there already.
func syncNames(path int) {
	if fd, err := unix.Openat(path, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
		_ = unix.Fsync(fd)
		unix.Close(fd)
	}
}

// unmask gives a new directory, opened with O_PATH, the rights that the umask took from its owner: nobody could write or read a
// record otherwise.
func unmask(fd int) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && int(st.Uid) == unix.Geteuid() && st.Mode&0o700 != 0o700 {
		_ = unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), 0o700)
	}
}

// create makes a new file, which nothing of that name may precede.
func (d dir) create(name string, flags int) (int, error) {
	fd, err := unix.Openat(d.fd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC|flags, 0o600)
	if err != nil {
		return -1, failure("create", d.path+"/"+name, err)
	}
	_ = unix.Fchmod(fd, 0o600) // see unmask
	return fd, nil
}

// writeAll writes all of b.
func writeAll(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := unix.Write(fd, b)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// replace puts content at name, whole or not at all. With sync it is on the disk when replace returns.
func (d dir) replace(name string, content []byte, sync bool) error {
	path := d.path + "/" + name
	temp := "." + name + "." + random(8)
	fd, err := d.create(temp, 0)
	if err != nil {
		return err
	}
	return d.settle(fd, temp, name, path, content, sync)
}

// settle writes content to the new file temp, which fd is and which settle closes, and gives it its name.
func (d dir) settle(fd int, temp, name, path string, content []byte, sync bool) error {
	err := writeAll(fd, content)
	if err == nil {
		err = unix.Ftruncate(fd, int64(len(content))) // gives back what was reserved
	}
	if err == nil && sync {
		err = unix.Fsync(fd)
	}
	if cerr := unix.Close(fd); err == nil {
		err = cerr
	}
	if err == nil {
		err = unix.Renameat(d.fd, temp, d.fd, name)
	}
	if err != nil {
		_ = unix.Unlinkat(d.fd, temp, 0)
		return failure("write", path, err)
	}
	if sync {
		if err := syncDir(d.fd); err != nil {
			return failure("sync directory of", path, err)
		}
	}
	return nil
}

// read gives the content of the regular file name, if it is no larger than limit.
func (d dir) read(name string, limit int64) ([]byte, error) {
	fd, size, err := d.open(name)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	path := d.path + "/" + name
	if size > limit {
		return nil, invalid("read", path, fmt.Sprintf("larger than %d bytes", limit))
	}
	b := make([]byte, size+1)
	n := 0
	for n < len(b) {
		got, err := unix.Read(fd, b[n:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, failure("read", path, err)
		}
		if got == 0 {
			return b[:n], nil
		}
		n += got
	}
	return nil, invalid("read", path, "it grows while being read")
}

// open opens the regular file name for reading and gives its size. A fifo or device is refused without
// being waited for.
func (d dir) open(name string) (fd int, size int64, err error) {
	path := d.path + "/" + name
	fd, err = unix.Openat(d.fd, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, 0, failure("open", path, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return -1, 0, failure("open", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		unix.Close(fd)
		return -1, 0, untrusted("open", path, "not a regular file")
	}
	return fd, st.Size, nil
}
