package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"gobox/fsguard"
	"gobox/policy"
	"gobox/sandbox"
)

const (
	foreignEntries = 10_000
	foreignTime    = 200 * time.Millisecond
)

// tellForeign says of a command that failed in an overlay what it could not have changed there: files of another owner, for which
// the kernel's only word is EOVERFLOW, "Value too large for defined data type". It is not looked for before: most commands never
// meet one.
func tellForeign(say messages, plan *policy.Plan, result sandbox.Result) {
	if plan.Workspace.Mode != policy.ModeOverlay || result.NoOverlay != "" || result.Outcome != sandbox.Exited || result.ExitCode == 0 {
		return
	}
	path, owner, found := foreign(plan.Workspace.Path)
	if !found {
		return
	}
	say.hint(fmt.Sprintf("if it could not change a file (%q): %s belongs to user %d, and in an overlay what is not the workspace's owner's can only be read; chown it, or --workspace-mode rw",
		unix.EOVERFLOW.Error(), path, owner))
}

// foreign finds something in the workspace that the command cannot change in an overlay, whatever its mode, as far as it can be found
// quickly.
func foreign(workspace string) (path string, owner uint32, found bool) {
	root, err := fsguard.OpenRoot(workspace, fsguard.Options{})
	if err != nil {
		return "", 0, false
	}
	defer root.Close()
	own := uint32(os.Geteuid())
	if own == 0 {
		// Root's command has the rights of the folder's owner.
		info, err := root.Lstat(".")
		if err != nil {
			return "", 0, false
		}
		own = info.UID
	}
	ctx, cancel := context.WithTimeout(context.Background(), foreignTime)
	defer cancel()
	_ = root.Walk(ctx, ".", fsguard.WalkLimits{Entries: foreignEntries}, func(e *fsguard.Entry, err error) error {
		if err != nil || e.Path == "." || e.UID == own {
			return nil
		}
		path, owner, found = filepath.Join(workspace, e.Path), e.UID, true
		return fs.SkipAll
	})
	return path, owner, found
}
