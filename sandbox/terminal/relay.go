package terminal

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Relay joins the user's terminal with a pty master until the master hangs up. Its methods may be
// called from any goroutine.
type Relay struct {
	in, out, master *os.File

	// Descriptors in use; in is -1 without input. own* are second openings, closed by Close.
	inFD, outFD, masterFD int
	ownIn, ownOut         bool
	shared                bool // for tests: do not open anything a second time
	tty                   bool // in is a terminal
	window                int  // the terminal whose size the command's follows, -1 for none

	wakeIn, wakeOut *waker
	inDone, outDone chan struct{}
	lost            chan struct{}

	closing atomic.Bool
	stuck   atomic.Bool
	moved   atomic.Uint64 // counts every piece of output read or written

	writeErr atomic.Pointer[error]

	mu        sync.Mutex // what follows, and reads that cannot block
	started   bool
	closed    bool
	suspended bool
	raw       bool // the user's terminal has the modes rawModes
	saved     unix.Termios
	rawModes  unix.Termios

	closeOnce sync.Once
	closeErr  error
}

// New prepares a relay; nothing happens before Start. in is the user's terminal, or another source that
// is to be typed into the inner terminal (its end is typed as ^D), or nil for none. out is where the
// command's output goes. All three stay the caller's, who closes master after Close, unless it is [Relay.Stuck].
func New(in, out, master *os.File) *Relay {
	return &Relay{
		in: in, out: out, master: master,
		inFD: -1, outFD: -1, masterFD: -1, window: -1,
		inDone: make(chan struct{}), outDone: make(chan struct{}), lost: make(chan struct{}),
	}
}

// Start gives the inner terminal the modes and the window size of the user's, makes the user's raw, and
// starts copying both ways. In the background it leaves modes alone. After an error nothing is changed.
func (r *Relay) Start() (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.started || r.closed {
		return errors.New("start terminal relay: already started or closed")
	}
	defer func() {
		if err != nil {
			_ = r.restore()
			r.release()
			err = fmt.Errorf("start terminal relay: %w", err)
		}
	}()
	if err := r.open(); err != nil {
		return err
	}
	if r.tty {
		if err := r.makeRaw(); err != nil {
			return err
		}
		if r.raw {
			if err := unix.IoctlSetTermios(r.masterFD, unix.TCSETS, &r.saved); err != nil {
				return fmt.Errorf("set inner modes: %w", err)
			}
		}
	}
	if err := r.resize(); err != nil {
		return err
	}
	r.started = true
	if r.inFD >= 0 {
		go r.copyIn()
	} else {
		close(r.inDone)
	}
	go r.copyOut()
	return nil
}

func (r *Relay) open() (err error) {
	if r.masterFD, err = descriptor(r.master); err != nil {
		return err
	}
	if err := unix.SetNonblock(r.masterFD, true); err != nil {
		return err
	}
	if r.outFD, err = descriptor(r.out); err != nil {
		return err
	}
	outTTY := IsTerminal(r.outFD)
	if !r.shared {
		r.outFD, r.ownOut = reopen(r.outFD, unix.O_WRONLY)
	}
	if outTTY {
		r.window = r.outFD
	}
	if r.in != nil {
		if r.inFD, err = descriptor(r.in); err != nil {
			return err
		}
		r.tty = IsTerminal(r.inFD)
		if !r.shared {
			r.inFD, r.ownIn = reopen(r.inFD, unix.O_RDONLY)
		}
		if r.tty {
			r.window = r.inFD
		}
	}
	if r.wakeIn, err = newWaker(); err != nil {
		return err
	}
	r.wakeOut, err = newWaker()
	return err
}

// Resize gives the inner terminal the window size of the user's, of which the kernel tells the command's
// foreground processes (SIGWINCH). It does nothing when neither end of the user's is a terminal.
func (r *Relay) Resize() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.started || r.closed {
		return nil
	}
	return r.resize()
}

func (r *Relay) resize() error {
	if r.window < 0 {
		return nil
	}
	ws, err := unix.IoctlGetWinsize(r.window, unix.TIOCGWINSZ)
	if err != nil {
		return fmt.Errorf("read window size: %w", err)
	}
	if err := unix.IoctlSetWinsize(r.masterFD, unix.TIOCSWINSZ, ws); err != nil {
		return fmt.Errorf("set window size: %w", err)
	}
	return nil
}

// Suspend puts the user's modes back and stops reading, for the time until gobox has stopped itself.
func (r *Relay) Suspend() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.started || r.closed {
		return nil
	}
	r.suspended = true
	r.wakeIn.wake()
	return r.restore()
}

// Resume undoes Suspend, after SIGCONT, which may have come without one: in the foreground the terminal
// is made raw again, with the modes found now as the user's, and the window size is copied.
func (r *Relay) Resume() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.started || r.closed {
		return nil
	}
	r.suspended = false
	r.wakeIn.wake()
	if r.tty {
		if err := r.makeRaw(); err != nil {
			return err
		}
	}
	return r.resize()
}

// makeRaw makes the user's terminal raw if gobox may. When it is still or again as makeRaw left it (a
// shell puts the modes of a stopped job back), the user's modes are those saved before.
func (r *Relay) makeRaw() error {
	had := r.rawModes != unix.Termios{}
	r.raw = false
	if !foreground(r.inFD) {
		return nil
	}
	now, err := unix.IoctlGetTermios(r.inFD, unix.TCGETS)
	if err != nil {
		return fmt.Errorf("read terminal modes: %w", err)
	}
	if !had || *now != r.rawModes {
		r.saved = *now
		r.rawModes = rawFrom(*now)
	}
	if err := unix.IoctlSetTermios(r.inFD, unix.TCSETS, &r.rawModes); err != nil {
		return fmt.Errorf("make terminal raw: %w", err)
	}
	r.raw = true
	return nil
}

// restore puts the user's modes back. Out of the foreground it leaves them: whoever took the terminal
// over has set its own.
func (r *Relay) restore() error {
	if !r.raw {
		return nil
	}
	r.raw = false
	if !foreground(r.inFD) {
		return nil
	}
	// TCSETS and not TCSETSW or TCSETSF: waiting for output could take for ever, and flushing input would
	// eat what was typed ahead for the shell.
	err := unix.IoctlSetTermios(r.inFD, unix.TCSETS, &r.saved)
	if err != nil && !errors.Is(err, unix.EIO) {
		return fmt.Errorf("restore terminal modes: %w", err)
	}
	return nil // EIO: the terminal is gone, and its modes with it
}

// OutputLost is closed when out takes no more output: its reader or its terminal is gone. The relay then
// discards what the command writes, so that the command can end.
func (r *Relay) OutputLost() <-chan struct{} { return r.lost }

// WriteError is why output could not be shown: a full disk, say, but not that its reader or its terminal is gone.
func (r *Relay) WriteError() error {
	if err := r.writeErr.Load(); err != nil {
		return *err
	}
	return nil
}

const (
	// silence is how long Close waits for something to move before it gives up on the rest.
	silence = time.Second
	// drainLimit bounds what Close still copies, in case some process goes on writing. A pty holds less.
	drainLimit = 1 << 20
)

// Close ends the relay, after the command has ended: it copies what the master still holds, until the
// hang-up that follows the last slave's closing, a second in which nothing moves, or 1 MiB; then it puts
// the user's modes back. It is idempotent; later calls wait for the first and give its error.
func (r *Relay) Close() error {
	r.closeOnce.Do(func() { r.closeErr = r.close() })
	return r.closeErr
}

func (r *Relay) close() error {
	r.mu.Lock()
	r.closed = true
	started := r.started
	r.mu.Unlock()
	if !started {
		return nil
	}
	r.wakeIn.wake()
	r.closing.Store(true)
	r.wakeOut.wake()
	r.stuck.Store(!await(r.inDone, nil) || !await(r.outDone, &r.moved))
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.restore()
	if !r.stuck.Load() {
		// A copier that hangs in a system call must not find its descriptors reused.
		r.release()
	}
	return err
}

// Stuck says that something of the relay hangs in a system call after Close, and goes on to use the three files: they must not
// be closed then.
func (r *Relay) Stuck() bool { return r.stuck.Load() }

// await waits for done as long as moved changes at least once in two silences.
func await(done <-chan struct{}, moved *atomic.Uint64) bool {
	for last := uint64(0); ; {
		select {
		case <-done:
			return true
		case <-time.After(2 * silence):
		}
		if moved == nil {
			return false
		}
		now := moved.Load()
		if now == last {
			return false
		}
		last = now
	}
}

func (r *Relay) release() {
	if r.ownIn {
		unix.Close(r.inFD)
	}
	if r.ownOut {
		unix.Close(r.outFD)
	}
	r.wakeIn.close()
	r.wakeOut.close()
	r.inFD, r.outFD, r.ownIn, r.ownOut = -1, -1, false, false
}
