package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gobox/fsguard"
	"gobox/namespaces"
	"gobox/policy"
	"gobox/sandbox"
)

const (
	foreignEntries = 10_000
	foreignTime    = 200 * time.Millisecond
)

// foreign is a file that the command cannot have changed in the overlay.
type foreign struct {
	path  string // beneath the workspace
	id    uint32
	group bool // id is the group's, and the owner is the command
}

// tellForeign says of a command that failed in an overlay which file it has most likely tried to change there and could not:
// the kernel's only word is EOVERFLOW, "Value too large for defined data type".
func tellForeign(say messages, r *recorded) {
	f := r.foreign
	if f == nil {
		return
	}
	whose, change := "user", "chown"
	if f.group {
		whose, change = "group", "chgrp"
	}
	ways := change + " it, or --workspace-mode rw"
	if r.plan.Identity.Root {
		ways = change + " it" // there the ids of others are nobody's in any mode
	}
	say.hint(fmt.Sprintf("if it could not change a file (%q): %s belongs to %s %d, and in an overlay what is not of the owner and group of the workspace's files can only be read; %s",
		unix.EOVERFLOW.Error(), filepath.Join(r.plan.Workspace.Path, f.path), whose, f.id, ways))
}

// failed tells of a command that ended by itself and says that something went wrong.
func failed(result *sandbox.Result) bool {
	return result.Outcome == sandbox.Exited && result.ExitCode != 0
}

// foreignSearch looks through the overlay of a command that failed for traces of a file that it could not change. overlayfs copies the
// folders above a file before it finds that it cannot copy the file itself: so a folder of the upper layer that has nothing in it
// that is new, and a file of another's in it below, are such a trace. The top of the workspace is always there and tells nothing.
type foreignSearch struct {
	ctx          context.Context
	upper, lower *fsguard.Root
	owner        namespaces.Owner // whose files the command can change
	id           namespaces.Identity
	argv         []string
	found        *foreign
}

func newForeignSearch(ctx context.Context, upper, lower *fsguard.Root, plan *policy.Plan) *foreignSearch {
	s := &foreignSearch{ctx: ctx, upper: upper, lower: lower, id: plan.Identity, argv: plan.Exec.Argv,
		owner: namespaces.Owner{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}}
	if s.id.Root {
		s.owner = namespaces.Owner{UID: s.id.HostUID, GID: s.id.HostGID} // unless a step says otherwise
	}
	for i := range plan.Tree.Steps {
		if step := &plan.Tree.Steps[i]; step.Op == namespaces.OpOverlay && step.Owner != nil {
			s.owner = *step.Owner
		}
	}
	return s
}

// search gives nil where there is no trace, or none that is found quickly.
func (s *foreignSearch) search() *foreign {
	ctx, cancel := context.WithTimeout(s.ctx, foreignTime)
	defer cancel()
	s.ctx = ctx
	_ = s.upper.Walk(ctx, ".", fsguard.WalkLimits{Entries: foreignEntries}, func(e *fsguard.Entry, err error) error {
		if err != nil || !e.Mode.IsDir() {
			return nil
		}
		below, err := s.lower.Lstat(e.Path)
		if err != nil || !below.Mode.IsDir() {
			return fs.SkipDir // the command's own
		}
		if value, err := e.Xattr("user.overlay.opaque"); err == nil && string(value) == "y" {
			return fs.SkipDir // the same, in another's place
		}
		if s.folder(e.Path); s.found != nil {
			return fs.SkipAll
		}
		return nil
	})
	return s.found
}

// folder looks at what the workspace has in a folder that was copied.
func (s *foreignSearch) folder(dir string) {
	top, idle := dir == ".", !s.holds(dir)
	s.each(s.lower, dir, func(e *fsguard.Entry) bool {
		if e.Mode&fs.ModeSymlink != 0 || e.MountPoint {
			return true
		}
		f := &foreign{path: e.Path, id: e.UID}
		if mapped(e.UID, s.owner.UID, s.id.HostUID, s.id.Root) {
			f.id, f.group = e.GID, true
			if mapped(e.GID, s.owner.GID, s.id.HostGID, s.id.Root) {
				return true
			}
		}
		switch {
		case top && !s.named(path.Base(e.Path)):
			return true
		case !idle || top:
			// The folder may have been copied for something else. What the command may not change by its mode it did not get as far with.
			if !s.writable(&e.Info) {
				return true
			}
		}
		if _, err := s.upper.Lstat(e.Path); err == nil {
			return true // it is gone, or another is in its place
		}
		s.found = f
		return false
	})
}

// mapped tells whether an id of the workspace's files is one inside. Started by root, those of the workspace's owner and of the host's
// nobody are exchanged, and root's are mapped, for init.
func mapped(id, owner, nobody uint32, root bool) bool {
	if root && owner == nobody {
		return id == owner || id == 0
	}
	return id == owner || root && (owner == 0 && id == nobody || owner != 0 && id == 0)
}

// writable tells whether the mode lets the command change the file.
func (s *foreignSearch) writable(i *fsguard.Info) bool {
	switch {
	case i.UID == s.owner.UID:
		return i.Mode&0o200 != 0
	case i.GID == s.owner.GID:
		return i.Mode&0o020 != 0
	}
	return i.Mode&0o002 != 0
}

// named tells whether the command's own words have the name of a file.
func (s *foreignSearch) named(name string) bool {
	apart := func(r rune) bool { return strings.ContainsRune(" \t\n'\"<>|&;()=", r) }
	return slices.ContainsFunc(s.argv, func(arg string) bool {
		return slices.ContainsFunc(strings.FieldsFunc(arg, apart), func(word string) bool { return slices.Contains(strings.Split(word, "/"), name) })
	})
}

// holds tells whether something is in a folder of the upper layer.
func (s *foreignSearch) holds(dir string) bool {
	some := false
	s.each(s.upper, dir, func(*fsguard.Entry) bool { some = true; return false })
	return some
}

// each gives what is in a folder to do, until that has enough.
func (s *foreignSearch) each(root *fsguard.Root, dir string, do func(*fsguard.Entry) bool) {
	// A folder that cannot be read tells nothing.
	_ = root.Walk(s.ctx, dir, fsguard.WalkLimits{Entries: foreignEntries, Depth: 1}, func(e *fsguard.Entry, err error) error {
		switch {
		case err != nil:
			return err
		case e.Path == dir:
			return nil
		case !do(e):
			return fs.SkipAll
		case e.Mode.IsDir():
			return fs.SkipDir
		}
		return nil
	})
}
