package sandbox

import (
	"io"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// spliceChunk is the most that one splice(2) moves, in bytes; a pipe holds less.
const spliceChunk = 1 << 20

// budget is what the command may still write, in bytes, over all its output streams.
type budget struct {
	left atomic.Int64
	none bool  // no limit
	wake *wake // once the budget is spent
}

// take reserves up to n bytes.
func (b *budget) take(n int) int {
	if b.none {
		return n
	}
	for {
		left := b.left.Load()
		got := min(int64(n), left)
		if b.left.CompareAndSwap(left, left-got) {
			return int(got)
		}
	}
}

// giveBack returns what was reserved and not used.
func (b *budget) giveBack(n int) {
	if !b.none {
		b.left.Add(int64(n))
	}
}

// output is one of the command's output streams: a pipe of ours, whose other end the command has, and the
// caller's file. The command never gets that file itself: through /proc/self/fd it could be opened
// again with more rights than it was given with.
type output struct {
	from    *os.File
	to      int       // a duplicate of the caller's, who may close that at any time and open something else by its number
	capture io.Writer // gets a copy; may be nil
	budget  *budget
	started bool
	quit    atomic.Bool   // nobody waits for the rest
	over    func()        // called before that; may be nil
	done    chan struct{} // closed when all has been passed on, or nobody takes it
	bytes   atomic.Int64  // passed on
	err     atomic.Pointer[error]
}

// start copies in the background until the last writer has closed the pipe. It is called once there is
// something to copy, as many a command writes nothing.
func (o *output) start() {
	if !o.started {
		o.started = true
		go o.copy()
	}
}

// empty says whether nothing is in the pipe and nobody can write to it any more.
func (o *output) empty() bool {
	fds := [...]unix.PollFd{{Fd: int32(o.from.Fd()), Events: unix.POLLIN}}
	_, err := unix.Poll(fds[:], 0)
	return err == nil && fds[0].Revents == unix.POLLHUP
}

// end tells that nothing more comes.
func (o *output) end() {
	unix.Close(o.to)
	if o.over != nil {
		o.over()
	}
	close(o.done)
}

func (o *output) copy() {
	defer o.end()
	// With the pipe gone, the command gets SIGPIPE, as without gobox.
	defer o.from.Close()
	from, to := int(o.from.Fd()), o.to
	buf := make([]byte, 64<<10)
	splicing := o.capture == nil && isPipe(to)
	for !o.quit.Load() {
		// What is there is taken off the budget, and no more: it is for both streams.
		ready := unread(from)
		if ready == 0 {
			if !waitFor(from, unix.POLLIN) {
				return
			}
			continue
		}
		want := o.budget.take(int(min(ready, spliceChunk)))
		if want == 0 {
			o.overflow(from)
			return
		}
		var n int
		var err error
		// Spliced, a short write fills a place of the caller's pipe that a page has room in.
		if splicing && want >= len(buf)/2 {
			n, err = o.splice(from, to, want)
		} else {
			n, err = o.readWrite(from, to, buf[:min(want, len(buf))])
		}
		o.budget.giveBack(want - max(n, 0))
		o.bytes.Add(int64(max(n, 0)))
		switch {
		case err == unix.EINTR || err == unix.EAGAIN:
		case err != nil || n == 0:
			o.failed(err)
			return
		}
	}
}

// failed keeps why output could not be passed on; a reader that has gone away is no failure.
func (o *output) failed(err error) {
	if err != nil && err != unix.EPIPE {
		o.err.Store(&err)
	}
}

// isPipe says whether bytes may be moved by splice(2). Into a file they may not: splice takes the file's
// offset before it waits, and sets it back over what others have written meanwhile.
func isPipe(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO
}

// splice moves bytes within the kernel.
func (o *output) splice(from, to, n int) (int, error) {
	moved, err := unix.Splice(from, nil, to, nil, n, unix.SPLICE_F_MOVE)
	if err == unix.EAGAIN {
		// The destination does not block, and is full.
		waitFor(to, unix.POLLOUT)
	}
	return int(moved), err
}

// readWrite moves what there is, up to len(buf) bytes, through buf.
func (o *output) readWrite(from, to int, buf []byte) (int, error) {
	n, err := unix.Read(from, buf)
	if err != nil || n == 0 {
		return 0, err
	}
	if o.capture != nil {
		// First, so that a reader who is gone does not cost the record. A capture that cannot be written is
		// found out when the record is synced.
		_, _ = o.capture.Write(buf[:n])
	}
	for rest := buf[:n]; len(rest) > 0 && !o.quit.Load(); {
		k, err := unix.Write(to, rest)
		switch err {
		case nil:
			rest = rest[k:]
		case unix.EINTR:
		case unix.EAGAIN:
			waitFor(to, unix.POLLOUT)
		default:
			return n - len(rest), err
		}
	}
	return n, nil
}

// waitFor waits until fd is ready for events, and says whether it ever will be: not with nothing to read
// and nobody left to write.
func waitFor(fd int, events int16) bool {
	fds := [...]unix.PollFd{{Fd: int32(fd), Events: events}}
	for {
		_, err := unix.Poll(fds[:], -1)
		if err == nil {
			return fds[0].Revents&events != 0
		}
		if err != unix.EINTR {
			return false
		}
	}
}

// overflow reports that the budget is spent, and drops what is there and all that comes.
func (o *output) overflow(from int) {
	o.budget.wake.signal()
	var buf [4096]byte
	for {
		n, err := unix.Read(from, buf[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return
		}
	}
}
