package sandbox_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"gobox/policy"
	"gobox/sandbox"
)

// TestMain is the main of this test's binary, which is what init executes again.
func TestMain(m *testing.M) {
	if os.Getenv(forgetful) == "" && sandbox.IsInit() {
		sandbox.Init()
	}
	os.Exit(m.Run())
}

// plan is that of a command in a new empty folder.
func plan(argv ...string) *policy.Plan {
	dir, err := os.MkdirTemp("", "gobox-example-")
	if err != nil {
		panic(err)
	}
	p := policy.Default()
	p.Argv = argv
	p.Workspace = policy.Workspace{Path: dir, Mode: policy.ModeReadWrite, Explicit: true}
	plan, err := policy.Resolve(p, policy.CurrentHost())
	if err != nil {
		panic(err)
	}
	return plan
}

// null is a Stdio that reads and writes nothing.
func null() sandbox.Stdio {
	f, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		panic(err)
	}
	return sandbox.Stdio{In: f, Out: f, Err: f}
}

func ExampleRun() {
	p := plan("/bin/sh", "-c", "echo hello; exit 3")
	defer os.RemoveAll(p.Workspace.Path)
	r, w, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	stdio := null()
	stdio.Out = w
	res, err := sandbox.Run(context.Background(), sandbox.Spec{ID: "example", Plan: p, Stdio: stdio})
	w.Close()
	if err != nil {
		panic(err)
	}
	out, _ := io.ReadAll(r)
	fmt.Printf("%s %d %s", res.Outcome, res.ExitCode, out)
	// Output: exited 3 hello
}

// The end of a context is the end of the run, whatever the command does about it.
func ExampleRun_cancel() {
	p := plan("/bin/sh", "-c", "trap '' TERM; while :; do sleep 1; done")
	defer os.RemoveAll(p.Workspace.Path)
	p.Limits.Grace = 100 * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	res, err := sandbox.Run(ctx, sandbox.Spec{ID: "example", Plan: p, Stdio: null()})
	fmt.Println(res.Outcome, res.Survived, err)
	// Output: cancelled false <nil>
}

// Events come as they happen.
func ExampleSpec_observe() {
	p := plan("/bin/true")
	defer os.RemoveAll(p.Workspace.Path)
	spec := sandbox.Spec{ID: "example", Plan: p, Stdio: null()}
	var kinds []string
	spec.Observe = func(e sandbox.Event) {
		if e.What == "" {
			kinds = append(kinds, string(e.Kind))
		}
	}
	if _, err := sandbox.Run(context.Background(), spec); err != nil {
		panic(err)
	}
	fmt.Println(kinds)
	// Output: [started ended destroyed]
}
