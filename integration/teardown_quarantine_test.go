package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"gobox/integration/harness"
	"gobox/record"
)

// freezer makes a cgroup of version 1's freezer, which holds a process so that not even SIGKILL ends it, and gives what puts a process
// in and what lets all go again.
func freezer(t *testing.T, b *harness.Box) (hold func(pid int), thaw func()) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	at := regexp.MustCompile(`(?m)^\S+ (\S+) cgroup rw\S*\bfreezer\b`).FindSubmatch(mounts)
	if b.UID != 0 || at == nil {
		t.Skip("no freezer of cgroup version 1 for this identity, by which to have a process that SIGKILL does not end")
	}
	dir := filepath.Join(string(at[1]), "held-"+b.Marker)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skip("no cgroup can be made: ", err)
	}
	set := func(file, value string) {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() {
		set("freezer.state", "THAWED")
		for range 100 {
			if err = os.Remove(dir); err == nil {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Error(err)
	})
	return func(pid int) { set("cgroup.procs", itoa(pid)); set("freezer.state", "FROZEN") }, func() { set("freezer.state", "THAWED") }
}

// TestQuarantine: what cannot be ended is said, kept out of use, closes the gate of a policy that insists on records, and is cleaned
// up once it can be.
func TestQuarantine(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		hold, thaw := freezer(t, b)
		state, file := audited(t, b, "state"), resultFile(t, b)
		policy := b.File(t, filepath.Join(b.Dir, "policy/insistent.yaml"), "version: 1\nname: insistent\naudit: {required: true}\n")
		run := harness.Run{
			Flags: []string{"--policy", policy, "--audit", state, "--result", file, "--timeout", "2s", "--grace", "100ms"},
			Argv:  []string{b.Probe, "sleep", "60s", b.Marker},
		}
		cmd := b.Start(t, run)
		waitFor(t, "the command", func() bool { return inside(b, "sleep 60s") == 1 })
		gobox := cmd.Process.Pid
		commands := children(initOf(t, gobox))
		if len(commands) != 1 {
			t.Fatalf("init has the children %v", commands)
		}
		sweeping.Lock()
		defer sweeping.Unlock()
		hold(commands[0])
		res, rec := endOf(t, cmd, file)
		if res.Code != 124 || rec.Outcome != record.TimedOut || rec.WallMS > 10_000 {
			t.Errorf("outcome %s after %d ms, %v", rec.Outcome, rec.WallMS, res)
		}
		if d := rec.Teardown; d.Destroyed || !d.Quarantined || len(d.Survivors) == 0 {
			t.Errorf("%+v", d)
		}
		clean := func() (record.Cleaned, int) {
			res := b.Run(t, harness.Run{Args: []string{"runs", "gc", "--json", "--audit", state}})
			var done record.Cleaned
			if err := json.Unmarshal(res.Stdout, &done); err != nil {
				t.Errorf("%v, %v", err, res)
			}
			return done, res.Code
		}
		if done, code := clean(); code != 1 || len(done.Destroyed) > 0 || inside(b, "sleep 60s") != 1 {
			t.Errorf("gc: exit %d, %+v", code, done)
		}
		again := b.Run(t, run)
		if again.Code != 125 || !strings.Contains(string(again.Stderr), "quarantine") {
			t.Errorf("the gate is open: %v", again)
		}
		thaw()
		b.NoSurvivors(t)
		if done, code := clean(); code != 0 || len(done.Destroyed) != 1 || done.Destroyed[0] != rec.RunID {
			t.Errorf("gc: exit %d, %+v", code, done)
		}
		if left, _ := filepath.Glob(filepath.Join(state, "quarantine", "*")); len(left) > 0 {
			t.Errorf("still in quarantine: %v", left)
		}
		// The gate stays closed until somebody opens it.
		if res := b.Run(t, run); res.Code != 125 {
			t.Errorf("%v", res)
		}
		if res := b.Run(t, harness.Run{Args: []string{"runs", "gate", "--clear", "--audit", state}}); res.Code != 0 {
			t.Errorf("%v", res)
		}
		run.Argv = []string{b.Probe, "raw", "exit", "5"}
		if res := b.Run(t, run); res.Code != 5 {
			t.Errorf("%v", res)
		}
	})
}

// TestSlowEndIsNoQuarantine: what takes seconds to be gone, as on a host with too much to do, is waited for.
func TestSlowEndIsNoQuarantine(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		hold, thaw := freezer(t, b)
		file := resultFile(t, b)
		cmd := b.Start(t, harness.Run{Flags: []string{"--result", file, "--timeout", "2s", "--grace", "100ms"}, Argv: []string{b.Probe, "sleep", "60s", b.Marker}})
		waitFor(t, "the command", func() bool { return inside(b, "sleep 60s") == 1 })
		commands := children(initOf(t, cmd.Process.Pid))
		if len(commands) != 1 {
			t.Fatalf("init has the children %v", commands)
		}
		hold(commands[0])
		time.AfterFunc(5*time.Second, thaw)
		res, rec := endOf(t, cmd, file)
		judged(t, res, rec, 124, record.TimedOut, "timeout")
		if rec.Teardown.DurationMS < 1000 {
			t.Errorf("it was gone after %.0f ms: nothing is proven", rec.Teardown.DurationMS)
		}
		b.NoSurvivors(t)
	})
}
