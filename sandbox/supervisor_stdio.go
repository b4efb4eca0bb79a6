package sandbox

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"gobox/policy"
	"gobox/sandbox/terminal"

	"golang.org/x/sys/unix"
)

// Stdio is what the command's first three descriptors are made of. The files stay the caller's, who may close them while the
// command runs: the run has descriptors of its own.
type Stdio struct {
	In, Out, Err *os.File
	// CaptureOut and CaptureErr, when set, get a copy of what the command writes, but for what goes to a terminal. Each is
	// used by one goroutine, which where output could not be drained in time is still there after the run.
	CaptureOut, CaptureErr io.Writer
	// Over, when set, is called when nothing more is written to Out, which may be long before the end of the run: a
	// caller that closes its own copy then lets the reader see the end. It is called from another goroutine.
	Over func()
	// ForceTerminal gives the command a terminal even where none of the three is one.
	ForceTerminal bool
}

// memMajor and 3 are the device number of /dev/null (MEM_MAJOR of <linux/major.h>).
const memMajor = 1

// streams join the caller's descriptors with those that the command gets, none of which is the caller's
// own: what it reads and writes goes through pipes, see [input] and [output], and a terminal is replaced by a
// pty of the sandbox's, so that the command has no way to the caller's (TIOCSTI, CVE-2017-5226). A socket,
// for one, belongs to the host's network namespace, where connect(2) could be called on it again.
type streams struct {
	user        [3]*os.File // the caller's
	screen      [3]*os.File // duplicates of those that the pty replaces
	inside      [3]*os.File // what init gets
	opened      []*os.File  // those of inside that are ours to close
	terminal    bool
	terminalFDs int // bit per descriptor that the pty replaces
	master      *os.File
	relay       *terminal.Relay // of master and the user's terminal
	terminalErr error           // why the relay could not show all
	nullInput   bool            // the command's stdin is its own /dev/null
	input       *input          // feeds its stdin otherwise
	fed         bool            // input has been started
	outputs     []*output
	budget      *budget
	overflow    *wake // once the budget is spent
}

// openStreams prepares the three descriptors. limit is how many bytes the command may write, 0 for any
// number.
func openStreams(s Stdio, limit uint64) (_ *streams, err error) {
	st := &streams{user: [3]*os.File{s.In, s.Out, s.Err}}
	defer func() {
		if err != nil {
			st.close()
		}
	}()
	if st.overflow, err = newWake(); err != nil {
		return nil, &policy.Error{Step: "stdio", Err: fmt.Errorf("eventfd: %w", err)}
	}
	st.budget = &budget{none: limit == 0, wake: st.overflow}
	st.budget.left.Store(int64(min(limit, math.MaxInt64)))
	for fd, f := range st.user {
		kind, err := classify(f)
		if err != nil {
			return nil, &policy.Error{
				Step: "stdio", Object: [...]string{"stdin", "stdout", "stderr"}[fd], Err: err,
				Hint: fmt.Sprintf("redirect descriptor %d from or to a file, a pipe or /dev/null", fd),
			}
		}
		switch {
		case kind == kindTerminal || s.ForceTerminal:
			st.terminal = true
			st.terminalFDs |= 1 << fd
			if err = st.placeholder(fd); err == nil {
				st.screen[fd], err = duplicate(f)
			}
		case fd > 0:
			err = st.addOutput(fd, f, [3]io.Writer{nil, s.CaptureOut, s.CaptureErr}[fd])
			if fd == 1 && err == nil {
				st.outputs[0].over = s.Over
			}
		case kind == kindNull:
			st.nullInput = true
			err = st.placeholder(0)
		default:
			var r *os.File
			if st.input, r, err = newInput(f); err == nil {
				st.inside[0] = r
				st.opened = append(st.opened, r)
			}
		}
		if err != nil {
			return nil, &policy.Error{Step: "stdio", Err: err}
		}
	}
	return st, nil
}

// placeholder stands for a descriptor that the pty replaces.
func (st *streams) placeholder(fd int) (err error) {
	if st.inside[fd], err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err == nil {
		st.opened = append(st.opened, st.inside[fd])
	}
	return err
}

func (st *streams) addOutput(fd int, to *os.File, capture io.Writer) error {
	if fd == 2 && len(st.outputs) > 0 && capture == nil && sameFile(st.user[1], to) {
		// One stream stays one, in order.
		st.inside[2] = st.inside[1]
		return nil
	}
	copied, err := unix.FcntlInt(to.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return err
	}
	r, w, err := pipe(0o222)
	if err != nil {
		unix.Close(copied)
		return err
	}
	st.inside[fd] = w
	st.opened = append(st.opened, w)
	st.outputs = append(st.outputs, &output{from: r, to: copied, capture: capture, budget: st.budget, done: make(chan struct{})})
	return nil
}

func duplicate(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// pipe makes a pipe that the command may open again (/dev/stderr), also where root runs it as another
// user, but by mode only in the way it has it: 0444 for its stdin, 0222 for its output. A pipe has no name
// by which anyone without a descriptor of it could.
func pipe(mode uint32) (r, w *os.File, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("pipe: %w", err)
	}
	if err := unix.Fchmod(p[0], mode); err != nil {
		closeAll(p[:])
		return nil, nil, fmt.Errorf("chmod of a pipe: %w", err)
	}
	// Blocking descriptors, unlike os.Pipe's: the command's end must be one, and ours is used in a
	// goroutine of its own.
	return os.NewFile(uintptr(p[0]), "pipe"), os.NewFile(uintptr(p[1]), "pipe"), nil
}

type streamKind int

const (
	kindBytes    streamKind = iota // only its bytes may pass
	kindNull                       // /dev/null, of which the sandbox has its own
	kindTerminal                   // to be replaced by a pty
)

// classify decides what becomes of one of the caller's descriptors. A directory, or a descriptor opened
// only to name a place, would be a way out of the sandbox (CVE-2024-21626).
func classify(f *os.File) (streamKind, error) {
	fd := int(f.Fd())
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, err
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return 0, err
	}
	if flags&unix.O_PATH != 0 {
		return 0, errors.New("is opened with O_PATH")
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFCHR:
		switch {
		case terminal.IsTerminal(fd):
			return kindTerminal, nil
		case uint64(st.Rdev) == unix.Mkdev(memMajor, 3):
			return kindNull, nil
		}
	case unix.S_IFDIR:
		return 0, errors.New("is a directory")
	case unix.S_IFBLK:
		return 0, errors.New("is a block device")
	case 0:
		// An anonymous inode: eventfd, epoll, a pidfd... nothing to read or write.
		return 0, errors.New("is neither a file nor a pipe, terminal or socket")
	}
	return kindBytes, nil
}

func sameFile(a, b *os.File) bool {
	var x, y unix.Stat_t
	return unix.Fstat(int(a.Fd()), &x) == nil && unix.Fstat(int(b.Fd()), &y) == nil && x.Dev == y.Dev && x.Ino == y.Ino
}

// setTerminal takes over the master of the command's pty and makes it like the user's terminal.
func (st *streams) setTerminal(master *os.File) error {
	st.master = master
	in, out := st.screen[0], st.screen[1]
	if st.terminalFDs&2 == 0 {
		if out = st.screen[2]; st.terminalFDs&4 == 0 {
			// The echo of what is typed belongs where it is typed.
			out = in
		}
	}
	if st.terminalFDs&1 == 0 {
		// Keys are for /dev/tty then, as of a pager that reads its text from a pipe. A terminal that was opened for
		// writing only has none.
		if in = out; !readableFile(in) {
			in = nil
		}
	}
	st.relay = terminal.New(in, out, master)
	return st.relay.Start()
}

func readableFile(f *os.File) bool {
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_ACCMODE != unix.O_WRONLY
}

// start gives up the inside ends, which are init's now, and begins to feed the command's stdin.
func (st *streams) start() {
	st.closeInside()
	if st.input != nil {
		st.fed = true
		go st.input.run()
	}
}

// resize passes the terminal's new size on, and says whether there is one.
func (st *streams) resize() bool {
	if st.relay != nil {
		_ = st.relay.Resize()
	}
	return st.relay != nil
}

func (st *streams) suspend() {
	if st.relay != nil {
		_ = st.relay.Suspend()
	}
}

func (st *streams) resume() {
	if st.relay != nil {
		_ = st.relay.Resume()
	}
}

// drain begins to pass on what the command has left in its pipes, and gives what wakes up once that is done, which the
// caller closes.
func (st *streams) drain() *wake {
	done, err := newWake()
	if err != nil {
		done.fd = -1
	}
	for _, o := range st.outputs {
		if !o.started && o.empty() {
			o.started = true
			o.from.Close()
			o.end()
			continue
		}
		o.start()
	}
	if st.drained() {
		return done
	}
	go func() {
		for _, o := range st.outputs {
			<-o.done
		}
		done.signal()
	}()
	return done
}

// drained says whether all has been passed on.
func (st *streams) drained() bool {
	for _, o := range st.outputs {
		select {
		case <-o.done:
		default:
			return false
		}
	}
	return true
}

// writeError is the first failure to pass output on.
func (st *streams) writeError() error {
	lost := func(name string, err error) error {
		return &policy.Error{
			Step: "write", Object: name, Err: err, Code: policy.ExitOutput,
			Hint: "the command ran, and some of its output is lost; make room or use another file, and run it again",
		}
	}
	if st.terminalErr != nil {
		name := "terminal"
		if st.terminalFDs&2 != 0 {
			name = "stdout"
		} else if st.terminalFDs&4 != 0 {
			name = "stderr"
		}
		return lost(name, st.terminalErr)
	}
	for i, o := range st.outputs {
		if err := o.err.Load(); err != nil {
			name := "stdout"
			if i > 0 || st.terminalFDs&2 != 0 {
				name = "stderr"
			}
			return lost(name, *err)
		}
	}
	return nil
}

// count says how much the command wrote.
func (st *streams) count(u *Usage) {
	for i, o := range st.outputs {
		n := uint64(o.bytes.Load())
		if i == 0 && st.inside[1] != nil && st.terminalFDs&2 == 0 {
			u.Stdout += n
		} else {
			u.Stderr += n
		}
	}
	u.Truncated = st.overflowed()
}

// overflowed says whether the command wrote more than it may.
func (st *streams) overflowed() bool {
	fds := [...]unix.PollFd{{Fd: int32(st.overflow.fd), Events: unix.POLLIN}}
	n, _ := unix.Poll(fds[:], 0)
	return n > 0
}

// close restores the terminal and closes what is left; it may be called again.
func (st *streams) close() {
	st.closeTerminal()
	st.closeInside()
	_ = st.endInput()
	for _, o := range st.outputs {
		if o.quit.Store(true); !o.started {
			o.started = true
			o.from.Close()
			unix.Close(o.to)
		}
	}
	if st.overflow != nil {
		st.overflow.close()
	}
}

// endInput ends the feeding of the command's stdin. The error is why it was not given all of a file.
func (st *streams) endInput() error {
	if st.input == nil {
		return nil
	}
	err := st.input.finish(st.fed)
	st.input = nil
	if err == nil {
		return nil
	}
	return &policy.Error{
		Step: "read", Object: "stdin", Err: err, Code: policy.ExitOutput,
		Hint: "the command ran, and what it read ends where the file could not be read any further; run it again with another file",
	}
}

func (st *streams) closeTerminal() {
	if st.relay != nil {
		_ = st.relay.Close()
		st.terminalErr = st.relay.WriteError()
		if st.relay.Stuck() {
			// It goes on to use them, if ever.
			st.screen = [3]*os.File{}
		} else {
			st.master.Close()
		}
		st.relay = nil
	}
	for i, f := range st.screen {
		if f != nil {
			f.Close()
		}
		st.screen[i] = nil
	}
}

func (st *streams) closeInside() {
	for _, f := range st.opened {
		f.Close()
	}
	st.opened = nil
}
