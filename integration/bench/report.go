package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Between these two lines of docs/performance.md stand the figures; the prose around them is written by
// hand.
const (
	beginMark = "<!-- figures: written by make bench -->"
	endMark   = "<!-- end of figures -->"
)

type report struct {
	Machine  string
	Rounds   int
	Sections []section
	Init     initTrace
}

// quantile is the nearest-rank quantile of times, which it sorts.
func quantile(times []time.Duration, q float64) time.Duration {
	slices.Sort(times)
	return times[min(int(q*float64(len(times))), len(times)-1)]
}

func (r report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Machine: %s. %d rounds for each identity.\n", r.Machine, r.Rounds)
	for _, s := range r.Sections {
		fmt.Fprintf(&b, "\n### As %s\n\n", s.Identity)
		b.WriteString(s.table())
	}
	b.WriteString("\n### Package initialisation\n\n")
	b.WriteString(r.Init.table())
	return b.String()
}

func (s section) table() string {
	var b strings.Builder
	base := slices.IndexFunc(s.Results, func(r result) bool { return r.Name == baseline })
	if base < 0 {
		fmt.Fprintf(&b, "%s did not run, so these are milliseconds and no ratios.\n\n", baseline)
		b.WriteString("| | median ms | p90 ms |\n|---|---:|---:|\n")
		for _, r := range s.Results {
			fmt.Fprintf(&b, "| %s | %.2f | %.2f |\n", r.Name, millis(r.Median), millis(r.P90))
		}
	} else {
		ref := s.Results[base]
		fmt.Fprintf(&b, "%s = 1.00: median %.2f ms, p90 %.2f ms.\n\n", baseline, millis(ref.Median), millis(ref.P90))
		b.WriteString("| | median / bwrap's | p90 / bwrap's |\n|---|---:|---:|\n")
		for _, r := range s.Results {
			fmt.Fprintf(&b, "| %s | %.2f | %.2f |\n", r.Name,
				float64(r.Median)/float64(ref.Median), float64(r.P90)/float64(ref.P90))
		}
	}
	if len(s.Absent) > 0 {
		fmt.Fprintf(&b, "\nNot measured: %s.\n", strings.Join(s.Absent, "; "))
	}
	return b.String()
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func replaceFigures(path, text string) error { return replaceBetween(path, beginMark, endMark, text) }

// replaceBetween puts text between two lines of a file.
func replaceBetween(path, begin, end, text string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(data), begin)
	if !ok {
		return fmt.Errorf("%s has no line %q", path, begin)
	}
	_, after, ok := strings.Cut(rest, end)
	if !ok {
		return fmt.Errorf("%s has no line %q", path, end)
	}
	return os.WriteFile(path, []byte(before+begin+"\n"+text+end+after), 0o644)
}

// describeMachine names the class of machine and nothing that identifies it.
func describeMachine() string {
	kernel := "unknown"
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		// Only major and minor: the rest is the builder's.
		parts := strings.SplitN(unix.ByteSliceToString(u.Release[:]), ".", 3)
		kernel = strings.Join(parts[:min(2, len(parts))], ".")
	}
	kind := "machine"
	if cpu, err := os.ReadFile("/proc/cpuinfo"); err == nil && strings.Contains(string(cpu), " hypervisor") {
		kind = "virtual machine"
	}
	return fmt.Sprintf("%d-core %s %s, Linux %s, %s", runtime.NumCPU(), runtime.GOARCH, kind, kernel, runtime.Version())
}

// initTrace sums up GODEBUG=inittrace=1: what a Go start-up spends before main.
type initTrace struct {
	Packages []initCost // costliest first
}

type initCost struct {
	Name   string
	Clock  time.Duration
	Bytes  int
	Allocs int
}

// traceInit starts gobox n times and keeps each package's smallest figure, since everything above it is
// noise of the machine.
func traceInit(gobox string, n int) (initTrace, error) {
	least := map[string]initCost{}
	for range n {
		cmd := exec.Command(gobox, "version")
		cmd.Env = []string{"GODEBUG=inittrace=1"}
		out, err := cmd.CombinedOutput()
		if err != nil {
			return initTrace{}, fmt.Errorf("%s version: %w", gobox, err)
		}
		for line := range strings.Lines(string(out)) {
			c, ok := parseInit(line)
			if !ok {
				continue
			}
			if old, seen := least[c.Name]; !seen || c.Clock < old.Clock {
				least[c.Name] = c
			}
		}
	}
	var t initTrace
	for _, c := range least {
		t.Packages = append(t.Packages, c)
	}
	slices.SortFunc(t.Packages, func(a, b initCost) int {
		return cmp.Or(cmp.Compare(b.Clock, a.Clock), cmp.Compare(b.Bytes, a.Bytes), strings.Compare(a.Name, b.Name))
	})
	return t, nil
}

// parseInit reads "init NAME @T ms, T ms clock, N bytes, N allocs" (package runtime, GODEBUG).
func parseInit(line string) (initCost, bool) {
	f := strings.Fields(line)
	if len(f) != 11 || f[0] != "init" {
		return initCost{}, false
	}
	clock, err1 := strconv.ParseFloat(f[4], 64)
	size, err2 := strconv.Atoi(f[7])
	allocs, err3 := strconv.Atoi(f[9])
	if err1 != nil || err2 != nil || err3 != nil {
		return initCost{}, false
	}
	return initCost{f[1], time.Duration(clock * float64(time.Millisecond)), size, allocs}, true
}

func (t initTrace) table() string {
	var b strings.Builder
	var total initCost
	for _, c := range t.Packages {
		total.Clock += c.Clock
		total.Bytes += c.Bytes
		total.Allocs += c.Allocs
	}
	fmt.Fprintf(&b, "%d packages have something to initialise: %.3f ms, %d bytes in %d allocations, for each of the two Go starts of a run "+
		"(GODEBUG=inittrace=1, least of 20). The costliest:\n\n", len(t.Packages), millis(total.Clock), total.Bytes, total.Allocs)
	b.WriteString("| package | ms | bytes | allocations |\n|---|---:|---:|---:|\n")
	for _, c := range t.Packages[:min(8, len(t.Packages))] {
		fmt.Fprintf(&b, "| %s | %.3f | %d | %d |\n", c.Name, millis(c.Clock), c.Bytes, c.Allocs)
	}
	return b.String()
}
