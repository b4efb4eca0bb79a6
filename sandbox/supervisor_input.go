package sandbox

import (
	"errors"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// input feeds the command's stdin, a pipe of ours, from the caller's. The command never gets the caller's
// descriptor: through it, it could write to a pipe that the caller goes on to read commands from, move the
// offset of a file, leave flags and locks on it, or change its mode.
//
// What the command does not read stays the caller's, as without gobox, where that can be: a file's offset
// is set to what was read, and of a pipe nothing is taken before it was. Of sockets and terminals up to a
// pipe's worth of bytes is gone.
type input struct {
	from int // a duplicate of the caller's, who may close that at any time
	to   int // write end of the command's stdin
	stop int // eventfd
	null int // /dev/null, of a pipe
	feed func() error
	quit atomic.Bool
	done chan struct{}

	// Of a file: a read end to count what is unread by, where the offset was, and how many bytes were given.
	peek         int
	start, given int64
	// bad is why the rest of it could not be read. The command has met an end there, and cannot tell that from the file's own.
	bad error
}

// errStopped says that the run is over.
var errStopped = errors.New("stopped")

// newInput prepares to feed a new pipe from f; the read end, for the command, is the caller's. The caller
// must start run and call finish, or call finish alone.
func newInput(f *os.File) (_ *input, _ *os.File, err error) {
	r, w, err := pipe(0o444)
	if err != nil {
		return nil, nil, err
	}
	in := &input{from: -1, to: -1, stop: -1, null: -1, peek: -1, done: make(chan struct{})}
	defer func() {
		if err != nil {
			r.Close()
			closeAll([]int{in.from, in.to, in.stop, in.null, in.peek})
		}
	}()
	in.to, err = unix.FcntlInt(w.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	w.Close()
	if err != nil {
		return nil, nil, err
	}
	if in.from, err = unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3); err != nil {
		return nil, nil, err
	}
	if in.stop, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(in.from, &st); err != nil {
		return nil, nil, err
	}
	in.feed = func() error { return in.feedBytes(unix.Read) }
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		if in.start, err = unix.Seek(in.from, 0, unix.SEEK_CUR); err == nil {
			in.feed = in.feedFile
			in.peek, err = unix.FcntlInt(r.Fd(), unix.F_DUPFD_CLOEXEC, 3)
		}
		if err == unix.ESPIPE {
			err = nil
		}
	case unix.S_IFIFO:
		// A pipe of one page has room again only once all that it held was read.
		_, e := unix.FcntlInt(uintptr(in.to), unix.F_SETPIPE_SZ, 1)
		if e == nil {
			in.null, e = unix.Open(os.DevNull, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		}
		if in.feed = in.feedPipe; e != nil {
			in.feed = in.feedSpliced
		}
	case unix.S_IFSOCK:
		in.feed = func() error { return in.feedBytes(receiveNow) }
	}
	return in, r, err
}

func (in *input) run() {
	_ = in.feed()
	unix.Close(in.to)
	close(in.done)
}

// finish stops the feeding, which started says was begun, and gives back what was not read. The error is why the command was
// not given all of a file of which it has read all that it was given.
func (in *input) finish(started bool) (err error) {
	if started {
		in.quit.Store(true)
		_, _ = unix.Write(in.stop, []byte{0, 0, 0, 0, 0, 0, 0, 1})
		<-in.done
	} else {
		unix.Close(in.to)
	}
	if in.peek >= 0 {
		left := unread(in.peek)
		_, _ = unix.Seek(in.from, in.start+in.given-left, unix.SEEK_SET)
		if left == 0 {
			err = in.bad
		}
	}
	closeAll([]int{in.from, in.stop, in.null, in.peek})
	return err
}

// wait polls fd for events and gives errStopped when the run is over.
func (in *input) wait(fd int, events int16) error {
	fds := [...]unix.PollFd{{Fd: int32(fd), Events: events}, {Fd: int32(in.stop), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(fds[:], -1)
		switch {
		case in.quit.Load():
			return errStopped
		case err == unix.EINTR:
		case err != nil:
			return err
		case fds[0].Revents != 0:
			return nil
		}
	}
}

// unread is how many bytes the pipe holds that nobody has read (FIONREAD, by its terminals' name).
func unread(pipe int) int64 {
	n, err := unix.IoctlGetInt(pipe, unix.TIOCINQ)
	if err != nil {
		return 0
	}
	return int64(n)
}

// feedFile reads a file from where its offset is, which it leaves alone.
func (in *input) feedFile() error {
	buf := make([]byte, 64<<10)
	for {
		n, err := unix.Pread(in.from, buf, in.start+in.given)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			if err != unix.EBADF { // that is of a descriptor for writing only, of which nothing was ever to be read
				in.bad = err
			}
			return err
		}
		k, err := in.give(buf[:n])
		in.given += int64(k)
		if err != nil {
			return err
		}
	}
}

// feedPipe shows the command what is in the caller's pipe, and takes it out of there once it was read
// (tee(2)). Others may read the same pipe: nothing here waits for what one of them has taken by then.
func (in *input) feedPipe() error {
	fd := in.from
	for {
		if err := in.wait(fd, unix.POLLIN); err != nil {
			return err
		}
		n, err := unix.Tee(fd, in.to, unix.Getpagesize(), unix.SPLICE_F_NONBLOCK)
		switch {
		case err == unix.EINTR || err == unix.EAGAIN || err == nil && n == 0 && !ended(fd):
			continue
		case err != nil || n == 0:
			return err
		}
		err = in.wait(in.to, unix.POLLOUT)
		if skipErr := in.skip(n - unread(in.to)); err == nil {
			err = skipErr
		}
		if err != nil {
			return err
		}
	}
}

// ended says whether a pipe is empty and has no writer. That tee(2) has found nothing is no sign of it where others read.
func ended(pipe int) bool {
	fds := [...]unix.PollFd{{Fd: int32(pipe), Events: unix.POLLIN}}
	_, err := unix.Poll(fds[:], 0)
	return err != nil && err != unix.EINTR || fds[0].Revents&(unix.POLLIN|unix.POLLHUP) == unix.POLLHUP
}

// skip takes n bytes out of the caller's pipe, if they are there still.
func (in *input) skip(n int64) error {
	for n > 0 {
		k, err := unix.Splice(in.from, nil, in.null, nil, int(n), unix.SPLICE_F_NONBLOCK)
		if err == unix.EINTR {
			continue
		}
		if err == unix.EAGAIN || k == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		n -= k
	}
	return nil
}

// feedSpliced moves what is in the caller's pipe.
func (in *input) feedSpliced() error {
	for {
		err := in.wait(in.from, unix.POLLIN)
		if err == nil {
			err = in.wait(in.to, unix.POLLOUT)
		}
		if err != nil {
			return err
		}
		n, err := unix.Splice(in.from, nil, in.to, nil, 64<<10, unix.SPLICE_F_NONBLOCK)
		if err == unix.EINTR || err == unix.EAGAIN || err == nil && n == 0 && !ended(in.from) {
			continue
		}
		if err != nil || n == 0 {
			return err
		}
	}
}

// receiveNow reads from a socket, and does not wait where somebody else has read what there was.
func receiveNow(fd int, buf []byte) (int, error) {
	n, _, err := unix.Recvfrom(fd, buf, unix.MSG_DONTWAIT)
	return n, err
}

// feedBytes copies what can be read, from whatever it is.
func (in *input) feedBytes(read func(fd int, buf []byte) (int, error)) error {
	buf := make([]byte, 64<<10)
	for {
		if err := in.wait(in.from, unix.POLLIN); err != nil {
			return err
		}
		n, err := read(in.from, buf)
		if err == unix.EINTR || err == unix.EAGAIN {
			continue
		}
		if err != nil || n == 0 {
			return err
		}
		if _, err := in.give(buf[:n]); err != nil {
			return err
		}
	}
}

// give writes all of b to the command, and says how much of it went into the pipe.
func (in *input) give(b []byte) (int, error) {
	total := 0
	for len(b) > 0 {
		if err := in.wait(in.to, unix.POLLOUT); err != nil {
			return total, err
		}
		// No more than fits for sure, as the descriptor blocks.
		n, err := unix.Write(in.to, b[:min(len(b), unix.PathMax)])
		if err == unix.EINTR || err == unix.EAGAIN {
			continue
		}
		if err != nil {
			return total, err
		}
		total += n
		b = b[n:]
	}
	return total, nil
}
