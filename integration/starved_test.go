package integration

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"gobox/integration/harness"
)

// TestNoProcessesLeft: a user whose processes and threads are used up gets a refusal that says so, at whatever point gobox comes up
// against the limit, and never a trace of the Go runtime's.
func TestNoProcessesLeft(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		// As root a user that nobody else has, so that the limit is met at each point in turn; else at one that cannot be known.
		as := []string{}
		if b.UID == 0 {
			as = []string{"/usr/bin/setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups"}
		}
		refused, ran := 0, 0
		for n := 16; n <= 40; n += 2 {
			args := append(as, "/bin/bash", "-c", `ulimit -u $1; shift; for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 20 & done 2>/dev/null; "$@"; code=$?; kill $(jobs -p); exit $code`,
				b.Marker, itoa(n), b.Gobox, "run", "--workspace-mode", "none", "--", "/bin/sh", "-c", "exit 5")
			res := b.Run(t, harness.Run{Bin: args[0], Args: args[1:]})
			switch {
			case res.Code == 5:
				ran++
			case res.Code == 125 && strings.Contains(string(res.Stderr), "gobox: error: ") && strings.Contains(string(res.Stderr), "ulimit -u"):
				refused++
			case strings.Contains(string(res.Stderr), "bash: fork:"): // not even gobox could be started
			default:
				t.Errorf("%d processes: %v", n, res)
			}
		}
		if b.UID == 0 && (refused == 0 || ran == 0) {
			t.Errorf("%d refused, %d ran: the limit was not met on the way", refused, ran)
		}
		b.NoSurvivors(t)
	})
}

// TestTimerSlackIsTheCallers: that of the Go runtime's monitor thread is its own (cmd/gobox/starved.c), and the command's
// timers are as exact as outside.
func TestTimerSlackIsTheCallers(t *testing.T) {
	outside, err := os.ReadFile("/proc/self/timerslack_ns")
	if err != nil {
		t.Fatal(err)
	}
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		res := b.Run(t, harness.Run{Argv: []string{"/bin/cat", "/proc/self/timerslack_ns"}})
		if res.Code != 0 || !bytes.Equal(res.Stdout, outside) {
			t.Errorf("want %q, got %v", outside, res)
		}
	})
}
