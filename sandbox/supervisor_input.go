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
	from *os.File
	to   int // write end of the command's stdin
	stop int // eventfd
	feed func() error
	quit atomic.Bool
	done chan struct{}

	// Of a file: a read end to count what is unread by, where the offset was, and how many bytes were given.
	peek         int
	start, given int64
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
	in := &input{from: f, to: -1, stop: -1, peek: -1, done: make(chan struct{})}
	defer func() {
		if err != nil {
			r.Close()
			closeAll([]int{in.to, in.stop, in.peek})
		}
	}()
	in.to, err = unix.FcntlInt(w.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	w.Close()
	if err != nil {
		return nil, nil, err
	}
	if in.stop, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, nil, err
	}
	in.feed = in.feedBytes
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		if in.start, err = unix.Seek(int(f.Fd()), 0, unix.SEEK_CUR); err == nil {
			in.feed = in.feedFile
			in.peek, err = unix.FcntlInt(r.Fd(), unix.F_DUPFD_CLOEXEC, 3)
		}
		if err == unix.ESPIPE {
			err = nil
		}
	case unix.S_IFIFO:
		// A pipe of one page has room again only once all that it held was read.
		if _, e := unix.FcntlInt(uintptr(in.to), unix.F_SETPIPE_SZ, 1); e == nil {
			in.feed = in.feedPipe
		}
	}
	return in, r, err
}

func (in *input) run() {
	_ = in.feed()
	unix.Close(in.to)
	close(in.done)
}

// finish stops the feeding, which started says was begun, and gives back what was not read.
func (in *input) finish(started bool) {
	if started {
		in.quit.Store(true)
		_, _ = unix.Write(in.stop, []byte{0, 0, 0, 0, 0, 0, 0, 1})
		<-in.done
	} else {
		unix.Close(in.to)
	}
	if in.peek >= 0 {
		_, _ = unix.Seek(int(in.from.Fd()), in.start+in.given-unread(in.peek), unix.SEEK_SET)
		unix.Close(in.peek)
	}
	unix.Close(in.stop)
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
		n, err := unix.Pread(int(in.from.Fd()), buf, in.start+in.given)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
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
// (tee(2)).
func (in *input) feedPipe() error {
	fd := int(in.from.Fd())
	for {
		if err := in.wait(fd, unix.POLLIN); err != nil {
			return err
		}
		n, err := unix.Tee(fd, in.to, unix.Getpagesize(), unix.SPLICE_F_NONBLOCK)
		switch {
		case err == unix.EINTR || err == unix.EAGAIN:
			continue
		case err != nil || n == 0:
			return err
		}
		err = in.wait(in.to, unix.POLLOUT)
		if skipErr := skip(fd, n-unread(in.to)); err == nil {
			err = skipErr
		}
		if err != nil {
			return err
		}
	}
}

// skip takes n bytes out of a pipe that has them.
func skip(fd int, n int64) error {
	buf := make([]byte, 4096)
	for n > 0 {
		k, err := unix.Read(fd, buf[:min(n, int64(len(buf)))])
		if err == unix.EINTR {
			continue
		}
		if err != nil || k == 0 {
			return err
		}
		n -= int64(k)
	}
	return nil
}

// feedBytes copies what can be read, from whatever it is.
func (in *input) feedBytes() error {
	fd := int(in.from.Fd())
	buf := make([]byte, 64<<10)
	for {
		if err := in.wait(fd, unix.POLLIN); err != nil {
			return err
		}
		n, err := unix.Read(fd, buf)
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
