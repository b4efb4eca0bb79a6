package changes

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"gobox/fsguard"
)

// ErrInterrupted is for a dry run after an apply that was interrupted, which has yet to be undone.
var ErrInterrupted = errors.New("an earlier apply was interrupted and has to be undone first")

// StuckError is what an interrupted apply cannot undo, since somebody has changed the path since.
type StuckError struct {
	Path string
	Why  string
}

func (e *StuckError) Error() string {
	return fmt.Sprintf("undo what was begun: %q: %s", e.Path, e.Why)
}

// recover deals with what an earlier apply has left. Finished tells that it had done all.
func (a *applying) recover(dryRun bool) (finished bool, err error) {
	j, err := readJournal(a.run)
	if j == nil || err != nil {
		return false, err
	}
	if dryRun {
		return false, ErrInterrupted
	}
	a.journal = *j
	switch j.Phase {
	case staging:
		return false, a.clean()
	case done:
		return true, a.finish()
	}
	a.staging, err = a.workspace.OpenRoot(j.Staging)
	if errors.Is(err, fs.ErrNotExist) {
		return false, a.withoutStaging()
	}
	if err != nil {
		return false, fmt.Errorf("open staging folder: %w", err)
	}
	return false, a.rollBack(len(j.Steps), false)
}

// withoutStaging is for a journal whose staging folder is gone: all was undone before that, or somebody removed it.
func (a *applying) withoutStaging() error {
	for i := range a.journal.Steps {
		s := &a.journal.Steps[i]
		if s.Verb != put && s.Verb != swap {
			continue
		}
		if info, err := a.workspace.Lstat(string(s.Path)); err == nil && info.Ino == s.Ino {
			return &StuckError{string(s.Path), fmt.Sprintf("the folder %s with what was there before is gone", a.journal.Staging)}
		}
	}
	return a.removeJournal()
}

// rollBack undoes those of the first n steps that were done, last first, and ends the apply. With failed, the one after
// them was tried: it may have taken something out. What cannot be undone is a *StuckError; journal and staging folder
// then stay.
func (a *applying) rollBack(n int, failed bool) error {
	if failed {
		if s := &a.journal.Steps[n]; s.Verb == take || s.Verb == swap {
			n++
		}
	}
	for i := n - 1; i >= 0; i-- {
		if err := a.undo(&a.journal.Steps[i]); err != nil {
			return err
		}
		a.after("undo")
	}
	if err := a.syncFolders(); err != nil {
		return err
	}
	return a.clean()
}

func stuck(s *step, why string) error { return &StuckError{string(s.Path), why} }

// undo undoes a step if it was done.
func (a *applying) undo(s *step) error {
	parent, err := a.workspace.OpenRoot(parentOf(string(s.Path)))
	if err != nil {
		return a.undoNowhere(s, err)
	}
	defer parent.Close()
	at := base(string(s.Path))
	switch s.Verb {
	case chmod:
		_, err = setMode(parent, at, s.Ino, s.NewMode, s.OldMode)
	case mkdir:
		if info, lerr := parent.Lstat(at); lerr != nil || info.Ino != s.Ino {
			return nil
		}
		err = unix.Unlinkat(parent.Fd(), at, unix.AT_REMOVEDIR)
		if err == unix.ENOTEMPTY || err == unix.EEXIST || err == unix.ENOTDIR {
			err = nil // somebody uses it by now
		}
	case put:
		if a.staged(parent, at, s) {
			err = move(parent, at, a.staging, s.Slot)
		}
	case take:
		if a.holds(s) {
			err = a.giveBack(parent, at, s)
		}
	case swap:
		err = a.swapBack(parent, at, s)
	case rmdir:
		err = a.remakeFolder(parent, at, s)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	var already *StuckError
	if err != nil && !errors.As(err, &already) {
		err = fmt.Errorf("undo %s %q: %w", s.Verb, string(s.Path), err)
	}
	return err
}

// undoNowhere is for a step whose folder cannot be opened, which is no harm when it was not done.
func (a *applying) undoNowhere(s *step, err error) error {
	gone := errors.Is(err, fs.ErrNotExist)
	if !gone && !errors.Is(err, fsguard.ErrSymlink) && !errors.Is(err, unix.ENOTDIR) {
		return fmt.Errorf("undo %s %q: %w", s.Verb, string(s.Path), err)
	}
	if a.holds(s) {
		return stuck(s, "its folder is there no more; the file as it was is "+a.journal.Staging+"/"+a.oldSlot(s))
	}
	if s.Slot == "" && !gone {
		return stuck(s, "something else is in the place of its folder")
	}
	if _, err := a.staging.Lstat(s.Slot); s.Verb.stages() && !gone && err != nil {
		return stuck(s, "something else is in the place of its folder, into which it was put")
	}
	return nil
}

// staged reports whether the place has our new file, untouched.
func (a *applying) staged(parent *fsguard.Root, at string, s *step) bool {
	info, err := parent.Lstat(at)
	return err == nil && info.Ino == s.Ino && info.Mtime.UnixNano() == s.Mtime
}

// oldSlot is where the old file of a take or swap is, or would be.
func (a *applying) oldSlot(s *step) string {
	if _, err := a.staging.Lstat(s.Slot + oldSuffix); err == nil {
		return s.Slot + oldSuffix
	}
	return s.Slot
}

// holds reports whether the staging folder has the old file of a take or swap.
func (a *applying) holds(s *step) bool {
	if s.Verb != take && s.Verb != swap {
		return false
	}
	info, err := a.staging.Lstat(a.oldSlot(s))
	return err == nil && (s.Verb == take || info.Ino != s.Ino)
}

func (a *applying) giveBack(parent *fsguard.Root, at string, s *step) error {
	slot := a.oldSlot(s)
	err := move(a.staging, slot, parent, at)
	if err == unix.EEXIST {
		return stuck(s, "something else is there by now; the file as it was is "+a.journal.Staging+"/"+slot)
	}
	return err
}

func (a *applying) swapBack(parent *fsguard.Root, at string, s *step) error {
	if !a.holds(s) {
		return nil
	}
	slot := a.oldSlot(s)
	if !a.staged(parent, at, s) {
		return a.giveBack(parent, at, s) // fits when the place is empty
	}
	if slot == s.Slot {
		err := unix.Renameat2(parent.Fd(), at, a.staging.Fd(), slot, unix.RENAME_EXCHANGE)
		if err != unix.EINVAL && err != unix.ENOSYS {
			return err
		}
	}
	if err := move(parent, at, a.staging, s.Slot); err != nil {
		return err
	}
	return a.giveBack(parent, at, s)
}

// remakeFolder makes a removed folder again: in the staging folder, where nobody can put another in its place.
func (a *applying) remakeFolder(parent *fsguard.Root, at string, s *step) error {
	if _, err := parent.Lstat(at); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	temp, err := a.staging.MkdirTemp(".", "again-")
	if err != nil {
		return err
	}
	if a.root {
		if err := a.staging.Lchown(temp, s.UID, s.GID); err != nil {
			return err
		}
	}
	folder, err := a.staging.OpenRoot(temp)
	if err != nil {
		return err
	}
	defer folder.Close()
	if err := move(a.staging, temp, parent, at); err != nil {
		return err
	}
	// Only now: a folder that cannot be written to cannot be moved.
	return unix.Fchmodat(folder.Fd(), ".", s.OldMode, 0)
}
