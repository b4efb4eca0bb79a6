package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"gobox/fsguard"
	"gobox/fsguard/changes"
	"gobox/record"
)

// The scripts in testdata/changes make a run with its changes by hand, from an upper directory.
func TestChangeCommands(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/changes",
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir+"/home")
			env.Setenv("XDG_STATE_HOME", env.WorkDir+"/state")
			env.Setenv("PAGER", "cat")
			first, _, _ := strings.Cut(env.Getenv("PATH"), ":")
			env.Setenv("PATH", first+":/usr/bin:/bin")
			return os.MkdirAll(env.WorkDir+"/home", 0o755)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"status":   status,
			"whiteout": whiteout,
			"collect":  collect,
		},
	})
}

// whiteout FILE... makes what overlayfs makes of a deleted file; no privilege is needed for it.
func whiteout(ts *testscript.TestScript, neg bool, args []string) {
	for _, a := range args {
		ts.Check(os.MkdirAll(filepath.Dir(ts.MkAbs(a)), 0o755))
		ts.Check(unix.Mknod(ts.MkAbs(a), unix.S_IFCHR, 0))
	}
}

// collect RUN UPPER WORKSPACE records a run, and sets $HASH.
func collect(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: collect RUN UPPER WORKSPACE")
	}
	workspace := ts.MkAbs(args[2])
	run, err := record.Open(ts.Getenv("XDG_STATE_HOME")+"/gobox", record.Request{
		RunID: args[0], Argv: []string{"true"}, Workspace: workspace, WorkspaceMode: "overlay",
	})
	ts.Check(err)
	defer run.Close()
	dir, err := fsguard.NewRoot(run.DirFD(), fsguard.Options{})
	ts.Check(err)
	defer dir.Close()
	upper, err := fsguard.OpenRoot(ts.MkAbs(args[1]), fsguard.Options{})
	ts.Check(err)
	defer upper.Close()
	lower, err := fsguard.OpenRoot(workspace, fsguard.Options{})
	ts.Check(err)
	defer lower.Close()
	limits := changes.Limits{}
	if args[0] == "toomany" {
		limits.Entries = 2
	}
	set, err := changes.Collect(context.Background(), upper, lower, dir, changes.Options{Limits: limits, Started: time.Now()})
	ts.Check(err)
	ts.Setenv("HASH", set.Hash)
	result := &record.Result{Outcome: record.Exited}
	sum := set.Summary()
	result.Workspace = record.Workspace{Mode: "overlay", Added: sum.Added, Modified: sum.Modified, Deleted: sum.Deleted, Bytes: sum.Bytes, Hash: set.Hash}
	ts.Check(run.Finish(result))
}
