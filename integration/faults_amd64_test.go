package integration

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gobox/integration/harness"
)

// fault is one system call of one process that is made to fail, or none (call -1).
type fault struct {
	role  string
	call  int
	nth   int
	errno unix.Errno
}

func (f fault) String() string {
	return fmt.Sprintf("%s call %d, number %d, %v", f.role, f.call, f.nth, f.errno)
}

// injected is what integration/injector reports.
type injected struct {
	Calls    map[string]map[int]int
	Injected bool
	Started  string
	Hung     bool
	Left     []string
}

// injector builds the program once.
var injector = sync.OnceValues(func() (string, error) {
	path := filepath.Join(suite.Dir, "bin/injector")
	cmd := exec.Command("go", "build", "-o", path, "./injector")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build injector: %w\n%s", err, out)
	}
	return path, nil
})

// ofRuntime are calls of the Go runtime and of libc's start, which end the program with a trace when they are refused:
// nothing is left to refuse with. What must be true all the same is that nothing is left over and no 125 is a lie.
func ofRuntime(call int) bool {
	return slices.Contains([]int{
		unix.SYS_MMAP, unix.SYS_MUNMAP, unix.SYS_MPROTECT, unix.SYS_MADVISE, unix.SYS_BRK, unix.SYS_FUTEX, unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK,
		unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK, unix.SYS_ARCH_PRCTL, unix.SYS_SET_TID_ADDRESS, unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ, unix.SYS_GETTID,
		unix.SYS_TGKILL, unix.SYS_EXIT, unix.SYS_EXIT_GROUP, unix.SYS_SCHED_GETAFFINITY, unix.SYS_SCHED_YIELD, unix.SYS_NANOSLEEP, unix.SYS_CLONE3, unix.SYS_RESTART_SYSCALL,
		unix.SYS_GETPID, unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EVENTFD2, unix.SYS_FCNTL,
	}, call)
}

// beyondFault are calls that cannot fail with the arguments they have, and on which something rests: the clock (clock_gettime(2)).
func beyondFault(call int) bool { return call == unix.SYS_CLOCK_GETTIME }

// A way of running in which supervisor and init make calls of their own.
type way struct {
	name  string
	flags func(t *testing.T, b *harness.Box) []string
}

func faultWays() []way {
	fixed := func(flags ...string) func(*testing.T, *harness.Box) []string {
		return func(*testing.T, *harness.Box) []string { return flags }
	}
	return []way{
		{"plain", fixed("--workspace-mode", "rw")}, // the first: the others are compared with it
		{"network", fixed("--workspace-mode", "rw", "--allow-net", "web.example.org")},
		{"overlay", overlayFlags},
		{"terminal", fixed("--workspace-mode", "rw", "--tty")},
	}
}

// faulty is one run with a fault.
func faulty(t *testing.T, b *harness.Box, program string, w way, f fault, nth int) (harness.Result, injected, string) {
	t.Helper()
	work := filepath.Join(b.Dir, "faults", w.name+strconv.Itoa(nth))
	for _, dir := range []string{work, work + "/ws", work + "/tmp", work + "/home"} {
		b.Mkdir(t, dir)
	}
	report := filepath.Join(work, "report")
	args := []string{"-report", report, "-role", f.role, "-call", strconv.Itoa(f.call), "-nth", strconv.Itoa(f.nth), "-errno", strconv.Itoa(int(f.errno))}
	args = append(append(args, b.Gobox, "run", "--timeout", "6s"), w.flags(t, b)...)
	args = append(args, "--", "/bin/sh", "-c", "echo hello; echo x >started", b.Marker)
	res := b.Run(t, harness.Run{Bin: program, Args: args, Dir: filepath.Join(work, "ws"), Env: []string{"TMPDIR=" + work + "/tmp", "HOME=" + work + "/home"}, Timeout: 90 * time.Second})
	var rep injected
	text, err := os.ReadFile(report)
	if err == nil {
		err = json.Unmarshal(text, &rep)
	}
	if err != nil {
		t.Errorf("%s, %v: no report: %v, %v", w.name, f, err, res)
	}
	return res, rep, work
}

// blameless says what is wrong with how gobox took the fault, "" for nothing.
func blameless(w way, f fault, res harness.Result, rep injected, work string) string {
	_, err := os.Stat(filepath.Join(work, "ws", "started"))
	said := strings.Contains(string(res.Stdout), "hello")
	started := err == nil
	if w.name == "overlay" {
		if started {
			return "an overlay, and the workspace was written to"
		}
		started = said || strings.Contains(string(res.Stderr), "gobox: hint: 1 added")
	}
	told := strings.Contains(string(res.Stderr), "gobox: error: ")
	switch {
	case rep.Hung || len(rep.Left) > 0:
		return fmt.Sprintf("left: %v", rep.Left)
	case res.Code == 125 && started:
		return "exit 125, and the command ran"
	case res.Code == 0 && (!started || !said):
		return "exit 0, and the command did not do its work"
	case ofRuntime(f.call):
	case strings.Contains(string(res.Stderr), "fatal error: runtime: "): // a call of its own that others make too, as write to wake up its poller
	case res.Code == 0:
	case !told:
		return "fails without a word"
	case res.Code == 125:
	case res.Code == 74 && started: // output or the look at the workspace
	case (res.Code == 126 || res.Code == 127) && !started: // the command's file
	case res.Code == 124 && f.role == "init" && f.call == unix.SYS_WRITE:
		// The byte in init's own pipe that tells of the command's end. It does not fail but for want of room, where others are.
	default:
		return "neither a refusal nor a run"
	}
	for _, dir := range []string{"ws", "tmp"} {
		entries, err := os.ReadDir(work + "/" + dir)
		if err != nil {
			return err.Error()
		}
		for _, e := range entries {
			if e.Name() != "started" || dir == "tmp" {
				return "left in " + dir + ": " + e.Name()
			}
		}
	}
	// A Go runtime that ends at once leaves its cgroups to gobox runs gc.
	if rep.Started != "" && (res.Code == 0 || res.Code == 125) {
		if left := cgroupsOf("-" + rep.Started + "-"); len(left) > 0 {
			return fmt.Sprintf("left: %v", left)
		}
	}
	return ""
}

// allFaults reads GOBOX_FAULTS: empty for the short form, "all", or "2/8" for the second eighth of all.
func allFaults(t *testing.T) (all bool, part, parts int) {
	text := os.Getenv("GOBOX_FAULTS")
	switch text {
	case "":
		return false, 1, 1
	case "all":
		return true, 1, 1
	}
	if n, err := fmt.Sscanf(text, "%d/%d", &part, &parts); n != 2 || err != nil || part < 1 || part > parts {
		t.Fatalf("GOBOX_FAULTS=%s is neither all nor PART/PARTS", text)
	}
	return true, part, parts
}

// TestFaults makes every system call of supervisor and init fail, one in each run, with a plain command and with what has calls of its own: a network, an
// overlay, a terminal. In short, root gets the first of each kind and an ordinary user the last, and from the other ways only what a plain
// run does not have; GOBOX_FAULTS=all is every single one, with several errnos, and GOBOX_FAULTS=2/8 the second eighth of these. -run TestFaults/root/network is
// one of the ways.
func TestFaults(t *testing.T) {
	all, part, parts := allFaults(t)
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		program, err := injector()
		if err != nil {
			t.Fatal(err)
		}
		var plain map[string]map[int]int
		for _, w := range faultWays() {
			calls := countCalls(t, b, program, w)
			faults := chooseFaults(calls, plain, all, b.UID == 0)
			if plain == nil {
				plain = calls
			}
			chosen := faults[:0]
			for i, f := range faults {
				if i%parts == part-1 {
					chosen = append(chosen, f)
				}
			}
			t.Run(w.name, func(t *testing.T) { tryFaults(t, b, program, w, chosen) })
		}
		b.NoSurvivors(t)
		// Of those that the Go runtime ended.
		cleaned(t, b)
	})
}

// countCalls counts what can fail by role and call. How many there are depends on timing. The more of two runs are tried.
func countCalls(t *testing.T, b *harness.Box, program string, w way) map[string]map[int]int {
	t.Helper()
	calls := map[string]map[int]int{"supervisor": {}, "init": {}, "spawn": {}}
	for i := range 2 {
		res, rep, _ := faulty(t, b, program, w, fault{call: -1}, -1-i)
		if res.Code != 0 || !strings.Contains(string(res.Stdout), "hello") || len(rep.Calls["init"]) == 0 || len(rep.Calls["spawn"]) == 0 {
			t.Fatalf("%s without a fault: %v, %+v", w.name, res, rep)
		}
		for role, counts := range rep.Calls {
			for call, n := range counts {
				if calls[role] != nil {
					calls[role][call] = max(calls[role][call], n)
				}
			}
		}
	}
	return calls
}

// chooseFaults gives what is to fail, in an order that is the same for the same counts.
func chooseFaults(calls, plain map[string]map[int]int, all, root bool) (faults []fault) {
	for _, role := range []string{"supervisor", "init", "spawn"} {
		for _, call := range slices.Sorted(maps.Keys(calls[role])) {
			n, before := calls[role][call], plain[role][call]
			switch {
			case beyondFault(call):
			case all:
				errnos := []unix.Errno{unix.EIO, unix.EPERM, unix.ENOMEM, unix.EINTR}
				for nth := 1; nth <= min(n, 150); nth++ {
					faults = append(faults, fault{role, call, nth, errnos[nth%len(errnos)]}, fault{role, call, nth, unix.ENOSYS})
				}
			case plain != nil && (n <= before || ofRuntime(call)):
			case root || ofRuntime(call):
				faults = append(faults, fault{role, call, before + 1, unix.EIO})
			default:
				faults = append(faults, fault{role, call, n, unix.EIO})
			}
		}
	}
	return faults
}

func tryFaults(t *testing.T, b *harness.Box, program string, w way, faults []fault) {
	t.Helper()
	var hit atomic.Int64
	crowd(len(faults), 2, func(i int) {
		f := faults[i]
		res, rep, work := faulty(t, b, program, w, f, i)
		if rep.Injected {
			hit.Add(1)
		}
		if problem := blameless(w, f, res, rep, work); problem != "" {
			t.Errorf("%s, %v: %s: %v", w.name, f, problem, res)
		}
		os.RemoveAll(work)
	})
	t.Logf("%s: %d faults of %d calls", w.name, hit.Load(), len(faults))
	if int(hit.Load())*3 < len(faults)*2 {
		t.Errorf("%s: only %d of %d calls were made again", w.name, hit.Load(), len(faults))
	}
}
