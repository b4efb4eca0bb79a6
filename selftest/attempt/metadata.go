package attempt

import (
	"os"

	"golang.org/x/sys/unix"
)

func metadataAttempt(name string) Func {
	switch name {
	case "stat":
		return onPath(func(p string) error { var st unix.Stat_t; return unix.Stat(p, &st) })
	case "lstat":
		return onPath(func(p string) error { var st unix.Stat_t; return unix.Lstat(p, &st) })
	case "access":
		return onPath(func(p string) error { return unix.Access(p, unix.F_OK) })
	case "chroot":
		return onPath(unix.Chroot)
	case "readlink":
		return func(a []string) (int64, string, error) { s, err := os.Readlink(a[0]); return int64(len(s)), s, err }
	case "chmod":
		return onPath(func(p string) error { return unix.Chmod(p, 0o777) })
	case "chown":
		return onPath(func(p string) error { return unix.Lchown(p, os.Getuid(), os.Getgid()) })
	case "utimes":
		return onPath(func(p string) error { return unix.UtimesNano(p, []unix.Timespec{{Sec: 1}, {Sec: 1}}) })
	case "setxattr":
		return onPath(func(p string) error { return unix.Setxattr(p, "user.gobox-probe", []byte("x"), 0) })
	case "truncate":
		return onPath(func(p string) error { return unix.Truncate(p, 0) })
	case "unlink":
		return onPath(unix.Unlink)
	case "mkdir":
		return onPath(func(p string) error { return unix.Mkdir(p, 0o755) })
	case "mknod":
		return mknod
	case "link":
		return onPair(unix.Link)
	case "symlink":
		return onPair(unix.Symlink)
	case "rename":
		return onPair(unix.Rename)
	case "exchange":
		return onPair(func(a, b string) error {
			return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
		})
	case "handle":
		return handle
	}
	return nil
}

func onPath(f func(string) error) Func {
	return func(args []string) (int64, string, error) { return 0, "", f(args[0]) }
}

func onPair(f func(a, b string) error) Func {
	return func(args []string) (int64, string, error) { return 0, "", f(args[0], args[1]) }
}

// mknod c|b|p PATH: 1:1 is /dev/mem
func mknod(args []string) (int64, string, error) {
	kind := uint32(unix.S_IFCHR)
	switch args[0] {
	case "b":
		kind = unix.S_IFBLK
	case "p":
		kind = unix.S_IFIFO
	}
	return 0, "", unix.Mknod(args[1], kind|0o600, int(unix.Mkdev(1, 1)))
}

// handle DIR: the handle of inode 2, the root directory of many file systems, opened from DIR
func handle(args []string) (int64, string, error) {
	dir, err := unix.Open(args[0], unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, "directory", err
	}
	defer unix.Close(dir)
	h := unix.NewFileHandle(1, []byte{2, 0, 0, 0, 0, 0, 0, 0})
	fd, err := unix.OpenByHandleAt(dir, h, unix.O_RDONLY)
	if err != nil {
		return -1, "", err
	}
	unix.Close(fd)
	return int64(fd), "", nil
}
