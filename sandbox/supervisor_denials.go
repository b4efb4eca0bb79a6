package sandbox

import (
	"os"
	"sync"
	"time"

	"gobox/policy"
	"gobox/seccomp"

	"golang.org/x/sys/unix"
)

// Denial is something that a wall refused, as often as it did.
type Denial struct {
	Layer  policy.Layer
	What   string        // the system call
	Object string        // the argument that decided; may be empty
	Count  uint64        // how often
	First  time.Duration // since the command's start
	Rule   string        // what refused it
	Fix    string        // the flag that would allow it
}

const (
	// maxDenials bounds how many different ones are kept; the others are only counted.
	maxDenials = 256
	// floodAfter refusals each takes floodDelay, so that a flood costs its sender and not the host.
	floodAfter = 4096
	floodDelay = 200 * time.Microsecond
)

// denials answers and counts what the filter refuses, in the background until the last process with that
// filter has ended.
type denials struct {
	listener *os.File
	filter   seccomp.Program
	start    time.Time // of the command; set before ready
	serving  bool
	done     chan struct{}

	mu      sync.Mutex
	list    []*Denial
	total   uint64
	escapes uint64
}

// watchDenials takes over listener, the listener of a filter made of p's. The caller polls it and calls
// start when it is ready for the first time: most commands have nothing refused.
func watchDenials(listener *os.File, p seccomp.Program) *denials {
	return &denials{listener: listener, filter: p, done: make(chan struct{})}
}

// poll is what to wait for before serving.
func (d *denials) poll() unix.PollFd {
	if d == nil || d.serving {
		return unix.PollFd{Fd: -1}
	}
	return unix.PollFd{Fd: int32(d.listener.Fd()), Events: unix.POLLIN}
}

// ready begins to answer, given that the listener has something to tell: a call, or that none can come any
// more.
func (d *denials) ready(events int16) {
	d.serving = true
	if events&unix.POLLIN == 0 {
		d.listener.Close()
		close(d.done)
		return
	}
	l, err := seccomp.NewListener(int(d.listener.Fd()), d.filter)
	if err != nil {
		// A filter that was loaded can be decoded. Without a listener, refused calls fail with ENOSYS.
		d.listener.Close()
		close(d.done)
		return
	}
	go d.serve(l)
}

func (d *denials) serve(l *seccomp.Listener) {
	defer close(d.done)
	// With nobody listening, a refused call fails with ENOSYS: refused all the same.
	defer d.listener.Close()
	for {
		r, ok, err := l.Answer()
		if err != nil {
			return
		}
		if ok && d.add(r) > floodAfter {
			// Not time.Sleep, whose timers are a millisecond late here and there.
			pause(floodDelay)
		}
	}
}

// add counts r and gives the number of all.
func (d *denials) add(r seccomp.Refusal) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.total++
	if r.Escape() {
		d.escapes++
	}
	name, detail := r.Name(), r.Detail()
	for _, known := range d.list {
		if known.What == name && known.Object == detail {
			known.Count++
			return d.total
		}
	}
	if len(d.list) < maxDenials {
		d.list = append(d.list, &Denial{
			Layer: policy.LayerSeccomp, What: name, Object: detail, Count: 1, First: time.Since(d.start),
			Rule: "filter " + d.filter.Name + ": " + r.Errno.Error(), Fix: "--allow-syscall " + name,
		})
	}
	return d.total
}

// report gives what was counted. The last notifications may still be under way when the sandbox is gone,
// but not for long.
func (d *denials) report(res *Result) {
	if d == nil {
		return
	}
	if !d.serving {
		// Nothing was refused, and nobody is left who could have something refused.
		d.listener.Close()
		return
	}
	select {
	case <-d.done:
	case <-time.After(lastPatience):
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, known := range d.list {
		res.Denials = append(res.Denials, *known)
	}
	res.DeniedSyscalls, res.EscapeAttempts = d.total, d.escapes
}

// KilledCall is the What of the denial of a call that the filter answers by ending the process: nobody tells which it was.
const KilledCall = "killed call"

// reportKilled adds the call for which the filter ended the command, of which the listener is not told.
func (r *run) reportKilled(res *Result) {
	if res.Outcome != Signaled || res.Signal != unix.SIGSYS || len(r.plan.Filter.BPF) == 0 {
		return
	}
	res.Denials = append(res.Denials, Denial{
		Layer: policy.LayerSeccomp, What: KilledCall, Object: "SIGSYS", Count: 1, First: res.Wall,
		Rule: "filter " + r.plan.Filter.Name + ": SIGSYS for a call of another architecture, or one that the profile ends a process for",
	})
	res.DeniedSyscalls++
}
