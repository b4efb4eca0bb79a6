package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"gobox/namespaces"
	"gobox/policy"
	"gobox/sandbox"
)

// gitFailed is how git exits that finds no repository (and for much else).
const gitFailed = 128

// tellWorktree says why git finds no repository in a linked worktree or submodule, whose .git is a file that names a folder elsewhere.
func tellWorktree(say messages, plan *policy.Plan, result sandbox.Result) {
	if result.Outcome != sandbox.Exited || result.ExitCode != gitFailed || plan.Workspace.Path == "" {
		return
	}
	f, err := os.OpenFile(filepath.Join(plan.Workspace.Path, ".git"), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return
	}
	text, err := io.ReadAll(io.LimitReader(f, unix.PathMax))
	place, ok := strings.CutPrefix(strings.TrimRight(string(text), "\r\n"), "gitdir: ")
	if err != nil || !ok {
		return
	}
	if !filepath.IsAbs(place) {
		place = filepath.Join(plan.Workspace.Path, place)
	}
	place = filepath.Clean(place)
	for i := range plan.Tree.Steps {
		s := &plan.Tree.Steps[i]
		if (s.Op == namespaces.OpBind || s.Op == namespaces.OpOverlay) && strings.HasPrefix(place+"/", strings.TrimSuffix(s.Source, "/")+"/") {
			return // it is there
		}
	}
	// A worktree's own folder lies in that of the repository (gitrepository-layout(5)).
	if repository, _, ok := strings.Cut(place, "/worktrees/"); ok {
		place = repository
	}
	say.hint("the workspace's git repository lies outside of it, in " + place + ": --ro " + place + " lets the command look at it, --rw " + place + " commit to it")
}
