package integration

import (
	"fmt"
	"strings"
	"testing"

	"gobox/integration/harness"
	"gobox/record"
)

// TestOutputOfTwoStreams: both share one limit, and a few lines on each are far below it.
func TestOutputOfTwoStreams(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for _, limit := range []string{"1000", "64k", "1M"} {
			res, rec := recorded(t, b, harness.Run{Flags: []string{"--output", limit}, Argv: []string{"/bin/sh", "-c", "echo a; sleep 0.1; echo b >&2; sleep 0.1; echo c; sleep 0.1; echo d >&2"}})
			judged(t, res, rec, 0, record.Exited, "")
			if string(res.Stdout) != "a\nc\n" || string(res.Stderr) != "b\nd\n" {
				t.Errorf("--output %s: %v", limit, res)
			}
		}
		// And as much as the limit allows arrives, by turns as well.
		res, rec := recorded(t, b, harness.Run{Flags: []string{"--output", "1M", "--quiet"}, Argv: []string{b.Probe, "raw", "pour", "both", "3000000"}})
		judged(t, res, rec, 137, record.OutputLimit, "output")
		message, _, _ := strings.Cut(string(res.Stderr), "gobox: error:")
		if n := len(res.Stdout) + len(message); n != 1<<20 {
			t.Errorf("%d bytes arrived of 1 MiB", n)
		}
	})
}

// TestR04KernelMemory: what the kernel holds for a process is that process's. A cgroup counts all of it, init's watch what can be
// found out; docs/limits.md says what goes without a cgroup.
func TestR04KernelMemory(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for _, attempt := range []string{
			"raw eat page-tables " + fmt.Sprint(memoryEaten), "sockets 480 + sleep 60s", "raw eat tcp " + fmt.Sprint(memoryEaten),
			"raw eat semaphores " + fmt.Sprint(memoryEaten), "raw eat messages " + fmt.Sprint(memoryEaten),
			"raw eat-together 16 pipes " + fmt.Sprint(112<<20), "raw eat-together 16 mappings " + fmt.Sprint(memoryLimit),
		} {
			words := strings.Fields(attempt)
			name := words[max(len(words)-2, 0)]
			if words[0] == "sockets" {
				name = words[0]
			}
			t.Run(name, func(t *testing.T) {
				if name == "tcp" && cgroupVersion(t, b) == 1 {
					tcpApart(t, b, strings.Fields(attempt)...)
					return
				}
				switch name {
				case "page-tables", "pipes", "mappings":
					// The kernel looks at every entry of tables to make room again, for which a busy machine may need a second; the others
					// take as much time to make.
					overMemoryOf(t, b, 80<<20, strings.Fields(attempt)...)
					return
				}
				overMemory(t, b, strings.Fields(attempt)...)
			})
		}
	})
}

// cgroupVersion is that of the identity's runs, 0 for none.
func cgroupVersion(t *testing.T, b *harness.Box) int {
	t.Helper()
	_, rec := recorded(t, b, harness.Run{Argv: []string{"/bin/true"}})
	return rec.Layers.Cgroup.Version
}

// tcpApart: version 1 counts buffers of TCP apart, and the kernel grants no more of them than of other memory.
func tcpApart(t *testing.T, b *harness.Box, attempt ...string) {
	t.Helper()
	heavy.Lock()
	defer heavy.Unlock()
	res, rec := recorded(t, b, harness.Run{
		Flags: []string{"--memory", fmt.Sprint(memoryLimit), "--timeout", "20s"}, Argv: append([]string{b.Probe}, attempt...),
	})
	if strings.Contains(string(res.Stdout), "had") {
		t.Errorf("no limit: %v", res)
	}
	destroyed(t, rec)
}

// TestPidsTriggered: with a cgroup it is known that the limit was reached.
func TestPidsTriggered(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		_, rec := recorded(t, b, harness.Run{Flags: []string{"--pids", "40"}, Argv: []string{b.Probe, "spawns", "400"}})
		if rec.Layers.Cgroup.Version == 0 {
			t.Skip("no cgroup for this identity, and nobody can tell without one")
		}
		if l := limitOf(t, rec, "pids"); !l.Triggered {
			t.Errorf("a fork was refused: %+v", l)
		}
	})
}

// TestPidsRefusedToTheCommand: also without a cgroup, which command failed for a process that it was refused is known when it was
// one of those that were too many, and is gone when they are counted.
func TestPidsRefusedToTheCommand(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		spawn := "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 30 & done; "
		for range 8 { // init may happen to look in time
			res, rec := recorded(t, b, harness.Run{Flags: []string{"--pids", "5"}, Argv: []string{"/bin/sh", "-c", spawn + "exit 3"}})
			judged(t, res, rec, res.Code, record.PidsLimit, "pids")
			if res.Code == 0 || !strings.Contains(string(res.Stderr), "--pids N gives it more than 5") {
				t.Errorf("refused: %v", res)
			}
		}
		res, rec := recorded(t, b, harness.Run{Flags: []string{"--pids", "40"}, Argv: []string{"/bin/sh", "-c", spawn + "exit 3"}})
		judged(t, res, rec, 3, record.Exited, "")
	})
}

// TestR01OneProcessInACgroup: where a cgroup counts, its limit is the only one: a program may ask for address space that it never
// touches, and ends with the outcome memory when it touches too much.
func TestR01OneProcessInACgroup(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		heavy.Lock()
		defer heavy.Unlock()
		res, rec := recorded(t, b, harness.Run{
			Flags: []string{"--memory", fmt.Sprint(memoryLimit), "--timeout", "8s", "--grace", "100ms"},
			Argv:  []string{b.Probe, "raw", "eat", "anon", fmt.Sprint(memoryEaten)},
		})
		if rec.Layers.Cgroup.Version == 0 {
			t.Skip("no cgroup for this identity")
		}
		judged(t, res, rec, 137, record.MemoryLimit, "memory")
		// The Go runtime reserves 64 MiB at its start, and touches next to nothing of it.
		res, rec = recorded(t, b, harness.Run{Flags: []string{"--memory", "32M"}, Argv: []string{b.Probe, "raw", "exit", "5"}})
		judged(t, res, rec, 5, record.Exited, "")
	})
}
