package changes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"gobox/fsguard"
)

// ConflictError lists the entries whose place in the workspace is not what it was when the set was collected.
type ConflictError struct{ Entries []Objection }

func (e *ConflictError) Error() string {
	if len(e.Entries) == 1 {
		return "the workspace has changed in one place since"
	}
	return fmt.Sprintf("the workspace has changed in %d places since", len(e.Entries))
}

// place is what is at a path of the workspace now.
type place struct {
	info  *fsguard.Info // nil for nothing
	state *State        // nil for nothing; without a content unless that was asked for
}

// threeWay compares each selected entry with the workspace. It gives the places, by path, of the entries that are
// still to be done; the others are in the workspace already. The error is a *ConflictError unless the workspace
// cannot be read.
func threeWay(ctx context.Context, sel *selection, workspace *fsguard.Root) (map[string]place, error) {
	var conflicts ConflictError
	places := map[string]place{}
	w := &store{hashed: math.MaxInt64}
	for _, e := range sel.entries {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		p, err := look(ctx, w, workspace, e)
		if errors.Is(err, fsguard.ErrMount) {
			conflicts.Entries = append(conflicts.Entries, Objection{e.Path, "another file system is mounted there"})
			continue
		}
		if err != nil {
			return nil, err
		}
		if sameState(p.state, e.New) {
			continue
		}
		if why := conflict(e, p.state); why != "" {
			conflicts.Entries = append(conflicts.Entries, Objection{e.Path, why})
			continue
		}
		places[e.Path] = p
	}
	for _, e := range sel.entries {
		if _, due := places[e.Path]; !due {
			continue
		}
		why, err := around(ctx, sel, workspace, e)
		if err != nil {
			return nil, err
		}
		if why != "" {
			conflicts.Entries = append(conflicts.Entries, Objection{e.Path, why})
		}
	}
	if len(conflicts.Entries) > 0 {
		return nil, &conflicts
	}
	return places, nil
}

// look describes the place of an entry. A content is read only where it could be one of the two sides'.
func look(ctx context.Context, w *store, workspace *fsguard.Root, e *Entry) (place, error) {
	info, err := workspace.Lstat(e.Path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return place{}, nil
	}
	if errors.Is(err, fsguard.ErrSymlink) {
		return place{}, nil // a folder on the way is a link by now; around tells of it
	}
	if err != nil {
		return place{}, err
	}
	p := place{info: &info}
	sized := func(s *State) bool { return s != nil && s.Type == File && s.Size == info.Size }
	if info.Mode.IsRegular() && !sized(e.Old) && !sized(e.New) {
		p.state = &State{Type: File, Mode: uint32(info.Mode & 0o777), Size: info.Size, Mtime: info.Mtime.UnixNano()}
		return p, nil
	}
	p.state, err = w.describe(ctx, workspace, e.Path, &info, nil)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fsguard.ErrChanged) || errors.Is(err, fsguard.ErrNotRegular) {
		return place{}, fmt.Errorf("look at %q: %w", e.Path, fsguard.ErrChanged)
	}
	if err == nil && p.state.Type == File {
		p.state.Mtime = info.Mtime.UnixNano()
	}
	return p, err
}

// sameState compares a place with one side of an entry.
func sameState(now, side *State) bool {
	if now == nil || side == nil {
		return now == nil && side == nil
	}
	if now.Type != side.Type || now.Mode != side.Mode || now.Size != side.Size || now.Target != side.Target {
		return false
	}
	if side.Type == File && side.SHA256 == "" {
		return now.Mtime == side.Mtime
	}
	return now.SHA256 == side.SHA256
}

// conflict says why an entry cannot be applied over what is there now, or "".
func conflict(e *Entry, now *State) string {
	switch {
	case e.Old == nil && now != nil && now.Type == Folder && e.New.Type == Folder:
		return "" // made meanwhile, by somebody who meant the same
	case e.Old == nil && now != nil:
		return fmt.Sprintf("a %s is there by now", now.Type)
	case e.Old != nil && now == nil:
		return fmt.Sprintf("the %s is there no more", e.Old.Type)
	case now == nil:
		return ""
	case now.Type != e.Old.Type:
		return fmt.Sprintf("it was a %s and is a %s by now", e.Old.Type, now.Type)
	case e.Late:
		return "it was changed in the workspace while the command ran"
	case e.Old.Type == Folder && e.Kind != ModeChanged:
		return ""
	case e.Old.Type == Symlink && now.Target != e.Old.Target:
		return "the link has another target by now"
	case now.Mode != e.Old.Mode && sameState(&State{now.Type, e.Old.Mode, now.Size, now.SHA256, now.Target, now.Mtime}, e.Old):
		return fmt.Sprintf("its mode was %04o and is %04o by now", e.Old.Mode, now.Mode)
	case !sameState(now, e.Old):
		return "it has another content by now"
	}
	return ""
}

// around says what near an entry keeps it from being applied: a folder that holds more than the set knows of, or
// one to put it in that is there no more.
func around(ctx context.Context, sel *selection, workspace *fsguard.Root, e *Entry) (string, error) {
	if e.Old != nil && e.Old.Type == Folder && (e.New == nil || e.New.Type != Folder) {
		return strangers(ctx, sel, workspace, e.Path)
	}
	dir := parentOf(e.Path)
	if e.Old != nil || sel.find(dir) != nil {
		return "", nil
	}
	info, err := workspace.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, fsguard.ErrSymlink) || err == nil && !info.Mode.IsDir() {
		return fmt.Sprintf("the folder %q is there no more", dir), nil
	}
	return "", err
}

// strangers looks in a folder that is to go for what the set does not remove.
func strangers(ctx context.Context, sel *selection, workspace *fsguard.Root, dir string) (why string, err error) {
	err = workspace.Walk(ctx, dir, fsguard.WalkLimits{Depth: 1}, func(met *fsguard.Entry, err error) error {
		if err != nil || met.Path == dir {
			return err
		}
		if e := sel.find(met.Path); e == nil || e.New != nil {
			why = fmt.Sprintf("it holds %q, which the changes do not remove", met.Path[len(dir)+1:])
			return fs.SkipAll
		}
		if met.Mode.IsDir() {
			return fs.SkipDir // looked at in its own turn
		}
		return nil
	})
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return why, err
}
