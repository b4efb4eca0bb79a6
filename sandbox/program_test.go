package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gobox/policy"
	"gobox/sandbox"
)

// What a program that runs sandboxes may do besides, or forget.

// again runs the calling test in a process of its own with the variable set, and says whether this is that process. TestMain
// leaves out IsInit where forgetful is set.
func again(t *testing.T, variable string) bool {
	t.Helper()
	if os.Getenv(variable) != "" {
		return true
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), variable+"=1")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

const forgetful = "GOBOX_TEST_FORGETFUL"

// TestMainDoesNotAsk: a program that would be no init is not started as one, which would be its main once more, and once more
// from there.
func TestMainDoesNotAsk(t *testing.T) {
	if !again(t, forgetful) {
		return
	}
	p := plan("/bin/true")
	defer os.RemoveAll(p.Workspace.Path)
	for _, launch := range []func() *sandbox.Sandbox{sandbox.Launch, sandbox.LaunchInNetwork} {
		s := launch()
		time.Sleep(200 * time.Millisecond)
		if c := children(t); len(c) > 0 {
			t.Errorf("it has children: %v", c)
		}
		_, err := s.Run(t.Context(), sandbox.Spec{ID: "forgetful", Plan: p, Stdio: null()})
		var e *policy.Error
		if !errors.As(err, &e) || !strings.Contains(e.Hint, "sandbox.Init()") {
			t.Errorf("%v", err)
		}
		launch().Discard()
	}
	if _, err := sandbox.Run(t.Context(), sandbox.Spec{ID: "forgetful", Plan: p, Stdio: null()}); err == nil {
		t.Error("it ran")
	}
}

func children(t *testing.T) (list []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil || len(files) == 0 {
		t.Skip("this kernel does not list children")
	}
	for _, f := range files {
		b, _ := os.ReadFile(f)
		list = append(list, strings.Fields(string(b))...)
	}
	return list
}

// TestReapedElsewhere: a program that waits for whatever child comes, as the first process of a container does, takes init's
// status from the run.
func TestReapedElsewhere(t *testing.T) {
	if !again(t, "GOBOX_TEST_REAPER") {
		return
	}
	go func() {
		for {
			if _, err := unix.Wait4(-1, nil, 0, nil); err == unix.ECHILD {
				time.Sleep(100 * time.Microsecond)
			}
		}
	}()
	for name, want := range map[string]string{"exit 3": "exited 3 <nil>", "kill -9 $$": "signaled 0 <nil>", "sleep 60": "timeout 0 <nil>"} {
		p := plan("/bin/sh", "-c", name)
		defer os.RemoveAll(p.Workspace.Path)
		p.Limits.Timeout, p.Limits.Grace = time.Second, 0
		done := make(chan string, 1)
		go func() {
			res, err := sandbox.Run(context.Background(), sandbox.Spec{ID: "reaped", Plan: p, Stdio: null()})
			done <- fmt.Sprint(res.Outcome, " ", res.ExitCode, " ", err)
		}()
		select {
		case got := <-done:
			if got != want {
				t.Errorf("%s: %s", name, got)
			}
		case <-time.After(8 * time.Second):
			t.Errorf("%s: the run does not end", name)
		}
	}
}

// TestSignalsAreOnes: the process has its signals once. A second run at the same time is told so, and one after the other takes
// no more descriptors than the first.
func TestSignalsAreOnes(t *testing.T) {
	if !again(t, "GOBOX_TEST_SIGNALS") {
		return
	}
	p := plan("/bin/sleep", "60")
	defer os.RemoveAll(p.Workspace.Path)
	p.Limits.Grace = 0
	started := make(chan struct{})
	spec := sandbox.Spec{ID: "first", Plan: p, Stdio: null(), Signals: true, Observe: func(e sandbox.Event) {
		if e.Kind == "started" {
			close(started)
		}
	}}
	done := make(chan sandbox.Result, 1)
	go func() {
		res, err := sandbox.Run(context.Background(), spec)
		if err != nil {
			t.Error(err)
		}
		done <- res
	}()
	<-started
	watched, err := sandbox.WatchSignals()
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range []sandbox.Spec{{Signals: true}, {Watched: watched}} {
		other.ID, other.Plan, other.Stdio = "second", p, null()
		var e *policy.Error
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if res, err := sandbox.Run(ctx, other); !errors.As(err, &e) || e.Step != "signals" || e.Hint == "" {
			t.Errorf("%v %v", res.Outcome, err)
		}
	}
	if err := unix.Kill(os.Getpid(), unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case res := <-done:
		if res.Outcome != sandbox.Cancelled || res.Signal != unix.SIGTERM {
			t.Errorf("%+v", res)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the signal ends no run")
	}
	p.Exec.Argv, p.Exec.Path = []string{"/bin/true"}, "/bin/true"
	before := descriptors(t)
	for range 5 {
		if res, err := sandbox.Run(t.Context(), sandbox.Spec{ID: "next", Plan: p, Stdio: spec.Stdio, Signals: true}); err != nil || res.Outcome != sandbox.Exited {
			t.Fatal(res.Outcome, err)
		}
	}
	if after := descriptors(t); len(after) > len(before) {
		t.Errorf("%d descriptors, and %d before: %v", len(after), len(before), after)
	}
}

// descriptors says what this process has open.
func descriptors(t *testing.T) (list []string) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		to, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && !strings.HasPrefix(to, "/proc/") {
			list = append(list, e.Name()+" "+to)
		}
	}
	slices.Sort(list)
	return list
}

// TestSpecID: the id becomes part of names on this host.
func TestSpecID(t *testing.T) {
	p := plan("/bin/true")
	defer os.RemoveAll(p.Workspace.Path)
	for _, id := range []string{"", ".", "..", "../../x", "a/b", "a b", "a\nb", "-a", strings.Repeat("a", 65)} {
		var e *policy.Error
		if res, err := sandbox.Run(t.Context(), sandbox.Spec{ID: id, Plan: p, Stdio: null()}); !errors.As(err, &e) || e.Object != id || e.Hint == "" {
			t.Errorf("%q: %v %v", id, res.Outcome, err)
		}
	}
}

// TestSpecIDIsTaken: two runs at a time have names of their own on this host; one after the other may have the same.
func TestSpecIDIsTaken(t *testing.T) {
	p := plan("/bin/true")
	defer os.RemoveAll(p.Workspace.Path)
	spec := sandbox.Spec{ID: "taken", Plan: p, Stdio: null()}
	outer := spec
	outer.Observe = func(sandbox.Event) {
		var e *policy.Error
		if res, err := sandbox.Run(context.Background(), spec); !errors.As(err, &e) || e.Object != "taken" || e.Hint == "" {
			t.Errorf("%v %v", res.Outcome, err)
		}
	}
	for _, s := range []sandbox.Spec{outer, spec} {
		if res, err := sandbox.Run(t.Context(), s); err != nil || res.Outcome != sandbox.Exited {
			t.Errorf("%v %v", res.Outcome, err)
		}
	}
}
