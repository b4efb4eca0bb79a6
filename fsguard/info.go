package fsguard

import (
	"io/fs"
	"time"

	"golang.org/x/sys/unix"
)

// Info is what statx(2) says about a file, the link itself where the name is one.
type Info struct {
	Mode  fs.FileMode // type, permission, setuid, setgid, sticky
	Size  int64       // apparent size in bytes
	Real  int64       // bytes allocated on disk (st_blocks * 512); 0 for a file that is one hole
	Mtime time.Time
	Ctime time.Time // last change of the inode, which nobody can set
	Btime time.Time // when the file came to be, which nobody can set either; zero where the file system does not say
	Links uint32
	UID   uint32
	GID   uint32
	Dev   uint64 // of the file system (makedev(3))
	Ino   uint64
	Rdev  uint64 // of a device (makedev(3))
	// MountPoint tells that another mount begins here. Its content is not looked at unless the Root crosses mounts.
	MountPoint bool
}

// Whiteout tells whether this is how the upper layer of an overlay says "deleted": a character device 0:0
// (Documentation/filesystems/overlayfs.rst). The other form, a regular file with the xattr
// "overlay.whiteout", is the caller's to look for.
func (i *Info) Whiteout() bool {
	return i.Mode&fs.ModeCharDevice != 0 && i.Rdev == 0
}

// Same tells whether both are the same file, however it is called.
func (i *Info) Same(other *Info) bool { return i.Dev == other.Dev && i.Ino == other.Ino }

func statx(dir int, name string, flags int) (Info, error) {
	var st unix.Statx_t
	err := ignoreEINTR(func() error {
		return unix.Statx(dir, name, flags|unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st)
	})
	if err != nil {
		return Info{}, err
	}
	var born time.Time
	if st.Mask&unix.STATX_BTIME != 0 {
		born = time.Unix(st.Btime.Sec, int64(st.Btime.Nsec))
	}
	return Info{
		Mode:  fileMode(uint32(st.Mode)),
		Size:  int64(st.Size),
		Real:  int64(st.Blocks) * 512,
		Mtime: time.Unix(st.Mtime.Sec, int64(st.Mtime.Nsec)),
		Ctime: time.Unix(st.Ctime.Sec, int64(st.Ctime.Nsec)),
		Btime: born,
		Links: st.Nlink, UID: st.Uid, GID: st.Gid,
		Dev: unix.Mkdev(st.Dev_major, st.Dev_minor), Ino: st.Ino, Rdev: unix.Mkdev(st.Rdev_major, st.Rdev_minor),
		MountPoint: st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0,
	}, nil
}

func statFd(fd int) (Info, error) { return statx(fd, "", unix.AT_EMPTY_PATH) }

// fileMode is st_mode in Go's terms (inode(7)).
func fileMode(mode uint32) fs.FileMode {
	m := fs.FileMode(mode & 0o777)
	switch mode & unix.S_IFMT {
	case unix.S_IFDIR:
		m |= fs.ModeDir
	case unix.S_IFLNK:
		m |= fs.ModeSymlink
	case unix.S_IFIFO:
		m |= fs.ModeNamedPipe
	case unix.S_IFSOCK:
		m |= fs.ModeSocket
	case unix.S_IFBLK:
		m |= fs.ModeDevice
	case unix.S_IFCHR:
		m |= fs.ModeDevice | fs.ModeCharDevice
	}
	if mode&unix.S_ISUID != 0 {
		m |= fs.ModeSetuid
	}
	if mode&unix.S_ISGID != 0 {
		m |= fs.ModeSetgid
	}
	if mode&unix.S_ISVTX != 0 {
		m |= fs.ModeSticky
	}
	return m
}

// Stat describes name. A link at its end is refused, or followed where the Root follows links.
func (r *Root) Stat(name string) (Info, error) { return r.stat("stat", name, true) }

// Lstat describes name, the link itself where it is one.
func (r *Root) Lstat(name string) (Info, error) { return r.stat("lstat", name, false) }

func (r *Root) stat(op, name string, follow bool) (info Info, err error) {
	err = r.onPath(op, name, follow, func(fd int, i *Info) error {
		info = *i
		return nil
	})
	return info, err
}

// onPath does something to the file that name refers to, which is resolved once and never opened.
func (r *Root) onPath(op, name string, follow bool, do func(fd int, info *Info) error) error {
	fd, err := r.openPath(name, follow)
	if err != nil {
		return r.fail(op, name, err)
	}
	defer unix.Close(fd)
	info, err := statFd(fd)
	if err == nil {
		err = ignoreEINTR(func() error { return do(fd, &info) })
	}
	return r.fail(op, name, err)
}

// Readlink gives the target of the symbolic link name, unchecked.
func (r *Root) Readlink(name string) (target string, err error) {
	err = r.onPath("readlink", name, false, func(fd int, _ *Info) error {
		target, err = readlink(fd)
		return err
	})
	return target, err
}

// readlink reads the link that an O_PATH descriptor refers to.
func readlink(fd int) (string, error) {
	buf := make([]byte, pathMax)
	n, err := unix.Readlinkat(fd, "", buf)
	if err == unix.ENOENT { // what the kernel says of an empty path to something else
		err = unix.EINVAL
	}
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// Chmod sets the permission bits of a regular file or directory, at most 0o777: setuid, setgid and sticky are
// refused with ErrMode and are cleared on a file that has them.
func (r *Root) Chmod(name string, perm fs.FileMode) error {
	if perm&^0o777 != 0 {
		return r.fail("chmod", name, ErrMode)
	}
	return r.onPath("chmod", name, true, func(fd int, info *Info) error {
		if !info.Mode.IsRegular() && !info.Mode.IsDir() {
			return ErrNotRegular
		}
		return unix.Chmod(procFd(fd), uint32(perm))
	})
}

// Chtimes sets the modification time of name, the link itself where it is one, and its access time to now.
func (r *Root) Chtimes(name string, mtime time.Time) error {
	ts := [2]unix.Timespec{{Nsec: unix.UTIME_NOW}, {Sec: mtime.Unix(), Nsec: int64(mtime.Nanosecond())}}
	return r.onPath("chtimes", name, false, func(fd int, _ *Info) error {
		return utimensat(fd, &ts)
	})
}

// Lchown sets the owner of name, the link itself where it is one; -1 leaves an id as it is (chown(2)).
func (r *Root) Lchown(name string, uid, gid int) error {
	return r.onPath("chown", name, false, func(fd int, _ *Info) error {
		return unix.Fchownat(fd, "", uid, gid, unix.AT_EMPTY_PATH)
	})
}

// xattrMax is XATTR_SIZE_MAX of linux/limits.h.
const xattrMax = 64 << 10

// Xattr reads the extended attribute attr of name, the link itself where it is one. An attribute that is not
// there is unix.ENODATA (getxattr(2)).
func (r *Root) Xattr(name, attr string) (value []byte, err error) {
	err = r.onPath("getxattr", name, false, func(fd int, _ *Info) error {
		value, err = xattr(fd, attr)
		return err
	})
	return value, err
}

func xattr(fd int, attr string) ([]byte, error) {
	buf := make([]byte, 256)
	n, err := unix.Getxattr(procFd(fd), attr, buf)
	if err == unix.ERANGE {
		buf = make([]byte, xattrMax)
		n, err = unix.Getxattr(procFd(fd), attr, buf)
	}
	if err != nil {
		return nil, err
	}
	return buf[:n], nil
}
