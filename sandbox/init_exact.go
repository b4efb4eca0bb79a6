package sandbox

import (
	"time"

	"gobox/rlimit/cgroup"
)

// thorough asks for the exact figure in a goroutine of its own, since the kernel may keep that one waiting, and init has clocks to watch.
type thorough struct {
	scanner cgroup.Scanner // the goroutine's while it runs
	answer  chan exact     // nil while nothing was asked
	asked   time.Time
	judged  time.Time // when the last answer came, or the watch began
}

type exact struct {
	found cgroup.Confirmed
	err   error
}

// askFor is how long an answer is waited for at once. Most take less than a millisecond.
const askFor = 20 * time.Millisecond

func (e *thorough) open() error {
	e.judged = time.Now()
	return openProc(&e.scanner)
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
