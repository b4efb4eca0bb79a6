package egress

import (
	"sync"

	"golang.org/x/sys/unix"
)

// pipe is what splice(2) goes through: two descriptors.
type pipe struct {
	r, w int
}

// pipes lends pipes to whoever has bytes to move just now, within a number that leaves descriptors for the rest of the
// program. Who gets none copies.
type pipes struct {
	mu   sync.Mutex
	free []pipe
	left int // how many more may be made
	shut bool
}

// maxIdlePipes is how many are kept for later.
const maxIdlePipes = 16

func newPipes(most int) *pipes { return &pipes{left: most} }

func (l *pipes) get() (pipe, bool) {
	l.mu.Lock()
	if n := len(l.free); n > 0 {
		p := l.free[n-1]
		l.free = l.free[:n-1]
		l.mu.Unlock()
		return p, true
	}
	ok := l.left > 0 && !l.shut
	if ok {
		l.left--
	}
	l.mu.Unlock()
	if !ok {
		return pipe{}, false
	}
	var fd [2]int
	if err := unix.Pipe2(fd[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		l.mu.Lock()
		l.left++
		l.mu.Unlock()
		return pipe{}, false
	}
	return pipe{fd[0], fd[1]}, true
}

// put takes a pipe back. One that may still hold bytes of another connection is not used again.
func (l *pipes) put(p pipe, empty bool) {
	l.mu.Lock()
	if empty && !l.shut && len(l.free) < maxIdlePipes {
		l.free = append(l.free, p)
		l.mu.Unlock()
		return
	}
	l.left++
	l.mu.Unlock()
	p.close()
}

// close ends lending.
func (l *pipes) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shut = true
	for _, p := range l.free {
		p.close()
	}
	l.free = nil
}

func (p pipe) close() {
	unix.Close(p.r)
	unix.Close(p.w)
}
