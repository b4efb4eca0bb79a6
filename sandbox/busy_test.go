package sandbox_test

import (
	"context"
	"os"
	"testing"
	"time"

	"gobox/sandbox"
)

// A control descriptor that always has something to read must not keep the supervisor from looking at its clock, nor at what
// the command uses.
func TestLimitsHoldUnderFlood(t *testing.T) {
	for name, set := range map[string]func(*sandbox.Spec){
		"timeout":  func(s *sandbox.Spec) { s.Plan.Limits.Timeout = 300 * time.Millisecond },
		"cpu time": func(s *sandbox.Spec) { s.Plan.Limits.CPUTime = 300 * time.Millisecond },
	} {
		t.Run(name, func(t *testing.T) {
			always, err := os.Open("/dev/zero")
			if err != nil {
				t.Fatal(err)
			}
			defer always.Close()
			spec := sandbox.Spec{ID: "flood", Plan: plan("/bin/sh", "-c", "while :; do :; done"), Stdio: null(), Control: always}
			defer os.RemoveAll(spec.Plan.Workspace.Path)
			spec.Plan.Limits.Grace = time.Minute // init's own clock waits for the end of that
			set(&spec)
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			res, err := sandbox.Run(ctx, spec)
			if err != nil || res.Outcome != sandbox.TimedOut && res.Outcome != sandbox.CPUTime {
				t.Errorf("%s after %v, %v", res.Outcome, res.Wall, err)
			}
		})
	}
}
