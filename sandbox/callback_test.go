package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"gobox/policy"
	"gobox/sandbox"
)

// TestCallbackPanics: a callback that panics, or ends its goroutine as t.FailNow does, leaves nothing of the run behind.
func TestCallbackPanics(t *testing.T) {
	boom := func() { panic("boom") }
	on := func(kind string, do func()) func(*sandbox.Spec) {
		return func(s *sandbox.Spec) {
			s.Observe = func(e sandbox.Event) {
				if string(e.Kind) == kind {
					do()
				}
			}
		}
	}
	for name, set := range map[string]func(s *sandbox.Spec){
		"started":   on("started", boom),
		"ended":     on("ended", boom),
		"destroyed": on("destroyed", boom),
		"goexit":    on("started", runtime.Goexit),
		"sent":      func(s *sandbox.Spec) { s.Sent = boom },
		"hold":      func(s *sandbox.Spec) { s.Hold = func([]string, []policy.Guard) error { boom(); return nil } },
		"changes":   func(s *sandbox.Spec) { s.Changes = func(*os.File, sandbox.Result) error { boom(); return nil } },
	} {
		t.Run(name, func(t *testing.T) {
			scratch := t.TempDir()
			p := policy.Default()
			p.Argv, p.Scratch = []string{"/bin/sh", "-c", "i=0; while :; do i=$((i+1)); echo > f$i; done"}, scratch
			p.Workspace = policy.Workspace{Path: t.TempDir(), Mode: policy.ModeOverlay, Explicit: true}
			p.Timeout, p.Grace = 500*time.Millisecond, 0
			plan, err := policy.Resolve(p, policy.CurrentHost())
			if err != nil {
				t.Fatal(err)
			}
			stdio := null()
			defer stdio.In.Close()
			spec := sandbox.Spec{ID: "panics", Plan: plan, Stdio: stdio}
			set(&spec)
			settled := func() ([]string, int) {
				runtime.GC()
				runtime.GC()
				time.Sleep(20 * time.Millisecond)
				return descriptors(t), runtime.NumGoroutine()
			}
			before, goroutines := settled()
			done := make(chan string, 1)
			go func() {
				got := "goexit"
				defer func() {
					if r := recover(); r != nil {
						got = fmt.Sprint(r)
					}
					done <- got
				}()
				res, err := sandbox.Run(context.Background(), spec)
				got = fmt.Sprint(res.Outcome, err)
			}()
			select {
			case got := <-done:
				if want := map[bool]string{true: "goexit", false: "boom"}[name == "goexit"]; got != want {
					t.Error(got)
				}
			case <-time.After(20 * time.Second):
				t.Fatal("Run does not end")
			}
			for end := time.Now().Add(5 * time.Second); ; {
				after, now := settled()
				if len(after) <= len(before) && now <= goroutines {
					break
				}
				if time.Now().After(end) {
					t.Errorf("%d goroutines, and %d before; %d descriptors, and %d before: %v", now, goroutines, len(after), len(before), after)
					break
				}
			}
			if list, err := os.ReadDir(scratch); err != nil || len(list) > 0 {
				t.Errorf("left in --scratch: %v %v", list, err)
			}
			if c := children(t); len(c) > 0 {
				t.Errorf("children are left: %v", c)
			}
		})
	}
}

// TestCallbackRuns: a callback may run sandboxes itself.
func TestCallbackRuns(t *testing.T) {
	p := plan("/bin/true")
	defer os.RemoveAll(p.Workspace.Path)
	inner := 0
	spec := sandbox.Spec{ID: "outer", Plan: p, Stdio: null(), Observe: func(sandbox.Event) {
		res, err := sandbox.Run(context.Background(), sandbox.Spec{ID: "inner", Plan: p, Stdio: null()})
		if err != nil || res.Outcome != sandbox.Exited {
			t.Errorf("%v %v", res.Outcome, err)
		}
		inner++
	}}
	if res, err := sandbox.Run(t.Context(), spec); err != nil || res.Outcome != sandbox.Exited || inner == 0 {
		t.Errorf("%v %v, and %d inside", res.Outcome, err, inner)
	}
}

// TestSandboxRunsOnce: what has run, or was discarded, has descriptors no more, whose numbers may be somebody else's.
func TestSandboxRunsOnce(t *testing.T) {
	p := plan("/bin/true")
	defer os.RemoveAll(p.Workspace.Path)
	spec := sandbox.Spec{ID: "once", Plan: p, Stdio: null()}
	used, discarded := sandbox.Launch(), sandbox.Launch()
	if _, err := used.Run(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	discarded.Discard()
	for name, s := range map[string]*sandbox.Sandbox{"run": used, "discarded": discarded} {
		var e *policy.Error
		if res, err := s.Run(t.Context(), spec); !errors.As(err, &e) || e.Hint != "sandbox.Launch starts another" {
			t.Errorf("%s: %v %v", name, res.Outcome, err)
		}
		s.Discard()
	}
}
