package sandbox

import (
	"time"

	"gobox/egress"
	"gobox/fsguard/changes"
	"gobox/policy"

	"golang.org/x/sys/unix"
)

// Outcome says how a run ended; the words are those of docs/cli.md.
type Outcome string

const (
	Exited    Outcome = "exited"
	Signaled  Outcome = "signaled"
	TimedOut  Outcome = "timeout"
	CPUTime   Outcome = "cpu_time"
	Memory    Outcome = "memory"
	Disk      Outcome = "disk"
	Pids      Outcome = "pids"
	Output    Outcome = "output"
	Cancelled Outcome = "cancelled"
)

// Result is a run whose command was executed.
type Result struct {
	Outcome     Outcome
	ExitCode    int           // of the command, when it exited by itself
	Signal      unix.Signal   // that ended it, when one did; with Cancelled the one that gobox got
	ByItself    bool          // with Disk and Pids: the command met the limit, went on, and failed
	Wall        time.Duration // from the command's start to its end
	Teardown    time.Duration // from then until nothing was left
	OverScratch ScratchLimit  // with Disk: the layer of --scratch was too much, and gobox ended the run
	Survived    bool          // the kernel had not destroyed the sandbox within its time
	Lost        *policy.Error // why nobody knows how the command did, though nothing here had ended it; else nil

	// Denials are the connections that the network's policy refused, and the system calls that the filter
	// refused, by name and deciding argument, but for those that programs probe the kernel with. Of more than a few hundred different ones the rest is only in
	// DeniedSyscalls. EscapeAttempts are those that no ordinary program makes (docs/syscalls.md).
	Denials        []Denial
	DeniedSyscalls uint64
	EscapeAttempts uint64
	// DeniedConnections are connections and names that the network's policy refused, those in Denials included; Network
	// has the totals of what was let through.
	DeniedConnections uint64
	Network           egress.Summary

	// Aside are files that came to places where the host would run or obey them, and were renamed once nothing of the
	// command was left (policy.Plan.Guards). AsideError says why not all could be looked for.
	Aside      []Aside
	AsideError error

	// NoOverlay is why the workspace was read-only where the plan would rather have had an overlay (Step.OrReadOnly).
	NoOverlay string

	// Notes are remarks on what was done otherwise than a reader of the plan expects, a sentence each.
	Notes []string

	// Delivered says what came out into the plan's output folder, nil when nothing did: then DeliverError says why, or the
	// command did not exit by itself.
	Delivered    *changes.Delivered
	DeliverError error

	// ChangesError is what Spec.Changes gave.
	ChangesError error
	// OutputError is why some of the command's output could not be passed on (a *policy.Error), nil when all was.
	OutputError error
	// InputError is why the command was not given all of the file that is its stdin (a *policy.Error): it has met an end where
	// there was none.
	InputError error

	Limits    []Limit
	Usage     Usage
	Cgroup    Cgroup
	Scratch   string   // a folder on disk that could not be removed; empty when none is left
	Survivors []string // what could not be destroyed in time: "pid 12", "cgroup /sys/fs/cgroup/..."
}

// Status is gobox's own exit status for r (docs/cli.md).
func (r Result) Status() int {
	if r.ByItself && r.Signal != 0 {
		return 128 + int(r.Signal)
	} else if r.ByItself {
		return r.ExitCode
	}
	switch r.Outcome {
	case Exited:
		if (r.OutputError != nil || r.InputError != nil || r.ChangesError != nil || r.AsideError != nil || len(r.Aside) > 0 || r.DeliverError != nil) && r.ExitCode == 0 {
			return policy.ExitOutput
		}
	case TimedOut, CPUTime:
		return policy.ExitTimeout
	case Memory, Disk, Output:
		return policy.ExitLimit
	case Cancelled, Signaled:
		return 128 + int(r.Signal)
	}
	return r.ExitCode
}
