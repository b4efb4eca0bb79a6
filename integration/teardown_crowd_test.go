package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gobox/integration/harness"
	"gobox/record"
)

// cgroupsOf lists the cgroups whose name has the text, in every hierarchy.
func cgroupsOf(text string) []string {
	var found []string
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.Contains(d.Name(), text) {
			found = append(found, path)
		}
		return nil
	})
	return found
}

// sweeping keeps the one test whose gobox has ended and whose command cannot be ended from all that clean up: root's gc sees to every
// cgroup that a gobox has left behind.
var sweeping sync.RWMutex

// gc runs `gobox runs gc` over the state folder.
func gc(t *testing.T, b *harness.Box, state string, flags ...string) record.Cleaned {
	t.Helper()
	sweeping.RLock()
	res := b.Run(t, harness.Run{Args: append([]string{"runs", "gc", "--json", "--audit", state}, flags...)})
	sweeping.RUnlock()
	var done record.Cleaned
	if err := json.Unmarshal(res.Stdout, &done); err != nil || res.Code != 0 || len(done.Problems) > 0 {
		t.Errorf("runs gc: %v, %v", err, res)
	}
	return done
}

// crowd calls one at most atOnce times at a time.
func crowd(n, atOnce int, one func(i int)) {
	next := make(chan int)
	var workers sync.WaitGroup
	for range atOnce {
		workers.Go(func() {
			for i := range next {
				one(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	workers.Wait()
}

// crowded is held by whoever has hundreds of runs at the same time.
var crowded sync.Mutex

// many is 200, and 40 on an emulated processor with little memory (GOBOX_SLOW).
func many() int {
	if os.Getenv("GOBOX_SLOW") != "" {
		return 40
	}
	return 200
}

// TestManyRunsLeaveNothing: many runs, all there at the same time, each with its own record.
func TestManyRunsLeaveNothing(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		crowded.Lock()
		defer crowded.Unlock()
		const atOnce = 8
		n := many()
		audit := filepath.Join(b.Dir, "audit")
		b.Mkdir(t, audit)
		name := strings.NewReplacer("marker-gobox-suite-", "m").Replace(b.Marker)
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
		defer cancel()
		runs, ins, outs := make([]*exec.Cmd, n), make([]io.WriteCloser, n), make([]*bufio.Reader, n)
		crowd(n, atOnce, func(i int) {
			id := fmt.Sprintf("%s-%d", name, i)
			cmd := b.Command(ctx, harness.Run{
				Flags: []string{"--audit", audit, "--run-id", id, "--capture", "--memory", "256M", "--timeout", "5m"},
				Argv:  []string{"/bin/sh", "-c", "echo $1; sleep 600 & read word; exit $2", b.Marker, id, itoa(i % 5)},
			})
			in, err := cmd.StdinPipe()
			out, err2 := cmd.StdoutPipe()
			if err := errors.Join(err, err2, cmd.Start()); err != nil {
				t.Error(err)
				return
			}
			runs[i], ins[i], outs[i] = cmd, in, bufio.NewReader(out)
			if line, err := outs[i].ReadString('\n'); line != id+"\n" {
				t.Errorf("%s: %q, %v", id, line, err)
			}
		})
		if there := inside(b, "read word"); there != n && !t.Failed() {
			t.Errorf("%d commands at the same time", there)
		}
		crowd(n, atOnce, func(i int) {
			id := fmt.Sprintf("%s-%d", name, i)
			if runs[i] == nil {
				return
			}
			ins[i].Close()
			rest, _ := io.ReadAll(outs[i])
			_ = runs[i].Wait()
			res := harness.Result{Stdout: rest, Code: harness.ExitCode(runs[i].ProcessState)}
			rec := readResult(t, filepath.Join(audit, "runs", id, "result.json"), res)
			judged(t, res, rec, i%5, record.Exited, "")
			if captured, err := os.ReadFile(filepath.Join(audit, "runs", id, "stdout")); err != nil || string(captured) != id+"\n" || len(rest) > 0 || rec.RunID != id {
				t.Errorf("%s: captured %q, got %q more, %v, run %s", id, captured, rest, err, rec.RunID)
			}
		})
		nothingLeft(t, b, name)
		if done := gc(t, b, audit); len(done.Crashed)+len(done.Quarantined)+len(done.Destroyed) > 0 {
			t.Errorf("%+v", done)
		}
		entries, err := os.ReadDir(filepath.Join(audit, "runs"))
		if err != nil || len(entries) != n {
			t.Errorf("%d records, %v", len(entries), err)
		}
	})
}

func nothingLeft(t *testing.T, b *harness.Box, name string) {
	t.Helper()
	b.NoSurvivors(t)
	if left := b.Mounts(); len(left) > 0 {
		t.Errorf("mounts left: %v", left)
	}
	if left := cgroupsOf(name); len(left) > 0 {
		t.Errorf("%d cgroups left: %v", len(left), left[0])
	}
	if left, _ := filepath.Glob(filepath.Join(b.Dir, "results", ".*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestR16KilledMidRun kills gobox while the command runs: the command is gone with it, gc removes the rest, and
// nothing of it is used again.
func TestR16KilledMidRun(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		audit := filepath.Join(b.Dir, "audit")
		b.Mkdir(t, audit)
		id := strings.NewReplacer("marker-gobox-suite-", "r").Replace(b.Marker)
		run := harness.Run{Flags: []string{"--audit", audit, "--run-id", id}, Argv: []string{b.Probe, "sleep", "60s", b.Marker}}
		cmd := b.Start(t, run)
		waitFor(t, "the command to start", func() bool { return inside(b, "sleep 60s") > 0 })
		if busy := gc(t, b, audit); len(busy.Crashed) > 0 || inside(b, "sleep 60s") == 0 {
			t.Errorf("gc touched a run under way: %+v", busy)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		b.NoSurvivors(t)
		before := cgroupsOf(id)
		res := b.Run(t, run)
		if res.Code != 125 || !strings.Contains(string(res.Stderr), id) {
			t.Errorf("the id of a crashed run was taken again: %v", res)
		}
		dry := gc(t, b, audit, "--dry-run")
		if len(dry.Crashed) != 1 || len(cgroupsOf(id)) != len(before) {
			t.Errorf("%+v, %v", dry, before)
		}
		done := gc(t, b, audit)
		if len(done.Crashed) != 1 || done.Crashed[0] != id {
			t.Errorf("%+v", done)
		}
		if left := cgroupsOf(id); len(left) > 0 {
			t.Errorf("cgroups left: %v", left)
		}
		show := b.Run(t, harness.Run{Args: []string{"runs", "show", id, "--json", "--audit", audit}})
		if !strings.Contains(string(show.Stdout), `"crashed"`) {
			t.Errorf("%v", show)
		}
	})
}
