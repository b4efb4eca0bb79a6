package rlimit

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestName(t *testing.T) {
	seen := make(map[string]bool)
	for n := unix.RLIMIT_CPU; n <= unix.RLIMIT_RTTIME; n++ {
		l := Limit{Resource: n}
		if l.Unit() == "" || strings.HasPrefix(l.Name(), "rlimit ") || seen[l.Name()] {
			t.Errorf("resource %d: name %q, unit %q", n, l.Name(), l.Unit())
		}
		seen[l.Name()] = true
	}
	if got := (Limit{Resource: 99}).Name(); got != "rlimit 99" {
		t.Errorf("unknown resource: name %q", got)
	}
}

// The kernel's own table names what we name, in the same order.
func TestNamesMatchKernel(t *testing.T) {
	text, err := os.ReadFile("/proc/self/limits")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")[1:]
	kernel := map[string]string{
		"cpu": "Max cpu time", "fsize": "Max file size", "data": "Max data size", "stack": "Max stack size",
		"core": "Max core file size", "rss": "Max resident set", "nproc": "Max processes",
		"nofile": "Max open files", "memlock": "Max locked memory", "as": "Max address space",
		"locks": "Max file locks", "sigpending": "Max pending signals", "msgqueue": "Max msgqueue size",
		"nice": "Max nice priority", "rtprio": "Max realtime priority", "rttime": "Max realtime timeout",
	}
	for n, line := range lines {
		name := Limit{Resource: n}.Name()
		if want := kernel[name]; want == "" || !strings.HasPrefix(line, want) {
			t.Errorf("resource %d is %q here and %q to the kernel", n, name, line)
		}
	}
}

func TestClamp(t *testing.T) {
	for _, c := range []struct{ soft, hard, limit, wantSoft, wantHard uint64 }{
		{10, 20, 100, 10, 20},
		{10, 20, 15, 10, 15},
		{10, 20, 5, 5, 5},
		{30, 20, 100, 20, 20},
		{Unlimited, Unlimited, 7, 7, 7},
		{Unlimited, Unlimited, Unlimited, Unlimited, Unlimited},
		{0, 0, 7, 0, 0},
		{4, 4, 0, 0, 0},
	} {
		got := Clamp(Limit{unix.RLIMIT_NOFILE, c.soft, c.hard}, c.limit)
		if want := (Limit{unix.RLIMIT_NOFILE, c.wantSoft, c.wantHard}); got != want {
			t.Errorf("Clamp(%d/%d, %d) = %d/%d, want %d/%d", c.soft, c.hard, c.limit, got.Soft, got.Hard, want.Soft, want.Hard)
		}
	}
}

func TestHardUnknown(t *testing.T) {
	if _, err := Hard(99); err == nil || !strings.Contains(err.Error(), "rlimit 99") {
		t.Errorf("Hard(99): %v", err)
	}
}

const childEnv = "GOBOX_TEST_RLIMIT_CHILD"

// A child whose hard limit is low sees it, and what Clamp made of a higher wish is accepted and holds.
func TestClampedLimitHolds(t *testing.T) {
	if os.Getenv(childEnv) == "" {
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestClampedLimitHolds$")
		cmd.Env = append(os.Environ(), childEnv+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	set := func(l Limit) {
		if err := unix.Prlimit(0, l.Resource, &unix.Rlimit{Cur: l.Soft, Max: l.Hard}, nil); err != nil {
			t.Fatalf("set %v: %v", l, err)
		}
	}
	set(Limit{unix.RLIMIT_NOFILE, 40, 40})
	hard, err := Hard(unix.RLIMIT_NOFILE)
	if err != nil || hard != 40 {
		t.Fatalf("hard limit %d, %v", hard, err)
	}
	set(Clamp(Limit{unix.RLIMIT_NOFILE, 1000, 2000}, hard))
	var open int
	for open = 0; open < 100; open++ {
		if _, err := unix.Dup(0); err != nil {
			break
		}
	}
	if open >= 40 {
		t.Error(fmt.Sprint(open, " descriptors opened with a limit of 40"))
	}
}
