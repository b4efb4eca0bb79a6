package sandbox

import (
	"math"
	"testing"
	"time"

	"gobox/rlimit/cgroup"

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

func TestHostGives(t *testing.T) {
	var g given
	for i, tt := range []struct{ available, shared, all, more uint64 }{
		{100, 10, 0, 0}, {90, 15, 10, 5}, {120, 5, 0, 0}, {20, 50, 100, 45}, {0, 0, math.MaxUint64, math.MaxUint64}, {119, 6, 1, 1},
	} {
		g.see(cgroup.HostMemory{Available: tt.available, Shared: tt.shared})
		if g.all != tt.all || g.shared != tt.more {
			t.Errorf("look %d: %+v", i, g)
		}
	}
}

// One answer proves little, several in a row do, and what is in files is there at once.
func TestWatchedVerdict(t *testing.T) {
	const limit = 100
	type answer struct {
		c       cgroup.Confirmed
		exiting uint64
		after   time.Duration
		host    given
	}
	all := given{all: math.MaxUint64, shared: math.MaxUint64}
	over := answer{c: cgroup.Confirmed{Bytes: 101}}
	gone := answer{c: cgroup.Confirmed{Bytes: 1, Gone: 100}, after: 300 * time.Millisecond}
	for name, tt := range map[string]struct {
		answers []answer
		at      int // which of them ends it, 0 for none
	}{
		"within":            {[]answer{{c: cgroup.Confirmed{Bytes: 100, Unseen: limit + unseenAhead, Pending: limit + unseenAhead}, host: all}}, 0},
		"once or twice":     {[]answer{over, over, {}, over, over, {}}, 0},
		"three in a row":    {[]answer{over, {}, over, over, over}, 5},
		"in files":          {[]answer{{c: cgroup.Confirmed{Bytes: 101, Certain: 101}}}, 1},
		"unseen":            {[]answer{{c: cgroup.Confirmed{Unseen: limit + unseenAhead + 1}, host: given{shared: math.MaxUint64}}}, 1},
		"asked for":         {[]answer{{c: cgroup.Confirmed{Unseen: 1 << 40}, host: given{shared: limit + unseenAhead, all: math.MaxUint64}}}, 0},
		"pending":           {[]answer{{c: cgroup.Confirmed{Pending: limit + unseenAhead + 1}, host: given{all: math.MaxUint64}}}, 1},
		"pending and empty": {[]answer{{c: cgroup.Confirmed{Pending: 1 << 40}, host: given{all: limit + unseenAhead, shared: math.MaxUint64}}}, 0},
		"ending":            {[]answer{{exiting: 101}, {exiting: 101}, {exiting: 101}}, 3},
		"gone, for a while": {[]answer{gone, gone, gone, {}, gone, gone, gone, gone}, 0},
		"gone all the time": {[]answer{gone, gone, gone, gone, gone}, 5},
		"gone many times in no time": {[]answer{
			{c: gone.c}, {c: gone.c}, {c: gone.c}, {c: gone.c}, {c: gone.c}, {c: gone.c},
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var v verdict
			now, at := time.Now(), 0
			for i, a := range tt.answers {
				now = now.Add(a.after)
				if v.over(a.c, a.exiting, limit, a.host, now) && at == 0 {
					at = i + 1
				}
			}
			if at != tt.at {
				t.Errorf("answer %d ended it, want %d", at, tt.at)
			}
		})
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
