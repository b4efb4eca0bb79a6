package sandbox

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"gobox/policy"
	"gobox/record"

	"golang.org/x/sys/unix"
)

// forwarded are the signals that the supervisor passes on or acts on.
var forwarded = [...]unix.Signal{
	unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2,
	unix.SIGWINCH, unix.SIGTSTP, unix.SIGCONT,
}

// run is the supervisor's side of one run, from the plan's handover to the end of everything. One
// thread waits for one of four things: a message of init's, a signal, init's death, a point in time.
type run struct {
	sandbox   *Sandbox
	spec      *Spec
	plan      *policy.Plan
	mark      *os.File // the plan's memfd, see readMark
	streams   *streams
	groups    *groups
	signals   int // see watchSignals; -1 for none
	cancelled int // readable once the caller's context is over; -1 for never

	startedAt time.Time // zero until the command runs
	endedAt   time.Time // zero until the command has ended or was killed
	outcome   Outcome   // why the supervisor ended it; empty while it runs by itself
	cancel    unix.Signal
	status    *unix.WaitStatus // of the command
	failure   *failure
	cause     error    // of the failure, where it is more than an errno
	network   *network // nil without a gateway
	doors     *doors   // nil without published ports
	denials   *denials // of the filter; nil when it reports none
	silent    bool     // init will say no more
	deaf      error    // why not, when it was this process that could not take in its word
	killed    bool

	next time.Time // when something is due: what, says due
	due  func()

	pending []unix.Signal // for the command, which does not run yet
	asked   bool          // one of them asks it to end
	noted   unix.Signal   // the last that is on record as got
	slain   bool          // SIGKILL is on record
	limits  []string      // those on record as reached
	tick    time.Time     // when to look at the cgroup; zero for never
	pressed bool          // it has told that memory runs out
	used    spent         // by init's account, once told
	told    atomic.Bool
	seen    struct { // by this process, see reckon
		sync.Mutex
		spent
	}
	reached reached       // by init's account, when the command ended
	upper   *os.File      // directory of what was written to the workspace; nil without an overlay
	layer   *scratch      // on disk; nil without
	noLayer string        // why there is no overlay, though the plan had one by preference
	output  *os.File      // the sandbox's own output folder; nil without
	deliver *outputFolder // where it goes; nil without
}

// loop supervises until init is gone.
func (r *run) loop() (Result, error) {
	r.awaitStart(time.Now().Add(setupLimit))
	if r.spec.Watched != nil {
		for _, sig := range r.spec.Watched.early {
			r.onSignal(sig)
		}
	}
	defer func() { r.network.close(r.spec) }()
	var space [11]unix.PollFd
	late := 0
	for {
		fds := append(space[:0],
			unix.PollFd{Fd: int32(r.sandbox.pidfd), Events: unix.POLLIN},
			unix.PollFd{Fd: int32(r.signals), Events: unix.POLLIN},
			unix.PollFd{Fd: int32(r.sandbox.sock), Events: unix.POLLIN},
			unix.PollFd{Fd: int32(r.streams.overflow.fd), Events: unix.POLLIN},
			r.groups.notify(),
			unix.PollFd{Fd: int32(r.cancelled), Events: unix.POLLIN},
			r.control(),
			r.denials.poll(),
			r.network.poll())
		if r.silent {
			fds[2].Fd = -1
		}
		if r.startedAt.IsZero() {
			// It was the command that wrote so much; init's word of its start is on the way.
			fds[3].Fd = -1
		}
		if r.killed {
			fds[3].Fd, fds[4].Fd, fds[5].Fd, fds[6].Fd = -1, -1, -1, -1
		}
		for _, o := range r.streams.outputs {
			fd := int32(-1)
			if !o.started {
				fd = int32(o.from.Fd())
			}
			fds = append(fds, unix.PollFd{Fd: fd, Events: unix.POLLIN})
		}
		if !poll(fds, earlier(r.next, r.tick)) {
			late = 0
			if r.next.IsZero() || time.Now().Before(r.next) {
				r.onTick()
			} else if r.expire() {
				return r.result(0, true)
			}
			continue
		}
		if fds[1].Revents != 0 {
			for _, sig := range takeSignals(r.signals) {
				r.onSignal(sig)
			}
		}
		if fds[7].Revents != 0 {
			r.denials.ready(fds[7].Revents)
		}
		if fds[8].Revents != 0 {
			r.network.tell(r.spec)
		}
		if fds[2].Revents != 0 {
			r.onMessage()
		}
		if fds[3].Revents != 0 {
			r.limit(Output)
		}
		if fds[4].Revents != 0 {
			r.onPressure()
		}
		if fds[5].Revents != 0 || fds[6].Revents != 0 && r.hungUp() {
			r.cancelled = -1
			r.cancel = unix.SIGTERM
			r.end(Cancelled, unix.SIGTERM)
		}
		for i, o := range r.streams.outputs {
			if fds[9+i].Revents != 0 {
				o.start()
			}
		}
		if fds[0].Revents != 0 {
			for !r.silent {
				r.onMessage()
			}
			r.reckon()
			if st, ok := r.sandbox.wait(unix.WNOHANG); ok {
				return r.result(st, false)
			}
		}
		// Where something is always ready, time is over all the same.
		now := time.Now()
		if !r.tick.IsZero() && !now.Before(r.tick) {
			r.onTick()
		}
		if r.next.IsZero() || now.Before(r.next) {
			late = 0
		} else if late++; late > lateRounds {
			late = 0
			if r.expire() {
				return r.result(0, true)
			}
		}
	}
}

// lateRounds is how often the loop takes in what is ready although time is over: what was in time and only seen late, by
// a process that was stopped, counts as in time, and is seen in as many rounds as init has messages.
const lateRounds = 64

// expire does what was due. It says whether the sandbox has to be given up.
func (r *run) expire() (survived bool) {
	if r.killed && time.Since(r.endedAt) >= teardownLimit {
		// Something in the kernel holds a process that is already dead. It cannot run any more.
		return true
	}
	r.next = time.Time{}
	r.due()
	return false
}

// control is what to poll for the caller's control descriptor.
func (r *run) control() unix.PollFd {
	if r.spec.Control == nil || r.outcome != "" {
		return unix.PollFd{Fd: -1}
	}
	return unix.PollFd{Fd: int32(r.spec.Control.Fd()), Events: unix.POLLIN}
}

// hungUp says whether the other end of the control descriptor was closed, and drops what came from it.
func (r *run) hungUp() bool {
	var buf [512]byte
	n, err := unix.Read(int(r.spec.Control.Fd()), buf[:])
	return n == 0 || err != nil && err != unix.EAGAIN && err != unix.EINTR
}

// at has do called after d, instead of what was due before. Of a sandbox that was killed only its end is awaited.
func (r *run) at(d time.Duration, do func()) {
	if !r.killed {
		r.next, r.due = time.Now().Add(d), do
	}
}

// onMessage takes in one message of init's.
func (r *run) onMessage() {
	m, files, err := receive(r.sandbox.sock, r.messageRoom())
	if err != nil {
		// Init is gone or going, or has to.
		r.silent = true
		if !errors.Is(err, errClosed) && !errors.Is(err, unix.ECONNRESET) {
			r.deaf = err
		}
		r.kill()
		return
	}
	if m.kind == msgTerminal && len(files) == 1 {
		if err := r.streams.setTerminal(os.NewFile(uintptr(files[0]), "pty master")); err != nil {
			r.failure = failed(stageTerminal, 1, err)
			r.kill()
			return
		}
		_ = send(r.sandbox.sock, message{kind: msgReady})
		return
	}
	if m.kind == msgNetwork && len(files) > 0 && r.network == nil {
		if err := r.openNetwork(m, files); err != nil {
			r.failure, r.cause = failed(stageNetwork, 2, err), err
			r.kill()
			return
		}
		_ = send(r.sandbox.sock, message{kind: msgReady})
		return
	}
	if m.kind == msgDialed && r.doors != nil {
		fd := -1
		if len(files) == 1 && m.errno == 0 {
			fd, files = files[0], nil
		}
		closeAll(files)
		r.doors.dialed(m.a, fd)
		return
	}
	if m.kind == msgUpper && len(files) > 0 {
		r.upper = os.NewFile(uintptr(files[0]), "upper directory")
		if len(files) == 2 {
			r.layer.counts(files[1])
		} else {
			closeAll(files[1:])
		}
		return
	}
	if m.kind == msgOutput && len(files) == 1 {
		r.output = os.NewFile(uintptr(files[0]), "output folder")
		return
	}
	if m.kind == msgStarted && len(files) == 1 {
		// Before anything else: until someone answers, a refused call waits.
		r.denials = watchDenials(os.NewFile(uintptr(files[0]), "seccomp listener"), r.plan.Filter)
		files = nil
	}
	closeAll(files)
	switch m.kind {
	case msgStarted:
		r.started(join(m.a, m.b))
		if r.denials != nil {
			r.denials.start = r.startedAt
		}
	case msgNoOverlay:
		r.noLayer, _ = overlayCause(unix.Errno(m.errno))
	case msgServing:
		r.doors.serving(m.a, m.b != 0)
	case msgStopped:
		r.onStop()
	case msgLimit:
		// Init has killed the command, and goes on to tell what it used.
		r.outcome = Memory
		if watched(m.a) == watchedCPU {
			r.outcome = CPUTime
		}
		r.tellLimit(string(r.outcome))
		r.at(2*killPatience, r.kill)
	case msgUsed:
		r.used = spentOf(m)
		r.told.Store(true)
	case msgExited:
		st := unix.WaitStatus(m.a)
		r.status, r.reached = &st, reached(m.b)
		// Init exits by itself; killing it as well costs nothing and cannot be held up.
		r.kill()
	case msgFailed:
		r.failure = &failure{stage(m.a), int(m.b), unix.Errno(m.errno)}
	}
}

// startPatrol is how often a start that is not reported is looked for.
const startPatrol = 500 * time.Millisecond

// awaitStart ends a run that has not started by then. A start that init does not tell of, since someone has stopped it,
// is one all the same.
func (r *run) awaitStart(end time.Time) {
	r.at(min(startPatrol, time.Until(end)), func() {
		switch at := readMark(r.mark); {
		case at != 0:
			r.started(at)
		case time.Now().Before(end):
			r.awaitStart(end)
		default:
			r.failure = &failure{stagePlan, 0, unix.ETIMEDOUT}
			r.kill()
		}
	})
}

// started takes note that the command was executed, at a time of CLOCK_MONOTONIC: this process, or init, may have been
// stopped meanwhile.
func (r *run) started(at time.Duration) {
	if !r.startedAt.IsZero() {
		return
	}
	r.startedAt = time.Now().Add(at - monotonic())
	r.layer.watch(func() {
		r.reckon()
		r.sandbox.kill()
	})
	r.spec.observe(record.Event{Kind: record.Started})
	if r.killed {
		r.streams.closeInside()
		return
	}
	r.next = time.Time{}
	if l := r.plan.Limits.Timeout; l > 0 {
		r.at(time.Until(r.startedAt.Add(l)), func() { r.end(TimedOut, unix.SIGTERM) })
	}
	r.streams.start()
	if r.groups.group != nil && r.plan.Limits.CPUTime > 0 {
		r.tick = time.Now().Add(cpuEvery)
	}
	pending := r.pending
	r.pending = nil
	for _, sig := range pending {
		r.onSignal(sig)
	}
}
