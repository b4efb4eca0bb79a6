package namespaces

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// copyLimit bounds a file that OpCopy takes into memory.
const copyLimit = 4 << 20

var errTarget = errors.New("target is not an absolute clean path")

// open opens name beneath the new root: symbolic links, absolute ones too, resolve inside it, and
// magic links not at all (openat2(2)).
func (b *builder) open(name string, flags uint64, mode uint32) (int, error) {
	return unix.Openat2(b.root, name, &unix.OpenHow{
		Flags:   flags | unix.O_CLOEXEC,
		Mode:    uint64(mode),
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
}

// lookup opens an existing target as O_PATH.
func (b *builder) lookup(target string) (int, error) {
	if !clean(target) {
		return -1, errTarget
	}
	fd, err := b.open(target, unix.O_PATH, 0)
	if err != nil {
		return -1, fmt.Errorf("open: %w", err)
	}
	return fd, nil
}

// itself opens an existing target as O_PATH, of a symbolic link the link. None may lie on the way.
func (b *builder) itself(target string) (int, error) {
	if !clean(target) {
		return -1, errTarget
	}
	fd, err := unix.Openat2(b.root, target[1:], &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return -1, fmt.Errorf("open: %w", err)
	}
	return fd, nil
}

// makeDir opens the directory target as O_PATH and makes it and its missing parents; mode is for the
// last one, and only when it is made here, which made says.
func (b *builder) makeDir(target string, mode uint32) (fd int, made bool, err error) {
	if !clean(target) {
		return -1, false, errTarget
	}
	if target == "/" {
		fd, err = b.open(target, unix.O_PATH|unix.O_DIRECTORY, 0)
		return fd, false, err
	}
	parent, err := b.parent(target)
	if err != nil {
		return -1, false, err
	}
	if mode == 0 {
		mode = 0o755
	}
	name := path.Base(target)
	// Most are new.
	if refused := unix.Mkdirat(parent, name, mode); refused != nil {
		fd, err := b.open(target, unix.O_PATH|unix.O_DIRECTORY, 0)
		if errors.Is(err, unix.ENOENT) {
			return -1, false, fmt.Errorf("mkdir: %w", refused)
		}
		if err != nil {
			return -1, false, fmt.Errorf("open: %w", err)
		}
		return fd, false, nil
	}
	if mode&0o7022 != 0 {
		// What the umask took or the sticky bit that mkdir(2) may drop.
		if err := unix.Fchmodat(parent, name, mode, 0); err != nil {
			return -1, false, fmt.Errorf("chmod: %w", err)
		}
	}
	fd, err = unix.Openat(parent, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, false, fmt.Errorf("open: %w", err)
	}
	return fd, true, nil
}

// parent gives the directory that holds target. It stays the builder's, which keeps it for the next, as many names go into
// the same directory one after the other.
func (b *builder) parent(target string) (int, error) {
	dir := path.Dir(target)
	switch dir {
	case "/":
		return b.root, nil
	case b.dirPath:
		return b.dir, nil
	}
	fd, _, err := b.makeDir(dir, 0)
	if err != nil {
		return -1, err
	}
	b.forget()
	b.dir, b.dirPath = fd, dir
	return fd, nil
}

// forget gives up the directory that parent keeps, which a path may no longer lead to: whoever mounts on something that was
// there before, or unmounts, must call it.
func (b *builder) forget() {
	if b.dirPath != "" {
		unix.Close(b.dir)
		b.dirPath = ""
	}
}

// makeFile opens the non-directory target as O_PATH and makes it as an empty file when it is missing.
func (b *builder) makeFile(target string) (int, error) {
	// Most are new.
	refused := b.create(target, 0o644, nil)
	fd, err := b.lookup(target)
	if refused != nil && errors.Is(err, unix.ENOENT) {
		return -1, refused
	}
	return fd, err
}

// create makes the new file target with content.
func (b *builder) create(target string, mode uint32, content []byte) error {
	if !clean(target) || target == "/" {
		return errTarget
	}
	parent, err := b.parent(target)
	if err != nil {
		return err
	}
	fd, err := unix.Openat(parent, path.Base(target), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	defer unix.Close(fd)
	for len(content) > 0 {
		n, err := unix.Write(fd, content)
		if err != nil {
			return fmt.Errorf("write: %w", err)
		}
		content = content[n:]
	}
	return nil
}

func (b *builder) writeFile(s *Step, content []byte) error {
	mode := s.Mode
	if mode == 0 {
		mode = 0o644
	}
	return b.create(s.Target, mode, content)
}

// copyFile takes a host file over by content.
func (b *builder) copyFile(s *Step) error {
	fd, err := unix.Openat2(unix.AT_FDCWD, s.Source, &unix.OpenHow{
		// O_NONBLOCK: a FIFO in its place must not hold the start up.
		Flags:   unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_NONBLOCK,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		if s.Optional && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES)) {
			return nil
		}
		return fmt.Errorf("open: %w", err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("stat: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return errors.New("not a regular file")
	}
	if st.Size > copyLimit {
		return fmt.Errorf("larger than %d bytes", copyLimit)
	}
	buf := make([]byte, st.Size)
	n := 0
	for n < len(buf) {
		k, err := unix.Read(fd, buf[n:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		if k == 0 {
			break
		}
		n += k
	}
	return b.writeFile(s, buf[:n])
}

// symlink makes a symbolic link; one with the same text may stand there already, as when the place
// lies in something bound from the host.
func (b *builder) symlink(s *Step) error {
	if !clean(s.Target) || s.Target == "/" {
		return errTarget
	}
	parent, err := b.parent(s.Target)
	if err != nil {
		return err
	}
	name := path.Base(s.Target)
	err = unix.Symlinkat(s.Source, parent, name)
	if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.EROFS) {
		buf := make([]byte, len(s.Source)+1)
		if n, rerr := unix.Readlinkat(parent, name, buf); rerr == nil && string(buf[:n]) == s.Source {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("symlink to %s: %w", strings.ToValidUTF8(s.Source, "?"), err)
	}
	return nil
}
