package sandbox

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// monotonic is the time of CLOCK_MONOTONIC, which supervisor and init share.
func monotonic() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return time.Duration(ts.Nano())
}

// split and join carry a time in two numbers of a message.
func split(d time.Duration) (hi, lo int32) { return int32(d >> 32), int32(d) }
func join(hi, lo int32) time.Duration      { return time.Duration(hi)<<32 | time.Duration(uint32(lo)) }

// poll waits for one of fds (poll(2)) until end, or without end when that is zero. It is false when time is
// over and nothing is ready: what was in time and only seen late, by a process that was stopped, counts as
// in time. It may return early with nothing ready.
func poll(fds []unix.PollFd, end time.Time) bool {
	ms, over := -1, false
	if !end.IsZero() {
		left := time.Until(end)
		// Rounded up, so as not to spin through the last millisecond.
		ms = int(min(max(left+time.Millisecond-1, 0)/time.Millisecond, 1<<30))
		over = left <= 0
	}
	for i := range fds {
		fds[i].Revents = 0
	}
	n, _ := unix.Poll(fds, ms)
	return n > 0 || !over
}

// wake is an eventfd that one goroutine waits for and closes, and others signal, who may be later than that: nobody then has
// its number who would not expect to be written to.
type wake struct {
	mu sync.Mutex
	fd int // -1 when closed
}

func newWake() (*wake, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	return &wake{fd: fd}, err
}

func (w *wake) signal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fd >= 0 {
		_, _ = unix.Write(w.fd, []byte{0, 0, 0, 0, 0, 0, 0, 1})
	}
}

func (w *wake) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fd >= 0 {
		unix.Close(w.fd)
	}
	w.fd = -1
}
