package record

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// removing is how the name of a run directory begins that is being removed: the rename takes it out of sight at
// once, whatever happens to the rest.
const removing = ".removing-"

// removeTree removes the directory name with all it contains. A tree that a command has made may be of any depth, so
// directories are brought up below name instead of being descended into. No link is followed.
func (d dir) removeTree(name string) error {
	path := d.path + "/" + name
	top, err := d.openOwned(name)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return failure("open", path, err)
	}
	defer top.close()
	for serial := 0; ; {
		names, err := top.names()
		if err != nil {
			return err
		}
		if len(names) == 0 {
			break
		}
		for _, n := range names {
			if err := top.flatten(n, &serial); err != nil {
				return err
			}
		}
	}
	return failure("remove", path, ignoreMissing(unix.Unlinkat(d.fd, name, unix.AT_REMOVEDIR)))
}

// flatten removes the entry n of d, after moving up the directories in it.
func (d dir) flatten(n string, serial *int) error {
	err := unix.Unlinkat(d.fd, n, 0)
	if err == nil || err == unix.ENOENT {
		return nil
	}
	if err != unix.EISDIR && err != unix.EPERM { // unlink(2) of a directory
		return failure("remove", d.path+"/"+n, err)
	}
	sub, err := d.openOwned(n)
	if err != nil {
		return failure("remove", d.path+"/"+n, err)
	}
	defer sub.close()
	names, err := sub.names()
	if err != nil {
		return err
	}
	for _, m := range names {
		err := unix.Unlinkat(sub.fd, m, 0)
		if err == unix.EISDIR || err == unix.EPERM {
			// A directory moves only if it can be written to: its .. changes.
			_ = unix.Fchmodat(sub.fd, m, 0o700, 0)
			for {
				*serial++
				err = unix.Renameat2(sub.fd, m, d.fd, fmt.Sprintf("%s%d", removing, *serial), unix.RENAME_NOREPLACE)
				if err != unix.EEXIST {
					break
				}
			}
		}
		if ignoreMissing(err) != nil {
			return failure("remove", sub.path+"/"+m, err)
		}
	}
	return failure("remove", sub.path, ignoreMissing(unix.Unlinkat(d.fd, n, unix.AT_REMOVEDIR)))
}

// openOwned opens a directory, whose mode the command may have set to nothing.
func (d dir) openOwned(name string) (dir, error) {
	fd, err := unix.Openat(d.fd, name, dirFlags, 0)
	if err == unix.EACCES {
		if fd, err = unix.Openat(d.fd, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err != nil {
			return dir{fd: -1}, err
		}
		err = unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), 0o700)
		unix.Close(fd)
		if err == nil {
			fd, err = unix.Openat(d.fd, name, dirFlags, 0)
		}
	} else if err == nil {
		_ = unix.Fchmod(fd, 0o700)
	}
	if err != nil {
		return dir{fd: -1}, err
	}
	return dir{fd, d.path + "/" + name}, nil
}

func ignoreMissing(err error) error {
	if err == unix.ENOENT {
		return nil
	}
	return err
}
