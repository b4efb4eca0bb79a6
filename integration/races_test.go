package integration

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gobox/integration/harness"
)

// TestStartKillRaces ends gobox, or init beneath it, in every way at random moments, mostly while the sandbox is being
// built: nothing of it runs on, the workspace is as it was or as the command left it, and gc finds what a killed supervisor could
// not take away. GOBOX_RACES is how many for each identity.
func TestStartKillRaces(t *testing.T) {
	races := 40
	if text := os.Getenv("GOBOX_RACES"); text != "" {
		var err error
		if races, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		audit := filepath.Join(b.Dir, "audit")
		b.Mkdir(t, audit)
		canary := b.Canary(t, filepath.Join(b.Work, "canary.txt"))
		bin := b.Own(t, b.Gobox)
		name := "race-" + filepath.Base(b.Dir)
		// What a whole run takes here and now, so that most moments are in it.
		begin := time.Now()
		if res := b.Run(t, harness.Run{Bin: bin, Flags: []string{"--workspace-mode", "rw"}, Argv: []string{"/bin/true"}}); res.Code != 0 {
			t.Fatal(res)
		}
		whole := time.Since(begin)
		ways := []string{"KILL", "TERM", "INT", "STOP KILL", "init KILL", "init STOP, KILL"}
		crowd(races, 3, func(i int) {
			way := ways[i%len(ways)]
			id := fmt.Sprintf("%s-%d", name, i)
			cmd := b.Start(t, harness.Run{
				Bin: bin, Flags: []string{"--workspace-mode", "rw", "--audit", audit, "--run-id", id, "--timeout", "5s", "--grace", "100ms"},
				Argv: []string{"/bin/sh", "-c", "trap '' TERM INT; sleep 60 & echo x >>made; sleep 60", b.Marker},
			})
			moment := time.Duration(rand.Int64N(int64(whole)))
			time.Sleep(moment)
			send := func(names string, pids ...int) {
				for name := range strings.FieldsSeq(names) {
					for _, pid := range pids {
						_ = syscall.Kill(pid, map[string]syscall.Signal{"KILL": syscall.SIGKILL, "TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "STOP": syscall.SIGSTOP}[name])
					}
				}
			}
			toInit, below := strings.CutPrefix(way, "init ")
			if below {
				var toGobox string
				toInit, toGobox, _ = strings.Cut(toInit, ", ")
				for _, pid := range children(cmd.Process.Pid) {
					// Not what is between clone and execve, which has not asked yet to die with gobox: once it is stopped it
					// asks, and ends, when somebody lets it go on.
					if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.HasPrefix(string(line), "gobox-init") {
						send(toInit, pid)
					}
				}
				send(toGobox, cmd.Process.Pid)
			} else {
				send(way, cmd.Process.Pid)
			}
			// Its own clock, 5 s from the start, ends what no signal has; a start on a loaded machine takes seconds.
			late := time.AfterFunc(40*time.Second, func() { _ = cmd.Process.Kill() })
			_ = cmd.Wait()
			if !late.Stop() {
				t.Errorf("%s after %v: gobox still ran after 40 s", way, moment)
			}
			want := []int{128 + int(syscall.SIGKILL)}
			switch {
			case way == "TERM":
				want = []int{143}
			case way == "INT":
				want = []int{130}
			case way == "init KILL": // not found yet, before the start, or while it runs
				want = []int{124, 125, 137}
			}
			if code := harness.ExitCode(cmd.ProcessState); !slices.Contains(want, code) {
				t.Errorf("%s after %v: exit %d, want %v", way, moment, code, want)
			}
		})
		b.NoSurvivors(t)
		canary.Unchanged(t)
		gc(t, b, audit)
		if left := cgroupsOf(name); len(left) > 0 {
			t.Errorf("%d cgroups left after gc: %v", len(left), left[0])
			for _, path := range left {
				_ = os.Remove(path)
			}
		}
		if left := b.Mounts(); len(left) > 0 {
			t.Errorf("mounts left: %v", left)
		}
		if got := names(t, b.Work); got != "canary.txt" && got != "canary.txt made" {
			t.Errorf("the workspace holds %q", got)
		}
	})
}
