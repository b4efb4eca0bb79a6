package integration

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gobox/integration/harness"
	"gobox/record"
)

// TestSoakNetwork: any number of bytes goes through one connection, and a thousand connections are there at once, in a gobox that stays
// small. The echo is one of the test's own internet.
func TestSoakNetwork(t *testing.T) {
	size, long := soak()
	const connections = 1000
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		if long {
			crowded.Lock()
			defer crowded.Unlock()
		}
		for _, c := range []struct {
			name, want string
			argv       []string
			limit      int // KiB
		}{
			{"one connection", fmt.Sprintf("back %d\n", size), []string{"pump", "web.example.org:7000", fmt.Sprint(size)}, flat + 16<<10},
			{"a thousand", fmt.Sprintf("answered %d\n", connections), []string{"many", "web.example.org:7000", fmt.Sprint(connections)}, flat + 32<<10},
		} {
			t.Run(c.name, func(t *testing.T) {
				file := resultFile(t, b)
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
				defer cancel()
				cmd, _ := b.OnlineCommand(ctx, t, harness.Run{
					Flags: []string{"--result", file, "--allow-net", "web.example.org:7000", "--timeout", "19m", "--nofile", "4096"},
					Argv:  append([]string{b.Probe, "raw"}, c.argv...),
				})
				var stdout, stderr bytes.Buffer
				cmd.Stdout, cmd.Stderr = &stdout, &stderr
				begin := time.Now()
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				done := make(chan struct{})
				go func() { _ = cmd.Wait(); close(done) }()
				peak := largest(goboxBelow(cmd.Process.Pid, done))
				<-done
				took := time.Since(begin)
				res := harness.Result{Code: harness.ExitCode(cmd.ProcessState), Stdout: stdout.Bytes(), Stderr: stderr.Bytes()}
				rec := readResult(t, file, res)
				judged(t, res, rec, 0, record.Exited, "")
				if stdout.String() != c.want {
					t.Errorf("want %q: %v", c.want, res)
				}
				hwm := <-peak
				t.Logf("%v in %v, the supervisor's VmHWM %d KiB", rec.Network, took.Round(10*time.Millisecond), hwm)
				if hwm == 0 || hwm > c.limit {
					t.Errorf("gobox grew to %d KiB", hwm)
				}
			})
		}
	})
}

// goboxBelow waits for the gobox that a testnet starts, and gives its pid, 0 when that is over before.
func goboxBelow(pid int, over <-chan struct{}) int {
	for {
		for _, child := range children(pid) {
			if exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", child)); strings.HasPrefix(filepath.Base(exe), "gobox") {
				return child
			}
		}
		select {
		case <-over:
			return 0
		case <-time.After(2 * time.Millisecond):
		}
	}
}
