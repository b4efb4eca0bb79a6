package sandbox

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gobox/policy"
	"gobox/record"
	"gobox/rlimit"

	"golang.org/x/sys/unix"
)

// result says what came of it once nothing runs any more.
func (r *run) result(initStatus unix.WaitStatus, survived bool) (Result, error) {
	r.doors.close() // first, since they write to init's socket
	overScratch := r.layer.end()
	r.sandbox.release()
	r.network.close(r.spec)
	if r.output != nil {
		defer r.output.Close()
	}
	if r.failure != nil {
		return Result{}, r.explain(r.failure)
	}
	if at := readMark(r.mark); at != 0 {
		// Also when init was killed before it could tell.
		r.started(at)
	}
	if r.startedAt.IsZero() {
		if r.outcome == Cancelled {
			return Result{Outcome: Cancelled, Signal: r.cancel}, nil
		}
		if r.deaf != nil {
			return Result{}, &policy.Error{Step: "start", Object: "init", Err: fmt.Errorf("hear of it: %w", r.deaf)}
		}
		return Result{}, explainDeath(initStatus)
	}
	res := Result{
		Outcome: r.outcome, Wall: r.endedAt.Sub(r.startedAt), Survived: survived,
		Limits: limitsOf(r.plan, r.groups), Usage: r.account().usage(), NoOverlay: r.noLayer,
	}
	if overScratch != 0 && r.outcome == "" {
		r.outcome, res.Outcome, res.OverScratch = Disk, Disk, overScratch
	}
	r.judge(&res, initStatus)
	r.spec.observe(record.Event{Kind: record.Ended, Outcome: record.Outcome(res.Outcome)})
	if survived {
		res.Survivors = append(res.Survivors, fmt.Sprintf("pid %d", r.sandbox.pid))
	}
	if r.upper != nil {
		// Nothing that could change it is left.
		if r.spec.Changes != nil {
			res.ChangesError = r.spec.Changes(r.upper, res)
		}
		r.upper.Close()
	}
	r.dropScratch(&res)
	r.groups.close(&res, r.endedAt.Add(teardownLimit))
	res.Teardown = time.Since(r.endedAt)
	res.Aside, res.AsideError = setAside(r.plan.Guards, r.spec.ID)
	res.InputError = r.streams.endInput()
	r.drain(&res)
	r.streams.count(&res.Usage)
	r.denials.report(&res)
	r.reportKilled(&res)
	r.network.report(&res, r.startedAt)
	for name, o := range map[string]Outcome{LimitTimeout: TimedOut, LimitCPUTime: CPUTime, LimitMemory: Memory, LimitOutput: Output} {
		res.hit(name, res.Outcome == o)
	}
	if r.deliver != nil {
		res.Delivered, res.DeliverError = r.deliver.deliver(r.output, res.Outcome, survived)
	}
	res.hit(LimitDisk, r.reached&reachedDisk != 0 || overScratch == ScratchSize || overScratch == ScratchRoom)
	res.hit(LimitInodes, r.reached&reachedInodes != 0 || overScratch == ScratchFiles)
	res.hit(LimitTmpfs, r.reached&reachedTmpfs != 0)
	res.hit(LimitPids, r.reached&reachedPids != 0)
	res.hit(LimitFsize, r.status != nil && (r.status.Signaled() && r.status.Signal() == unix.SIGXFSZ || r.status.ExitStatus() == shellFsize))
	r.tellLimits(&res)
	for _, d := range res.Denials {
		if d.Layer == LayerNetwork {
			continue // told as a connection when it happened
		}
		r.spec.observe(record.Event{Kind: record.Denied, Layer: string(d.Layer), What: d.What, Object: d.Object, Count: d.Count})
	}
	r.spec.observe(record.Event{Kind: record.Destroyed, Object: strings.Join(res.Survivors, ", ")})
	return res, nil
}

// dropScratch removes the run's folder on disk, unless something may still use it.
func (r *run) dropScratch(res *Result) {
	if r.layer == nil {
		return
	}
	if res.Survived {
		res.Scratch = r.layer.path
		r.layer.close()
	} else if err := r.layer.remove(); err != nil {
		res.Scratch = r.layer.path
		res.Survivors = append(res.Survivors, err.Error())
	}
}

// drain waits until everything that the command wrote has been passed on, until its time is over, or until
// the caller has had enough. Output that is cut is no success.
func (r *run) drain(res *Result) {
	r.streams.closeTerminal()
	done := r.streams.drain()
	defer done.close()
	var end time.Time
	if limit := r.outputTime(res.Survived); limit >= 0 {
		end = time.Now().Add(limit)
	}
	for !r.streams.drained() {
		fds := [...]unix.PollFd{
			{Fd: int32(done.fd), Events: unix.POLLIN}, {Fd: int32(r.signals), Events: unix.POLLIN},
			{Fd: int32(r.cancelled), Events: unix.POLLIN}, r.control(),
		}
		if !poll(fds[:], end) {
			if res.Outcome == Exited {
				res.Outcome = TimedOut
			}
			break
		}
		if fds[2].Revents != 0 || fds[3].Revents != 0 && r.hungUp() {
			if res.Outcome == Exited {
				res.Outcome, res.Signal = Cancelled, unix.SIGTERM
			}
			return
		}
		if fds[1].Revents == 0 {
			continue
		}
		for _, sig := range takeSignals(r.signals) {
			switch sig {
			case unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT:
				if res.Outcome == Exited {
					res.Outcome, res.Signal = Cancelled, sig
				}
				return
			case unix.SIGTSTP:
				r.stopSelf()
			}
		}
	}
	if res.Outcome == Exited && r.streams.overflowed() {
		// It had ended by then, but not all that it wrote has been passed on.
		res.Outcome = Output
	}
	res.OutputError = r.streams.writeError()
}

// judge says how the command ended, unless the supervisor has ended it and knows.
func (r *run) judge(res *Result, initStatus unix.WaitStatus) {
	switch {
	case r.outcome == Cancelled:
		res.Signal = r.cancel
	case r.outcome != "":
	case r.groups.outOfMemory():
		// The kernel was faster than the word of it.
		res.Outcome = Memory
	case r.status == nil:
		// Init went without a word: its own watchdog, or someone killed it.
		if l := r.plan.Limits.Timeout; l > 0 && res.Wall >= l {
			res.Outcome = TimedOut
		} else {
			res.Outcome, res.Signal, res.Lost = Signaled, unix.SIGKILL, r.lost(initStatus)
		}
	case r.status.Signaled():
		res.Outcome, res.Signal = Signaled, r.status.Signal()
		switch res.Signal {
		case unix.SIGXCPU:
			res.Outcome = CPUTime
		case unix.SIGXFSZ:
			res.Outcome = Disk
		case unix.SIGKILL:
			// At the hard limit, a second after a SIGXCPU that the command ignores.
			if l := r.plan.Limits.CPUTime; l > 0 && r.used.cpu >= l {
				res.Outcome = CPUTime
			}
		}
	default:
		res.Outcome, res.ExitCode = Exited, r.status.ExitStatus()
	}
	if res.Outcome == Exited && res.ExitCode != 0 || res.Outcome == Signaled && isCrash(res.Signal) {
		r.blame(res)
	}
}

// lost says how it came that nobody knows how the command did.
func (r *run) lost(initStatus unix.WaitStatus) *policy.Error {
	e := &policy.Error{Step: "init"}
	switch {
	case r.deaf != nil:
		e.Err = fmt.Errorf("its word of how the command did could not be heard: %w", r.deaf)
	case initStatus.Exited() && initStatus.ExitStatus() == exitCrowded:
		e.Err = fmt.Errorf("it could not tell of the command: %w", unix.ETOOMANYREFS)
		e.Hint = crowdedHint
	case initStatus.Exited():
		e.Err = fmt.Errorf("it ended with status %d before it could tell how the command did", initStatus.ExitStatus())
	case initStatus == reapedElsewhere:
		e.Err = errors.New("it ended before it could tell how the command did, and something else in this process waited for it")
	default:
		e.Err = errors.New("it was ended from outside before it could tell how the command did")
		e.Hint = "the kernel's log says whether this host has run out of memory"
	}
	return e
}

// isCrash tells the signals by which programs end that were refused something: a page of a full tmpfs (SIGBUS), a
// thread (SIGABRT).
func isCrash(sig unix.Signal) bool {
	return sig == unix.SIGBUS || sig == unix.SIGABRT || sig == unix.SIGSEGV
}

// shellFsize is how a shell, and much else, tells that SIGXFSZ has ended what it ran.
const shellFsize = 128 + int(unix.SIGXFSZ)

// limitsFiles says whether the size of a file is limited.
func (r *run) limitsFiles() bool {
	return slices.ContainsFunc(r.plan.Rlimits, func(l rlimit.Limit) bool {
		return l.Resource == unix.RLIMIT_FSIZE && l.Soft != rlimit.Unlimited
	})
}

// blame gives a command that failed the outcome of the limit that it met.
func (r *run) blame(res *Result) {
	if r.groups.pidsRefused() {
		r.reached |= reachedPids
	}
	switch {
	case r.reached&(reachedDisk|reachedInodes|reachedTmpfs) != 0 || res.ExitCode == shellFsize && r.limitsFiles():
		res.Outcome, res.ByItself = Disk, true
	case r.reached&reachedPids != 0:
		res.Outcome, res.ByItself = Pids, true
	}
}

// outputTime is how long what the command wrote may take to be passed on: the rest of the run's time, or
// without end (negative) when that has none.
func (r *run) outputTime(survived bool) time.Duration {
	l := r.plan.Limits
	if r.outcome != "" || survived {
		return lastPatience
	}
	if l.Timeout <= 0 {
		return -1
	}
	return max(time.Until(r.startedAt.Add(l.Timeout+l.Grace)), lastPatience)
}
