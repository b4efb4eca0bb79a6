package changes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"gobox/fsguard"
)

var (
	// ErrHash is for a hash that is not the set's.
	ErrHash = errors.New("the hash is not that of the changes")
	// ErrApplied is for a set that was applied before.
	ErrApplied = errors.New("the changes were applied before")
	// ErrBusy is for a run or workspace that another apply is at work on.
	ErrBusy = errors.New("another apply is at work")
)

// Request says what to apply.
type Request struct {
	Hash       string   // of the set, as the user saw it
	Only, Skip []string // paths, see [Set.Select]
	Allow      []string // paths, at or beneath which protected ones are taken; see [Protected]
	DryRun     bool     // find out and write nothing
	Path       string   // of the workspace on the host, to tell absolute links into it; "" when unknown
	Records    string   // path of gobox's own state directory, which is protected where it is beneath Path
}

// Report says what was applied, or would be.
type Report struct {
	Entries []Entry `json:"entries"` // applied
	Already int     `json:"already"` // in the workspace before, just like this
	Left    int     `json:"left"`    // entries of the set that were not selected
	Resumed bool    `json:"resumed"` // it finished what an interrupted apply had all but done, and Entries is empty
}

// applied is the content of applied.json.
type applied struct {
	SchemaVersion int    `json:"schema_version"`
	Hash          string `json:"hash"`
	At            string `json:"applied_at"` // RFC 3339, UTC
	Entries       int    `json:"entries"`
}

// applying is one apply.
type applying struct {
	ctx       context.Context
	run       *fsguard.Root
	workspace *fsguard.Root
	journal   journal
	staging   *fsguard.Root
	root      bool // we may give files away
	// after is called after everything that reaches the disk, for tests to stop at.
	after func(what string)
}

// Apply makes the changes of a run in its workspace, once: all of what r selects, or nothing. Nothing is written when
// the hash is wrong (ErrHash), an entry is protected (*RefusedError), or the workspace has changed where the
// changes are (*ConflictError); also not when that happens while Apply is at work: the very file that was checked is
// exchanged for the new one, or the exchange is undone. When the process or the machine stops in the middle, the next Apply or Discard
// brings the workspace back to where it was, or finishes when all was done. New files belong to the owner of the folder
// they are in when the caller is root; a replaced file keeps its owner where the caller may give it.
func Apply(ctx context.Context, run, workspace *fsguard.Root, r Request) (*Report, error) {
	a := &applying{ctx: ctx, run: run, workspace: workspace, root: os.Geteuid() == 0, after: func(string) {}}
	return a.apply(r)
}

func (a *applying) apply(r Request) (*Report, error) {
	set, err := Load(a.run)
	if err != nil {
		return nil, err
	}
	if set.Refused != "" {
		return nil, fmt.Errorf("there is no change set: %s", set.Refused)
	}
	if r.Hash != set.Hash {
		return nil, ErrHash
	}
	unlock, err := lock(a.run, a.workspace)
	if err != nil {
		return nil, err
	}
	defer unlock()
	finished, err := a.recover(r.DryRun)
	if err != nil {
		return nil, err
	}
	if finished {
		return &Report{Resumed: true, Entries: []Entry{}}, nil
	}
	if err := a.notYet(); err != nil {
		return nil, err
	}
	sel, err := set.choose(r.Only, r.Skip)
	if err != nil {
		return nil, err
	}
	allow, err := set.paths(r.Allow)
	if err != nil {
		return nil, err
	}
	if err := newGuard(sel, a.workspace, &r).check(a.ctx, allow); err != nil {
		return nil, err
	}
	places, err := threeWay(a.ctx, sel, a.workspace)
	if err != nil {
		return nil, err
	}
	report := &Report{Entries: []Entry{}, Already: len(sel.entries) - len(places), Left: len(set.Entries) - len(sel.entries)}
	for _, e := range sel.entries {
		if _, due := places[e.Path]; due {
			report.Entries = append(report.Entries, *e)
		}
	}
	if r.DryRun {
		return report, nil
	}
	a.journal = journal{SchemaVersion: SchemaVersion, Hash: set.Hash, Entries: len(report.Entries)}
	if len(places) == 0 {
		return report, a.finish()
	}
	return report, a.perform(sel, places)
}

// lock keeps out a second apply to this workspace, which may be nil, or of this run, and gc of its record. The locks go
// with the descriptors and leave nothing.
func lock(run, workspace *fsguard.Root) (unlock func(), err error) {
	var fds []int
	unlock = func() {
		for _, fd := range fds {
			// Not by the close alone: a child of ours that is about to exec has the descriptor as well.
			_ = unix.Flock(fd, unix.LOCK_UN)
			unix.Close(fd)
		}
	}
	for _, at := range []struct {
		root *fsguard.Root
		name string
		how  int
	}{{run, ".", unix.LOCK_SH}, {run, changesDir, unix.LOCK_EX}, {workspace, ".", unix.LOCK_EX}} {
		if at.root == nil {
			continue
		}
		fd, err := unix.Openat(at.root.Fd(), at.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err == nil {
			fds = append(fds, fd)
			err = unix.Flock(fd, at.how|unix.LOCK_NB)
		}
		switch err {
		case nil, unix.EOPNOTSUPP, unix.ENOLCK:
		case unix.EWOULDBLOCK:
			unlock()
			return nil, ErrBusy
		default:
			unlock()
			return nil, fmt.Errorf("lock: %w", err)
		}
	}
	return unlock, nil
}

func (a *applying) notYet() error {
	_, err := a.run.Lstat(appliedName)
	switch {
	case err == nil:
		return ErrApplied
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return err
}

// perform stages and does all steps, or leaves the workspace as it was.
func (a *applying) perform(sel *selection, places map[string]place) error {
	if err := a.stage(sel, places); err != nil {
		return errors.Join(err, a.clean())
	}
	for i := range a.journal.Steps {
		if err := a.do(&a.journal.Steps[i]); err != nil {
			return errors.Join(err, a.rollBack(i, true))
		}
		a.after(string(a.journal.Steps[i].Verb))
	}
	err := a.syncFolders()
	if err == nil {
		a.journal.Phase = done
		err = a.journal.write(a.run)
	}
	if err != nil {
		return errors.Join(err, a.rollBack(len(a.journal.Steps), false))
	}
	a.after("done")
	return a.finish()
}

// finish is what is left to do once the workspace is as it should be.
func (a *applying) finish() error {
	if err := a.removeStaging(); err != nil {
		return err
	}
	a.after("unstaged")
	b, err := json.Marshal(applied{SchemaVersion, a.journal.Hash, time.Now().UTC().Format(time.RFC3339), a.journal.Entries})
	if err == nil {
		err = replace(a.run, appliedName, append(b, '\n'), true)
	}
	if err != nil {
		return fmt.Errorf("note that the changes are applied: %w", err)
	}
	a.after("applied")
	return a.removeJournal()
}

// clean ends an apply that has not changed the workspace, or has changed it back.
func (a *applying) clean() error {
	if err := a.removeStaging(); err != nil {
		return err
	}
	a.after("cleaned")
	return a.removeJournal()
}

func (a *applying) removeStaging() error {
	if a.staging != nil {
		a.staging.Close()
		a.staging = nil
	}
	if a.journal.Staging == "" {
		return nil
	}
	// Not with the caller's context: what was begun is ended.
	if err := a.workspace.RemoveAll(context.Background(), a.journal.Staging); err != nil {
		return fmt.Errorf("remove staging folder: %w", err)
	}
	return a.workspace.Sync(".")
}

func (a *applying) removeJournal() error {
	if err := a.run.Remove(journalName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove journal: %w", err)
	}
	return a.run.Sync(changesDir)
}

// syncFolders puts the new names on the disk.
func (a *applying) syncFolders() error {
	seen := map[string]bool{}
	for _, s := range a.journal.Steps {
		dir := parentOf(string(s.Path))
		if seen[dir] {
			continue
		}
		seen[dir] = true
		err := a.workspace.Sync(dir)
		switch {
		case err == nil, errors.Is(err, fs.ErrPermission):
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR), errors.Is(err, fsguard.ErrSymlink):
			// It went, or became a file.
		default:
			return err
		}
	}
	return nil
}

// Discard drops the stored changes of a run for good, after undoing what an interrupted apply had begun. workspace may
// be nil when no apply was interrupted.
func Discard(ctx context.Context, run, workspace *fsguard.Root) error {
	if _, err := Load(run); err != nil && !errors.Is(err, ErrManifest) {
		return err
	}
	unlock, err := lock(run, workspace)
	if err != nil {
		return err
	}
	defer unlock()
	a := &applying{ctx: ctx, run: run, workspace: workspace, root: os.Geteuid() == 0, after: func(string) {}}
	j, err := readJournal(run)
	if err != nil {
		return err
	}
	if j != nil {
		if workspace == nil {
			return errors.New("an apply was interrupted, and the workspace is not there to undo it")
		}
		if _, err := a.recover(false); err != nil {
			return err
		}
	}
	b, err := json.Marshal(map[string]any{"schema_version": SchemaVersion, "discarded_at": time.Now().UTC().Format(time.RFC3339)})
	if err == nil {
		err = replace(run, discardedName, append(b, '\n'), true)
	}
	if err == nil {
		err = run.Remove(manifestName)
	}
	if err == nil {
		err = run.RemoveAll(ctx, blobsDir)
	}
	return err
}
