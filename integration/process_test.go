package integration

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gobox/integration/harness"
)

func TestP01SignalsStayInside(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		host := startHost(t, b, "signals", "SIGWINCH")
		pid := itoa(host.pid())
		tries := []string{"kill " + pid + " 9", "kill " + pid + " 28", "tgkill " + pid + " 28", "pidfd-open " + pid, "kill -" + pid + " 28"}
		// 28 is SIGWINCH, which whoever gets it by mistake ignores.
		rep := b.Inside(t, nil, append(tries, "kill -1 28")...)
		rep.Refused(t, []string{"ESRCH", "EPERM"}, tries...)
		if line := host.line(50 * time.Millisecond); line != "" {
			t.Errorf("the host's process was signalled: %q", line)
		}
		b.Outside(t, "kill "+pid+" 28")
		if line := host.line(5 * time.Second); line != "SIGWINCH" {
			t.Errorf("control: %q", line)
		}
	})
}

func TestP02InitSurvivesEverySignal(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		// A workspace that was to be an overlay and cannot be would be told of.
		res := b.Run(t, harness.Run{Flags: []string{"--workspace-mode", "ro"}, Argv: []string{b.Probe, "kill-init", "+", "kill", "1", "0"}})
		if res.Code != 0 || len(res.Stderr) != 0 {
			t.Fatalf("want exit 0 and silence, got %v", res)
		}
		// The command may not even signal init, or may and nothing happens.
		rep := harness.Parse(t, res.Stdout)
		rep.Allowed(t, "kill-init")
		rep.Refused(t, []string{"", "EPERM"}, "kill 1 0")
	})
}

func TestP03InitCannotBeTraced(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		// PTRACE_ATTACH, PTRACE_SEIZE, PTRACE_TRACEME
		tries := []string{"ptrace 16 1", "ptrace 0x4206 1", "child ptrace 0 0", "vmread 1", "vmwrite 1", systry("process_madvise -1 bad 1 0 0"), systry("pidfd_getfd -1 0 0"), systry("kcmp 1 1 0 0 0")}
		b.OutsideAlone(t, "vmread 1", tries[6]).Refused(t, []string{"EFAULT", "EBADF"}, "vmread 1", tries[6])
		rep := b.Inside(t, nil, tries...)
		for _, try := range tries {
			if try == "child ptrace 0 0" {
				if o := rep.Of(t, try); !strings.Contains(o.Detail, "EPERM") && !strings.Contains(o.Detail, "ENOSYS") {
					t.Errorf("%s: %+v", try, o)
				}
				continue
			}
			rep.Refused(t, barred, try)
		}
	})
}

func TestP04NamespacesCannotBeJoined(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		tries := []string{"setns /proc/1/ns/mnt 0", "setns /proc/1/ns/net 0", "setns /proc/self/ns/user 0", "setns /proc/self/ns/mnt 0"}
		b.Inside(t, nil, tries...).Refused(t, barred, tries...)
	})
}

func TestP05OnlyOwnProcesses(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		host := startHost(t, b, "signals", "SIGWINCH")
		pid := itoa(host.pid())
		rep := b.Inside(t, nil, "procs", "cat /proc/"+pid+"/cmdline", "session")
		procs := rep.Of(t, "procs")
		if procs.Ret < 1 || procs.Ret > 3 {
			t.Errorf("processes inside: %s", procs.Detail)
		}
		rep.Refused(t, []string{"ENOENT"}, "cat /proc/"+pid+"/cmdline")
		if strings.Contains(procs.Detail, "gobox run") || strings.Contains(procs.Detail, b.Gobox) {
			t.Errorf("the supervisor's arguments are readable: %s", procs.Detail)
		}
	})
}

// heartbeat fails the test when the file still grows.
func heartbeat(t *testing.T, path string) {
	t.Helper()
	before, err := os.Stat(path)
	if err != nil || before.Size() == 0 {
		t.Fatalf("the daemon never ran: %v", err)
	}
	time.Sleep(200 * time.Millisecond)
	after, err := os.Stat(path)
	if err != nil || after.Size() != before.Size() {
		t.Errorf("the daemon still runs: %v, %d then %d bytes", err, before.Size(), after.Size())
	}
}

func TestP06DaemonsEndWithTheRun(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		beat := filepath.Join(b.Work, "beat")
		start := []string{b.Probe, "daemon", beat, b.Marker}
		res := b.Run(t, harness.Run{Flags: []string{"--workspace-mode", "rw"}, Argv: start})
		if res.Code != 0 {
			t.Fatal(res)
		}
		harness.Parse(t, res.Stdout).Allowed(t, strings.Join(start[1:], " "))
		heartbeat(t, beat)

		beat2 := filepath.Join(b.Work, "beat2")
		res = b.Run(t, harness.Run{
			Flags: []string{"--workspace-mode", "rw", "--timeout", "1s", "--grace", "200ms"},
			Argv:  []string{b.Probe, "daemon", beat2, b.Marker, "+", "sleep", "60s"},
		})
		timedOut(t, res, 1200*time.Millisecond)
		heartbeat(t, beat2)
		b.NoSurvivors(t)
	})
}

// timedOut judges exit 124 not before and not long after the deadline. The bound is generous: the
// machine runs other tests meanwhile.
func timedOut(t *testing.T, res harness.Result, deadline time.Duration) {
	t.Helper()
	if res.Code != 124 {
		t.Errorf("want exit 124, got %v", res)
	}
	if res.Duration > deadline+6*time.Second {
		t.Errorf("took %v for a deadline with grace of %v", res.Duration, deadline)
	}
}

func TestP07AChildThatHoldsStdout(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		res := b.Run(t, harness.Run{Argv: []string{"/bin/sh", "-c", b.Probe + " sleep 300s " + b.Marker + " & echo out; exit 7"}})
		if res.Code != 7 || string(res.Stdout) != "out\n" {
			t.Errorf("want exit 7 and out, got %v", res)
		}
		if res.Duration > 10*time.Second {
			t.Errorf("waited %v for a child's pipe", res.Duration)
		}
		b.NoSurvivors(t)
	})
}

func TestP08TimeoutsCannotBeIgnored(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"ignores signals": `trap "" TERM INT HUP QUIT; while :; do PROBE sleep 10s; done`,
		"stops itself":    `PROBE sleep 60s & kill -STOP $$`,
		"stops everybody": `(trap "" TERM; while :; do :; done) & PROBE stop-self; PROBE stop-self & kill -STOP -1; kill -STOP $$`,
		"closes stdio":    `exec <&- >&- 2>&-; trap "" TERM; while :; do PROBE sleep 10s; done`,
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			suite.Each(t, func(t *testing.T, b *harness.Box) {
				script := strings.ReplaceAll(script, "PROBE", b.Probe)
				res := b.Run(t, harness.Run{Flags: []string{"--timeout", "500ms", "--grace", "300ms"}, Argv: []string{"/bin/sh", "-c", script, b.Marker}})
				timedOut(t, res, 800*time.Millisecond)
				b.NoSurvivors(t)
			})
		})
	}
}

func TestP09ForkLoopDuringTheKill(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		script := `trap "" TERM; while :; do sh -c 'trap "" TERM; sleep 20' ` + b.Marker + ` 2>/dev/null & done 2>/dev/null`
		res := b.Run(t, harness.Run{Flags: []string{"--timeout", "1s", "--grace", "100ms", "--pids", "48"}, Argv: []string{"/bin/sh", "-c", script, b.Marker}})
		// A shell that cannot fork may give up by itself before the deadline.
		if res.Code != 124 && res.Code != 2 && res.Code != 254 {
			t.Errorf("want exit 124, got %v", res)
		}
		if res.Duration > 8*time.Second {
			t.Errorf("took %v", res.Duration)
		}
		b.NoSurvivors(t)
	})
}

// TestP11 stops the supervisor, which then cannot watch anything, and kills it.
// TestP11StoppedSupervisor: a gobox that is killed takes its sandbox along, also when it is stopped, and when init is and cannot
// see that its supervisor is gone.
func TestP11StoppedSupervisor(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for _, stopped := range []string{"supervisor", "init"} {
			cmd := b.Start(t, harness.Run{Bin: b.Own(t, b.Gobox), Flags: []string{"--timeout", "30s"}, Argv: []string{b.Probe, "sleep", "60s", b.Marker}})
			waitFor(t, "the command to start", func() bool {
				return slices.ContainsFunc(harness.Processes(b.Marker), func(line string) bool { return strings.Contains(line, "sleep 60s") && !strings.Contains(line, " run ") })
			})
			if stopped == "init" {
				kill(t, initOf(t, cmd.Process.Pid), syscall.SIGSTOP)
			} else {
				kill(t, cmd.Process.Pid, syscall.SIGSTOP)
			}
			kill(t, cmd.Process.Pid, syscall.SIGKILL)
			_ = cmd.Wait()
			b.NoSurvivors(t)
		}
	})
}

func TestP12OrphansAreReaped(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		// Shells count with built-ins only, so that nothing else forks meanwhile.
		script := `i=0; while [ $i -lt 1000 ]; do ( : & ); i=$((i+1)); done
			i=0; while [ $i -lt 50 ]; do z=0; for f in /proc/[0-9]*/stat; do read -r line < $f && case "$line" in *") Z "*) z=$((z+1));; esac; done 2>/dev/null
			[ $z -eq 0 ] && break; i=$((i+1)); sleep 0.1; done; echo zombies $z`
		res := b.Run(t, harness.Run{Argv: []string{"/bin/sh", "-c", script}})
		if res.Code != 0 || string(res.Stdout) != "zombies 0\n" {
			t.Errorf("want no zombie, got %v", res)
		}
	})
}

func TestP17ForeignProcessesCannotBeTuned(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		host := startHost(t, b, "signals", "SIGWINCH")
		pid := itoa(host.pid())
		tries := []string{systry("setpriority 0 " + pid + " 19"), systry("sched_setaffinity " + pid + " 0 0"), systry("ioprio_set 1 " + pid + " 0x4007"), systry("prlimit64 " + pid + " 7 0 0")}
		nice := func() string {
			stat, _ := os.ReadFile("/proc/" + pid + "/stat")
			_, rest, _ := bytes.Cut(stat, []byte(") "))
			return string(bytes.Fields(rest)[16])
		}
		before := nice()
		b.Inside(t, nil, tries...).Refused(t, []string{"ESRCH", "EPERM", "ENOSYS"}, tries...)
		if after := nice(); after != before {
			t.Errorf("nice was %s, is %s", before, after)
		}
	})
}
