package sandbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"reflect"
	"time"

	"gobox/policy"

	"golang.org/x/sys/unix"
)

// What is said over the SOCK_SEQPACKET pair between supervisor and init, one packet a message:
//
//	supervisor                              init
//	    | -- plan (+ files) ------------------> |  once, after the id maps are written
//	    | -- group(what, doors) (+ files) ----> |  once: the command's cgroup, made meanwhile
//	    | <------------- failed(step, index) -- |  and init exits; or
//	    | <-------- network(TCP, how) (+ fds) - |  with a gateway only: what listens there
//	    | <--------------------- upper (+ fds) - |  with an overlay only: its upper directory; or
//	    | <--------------- no overlay (errno) - |  and the workspace is read-only instead, as the plan allows
//	    | <-------------------- output (+ fd) - |  with an output folder only
//	    | <------------------ terminal (+ fd) - |  with a terminal only
//	    | -- ready ---------------------------> |  once for each of network and terminal, in that order
//	    | <----------- started(time) (+ fd) --- |  the command was executed; the filter's listener
//	    | -- signal(n) -----------------------> |  any number: for the command's process group
//	    | <------------- serving(port, or not) - |  something listens on a published port, or no longer
//	    | -- dial(port, id) -------------------> |  connect to it
//	    | <--------------- dialed(id) (+ fd) -- |  the connection, or why there is none
//	    | <-------------------- stopped(sig) -- |  the command stopped, with a terminal only
//	    | <--------------------- limit(which) - |  init saw it passed, and exits; or
//	    | <------ used(user ms, system ms, KiB) - |  by all processes, the largest in KiB, then
//	    | <-------------- exited(status, reached) |  and init exits, and with it all that is left
//
// The end of the socket means the death of the other side. A message that is not one of these, or has
// files where none belong, is an error; files that came with it are closed.
type messageKind uint32

const (
	msgPlan messageKind = iota + 1
	msgFailed
	msgUpper
	msgNoOverlay
	msgOutput
	msgTerminal
	msgReady
	msgStarted
	msgSignal
	msgStopped
	msgLimit
	msgUsed
	msgExited
	msgNetwork
	msgServing
	msgDial
	msgDialed
	msgGroup
)

// message is a packet: three 32-bit numbers in native order. Which of them mean something depends on
// the kind.
type message struct {
	kind  messageKind
	a     int32 // step, signal or wait status
	b     int32 // index
	errno int32
}

const messageSize = 16

// maxFiles is SCM_MAX_FD of <net/scm.h>.
const maxFiles = 253

// initFD is init's end of the pair.
const initFD = 3

var errClosed = errors.New("the other side is gone")

func (m message) encode() []byte {
	b := make([]byte, 0, messageSize)
	for _, v := range [...]int32{int32(m.kind), m.a, m.b, m.errno} {
		b = binary.NativeEndian.AppendUint32(b, uint32(v))
	}
	return b
}

// send writes one message; the files stay the caller's.
func send(fd int, m message, files ...int) error { return sendWith(fd, 0, m, files...) }

// sendNow fails with EAGAIN where send would wait for a reader that has been stopped.
func sendNow(fd int, m message, files ...int) error {
	return sendWith(fd, unix.MSG_DONTWAIT, m, files...)
}

func sendWith(fd, flags int, m message, files ...int) error {
	var oob []byte
	if len(files) > 0 {
		oob = unix.UnixRights(files...)
	}
	for try := 0; ; try++ {
		err := unix.Sendmsg(fd, m.encode(), oob, nil, unix.MSG_NOSIGNAL|flags)
		if err == nil || !patient(err, try) && (flags&unix.MSG_DONTWAIT != 0 || !crowded(err, try)) {
			return err
		}
	}
}

// patient says whether to try to send or receive again after err, and waits a little. What the kernel lacks for a moment, such as
// memory or room for descriptors in flight, must not cost the only word of how a command ended.
func patient(err error, try int) bool {
	switch err {
	case unix.EINTR:
		return true
	case unix.EAGAIN, unix.EPIPE, unix.ECONNRESET, unix.ENOTCONN, unix.EBADF:
		return false
	}
	if try < shortTries {
		pause(time.Millisecond << (2 * try))
	}
	return try < shortTries
}

// shortTries are 85 ms.
const shortTries = 4

// crowdPause and crowdTries are how long a user's other processes may have too many descriptors in flight: 5 s.
const (
	crowdPause = 25 * time.Millisecond
	crowdTries = 200
)

// crowded says whether to try to send descriptors again. How many are in flight is counted over all processes of a user, and
// compared with the sender's own RLIMIT_NOFILE (unix(7), ETOOMANYREFS), so that what others do decides. They are
// through in moments, unless one means to be in the way.
func crowded(err error, try int) bool {
	if err != unix.ETOOMANYREFS || try >= shortTries+crowdTries {
		return false
	}
	pause(crowdPause)
	return true
}

// pause is not time.Sleep: the first timer of a Go program opens its poller, and the runtime ends the program when there is no
// descriptor for it.
func pause(d time.Duration) {
	ts := unix.NsecToTimespec(d.Nanoseconds())
	_ = unix.Nanosleep(&ts, nil)
}

// receive reads one message; the caller owns the files, which are close-on-exec.
func receive(fd int, oob []byte) (message, []int, error) {
	var buf [messageSize + 1]byte
	reset := false
	for try := 0; ; try++ {
		n, oobn, flags, _, err := unix.Recvmsg(fd, buf[:], oob, unix.MSG_CMSG_CLOEXEC)
		if err == unix.ECONNRESET && !reset {
			// The other side has gone with messages unread, which the kernel tells once and before what that side had sent: its last
			// word may say why.
			reset = true
			continue
		}
		if err != nil && patient(err, try) {
			continue
		}
		if err != nil {
			return message{}, nil, err
		}
		files, err := takeFiles(oob[:oobn])
		switch {
		case err != nil:
		case n == 0 && oobn == 0:
			return message{}, nil, errClosed
		case n != messageSize || flags&(unix.MSG_CTRUNC|unix.MSG_TRUNC) != 0:
			err = fmt.Errorf("malformed message of %d bytes", n)
		default:
			at := func(i int) int32 { return int32(binary.NativeEndian.Uint32(buf[4*i:])) }
			return message{kind: messageKind(at(0)), a: at(1), b: at(2), errno: at(3)}, files, nil
		}
		closeAll(files)
		return message{}, nil, err
	}
}

func takeFiles(oob []byte) ([]int, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	parts, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	var files []int
	for i := range parts {
		fds, err := unix.ParseUnixRights(&parts[i])
		if err != nil {
			return files, err
		}
		files = append(files, fds...)
	}
	return files, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// handover is what init gets: the plan and how its descriptors are to be used. The descriptors follow
// the plan's memfd in the message: the command's stdin, stdout and stderr, and one for every entry of Mounts.
type handover struct {
	Plan policy.Plan
	// Mounts are the indices of those steps of the tree whose mount was made outside.
	Mounts []int
	// Terminal asks for a pty; it replaces those of the command's first three descriptors that
	// TerminalFDs has a bit for.
	Terminal    bool
	TerminalFDs int
	// NullInput says that the command's stdin is the sandbox's own /dev/null.
	NullInput bool
	// Notify says that the plan's filter reports refusals, to a listener that comes with msgStarted.
	Notify bool
}

// confinement says what the command's cgroup does, in msgGroup, which comes while init builds the tree: the
// descriptors that come with it are the cgroup's directory, if there is to be one, and its doors (cgroup.Group).
type confinement struct {
	group, memory, pids bool // there is one; it limits that
	dir                 bool
	cpu                 bool // it counts that
	doors               int
}

func (c confinement) message() message {
	m := message{kind: msgGroup, b: int32(c.doors)}
	for i, is := range [...]bool{c.group, c.memory, c.pids, c.dir, c.cpu} {
		if is {
			m.a |= 1 << i
		}
	}
	return m
}

func confinementOf(m message) confinement {
	is := func(i int) bool { return m.a&(1<<i) != 0 }
	return confinement{group: is(0), memory: is(1), pids: is(2), dir: is(3), cpu: is(4), doors: int(m.b)}
}

// files is how many descriptors come with it.
func (c confinement) files() int {
	if c.dir {
		return c.doors + 1
	}
	return c.doors
}

// planFile puts h into a memfd, since a message is bounded and an argument vector is not.
func planFile(h *handover) (*os.File, error) {
	fd, err := unix.MemfdCreate("gobox-plan", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), "plan")
	if _, err := f.Write(encode(make([]byte, markSize, 16<<10), reflect.ValueOf(h).Elem())); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// readPlan is the other end of planFile.
func readPlan(fd int) (*handover, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if st.Size > maxWire {
		return nil, errWire
	}
	buf := make([]byte, st.Size)
	for n := 0; n < len(buf); {
		k, err := unix.Pread(fd, buf[n:], int64(n))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		if k == 0 {
			return nil, errWire
		}
		n += k
	}
	h := new(handover)
	if len(buf) < markSize {
		return nil, errWire
	}
	rest, err := decode(buf[markSize:], reflect.ValueOf(h).Elem())
	if err == nil && len(rest) != 0 {
		err = errWire
	}
	return h, err
}
