package fsguard

import (
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"
)

// Mkdir makes the directory name; perm, at most 0o777, is subject to the umask.
func (r *Root) Mkdir(name string, perm fs.FileMode) error {
	if perm&^0o777 != 0 {
		return r.fail("mkdir", name, ErrMode)
	}
	return r.inParent("mkdir", name, func(dir int, base string) error {
		return unix.Mkdirat(dir, base, uint32(perm))
	})
}

// MkdirAll makes the directory name and those above it that are not there. What is there and no directory is
// an error, a symbolic link ErrSymlink.
func (r *Root) MkdirAll(name string, perm fs.FileMode) error {
	if perm&^0o777 != 0 {
		return r.fail("mkdir", name, ErrMode)
	}
	cleaned, err := clean(name)
	if err != nil {
		return r.fail("mkdir", name, err)
	}
	// Most often there is nothing to do.
	if fd, err := r.openDir(cleaned, unix.O_PATH); err == nil {
		return unix.Close(fd)
	}
	at := r.fd
	for part := range strings.SplitSeq(cleaned, "/") {
		next, err := r.descend(at, part, perm)
		if at != r.fd {
			unix.Close(at)
		}
		if err != nil {
			return r.fail("mkdir", name, err)
		}
		at = next
	}
	if at != r.fd {
		unix.Close(at)
	}
	return nil
}

// descend opens the directory part of the directory at, making it first where needed.
func (r *Root) descend(at int, part string, perm fs.FileMode) (int, error) {
	err := unix.Mkdirat(at, part, uint32(perm))
	if err != nil && err != unix.EEXIST {
		// A read-only or foreign directory says so before it says that the name exists.
		if _, missing := statx(at, part, 0); missing != nil {
			return -1, err
		}
	}
	return r.openat(at, part, unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY, Resolve: r.resolve(true)})
}

// Symlink makes the symbolic link name with the given target, which is not checked: what follows it later is.
func (r *Root) Symlink(target, name string) error {
	return r.inParent("symlink", name, func(dir int, base string) error {
		return unix.Symlinkat(target, dir, base)
	})
}

// Link makes newname another name of the regular file oldname.
func (r *Root) Link(oldname, newname string) error {
	return r.onPath("link", oldname, false, func(fd int, info *Info) error {
		if !info.Mode.IsRegular() {
			return ErrNotRegular
		}
		return r.inParent("link", newname, func(dir int, base string) error {
			// By way of /proc, since AT_EMPTY_PATH needs a capability before Linux 6.10.
			return unix.Linkat(unix.AT_FDCWD, procFd(fd), dir, base, unix.AT_SYMLINK_FOLLOW)
		})
	})
}

// Flags of [Root.Rename] (renameat2(2)).
const (
	NoReplace = unix.RENAME_NOREPLACE // fail with EEXIST when the new name is taken
	Exchange  = unix.RENAME_EXCHANGE  // both must be there and change places
)

// Rename gives the file oldname the name newname, both beneath the root. flags is 0, which replaces what has
// the new name, NoReplace or Exchange. Links at the ends of both names are renamed or replaced themselves.
func (r *Root) Rename(oldname, newname string, flags uint) error {
	return r.inParent("rename", oldname, func(from int, oldBase string) error {
		return r.inParent("rename", newname, func(to int, newBase string) error {
			return unix.Renameat2(from, oldBase, to, newBase, flags)
		})
	})
}

// Remove removes the file, link or empty directory name. A mount point stays: EBUSY.
func (r *Root) Remove(name string) error {
	return r.inParent("remove", name, func(dir int, base string) error {
		const tries = 16
		for range tries {
			if err := unix.Unlinkat(dir, base, 0); err != unix.EISDIR {
				return err
			}
			if err := unix.Unlinkat(dir, base, unix.AT_REMOVEDIR); err != unix.ENOTDIR {
				return err
			}
		}
		return ErrChanged
	})
}

// Sync makes the entries of the directory name, "." for the root, outlive a crash (fsync(2)).
func (r *Root) Sync(name string) error {
	fd, err := r.openDir(name, unix.O_RDONLY)
	if err != nil {
		return r.fail("sync", name, err)
	}
	defer unix.Close(fd)
	err = ignoreEINTR(func() error { return unix.Fsync(fd) })
	if err == unix.EINVAL { // a file system whose directories have nothing to sync (vboxsf)
		err = nil
	}
	return r.fail("sync", name, err)
}
