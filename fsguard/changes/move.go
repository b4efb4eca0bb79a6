package changes

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"golang.org/x/sys/unix"

	"gobox/fsguard"
)

// In the steps both folders are held by descriptor and the names have one component, so that nothing is resolved
// between them.

const meanwhile = "it was changed while the changes were being applied"

func raced(s *step) error {
	return &ConflictError{[]Objection{{string(s.Path), meanwhile}}}
}

// do does one step. What it finds changed since the check is a *ConflictError.
func (a *applying) do(s *step) error {
	parent, err := a.parent(s)
	if err != nil {
		return err
	}
	defer parent.Close()
	at := base(string(s.Path))
	switch s.Verb {
	case take:
		if err := move(parent, at, a.staging, s.Slot); err != nil {
			return a.stepError(s, err)
		}
		return a.verify(s, s.Slot)
	case swap:
		old, err := a.exchange(parent, at, s.Slot)
		if err != nil {
			return a.stepError(s, err)
		}
		return a.verify(s, old)
	case put, mkdir:
		return a.stepError(s, move(a.staging, s.Slot, parent, at))
	case rmdir:
		return a.stepError(s, unix.Unlinkat(parent.Fd(), at, unix.AT_REMOVEDIR))
	case chmod:
		changed, err := setMode(parent, at, s.Ino, s.OldMode, s.NewMode)
		if err == nil && !changed {
			return raced(s)
		}
		return a.stepError(s, err)
	}
	return fmt.Errorf("step %q: %w", s.Verb, ErrManifest)
}

// parent opens the folder that holds a step's path.
func (a *applying) parent(s *step) (*fsguard.Root, error) {
	parent, err := a.workspace.OpenRoot(parentOf(string(s.Path)))
	if err != nil {
		return nil, a.stepError(s, err)
	}
	return parent, nil
}

// stepError tells a lost race from a failure.
func (a *applying) stepError(s *step, err error) error {
	if err == nil {
		return nil
	}
	for _, lost := range []error{unix.ENOENT, unix.EEXIST, unix.ENOTEMPTY, unix.ENOTDIR, unix.EISDIR, unix.ELOOP, unix.EXDEV} {
		if errors.Is(err, lost) {
			return raced(s)
		}
	}
	return fmt.Errorf("%s %q: %w", s.Verb, string(s.Path), err)
}

// verify makes sure that what came out of the workspace is what was checked.
func (a *applying) verify(s *step, slot string) error {
	info, err := a.staging.Lstat(slot)
	if err != nil {
		return fmt.Errorf("look at what was in the place of %q: %w", string(s.Path), err)
	}
	b := s.before
	if !info.Same(b) || info.Mode != b.Mode || info.Size != b.Size || !info.Mtime.Equal(b.Mtime) {
		return raced(s)
	}
	return nil
}

// move renames, and replaces nothing. A folder is one that we made: those of a lower layer cannot be renamed.
func move(from *fsguard.Root, oldname string, to *fsguard.Root, newname string) error {
	err := unix.Renameat2(from.Fd(), oldname, to.Fd(), newname, unix.RENAME_NOREPLACE)
	if err != unix.EINVAL && err != unix.ENOSYS {
		return err
	}
	// A file system that cannot refuse to replace.
	if _, err := to.Lstat(newname); !errors.Is(err, fs.ErrNotExist) {
		return unix.EEXIST
	}
	return unix.Renameat(from.Fd(), oldname, to.Fd(), newname)
}

// exchange puts the staged file in the place at, and gives the name under which the old one is in the staging folder.
func (a *applying) exchange(parent *fsguard.Root, at, slot string) (old string, err error) {
	err = unix.Renameat2(parent.Fd(), at, a.staging.Fd(), slot, unix.RENAME_EXCHANGE)
	if err != unix.EINVAL && err != unix.ENOSYS {
		return slot, err
	}
	// A file system that cannot exchange: for a moment the place is empty.
	old = slot + oldSuffix
	if err := move(parent, at, a.staging, old); err != nil {
		return "", err
	}
	return old, move(a.staging, slot, parent, at)
}

const oldSuffix = ".old"

// setMode sets the permission bits of a file or folder, if they are old and it has the inode, unless that is 0. A
// folder keeps its other bits; a file loses them.
func setMode(parent *fsguard.Root, at string, ino uint64, old, new uint32) (changed bool, err error) {
	fd, err := unix.Openat(parent.Fd(), at, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false, err
	}
	mode := new & 0o777
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		mode |= st.Mode & 0o7000
	default:
		return false, nil
	}
	if st.Mode&0o777 != old&0o777 || ino != 0 && st.Ino != ino {
		return false, nil
	}
	return true, unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), mode)
}
