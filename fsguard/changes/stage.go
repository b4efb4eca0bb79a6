package changes

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gobox/fsguard"
)

// stage plans the steps, and makes the new files in a folder of its own at the top of the workspace, from where a
// rename puts them in their places.
func (a *applying) stage(sel *selection, places map[string]place) error {
	j := &a.journal
	j.Phase, j.Staging = staging, stagingPrefix+rand.Text()
	if err := j.write(a.run); err != nil {
		return err
	}
	a.after("journal")
	err := a.workspace.Mkdir(j.Staging, 0o700)
	if err == nil {
		a.after("staging")
		a.staging, err = a.workspace.OpenRoot(j.Staging)
	}
	if err != nil {
		return fmt.Errorf("make staging folder in the workspace: %w", err)
	}
	if err := a.plan(sel, places); err != nil {
		return err
	}
	few := len(j.Steps) <= fewFiles
	for i := range j.Steps {
		s := &j.Steps[i]
		if !s.Verb.stages() {
			continue
		}
		if err := a.stageOne(s, few); err != nil {
			return fmt.Errorf("stage %q: %w", string(s.Path), err)
		}
		a.after("staged")
	}
	a.nameInodes()
	if err := a.syncStaged(few); err != nil {
		return err
	}
	j.Phase = moving
	if err := j.write(a.run); err != nil {
		return err
	}
	a.after("moving")
	return nil
}

// plan orders the steps: what goes, deepest first; what comes, folders first; modes last, since one may lock a folder.
func (a *applying) plan(sel *selection, places map[string]place) error {
	var takes, rmdirs, mkdirs, files, modes []step
	slot := 0
	add := func(list *[]step, s step) {
		if s.Verb == take || s.Verb.stages() {
			s.Slot = strconv.Itoa(slot)
			slot++
		}
		*list = append(*list, s)
	}
	for _, e := range sel.entries {
		at, due := places[e.Path]
		if !due {
			continue
		}
		s := step{Path: name(e.Path), entry: e, before: at.info}
		with := func(v verb) step { s.Verb = v; return s }
		if at.info != nil {
			s.UID, s.GID = int(at.info.UID), int(at.info.GID)
			s.OldMode = sysMode(at.info.Mode)
		}
		folder := at.info != nil && at.info.Mode.IsDir()
		switch {
		case e.New == nil && folder:
			add(&rmdirs, with(rmdir))
		case e.New == nil:
			add(&takes, with(take))
		case e.New.Type == Folder && folder:
			// One that was made meanwhile keeps the mode its maker gave it.
			if e.Old != nil {
				s.NewMode = s.OldMode&^0o777 | e.New.Mode
				add(&modes, with(chmod))
			}
		case e.New.Type == Folder:
			if at.info != nil {
				add(&takes, with(take))
			}
			s.OldMode, s.NewMode = 0o700, e.New.Mode
			add(&mkdirs, with(mkdir))
			add(&modes, with(chmod))
		case e.Kind == ModeChanged:
			s.NewMode = e.New.Mode
			add(&modes, with(chmod))
		case folder:
			add(&rmdirs, with(rmdir))
			add(&files, with(put))
		case at.info == nil:
			add(&files, with(put))
		default:
			add(&files, with(swap))
		}
	}
	slices.Reverse(takes)
	slices.Reverse(rmdirs)
	slices.Reverse(modes)
	steps := slices.Concat(takes, rmdirs, mkdirs, files, modes)
	opened, err := a.openFolders(steps)
	if err != nil {
		return err
	}
	// Folders that were opened are locked again before the modes of the set, which may be theirs.
	a.journal.Steps = slices.Concat(opened, takes, rmdirs, mkdirs, files, relocked(opened, steps), modes)
	return nil
}

// nameInodes has each chmod know its file: another one of the same name is not to get the mode.
func (a *applying) nameInodes() {
	made := map[name]uint64{}
	for i := range a.journal.Steps {
		switch s := &a.journal.Steps[i]; {
		case s.Verb == mkdir:
			made[s.Path] = s.Ino
		case s.Verb == chmod && made[s.Path] != 0:
			s.Ino = made[s.Path]
		case s.Verb == chmod && s.before != nil:
			s.Ino = s.before.Ino
		}
	}
}

// sysMode is a mode as chmod(2) takes it.
func sysMode(m fs.FileMode) uint32 {
	mode := uint32(m & 0o777)
	for _, b := range []struct {
		bit fs.FileMode
		sys uint32
	}{{fs.ModeSetuid, unix.S_ISUID}, {fs.ModeSetgid, unix.S_ISGID}, {fs.ModeSticky, unix.S_ISVTX}} {
		if m&b.bit != 0 {
			mode |= b.sys
		}
	}
	return mode
}

// openFolders makes steps that let us change folders which are ours and locked by mode: the command could do the same.
func (a *applying) openFolders(steps []step) ([]step, error) {
	if a.root {
		return nil, nil
	}
	var opened []step
	seen := map[string]bool{}
	for _, s := range steps {
		dir := parentOf(string(s.Path))
		if s.Verb == chmod || dir == "." || seen[dir] {
			continue
		}
		seen[dir] = true
		info, err := a.workspace.Lstat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue // one of the set's own
		}
		if err != nil {
			return nil, err
		}
		if info.Mode.IsDir() && info.Mode&0o300 != 0o300 && int(info.UID) == os.Geteuid() {
			mode := sysMode(info.Mode)
			opened = append(opened, step{Verb: chmod, Path: name(dir), OldMode: mode, NewMode: mode | 0o700})
		}
	}
	return opened, nil
}

// relocked undoes openFolders for the folders that stay.
func relocked(opened, steps []step) []step {
	gone := map[name]bool{}
	for _, s := range steps {
		if s.Verb == rmdir {
			gone[s.Path] = true
		}
	}
	var again []step
	for _, o := range opened {
		if !gone[o.Path] {
			again = append(again, step{Verb: chmod, Path: o.Path, OldMode: o.NewMode, NewMode: o.OldMode})
		}
	}
	return again
}

// stageOne makes the new file or folder of a step in its slot.
func (a *applying) stageOne(s *step, sync bool) (err error) {
	e := s.entry
	switch e.New.Type {
	case Symlink:
		err = a.staging.Symlink(e.New.Target, s.Slot)
	case Folder:
		err = a.staging.Mkdir(s.Slot, 0o700)
	default:
		err = a.stageContent(s, sync)
	}
	if err == nil {
		err = a.own(s)
	}
	if err != nil {
		return err
	}
	if e.New.Type == File {
		// After the owner, whose change would clear some bits.
		if err := a.staging.Chmod(s.Slot, fs.FileMode(e.New.Mode)); err != nil {
			return err
		}
	}
	info, err := a.staging.Lstat(s.Slot)
	s.Ino, s.Mtime = info.Ino, info.Mtime.UnixNano()
	return err
}

// stageContent copies a blob, which must be what the set says.
func (a *applying) stageContent(s *step, sync bool) error {
	from, err := a.run.Open(blobName(s.entry.New.SHA256))
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNoContent
	}
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := a.staging.OpenFile(s.Slot, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	size, sum, err := copyHash(a.ctx, to, from, s.entry.New.Size, make([]byte, 256<<10))
	if err == nil && sync {
		err = to.Sync()
	}
	if closeErr := to.Close(); err == nil {
		err = closeErr
	}
	if err == nil && (size != s.entry.New.Size || sum != s.entry.New.SHA256) || errors.Is(err, fsguard.ErrLimit) {
		err = fmt.Errorf("%w: its content has another SHA-256", ErrManifest)
	}
	return err
}

// own gives a staged file to whom it should belong: the owner of what it replaces, else that of the folder it comes
// into. Who is not root keeps the group where that is allowed.
func (a *applying) own(s *step) error {
	uid, gid := s.UID, s.GID
	shared := false // with the group of the folder (mkdir(2) on set-group-ID)
	if s.before == nil || s.Verb == mkdir {
		dir, err := a.nearest(string(s.Path))
		if err != nil {
			return err
		}
		if shared = dir.Mode&fs.ModeSetgid != 0; !a.root && !shared {
			return nil
		}
		uid, gid = int(dir.UID), int(dir.GID)
	}
	switch {
	case a.root:
		if err := a.staging.Lchown(s.Slot, uid, gid); err != nil {
			return err
		}
	case gid != os.Getegid():
		_ = a.staging.Lchown(s.Slot, -1, gid) // only members of the group may
	}
	if s.Verb != mkdir || !shared {
		return nil
	}
	folder, err := a.staging.OpenRoot(s.Slot)
	if err != nil {
		return err
	}
	defer folder.Close()
	return unix.Fchmodat(folder.Fd(), ".", unix.S_ISGID|0o700, 0)
}

// nearest describes the closest folder above a path that is there.
func (a *applying) nearest(path string) (fsguard.Info, error) {
	for dir := parentOf(path); ; dir = parentOf(dir) {
		info, err := a.workspace.Lstat(dir)
		if err == nil && info.Mode.IsDir() || dir == "." {
			return info, err
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
			return info, err
		}
	}
}

// fewFiles are synced one by one; for more the whole file system is cheaper.
const fewFiles = 32

// syncStaged puts the staged files on the disk before anything else is.
func (a *applying) syncStaged(few bool) error {
	fd, err := unix.Openat(a.staging.Fd(), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("sync staged files: %w", err)
	}
	defer unix.Close(fd)
	if few {
		err = unix.Fsync(fd)
	} else {
		err = unix.Syncfs(fd)
	}
	if err == nil {
		err = a.workspace.Sync(".")
	}
	if err != nil {
		return fmt.Errorf("sync staged files: %w", err)
	}
	return nil
}

// base is the last component of a path.
func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }
