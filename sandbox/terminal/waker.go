package terminal

import (
	"encoding/binary"
	"time"

	"golang.org/x/sys/unix"
)

// waker gets one goroutine out of its wait for a descriptor (eventfd(2)).
type waker struct{ fd int }

func newWaker() (*waker, error) {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return &waker{fd}, nil
}

func (w *waker) wake() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(w.fd, one[:])
}

// wait waits for fd (none if negative), for wake, or for timeout if that is not negative. It gives what
// poll(2) reported of fd, and whether wake was called since the last wait.
func (w *waker) wait(fd int, event int16, timeout time.Duration) (ready int16, woken bool) {
	fds := []unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLIN}, {Fd: int32(fd), Events: event}}
	if !poll(fds, timeout) {
		return 0, false
	}
	if woken = fds[0].Revents != 0; woken {
		var count [8]byte
		_, _ = unix.Read(w.fd, count[:])
	}
	return fds[1].Revents, woken
}

func (w *waker) close() {
	if w != nil {
		unix.Close(w.fd)
	}
}
