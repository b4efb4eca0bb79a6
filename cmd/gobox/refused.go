package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"gobox/namespaces"
	"gobox/policy"
	"gobox/record"
	"gobox/sandbox"
)

// refuse tells why there is no run, puts that on record where one was asked for, and gives the exit status. The result of an
// earlier run must not stand for it. known gives what knows the secrets.
func refuse(say messages, f *recordFlags, name string, plan *policy.Plan, known func() *inspection, err error) int {
	status := say.fail(err)
	if !f.insists() && f.status == 0 {
		return status
	}
	for _, lost := range f.recordRefusal(name, plan, known(), err) {
		if lost != nil && lost.Error() != err.Error() {
			say.fail(lost)
		}
	}
	return status
}

// recordRefusal keeps what it can, and gives what it could not.
func (f *recordFlags) recordRefusal(name string, plan *policy.Plan, output *inspection, refusal error) (lost []error) {
	if f.signals == nil {
		// What is begun here is soon finished.
		f.signals, _ = sandbox.WatchSignals()
	}
	insists := f.insists()
	f.key = output.text(f.key)
	if output.text(f.id) != f.id {
		f.id = ""
	}
	r := &recorded{flags: f, plan: plan, inspect: output, start: time.Now(), policy: record.Policy{Name: output.name(name)}}
	r.labels, _ = output.labels(f.labels)
	q := record.Request{
		RunID: f.runID(), Version: versionText(), Policy: r.policy, Argv: output.texts(plan.Exec.Argv), Labels: r.labels,
		Workspace: output.text(plan.Workspace.Path), WorkspaceMode: string(plan.Workspace.Mode), IdempotencyKey: f.key,
		Durable: f.durable || f.audit != "" || f.key != "" || f.result != "",
	}
	var err error
	if f.status > 0 {
		q.Status, err = f.openStatus()
		lost = append(lost, err)
	}
	if f.result != "" {
		if err = f.overwrites(); err == nil {
			r.file, err = record.OpenResultFile(f.result, true)
		}
		lost = append(lost, recordError(err))
	}
	if insists {
		r.run, err = f.openRefused(plan, q)
		lost = append(lost, recordError(err))
	}
	if r.run == nil {
		// An id that is taken is another run's.
		q.RunID = ""
		r.run = record.Unrecorded(q)
	}
	return append(lost, r.finish(sandbox.Result{}, refusal))
}

func (f *recordFlags) openRefused(plan *policy.Plan, q record.Request) (*record.Run, error) {
	dir, err := f.dir()
	if err != nil {
		return nil, err
	}
	if err := exposed(plan, "records", dir, "--audit"); err != nil {
		return nil, err
	}
	return record.Open(dir, q)
}

// dir is the state folder that the flags or the environment name.
func (f *recordFlags) dir() (string, error) {
	if f.audit != "" {
		return f.audit, nil
	}
	return record.StateDir(os.Getenv)
}

// apart refuses a result or record that the command could change, and a result that would replace what the run is given.
func (f *recordFlags) apart(plan *policy.Plan) error {
	if f.result != "" {
		if err := f.overwrites(); err != nil {
			return err
		}
		abs, err := filepath.Abs(f.result)
		if err == nil {
			err = exposed(plan, "result", filepath.Dir(abs), "--result")
		}
		if err != nil {
			return err
		}
	}
	if !f.insists() {
		return nil
	}
	dir, err := f.dir()
	if err != nil {
		return recordError(err)
	}
	return exposed(plan, "records", dir, "--audit")
}

// exposed refuses a folder that the plan lets the command write to, or the way to it.
func exposed(plan *policy.Plan, what, dir, flag string) error {
	var places []string
	for _, s := range plan.Tree.Steps {
		if s.Op == namespaces.OpBind && s.Attr&namespaces.ReadOnly == 0 && s.Target != namespaces.Staging {
			places = append(places, s.Source)
		}
	}
	place, err := record.Beneath(dir, places)
	if err != nil {
		return recordError(err)
	}
	if place == "" {
		return nil
	}
	return &policy.Error{
		Step: "keep " + what, Object: dir, Err: errors.New("the command may write to " + place + ", and could change or replace them"),
		Hint: flag + " names another place, outside of " + place + "; or --workspace-mode ro, or overlay",
	}
}

// cancelledError is the end of a run by a signal before it could begin.
type cancelledError struct{ signal unix.Signal }

func (e cancelledError) Error() string { return "cancelled by " + record.SignalName(e.signal) }

// cancelWith calls cancel when a signal ends the run, until the returned function is called, which gives that signal.
func (f *recordFlags) cancelWith(cancel context.CancelFunc) (stop func() unix.Signal) {
	over, done := make(chan struct{}), make(chan unix.Signal, 1)
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			sig := f.signals.Cancelled()
			if sig != 0 {
				cancel()
				done <- sig
				return
			}
			select {
			case <-over:
				done <- 0
				return
			case <-tick.C:
			}
		}
	}()
	return func() unix.Signal {
		close(over)
		return <-done
	}
}

// observe keeps what happens. What breaks the record is told by finish.
func (r *recorded) observe(e record.Event) {
	r.started = r.started || e.Kind == record.Started
	// The command may have chosen the name, and could spell a secret with it.
	e.Object, e.Detail, e.Rule, e.Fix = r.inspect.text(e.Object), r.inspect.text(e.Detail), r.inspect.text(e.Rule), r.inspect.text(e.Fix)
	if r.later != nil {
		r.early = append(r.early, e)
		return
	}
	_ = r.run.Event(e)
}

// again tells of an answer that was there already.
func (r *recorded) again(replay *record.Replay) error {
	res := replay.Result
	events := record.Unrecorded(record.Request{RunID: res.RunID, Status: r.status})
	_ = events.Event(record.Event{Kind: record.Replayed, Outcome: res.Outcome, ExitCode: res.ExitCode, Signal: res.Signal})
	if r.file == nil {
		return nil
	}
	return r.file.WriteJSON(replay.JSON)
}

func (f *recordFlags) openStatus() (*record.Status, error) {
	for _, fd := range f.given {
		if uint64(fd) == f.status {
			s, err := record.OpenStatus(fd)
			return s, recordError(err)
		}
	}
	return nil, &policy.Error{Step: "use status descriptor", Object: fmt.Sprint(f.status), Err: errors.New("it is not open"), Hint: "--status-fd 3 3>FILE"}
}
