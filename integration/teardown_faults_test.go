package integration

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gobox/integration/harness"
	"gobox/record"
)

// TestKilledRunsAreSweptUp ends gobox at many random moments: gc finds what was left, and no
// result was ever half there.
func TestKilledRunsAreSweptUp(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		const atOnce = 4
		n := many()
		audit := filepath.Join(b.Dir, "audit")
		b.Mkdir(t, audit)
		b.Mkdir(t, filepath.Join(b.Dir, "results"))
		name := strings.NewReplacer("marker-gobox-suite-", "k").Replace(b.Marker)
		// How long a run takes with so many beside it, on a machine that may have other things to do.
		argv := []string{"/bin/sh", "-c", "sleep 0.03; exit 3", b.Marker}
		begin := time.Now()
		crowd(3*atOnce, atOnce, func(int) {
			b.Run(t, harness.Run{Flags: []string{"--audit", filepath.Join(b.Dir, "results")}, Argv: argv})
		})
		whole := time.Since(begin) / 3
		crowd(n, atOnce, func(i int) {
			id := fmt.Sprintf("%s-%d", name, i)
			file := filepath.Join(b.Dir, "results", id)
			cmd := b.Start(t, harness.Run{
				Flags: []string{"--audit", audit, "--run-id", id, "--result", file},
				Argv:  argv,
			})
			// Half of them while the sandbox is being built.
			time.Sleep(time.Duration(rand.Int64N(int64(whole) / []int64{4, 1}[i%2])))
			_ = cmd.Process.Signal(syscall.SIGKILL)
			_ = cmd.Wait()
			for _, path := range []string{file, filepath.Join(audit, "runs", id, "result.json")} {
				if _, err := os.Stat(path); err == nil {
					if rec := readResult(t, path, id); rec.Outcome != record.Exited || rec.RunID != id {
						t.Errorf("%s: %+v", path, rec)
					}
				}
			}
		})
		b.NoSurvivors(t)
		crashed := gc(t, b, audit).Crashed
		if len(crashed) == 0 {
			t.Error("no run crashed")
		}
		if left := cgroupsOf(name); len(left) > 0 {
			t.Errorf("%d cgroups left after gc: %v", len(left), left[0])
			for _, path := range left {
				_ = os.Remove(path)
			}
		}
		if left, _ := filepath.Glob(filepath.Join(b.Dir, "results", ".*")); len(left) > 0 {
			t.Logf("%d unfinished result files are left beside their places", len(left))
		}
		if again := gc(t, b, audit); len(again.Crashed) > 0 {
			t.Errorf("crashed again: %+v", again)
		}
		gc(t, b, audit, "--older-than", "1ms")
		if entries, err := os.ReadDir(filepath.Join(audit, "runs")); err != nil || len(entries) != 0 {
			t.Errorf("%d records, %v", len(entries), err)
		}
	})
}

// TestExecFailedIsOnRecord: also when nothing could be started.
func TestExecFailedIsOnRecord(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		plain := b.File(t, filepath.Join(b.Work, "plain"), "#!/bin/sh\nexit 0\n")
		for _, c := range []struct {
			argv []string
			code int
		}{{[]string{plain}, 126}, {[]string{"/nonexistent/command"}, 127}} {
			res, rec := recorded(t, b, harness.Run{Argv: c.argv})
			judged(t, res, rec, c.code, record.ExecFailed, "")
			if rec.ExitCode != nil || rec.Error == nil || rec.Error.Message == "" {
				t.Errorf("%v: %+v", c.argv, rec)
			}
		}
	})
}
