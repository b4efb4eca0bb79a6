package integration

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"gobox/integration/harness"
	"gobox/record"
)

// burning is a script that has a process in a session of its own burn CPU time, and goes on with then once that has begun.
func burning(then string) []string {
	burn := "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; : >/tmp/burnt; while :; do :; done"
	return []string{"/bin/sh", "-c", "trap '' TERM; setsid sh -c '" + burn + "' & while [ ! -e /tmp/burnt ]; do sleep 0.05; done; " + then}
}

// burnt holds a record to what a command of burning took at least.
func burnt(t *testing.T, rec *record.Result, outcome record.Outcome) {
	t.Helper()
	if rec.Outcome != outcome {
		t.Errorf("outcome %s, want %s", rec.Outcome, outcome)
	}
	if u := rec.Usage; u.CPUUserMS+u.CPUSystemMS < 100 || u.CPUUserMS+u.CPUSystemMS > 60_000 {
		t.Errorf("%s: %+v", outcome, u)
	}
}

// TestUsageOfTheEnded: what a command used is on record however it was ended, and what those used that it left behind.
func TestUsageOfTheEnded(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		grace := []string{"--grace", "200ms"}
		for name, c := range map[string]struct {
			flags   []string
			then    string
			outcome record.Outcome
		}{
			"left behind": {nil, "exit 0", record.Exited},
			"timeout":     {[]string{"--timeout", "3s"}, "sleep 60", record.TimedOut},
			"cpu time":    {[]string{"--cpu-time", "2s"}, "while :; do :; done", record.CPUTime},
			"output":      {[]string{"--output", "100k"}, "exec yes", record.OutputLimit},
			"memory":      {[]string{"--memory", fmt.Sprint(memoryLimit)}, b.Probe + " raw eat anon " + fmt.Sprint(memoryEaten) + "; sleep 60", record.MemoryLimit},
			"scratch":     {[]string{"--scratch", diskFor(t, b), "--disk", "8M"}, "dd if=/dev/zero of=f bs=1M count=40; sleep 60", record.DiskLimit},
		} {
			t.Run(name, func(t *testing.T) {
				_, rec := recorded(t, b, harness.Run{Flags: append(c.flags, grace...), Argv: burning(c.then)})
				burnt(t, rec, c.outcome)
			})
		}
	})
}

// TestCPUTimeOfOrphans: each burns less than the limit, and its parent is gone before it ends.
func TestCPUTimeOfOrphans(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		script := "while :; do (sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; : >/tmp/done' &); while [ ! -e /tmp/done ]; do sleep 0.2; done; rm /tmp/done; done"
		res, rec := recorded(t, b, harness.Run{Flags: []string{"--cpu-time", "1s", "--timeout", "20s"}, Argv: []string{"/bin/sh", "-c", script}})
		judged(t, res, rec, 124, record.CPUTime, "cpu_time")
	})
}

// TestUsageOfTheSilent: also when init cannot tell.
func TestUsageOfTheSilent(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		argv := burning("exec " + b.Probe + " sleep '60s' " + b.Marker)
		for name, c := range map[string]struct {
			do      func(gobox int)
			outcome record.Outcome
		}{
			"cancelled":    {func(pid int) { kill(t, pid, syscall.SIGTERM) }, record.Cancelled},
			"init killed":  {func(pid int) { time.Sleep(1500 * time.Millisecond); kill(t, initOf(t, pid), syscall.SIGKILL) }, record.Signaled},
			"init stopped": {func(pid int) { kill(t, initOf(t, pid), syscall.SIGSTOP); kill(t, pid, syscall.SIGTERM) }, record.Cancelled},
		} {
			t.Run(name, func(t *testing.T) {
				pid, end := startRecorded(t, b, "sleep 60s", harness.Run{Flags: []string{"--grace", "100ms"}, Argv: argv})
				c.do(pid)
				_, rec := end()
				burnt(t, rec, c.outcome)
			})
		}
		b.NoSurvivors(t)
	})
}

// TestUsageOfTheSmall: the largest process is one of the command's, and not gobox's init, of which the command's begins as a
// copy.
func TestUsageOfTheSmall(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		_, rec := recorded(t, b, harness.Run{Argv: []string{"/bin/sleep", "0.3"}})
		if n := rec.Usage.MaxRSSBytes; n > 8<<20 {
			t.Errorf("sleep had %d bytes", n)
		}
		_, rec = recorded(t, b, harness.Run{Argv: []string{"/bin/dd", "if=/dev/zero", "of=/dev/null", "bs=64M", "count=1"}})
		if n := rec.Usage.MaxRSSBytes; n < 60<<20 || n > 90<<20 {
			t.Errorf("dd with a buffer of 64 MiB had %d bytes", n)
		}
	})
}
