package sandbox

import (
	"math"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What grows fast is looked at again in time, what does not as seldom as ever, and a look that is dear never often.
func TestWatchedGrowth(t *testing.T) {
	const mib = 1 << 20
	for name, tt := range map[string]struct {
		last, bytes, room uint64
		cost, want        time.Duration
	}{
		"still":                 {10 * mib, 10 * mib, 90 * mib, 0, watchEvery},
		"less":                  {20 * mib, 10 * mib, 90 * mib, 0, watchEvery},
		"slow":                  {9 * mib, 10 * mib, 90 * mib, 0, watchEvery},
		"there in 60 ms":        {0, 50 * mib, 30 * mib, 0, 30 * time.Millisecond},
		"there at once":         {0, 50 * mib, mib, 0, watchSoon},
		"a look that is dear":   {0, 50 * mib, mib, 3 * time.Millisecond, 30 * time.Millisecond},
		"a look dearer than it": {0, 50 * mib, mib, time.Second, watchEvery},
		"full, and yet not":     {0, 50 * mib, 0, 0, watchEvery},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			g := growth{now.Add(-watchEvery), tt.last}
			if got := g.wait(now, tt.cost, tt.bytes, tt.room); got != tt.want || g != (growth{now, tt.bytes}) {
				t.Errorf("%v, want %v; %+v", got, tt.want, g)
			}
		})
	}
	var first growth
	if got := first.wait(time.Now(), 0, mib, 1); got != watchEvery {
		t.Errorf("the first look: %v", got)
	}
}

// Of more processes than it looks at, nobody could say what they take.
func TestWatchedCrowdUnseen(t *testing.T) {
	w := watch{scans: true, maxMemory: math.MaxInt64, mark: make([]byte, markSize)} // what it sees is the whole host
	if err := w.openProc(); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(w.scanner.Proc)
	w.exact.judged = time.Now().Add(time.Hour) // no other question
	if got := w.look(&handover{}); got != 0 {
		t.Errorf("with all in sight: %v", got)
	}
	w.scanner.Limit = 1
	if got := w.look(&handover{}); got != watchedMemory {
		t.Errorf("with one of them in sight: %v", got)
	}
}

// A watch that sees nothing for a second ends the command: nobody could say what it takes. One that sees again begins anew.
func TestWatchedBlind(t *testing.T) {
	w := watch{scans: true, maxCPU: math.MaxInt64} // what it sees is the whole host
	looks := int(time.Second / watchEvery)
	for range 2 {
		w.scanner.Proc = -1
		for i := range looks - 1 {
			if got := w.look(&handover{}); got != 0 {
				t.Fatalf("look %d: %v", i, got)
			}
		}
		proc, err := unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(proc)
		w.scanner.Proc, w.mark = proc, make([]byte, markSize)
		if got := w.look(&handover{}); got != 0 {
			t.Fatalf("a look that sees: %v", got)
		}
	}
	w.scanner.Proc = -1
	for i := range looks {
		if got := w.look(&handover{}); (got != 0) != (i == looks-1) {
			t.Fatalf("look %d: %v", i, got)
		}
	}
}
