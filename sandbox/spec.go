package sandbox

import (
	"io"
	"os"
	"path"

	"gobox/policy"
	"gobox/record"
)

// Spec is one run.
type Spec struct {
	ID    string // of the run, for names on this host, see record.ValidID
	Plan  *policy.Plan
	Stdio Stdio
	// Secrets are variables of the command's, NAME=VALUE, one for each of Plan.Exec.Secrets in that order. They are not in
	// the plan, so that nothing that is made of it shows them.
	Secrets []string
	// HasSecret, when set, tells whether one of them is in what the command leaves in its output folder, which then does
	// not come out.
	HasSecret func(io.Reader) (bool, error)
	// Upstream is for a plan with a gateway.
	Upstream Upstream
	// Changes, when set, gets the upper directory of the workspace's overlay once nothing of the command is left. It
	// must open everything beneath it with care, as the command has chosen every name and kind in it.
	Changes func(upper *os.File, ended Result) error
	// Hold, when set, is told what outlives this process if it is killed, before there is any of it: folders of the run's own, and
	// what [SetAside] is to look through. An error ends the run before it starts.
	Hold func(paths []string, guards []policy.Guard) error
	// Sent, when set, is called once init is at work on the plan: for what takes time and need not be done before.
	Sent func()
	// Signals has the process's own signals forwarded to the command, as for a program that does nothing else; INT
	// and TERM cancel the run. The handlers stay for the rest of the process's life, and what comes between two runs is the
	// next one's. Of the runs at one time, one may have them.
	Signals bool
	// Watched, when set, are those signals, from before Run.
	Watched *Signals
	// Control, when set, cancels the run when its other end is closed; what is read from it means nothing. It
	// stays the caller's.
	Control *os.File
	// Observe, when set, is told what happens, in order and from one goroutine.
	Observe func(record.Event)
}

// hold tells what the run leaves if this process is killed.
func (s *Spec) hold(layer *scratch, folder *outputFolder) error {
	var paths []string
	if layer != nil {
		paths = append(paths, layer.path)
	}
	if folder != nil {
		paths = append(paths, path.Dir(folder.plan.Path)+"/"+folder.temp)
	}
	if s.Hold == nil || len(paths)+len(s.Plan.Guards) == 0 {
		return nil
	}
	return s.Hold(paths, s.Plan.Guards)
}

// Event is something that happens in a run.
type Event = record.Event

func (s *Spec) observe(e record.Event) {
	if s.Observe != nil {
		s.Observe(e)
	}
}
