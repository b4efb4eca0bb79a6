package sandbox

import (
	"math"
	"time"

	"gobox/rlimit/cgroup"
)

// thorough asks for the exact figure in a goroutine of its own, since the kernel may keep that one waiting, and init has clocks to watch.
type thorough struct {
	scanner cgroup.Scanner // the goroutine's while it runs
	answer  chan exact     // nil while nothing was asked
	asked   time.Time
	judged  time.Time // when the last answer came, or the watch began
	left    uint64    // bytes that the host had then
	host    given
}

type exact struct {
	found cgroup.Confirmed
	err   error
}

// askFor is how long an answer is waited for at once. Most take less than a millisecond.
const askFor = 20 * time.Millisecond

func (e *thorough) open() error {
	e.judged = time.Now()
	err := openProc(&e.scanner)
	if err == nil {
		e.left = e.host.see(e.scanner.Host()).Available
	}
	return err
}

func (e *thorough) asking() bool { return e.answer != nil }

// ask gives the answer to the last question, or to a new one; done is false as long as there is none.
func (e *thorough) ask() (found cgroup.Confirmed, err error, done bool) {
	if e.answer == nil {
		answer := make(chan exact, 1)
		e.answer, e.asked = answer, time.Now()
		go func() {
			found, err := e.scanner.Confirm()
			answer <- exact{found, err}
		}()
	}
	select {
	case a := <-e.answer:
		e.answer, e.judged = nil, time.Now()
		return a.found, a.err, true
	case <-time.After(askFor):
		return cgroup.Confirmed{}, nil, false
	}
}

// given is what the host has given away since it had the most, to the command or to others.
type given struct {
	all, shared uint64 // bytes
	most, least uint64 // that it had available, and that were shared
	known       bool
}

// see adds a look.
func (g *given) see(now cgroup.HostMemory) cgroup.HostMemory {
	if now.Available == 0 {
		g.all, g.shared = math.MaxUint64, math.MaxUint64 // nobody knows
		return now
	}
	if !g.known {
		g.known, g.most, g.least = true, now.Available, now.Shared
	}
	g.most, g.least = max(g.most, now.Available), min(g.least, now.Shared)
	g.all, g.shared = g.most-now.Available, now.Shared-g.least
	return now
}
