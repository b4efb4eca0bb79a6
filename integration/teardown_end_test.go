package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gobox/integration/harness"
	"gobox/record"
)

// started runs gobox with a result in the background, until the probe runs inside with these words.
func startRecorded(t *testing.T, b *harness.Box, words string, r harness.Run) (pid int, end func() (harness.Result, *record.Result)) {
	t.Helper()
	file := resultFile(t, b)
	r.Flags = append([]string{"--result", file}, r.Flags...)
	before := inside(b, words)
	cmd := b.Start(t, r)
	waitFor(t, "the command to start", func() bool { return inside(b, words) > before })
	begin := time.Now()
	return cmd.Process.Pid, func() (harness.Result, *record.Result) {
		t.Helper()
		late := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		if !late.Stop() {
			t.Fatal("gobox does not end")
		}
		res := harness.Result{Code: harness.ExitCode(cmd.ProcessState), Duration: time.Since(begin)}
		return res, readResult(t, file, res)
	}
}

// initOf finds the init of a gobox among its children.
func initOf(t *testing.T, pid int) int {
	t.Helper()
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, path := range tasks {
		data, _ := os.ReadFile(path)
		for _, field := range strings.Fields(string(data)) {
			child, _ := strconv.Atoi(field)
			if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child)); strings.HasPrefix(string(line), "gobox-init") {
				return child
			}
		}
	}
	t.Fatal("no init")
	return 0
}

// TestWatchdogs: a supervisor that is stopped, and an init that is killed or stopped, each leave the other to end it all.
func TestWatchdogs(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		sleep := []string{b.Probe, "sleep", "60s", b.Marker}
		limits := []string{"--timeout", "1s", "--grace", "200ms"}

		pid, end := startRecorded(t, b, "sleep 60s", harness.Run{Flags: limits, Argv: sleep})
		kill(t, pid, syscall.SIGSTOP)
		waitFor(t, "the end under a stopped supervisor", func() bool { return inside(b, "sleep 60s") == 0 })
		kill(t, pid, syscall.SIGCONT)
		res, rec := end()
		judged(t, res, rec, 124, record.TimedOut, "timeout")

		pid, end = startRecorded(t, b, "sleep 60s", harness.Run{Argv: sleep})
		kill(t, initOf(t, pid), syscall.SIGKILL)
		res, rec = end()
		judged(t, res, rec, 137, record.Signaled, "")
		if rec.Signal != "SIGKILL" || rec.ExitCode != nil {
			t.Errorf("signal %q, exit code %v", rec.Signal, rec.ExitCode)
		}

		// Time enough to find init in, on a loaded machine.
		pid, end = startRecorded(t, b, "sleep 60s", harness.Run{Flags: []string{"--timeout", "4s", "--grace", "200ms"}, Argv: sleep})
		kill(t, initOf(t, pid), syscall.SIGSTOP)
		res, rec = end()
		judged(t, res, rec, 124, record.TimedOut, "timeout")
		if res.Duration > 8*time.Second {
			t.Errorf("%v", res)
		}
		b.NoSurvivors(t)
	})
}

func kill(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
}

// TestCancelled: by INT and TERM, with a command that obeys, one that does not, and one that is stopped.
func TestCancelled(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for _, c := range []struct {
			sig    syscall.Signal
			code   int
			script string
		}{
			{syscall.SIGINT, 130, ""},
			{syscall.SIGTERM, 143, ""},
			{syscall.SIGTERM, 143, "trap '' TERM INT HUP; "},
			{syscall.SIGINT, 130, "trap 'exit 0' INT; "},
			{syscall.SIGTERM, 143, "kill -STOP $$; "},
		} {
			script := c.script + b.Probe + " sleep 60s " + b.Marker + " & " + c.script + " while :; do wait; sleep 0.1; done"
			pid, end := startRecorded(t, b, "sleep 60s", harness.Run{Flags: []string{"--grace", "300ms"}, Argv: []string{"/bin/sh", "-c", script}})
			kill(t, pid, c.sig)
			res, rec := end()
			judged(t, res, rec, c.code, record.Cancelled, "")
			if want := map[syscall.Signal]string{syscall.SIGINT: "SIGINT", syscall.SIGTERM: "SIGTERM"}[c.sig]; rec.Signal != want || rec.ExitCode != nil {
				t.Errorf("%q: signal %q, exit code %v", c.script, rec.Signal, rec.ExitCode)
			}
			if res.Duration > 5*time.Second {
				t.Errorf("%q: %v", c.script, res)
			}
		}
		b.NoSurvivors(t)
	})
}

// TestP08P09P13Outcomes: what resists is ended all the same, and on record.
func TestP08P09P13Outcomes(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		limits := []string{"--timeout", "1s", "--grace", "200ms", "--pids", "40"}
		for name, argv := range map[string][]string{
			"P08 ignores": {"/bin/sh", "-c", "trap '' TERM INT HUP; while :; do sleep 0.05; done"},
			"P08 stops":   {"/bin/sh", "-c", b.Probe + " sleep 60s & kill -STOP -1; kill -STOP $$"},
			"P09 bomb":    {b.Probe, "raw", "bomb"},
			"P13 zombies": {b.Probe, "raw", "zombies", "400"},
			"P14 pipes":   {"/bin/bash", "-c", "f() { f | f & }; f 2>/dev/null; while :; do sleep 1; done 2>/dev/null"},
		} {
			res, rec := recorded(t, b, harness.Run{Flags: limits, Argv: append(argv, b.Marker)})
			hit := "timeout"
			if limitOf(t, rec, "pids").Triggered { // where that can be known
				hit = "timeout pids"
			}
			if res.Code != 124 || rec.Outcome != record.TimedOut || rec.WallMS > 4000 {
				t.Errorf("%s: exit %d outcome %s after %d ms, limits %s", name, res.Code, rec.Outcome, rec.WallMS, hit)
			}
			if rec.Usage.PeakProcesses > 40 {
				t.Errorf("%s: %d processes", name, rec.Usage.PeakProcesses)
			}
			destroyed(t, rec)
			b.NoSurvivors(t)
		}
	})
}

// TestP06P07Outcomes: what outlives the command ends with it.
func TestP06P07Outcomes(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		res, rec := recorded(t, b, harness.Run{Argv: []string{b.Probe, "daemon", "/tmp/heartbeat", b.Marker}})
		judged(t, res, rec, 0, record.Exited, "")
		res, rec = recorded(t, b, harness.Run{Argv: []string{"/bin/sh", "-c", b.Probe + " sleep 60s " + b.Marker + " & exit 6"}})
		judged(t, res, rec, 6, record.Exited, "")
		if res.Duration > 10*time.Second {
			t.Errorf("%v", res)
		}
		b.NoSurvivors(t)
	})
}

// TestP12Orphans: init reaps hundreds, and they do not stay in the way of a limit.
func TestP12Orphans(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		rep := b.Inside(t, []string{"--pids", "100"}, "orphans 300")
		if o := rep.Of(t, "orphans 300"); o.Errno != "" || o.Ret != 0 {
			t.Errorf("%+v", o)
		}
	})
}

// TestP19Records: each way to end has its own words.
func TestP19Records(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for _, c := range []struct {
			argv    []string
			code    int
			outcome record.Outcome
			signal  string
		}{
			{[]string{b.Probe, "raw", "exit", "0"}, 0, record.Exited, ""},
			{[]string{b.Probe, "raw", "exit", "1"}, 1, record.Exited, ""},
			{[]string{b.Probe, "raw", "exit", "124"}, 124, record.Exited, ""},
			{[]string{b.Probe, "raw", "exit", "125"}, 125, record.Exited, ""},
			{[]string{b.Probe, "raw", "exit", "137"}, 137, record.Exited, ""},
			{[]string{b.Probe, "raw", "exit", "255"}, 255, record.Exited, ""},
			{[]string{"/bin/sh", "-c", "kill -SEGV $$"}, 139, record.Signaled, "SIGSEGV"},
			{[]string{"/bin/sh", "-c", "kill -ABRT $$"}, 134, record.Signaled, "SIGABRT"},
			{[]string{"/bin/sh", "-c", "kill -KILL $$"}, 137, record.Signaled, "SIGKILL"},
			{[]string{"/bin/sh", "-c", "kill -TERM $$"}, 143, record.Signaled, "SIGTERM"},
			{[]string{"/bin/sh", "-c", "kill -34 $$"}, 162, record.Signaled, "signal 34"},
		} {
			res, rec := recorded(t, b, harness.Run{Argv: c.argv})
			judged(t, res, rec, c.code, c.outcome, "")
			if c.outcome == record.Exited && (rec.ExitCode == nil || *rec.ExitCode != c.code) || c.outcome != record.Exited && rec.ExitCode != nil || rec.Signal != c.signal {
				t.Errorf("%v: exit code %v, signal %q", c.argv, rec.ExitCode, rec.Signal)
			}
			// A caller that ignores SIGCHLD, or got it blocked, hears the same.
			for _, option := range []string{"ignore=SIGCHLD", "block=SIGCHLD"} {
				again := b.Run(t, harness.Run{Bin: b.Probe, Args: append([]string{"raw", "launch", option, "--", b.Gobox, "run", "--rox", filepath.Dir(b.Probe), "--"}, c.argv...)})
				if again.Code != c.code {
					t.Errorf("%v with %s: %v", c.argv, option, again)
				}
			}
		}
	})
}
