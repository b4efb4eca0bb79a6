package sandbox_test

import (
	"context"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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
			fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
			defer theirs.Close()
			done := make(chan struct{})
			go func() {
				defer close(done)
				for buf := make([]byte, 1<<16); ; {
					if _, err := ours.Write(buf); err != nil {
						return
					}
				}
			}()
			spec := sandbox.Spec{ID: "flood", Plan: plan("/bin/sh", "-c", "while :; do :; done"), Stdio: null(), Control: theirs}
			defer os.RemoveAll(spec.Plan.Workspace.Path)
			set(&spec)
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			res, err := sandbox.Run(ctx, spec)
			if err != nil || res.Outcome != sandbox.TimedOut && res.Outcome != sandbox.CPUTime {
				t.Errorf("%s after %v, %v", res.Outcome, res.Wall, err)
			}
			t.Logf("%s after %v", res.Outcome, res.Wall)
			_ = unix.Shutdown(fds[1], unix.SHUT_RDWR)
			<-done
			ours.Close()
		})
	}
}
