package sandbox

import (
	"os"
	"slices"
	"time"

	"gobox/record"

	"golang.org/x/sys/unix"
)

// onSignal notes a signal that this process got, and acts on it.
func (r *run) onSignal(sig unix.Signal) {
	if sig != unix.SIGWINCH && !r.startedAt.IsZero() {
		r.note(sig)
	}
	r.actOn(sig)
}

// note puts a signal on record. One that comes before the start is noted when it is acted on.
func (r *run) note(sig unix.Signal) {
	r.noted = sig
	r.spec.observe(record.Event{Kind: record.Signalled, Signal: record.SignalName(sig)})
}

// noteSent puts on record that gobox ends the command by a signal that it did not get and pass on.
func (r *run) noteSent(sig unix.Signal) {
	r.spec.observe(record.Event{Kind: record.Signalled, What: record.Sent, Signal: record.SignalName(sig)})
}

// tellLimit puts on record that a limit was reached, once.
func (r *run) tellLimit(name string) {
	if !slices.Contains(r.limits, name) {
		r.limits = append(r.limits, name)
		r.spec.observe(record.Event{Kind: record.LimitHit, What: name})
	}
}

// tellLimits puts on record which limits were reached besides, as only the end shows. What the network reached was told
// when it happened.
func (r *run) tellLimits(res *Result) {
	for _, l := range res.Limits {
		if l.Triggered && !r.network.hit(l.Name) {
			r.tellLimit(l.Name)
		}
	}
}

func (r *run) actOn(sig unix.Signal) {
	switch sig {
	case unix.SIGINT, unix.SIGTERM:
		r.cancel = sig
		r.end(Cancelled, sig)
	case unix.SIGHUP:
		if r.streams.terminal {
			// The user's terminal is gone.
			r.cancel = sig
			r.end(Cancelled, sig)
			return
		}
		r.signal(sig)
	case unix.SIGTSTP:
		r.signal(sig)
		if r.startedAt.IsZero() {
			// The command, which is to stop first, does not run yet.
			return
		}
		r.streams.suspend()
		r.stopSelf()
	case unix.SIGCONT:
		// Also after a stop that came without warning.
		r.streams.resume()
		r.signal(sig)
	case unix.SIGWINCH:
		// The command gets its own from its terminal's new size.
		if !r.streams.resize() {
			r.signal(sig)
		}
	default:
		r.signal(sig)
	}
}

// limit ends a command that has passed a limit.
func (r *run) limit(o Outcome) {
	if r.outcome == "" && r.status == nil {
		r.outcome = o
		r.tellLimit(string(o))
	}
	r.kill()
}

// cpuEvery is how often the CPU time of the whole tree is looked at, and pressedEvery its memory while that runs out.
const (
	cpuEvery     = 100 * time.Millisecond
	pressedEvery = 20 * time.Millisecond
)

// onTick ends a command whose processes have together used more CPU time than they may, or whom the kernel has begun to kill.
func (r *run) onTick() {
	if r.killed {
		r.tick = time.Time{}
		return
	}
	r.tick = time.Now().Add(cpuEvery)
	if r.pressed {
		r.onPressure()
	}
	r.checkCPU()
}

// onPressure ends a command of which the kernel has killed a process for memory. Version 1 tells before it does so, and once.
func (r *run) onPressure() {
	if r.groups.outOfMemory() {
		r.limit(Memory)
		return
	}
	r.pressed = true
	r.tick = time.Now().Add(pressedEvery)
}

func (r *run) checkCPU() {
	if r.killed || r.plan.Limits.CPUTime <= 0 {
		return
	}
	if u, err := r.groups.group.Usage(); err == nil && u.CPUUser+u.CPUSystem >= r.plan.Limits.CPUTime {
		r.limit(CPUTime)
	}
}

// startPatience is how long a run that is cancelled while init builds the sandbox may take to come to the
// command's start, where it is ended in the usual way.
const startPatience = 500 * time.Millisecond

// end asks the command to end by sig and kills it after the grace period, or at once when asked again.
func (r *run) end(o Outcome, sig unix.Signal) {
	if r.status != nil {
		return
	}
	if r.startedAt.IsZero() && !r.asked && r.failure == nil {
		// The command may be running already, and the word of it under way.
		r.asked = true
		r.pending = append(r.pending, sig)
		r.at(startPatience, func() {
			r.note(sig)
			r.outcome = o
			r.kill()
		})
		return
	}
	if o == TimedOut && r.outcome == "" {
		r.tellLimit(LimitTimeout)
	}
	if r.outcome != "" || r.startedAt.IsZero() || r.plan.Limits.Grace <= 0 {
		if r.outcome == "" {
			r.outcome = o
		}
		if r.startedAt.IsZero() {
			r.kill()
		} else {
			r.killCommand()
		}
		return
	}
	r.outcome = o
	if r.noted != sig {
		r.noteSent(sig)
	}
	r.signal(sig)
	// A stopped command cannot act on it.
	r.signal(unix.SIGCONT)
	r.at(r.plan.Limits.Grace, r.killCommand)
}

// killCommand has init kill the command, reap it and tell what it used, and kills init when that takes too
// long.
func (r *run) killCommand() {
	if !r.slain {
		r.slain = true
		r.noteSent(unix.SIGKILL)
	}
	r.signal(unix.SIGKILL)
	r.groups.hasten()
	r.at(killPatience, r.kill)
}

// kill ends the sandbox; the kernel has teardownLimit to do it.
func (r *run) kill() {
	if r.killed {
		return
	}
	r.killed = true
	r.reckon()
	r.sandbox.kill()
	r.endedAt = time.Now()
	r.groups.hasten()
	r.awaitEnd()
}

// awaitEnd has the sandbox killed again from time to time, in case that a kill was lost.
func (r *run) awaitEnd() {
	r.next = time.Now().Add(min(killAgain, time.Until(r.endedAt.Add(teardownLimit))))
	r.due = func() {
		r.sandbox.kill()
		r.awaitEnd()
	}
}

// signal asks init to send sig to the command's process group.
func (r *run) signal(sig unix.Signal) {
	if r.startedAt.IsZero() {
		r.pending = append(r.pending, sig)
		return
	}
	// When init is gone the end of the run is near anyway.
	_ = send(r.sandbox.sock, message{kind: msgSignal, a: int32(sig)})
}

// onStop follows the command of an interactive run into its stop, as a shell expects of a single job,
// and takes it up again afterwards.
func (r *run) onStop() {
	if r.outcome != "" {
		return
	}
	r.streams.suspend()
	// What continues this process continues the command; see onSignal.
	r.stopSelf()
}

// stopSelf stops this process until someone continues it.
func (r *run) stopSelf() { _ = unix.Kill(os.Getpid(), unix.SIGSTOP) }
