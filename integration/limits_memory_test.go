package integration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"gobox/integration/harness"
	"gobox/record"
)

// heavy is held by whoever takes hundreds of megabytes, so that the suite never does so twice at a time.
var heavy sync.Mutex

const (
	memoryLimit = 128 << 20
	memoryEaten = 2 * memoryLimit
)

// TestR01R02MemoryIsOneLimit takes memory of every kind: all counts to one limit over the whole tree.
func TestR01R02MemoryIsOneLimit(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for _, kind := range []string{
			"eat-together 8 anon", "eat shared", "eat-together 2 shared", "eat memfd", "eat memfd-mapped", "eat sysv",
			"eat /dev/shm/eaten", "eat /tmp/eaten", "eat " + b.Home + "/eaten",
		} {
			t.Run(strings.ReplaceAll(strings.ReplaceAll(kind, b.Home, "home"), "/", "."), func(t *testing.T) {
				overMemory(t, b, strings.Fields("raw "+kind+" "+fmt.Sprint(memoryEaten))...)
			})
		}
	})
}

// fillTime is more than it takes to fill memory, also on an emulated processor.
func fillTime() string {
	if os.Getenv("GOBOX_SLOW") != "" {
		return "150s"
	}
	return "30s"
}

// overMemory runs the probe until it is ended for its memory.
func overMemory(t *testing.T, b *harness.Box, attempt ...string) {
	t.Helper()
	destroyed(t, overMemoryOf(t, b, memoryLimit, attempt...))
}

// overMemoryOf is overMemory with another limit, and without a look at how long the kernel took to make room again.
func overMemoryOf(t *testing.T, b *harness.Box, limit uint64, attempt ...string) *record.Result {
	t.Helper()
	heavy.Lock()
	defer heavy.Unlock()
	res, rec := recorded(t, b, harness.Run{
		Flags: []string{"--memory", fmt.Sprint(limit), "--timeout", fillTime(), "--grace", "100ms"},
		Argv:  append(append([]string{b.Probe}, attempt...), b.Marker),
	})
	if res.Code != 137 || rec.Outcome != record.MemoryLimit {
		t.Errorf("outcome %s, %v", rec.Outcome, res)
	}
	enforcers(t, rec)
	if rec.ExitCode != nil {
		t.Errorf("exit code %d of a command that was ended", *rec.ExitCode)
	}
	if l := limitOf(t, rec, "memory"); l.Value != limit || !l.Triggered || l.Unit != "bytes" {
		t.Errorf("%+v", l)
	}
	if rec.Layers.Cgroup.Version > 0 && rec.Usage.PeakMemoryBytes > limit+limit/8 {
		t.Errorf("%d bytes with a limit of %d", rec.Usage.PeakMemoryBytes, limit)
	}
	b.NoSurvivors(t)
	return rec
}

// TestR01OneProcess: one process that takes too much is told from one that fails, whatever enforces the limit; also one that asks for
// far more than its limit at once; what is asked for and not used is no memory.
func TestR01OneProcess(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		heavy.Lock()
		defer heavy.Unlock()
		const whole = 1 << 30 // at once, of which the limit is an eighth
		for name, attempt := range map[string][]string{
			"step by step": {"eat", "anon", fmt.Sprint(memoryEaten)},
			"at once":      {"eat", "anon-whole", fmt.Sprint(whole)},
			"not used":     {"reserve", fmt.Sprint(whole)},
		} {
			t.Run(name, func(t *testing.T) {
				res, rec := recorded(t, b, harness.Run{
					Flags: []string{"--memory", fmt.Sprint(memoryLimit), "--timeout", fillTime(), "--grace", "100ms"},
					Argv:  append([]string{b.Probe, "raw"}, attempt...),
				})
				destroyed(t, rec)
				if name == "not used" {
					if string(res.Stdout) != fmt.Sprintf("had %d\n", whole) || res.Code != 0 || limitOf(t, rec, "memory").Triggered {
						t.Errorf("%v, %+v", res, rec.Limits)
					}
					return
				}
				judged(t, res, rec, 137, record.MemoryLimit, "memory")
			})
		}
	})
}

// TestR01Hidden takes memory in ways in which the figures that are easily had do not show it, or not in time.
func TestR01Hidden(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for _, kind := range []struct {
			name  string
			eaten uint64
		}{
			{"populate", 1 << 30}, {"netlink", 600 << 20}, // what fits into a socket depends on the host
			{"unmapped", 1280 << 20}, // its size is what counts where no cgroup knows better
		} {
			t.Run(kind.name, func(t *testing.T) { overMemory(t, b, "raw", "eat", kind.name, fmt.Sprint(kind.eaten)) })
		}
	})
}

// TestR01Unreadable: of a program that may be executed and not read the kernel tells less.
func TestR01Unreadable(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		if b.UID == 0 || os.Geteuid() != 0 {
			t.Skip("it takes a program of somebody else's")
		}
		program, err := os.ReadFile(b.Probe)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(b.Dir, "unreadable")
		path := filepath.Join(dir, "probe")
		if err := errors.Join(os.Mkdir(dir, 0o755), os.Chmod(dir, 0o755), os.WriteFile(path, program, 0o711), os.Chmod(path, 0o711)); err != nil {
			t.Fatal(err)
		}
		heavy.Lock()
		defer heavy.Unlock()
		for _, kind := range []string{"anon", "shared"} {
			res, rec := recorded(t, b, harness.Run{
				Flags: []string{"--rox", dir, "--memory", fmt.Sprint(memoryLimit), "--timeout", fillTime(), "--grace", "100ms"},
				Argv:  []string{path, "raw", "eat", kind, fmt.Sprint(memoryEaten)},
			})
			destroyed(t, rec)
			judged(t, res, rec, 137, record.MemoryLimit, "memory")
		}
	})
}

// TestR03R04Bounded takes what no limit of ours counts until the kernel's own limits say no.
func TestR03R04Bounded(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		heavy.Lock()
		defer heavy.Unlock()
		attempts := []string{"in-flight 20000", "epolls 5000", "inotifies 5000", "timers 50000", "opens 5000"}
		rep := b.Inside(t, []string{"--memory", fmt.Sprint(memoryLimit)}, attempts[0])
		rep.Refused(t, []string{"ETOOMANYREFS"}, attempts[0])
		for _, attempt := range attempts[1:] {
			rep := b.Inside(t, []string{"--memory", fmt.Sprint(memoryLimit), "--nofile", "256"}, attempt)
			rep.Refused(t, []string{"EMFILE", "EAGAIN", "ENOSPC"}, attempt)
		}
		// Over the soft limit of its user (64 MiB by default) a pipe has only two pages.
		res, rec := recorded(t, b, harness.Run{Flags: []string{"--memory", fmt.Sprint(memoryLimit), "--nofile", "1024"}, Argv: []string{b.Probe, "pipes", "1000"}})
		destroyed(t, rec)
		if res.Code != 137 {
			rep := harness.Parse(t, res.Stdout)
			rep.Refused(t, []string{"EMFILE"}, "pipes 1000")
			var after, held int
			if _, err := fmt.Sscanf(rep.Of(t, "pipes 1000").Detail, "after %d with %d bytes", &after, &held); err != nil || held > 80<<20 {
				t.Errorf("%d pipes hold %d bytes, %v", after, held, err)
			}
		}
	})
}

// TestR04Terminals: what is written to terminals is in no account, so there are few of them, and enough.
func TestR04Terminals(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		rep := b.Inside(t, nil, "ptys 64")
		rep.Allowed(t, "ptys 64")
		rep = b.Inside(t, nil, "ptys 65")
		rep.Refused(t, []string{"ENOSPC"}, "ptys 65")
		if o := rep.Of(t, "ptys 65"); o.Detail != "after 64" {
			t.Errorf("%+v", o)
		}
		if _, err := os.Stat("/usr/bin/python3"); err != nil {
			t.Skip("this host has no python3")
		}
		// Given back, one can be had again.
		const many = `
import os, pty
for _ in range(20):
    pairs = [pty.openpty() for _ in range(10)]
    for m, s in pairs:
        os.write(s, b"a word")
        assert os.read(m, 100) == b"a word" and os.isatty(s)
        os.close(m), os.close(s)
pty.spawn(["/bin/sh", "-c", "test -t 0 && echo on a terminal"])
`
		res := b.Run(t, harness.Run{Argv: []string{"/usr/bin/python3", "-c", many}})
		if res.Code != 0 || !strings.Contains(string(res.Stdout), "on a terminal") {
			t.Errorf("%v", res)
		}
	})
}

// TestR04Watchers: the same for instances of inotify, whose events are in a cgroup's account only.
func TestR04Watchers(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		rep := b.Inside(t, nil, "inotifies 33")
		rep.Refused(t, []string{"EMFILE"}, "inotifies 33")
		// Fewer than 32 where those of the caller are used up by other runs.
		if o := rep.Of(t, "inotifies 33"); o.Ret > 32 {
			t.Errorf("%+v", o)
		}
		rep = b.Inside(t, nil, "watch /tmp")
		rep.Allowed(t, "watch /tmp")
		if o := rep.Of(t, "watch /tmp"); o.Detail != "watched" {
			t.Errorf("%+v", o)
		}
	})
}

// TestR07Descriptors: no more than --nofile, and the limit cannot be raised.
func TestR07Descriptors(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		rep := b.Inside(t, []string{"--nofile", "64"}, "raise 7", "raise 1", "opens 200")
		rep.Refused(t, []string{"EPERM"}, "raise 7", "raise 1")
		if o := rep.Of(t, "opens 200"); o.Errno != "EMFILE" || o.Detail != "after 61" {
			t.Errorf("%+v", o)
		}
		// What gobox itself has open while it starts the command does not count.
		for _, flags := range [][]string{nil, {"--allow-net", "example.org:443"}, {"--capture", "--cpu-time", "5s"}} {
			res := b.Run(t, harness.Run{Flags: append(flags, "--nofile", "4"), Argv: []string{"/bin/sh", "-c", "ulimit -n; exec 3</; exec 4</"}})
			if res.Code == 0 || res.Code == 125 || string(res.Stdout) != "4\n" {
				t.Errorf("--nofile 4 %v: %v", flags, res)
			}
		}
	})
}

// TestR13Privileges: nobody inside puts itself before others.
func TestR13Privileges(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		rep := b.Inside(t, nil, "write /proc/self/oom_score_adj -1000", "mlockall", "fifo", "nice -20", "nice -1", "nice 5", "read /proc/self/oom_score_adj")
		rep.Refused(t, []string{"EROFS", "EACCES", "EPERM"}, "write /proc/self/oom_score_adj -1000", "fifo", "nice -20", "nice -1")
		rep.Refused(t, []string{"EPERM", "ENOMEM"}, "mlockall")
		rep.Allowed(t, "nice 5")
		// A host that is out of memory takes the sandbox first.
		if o := rep.Of(t, "read /proc/self/oom_score_adj"); o.Detail != "1000" {
			t.Errorf("%+v", o)
		}
	})
}
