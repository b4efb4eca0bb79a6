package terminal

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// lookForForeground is how often a relay in the background looks whether it came to the foreground.
const lookForForeground = 300 * time.Millisecond

// copyIn types what comes from the user into the inner terminal.
func (r *Relay) copyIn() {
	defer close(r.inDone)
	var buf [4096]byte
	lineOpen := false
	for {
		watch, every, done := r.inputTurn()
		if done {
			return
		}
		ready, woken := r.wakeIn.wait(watch, unix.POLLIN, every)
		if woken || ready == 0 {
			continue
		}
		n, err := r.readInput(buf[:])
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue
		}
		if n <= 0 {
			// The end of a pipe or file, or a terminal that is gone, which reads as EIO or as an end.
			r.typeIn(endOfFile(r.masterFD, lineOpen))
			return
		}
		lineOpen = buf[n-1] != '\n' && buf[n-1] != '\r'
		if !r.typeIn(buf[:n]) {
			return
		}
	}
}

// inputTurn says what copyIn may wait for now: input, or only to be woken (-1).
func (r *Relay) inputTurn() (watch int, every time.Duration, done bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return -1, 0, true
	case r.suspended:
		return -1, -1, false
	case !r.tty || r.raw:
		return r.inFD, -1, false
	}
	if foreground(r.inFD) {
		// A failure leaves the terminal unused and is tried again.
		if r.makeRaw() == nil && r.raw {
			_ = r.resize()
			return r.inFD, -1, false
		}
	}
	return -1, lookForForeground, false
}

// readInput reads what is there. It holds the lock, so that after Suspend not one more byte is taken,
// except where a read might block, which must not hold up Close.
func (r *Relay) readInput(buf []byte) (int, error) {
	r.mu.Lock()
	unlock := sync.OnceFunc(r.mu.Unlock)
	defer unlock()
	if r.closed || r.suspended {
		return 0, unix.EAGAIN
	}
	if r.tty && !foreground(r.inFD) && !hungUp(r.inFD) {
		r.raw = false // the terminal was taken from a gobox that was not asked
		return 0, unix.EAGAIN
	}
	if !r.ownIn {
		unlock()
		if !readable(r.inFD) {
			return 0, unix.EAGAIN // somebody else read it since
		}
	}
	return unix.Read(r.inFD, buf)
}

// typeIn writes p to the master. It says false when the input is over: relay closed, master hung up.
func (r *Relay) typeIn(p []byte) bool {
	for len(p) > 0 {
		n, err := unix.Write(r.masterFD, p)
		switch {
		case n > 0:
			p = p[n:]
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			// The command does not read. Nothing more is taken from the user until it does.
			ready, woken := r.wakeIn.wait(r.masterFD, unix.POLLOUT, -1)
			if woken {
				r.mu.Lock()
				closed := r.closed
				r.mu.Unlock()
				if closed {
					return false
				}
			} else if ready&unix.POLLOUT == 0 || ready&unix.POLLHUP != 0 {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// copyOut shows the user what the command writes, one buffer at a time, so that a slow terminal slows
// the command down and nothing piles up here.
func (r *Relay) copyOut() {
	defer close(r.outDone)
	var buf [32 << 10]byte
	drained, lost := 0, false
	for {
		n, err := unix.Read(r.masterFD, buf[:])
		switch {
		case n > 0:
			r.moved.Add(1)
			if !lost && !r.show(buf[:n]) {
				lost = true
				close(r.lost)
			}
			if r.closing.Load() {
				if drained += n; drained >= drainLimit {
					return
				}
			}
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			if !r.outTurn(r.masterFD, unix.POLLIN) {
				return
			}
		default: // EIO: no slave is open any more
			if err != nil && !errors.Is(err, unix.EIO) {
				err = fmt.Errorf("read what the command wrote: %w", err)
				r.writeErr.Store(&err)
			}
			return
		}
	}
}

// show writes p to the user. It says false when that failed for good.
func (r *Relay) show(p []byte) bool {
	for len(p) > 0 {
		piece := p
		if !r.ownOut {
			// The description may block. A pipe that poll calls writable takes this much without (PIPE_BUF).
			if !r.outTurn(r.outFD, unix.POLLOUT) {
				return false
			}
			piece = p[:min(len(p), 4096)]
		}
		n, err := unix.Write(r.outFD, piece)
		switch {
		case n > 0:
			r.moved.Add(1)
			p = p[n:]
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			if !r.outTurn(r.outFD, unix.POLLOUT) {
				return false
			}
		default:
			r.failed(err)
			return false
		}
	}
	return true
}

// failed notes why out takes nothing more, unless whoever looked at it is gone.
func (r *Relay) failed(err error) {
	if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.EIO) && IsTerminal(r.outFD) {
		return
	}
	r.writeErr.Store(&err)
}

// outTurn waits until fd is ready, and once Close was called no longer than silence.
func (r *Relay) outTurn(fd int, event int16) bool {
	for {
		if r.closing.Load() {
			return poll([]unix.PollFd{{Fd: int32(fd), Events: event}}, silence)
		}
		if ready, _ := r.wakeOut.wait(fd, event, -1); ready != 0 {
			return true
		}
	}
}

func readable(fd int) bool {
	return poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
}

func hungUp(fd int) bool {
	p := []unix.PollFd{{Fd: int32(fd)}}
	return poll(p, 0) && p[0].Revents&unix.POLLHUP != 0
}

// poll waits for one of fds, for ever if timeout is negative, and says whether one is ready.
func poll(fds []unix.PollFd, timeout time.Duration) bool {
	ms := -1
	if timeout >= 0 {
		ms = int(timeout / time.Millisecond)
	}
	for {
		n, err := unix.Poll(fds, ms)
		if !errors.Is(err, unix.EINTR) {
			return err == nil && n > 0
		}
	}
}
