package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"gobox/fsguard"
	"gobox/fsguard/changes"
	"gobox/policy"
	"gobox/record"
	"gobox/sandbox"
)

// recordFlags are those that say what is kept of a run, and where.
type recordFlags struct {
	result  string
	status  uint64
	audit   string
	id      string
	made    string // see runID
	key     string
	labels  []string
	capture bool

	required, durable bool // by the policy
	control           uint64

	given   []int            // descriptors that the caller has opened
	inputs  []input          // that --result must not replace
	signals *sandbox.Signals // watched since before the record; nil for a run that is refused
}

func (f *recordFlags) define(set *pflag.FlagSet) {
	add := func(v *value, name, usage string) { set.VarP(v, name, "", usage) }
	add(word(&f.result, "FILE", ""), "result", "write the result there too, as JSON")
	add(descriptor(&f.status), "status-fd", "write events to this descriptor, a JSON line each")
	add(descriptor(&f.control), "control-fd", "cancel the run when the other end of this descriptor is closed")
	add(word(&f.audit, "DIR", ""), "audit", "keep the record below this folder, synced to disk; without it none is an error")
	add(word(&f.id, "ID", ""), "run-id", "name the run (default: one that gobox makes)")
	key := word(&f.key, "K", "")
	key.dash = true
	add(key, "idempotency-key", "run once: the same key and request give the recorded answer again")
	add(words(&f.labels, "K=V"), "label", "put a label into the record")
	set.BoolVar(&f.capture, "capture", false, "keep stdout and stderr in the record")
}

// runID is the run's name, the caller's or a new one, and always the same.
func (f *recordFlags) runID() string {
	if f.id != "" {
		return f.id
	}
	if f.made == "" {
		f.made = record.NewID(time.Now())
	}
	return f.made
}

// insists says whether the caller has asked for a record, so that none is an error.
func (f *recordFlags) insists() bool {
	return f.required || f.audit != "" || f.key != "" || f.capture || f.result != "" || f.id != "" || len(f.labels) > 0
}

// insists is that of the flags, or of an inspection, which needs the captures.
func (r *recorded) insists() bool { return r.flags.insists() || r.inspect.captures() }

// recorded is a run with its record, from before it starts.
type recorded struct {
	flags  *recordFlags
	plan   *policy.Plan
	policy record.Policy
	labels map[string]string
	run    *record.Run
	file   *record.ResultFile
	claim  *record.Claim
	start  time.Time

	control *os.File // of --control-fd
	status  *record.Status
	started bool // the command was executed

	inspect    *inspection
	captures   []*capture
	captureErr error
	written    *record.Result

	set    *changes.Set // what the command wrote to an overlay; nil without one
	unkept bool         // there was no record to keep it in
	// unrecorded is why there is no record, or no whole one, that nobody asked for.
	unrecorded error
	foreign    *foreign // what it could not change there, for all we know; nil for nothing
	durable    bool

	// A record that nobody insists on is opened while init builds the sandbox: later does it, and early holds the
	// events until then.
	later func()
	early []record.Event

	held             *record.Hold // nil when nothing outlives a killed gobox
	stopBeat, beaten chan struct{}
}

// begin opens the record, unless it is open.
func (r *recorded) begin() {
	if r.later == nil {
		return
	}
	open := r.later
	r.later = nil
	open()
	for _, e := range r.early {
		_ = r.run.Event(e)
	}
	r.early = nil
}

// newRecorded opens the record of a run that is about to start, or prepares to. A replay means that it is not
// to start, since the answer is there already.
func newRecorded(f *recordFlags, name string, plan *policy.Plan, output *inspection) (_ *recorded, replay *record.Replay, err error) {
	r := &recorded{flags: f, plan: plan, inspect: output, start: time.Now()}
	defer func() {
		if err != nil {
			r.abandon()
		}
	}()
	r.policy = record.Policy{Name: name}
	if r.labels, err = output.labels(f.labels); err != nil {
		return nil, nil, err
	}
	q := record.Request{
		RunID: f.runID(), Version: versionText(), Policy: r.policy, Argv: output.texts(plan.Exec.Argv), Labels: r.labels,
		Workspace: output.text(plan.Workspace.Path), WorkspaceMode: string(plan.Workspace.Mode), IdempotencyKey: f.key,
		Durable: f.durable || f.audit != "" || f.key != "" || f.result != "", Capture: f.capture || f.key != "" || output.captures(),
	}
	r.durable = q.Durable
	digest := func() {
		r.policy.SHA256 = sandbox.Digest(plan)
		q.Policy = r.policy
	}
	if f.control > 0 {
		if r.control, err = f.openControl(); err != nil {
			return nil, nil, err
		}
	}
	if f.status > 0 {
		if r.status, err = f.openStatus(); err != nil {
			return nil, nil, err
		}
		q.Status = r.status
	}
	if f.key != "" && plan.Output.Path != "" {
		return nil, nil, &policy.Error{
			Step: "usage", Object: "--idempotency-key " + f.key, Err: errors.New("does not go with --output-dir, whose content is no part of the recorded answer"), Hint: "leave one of them out",
		}
	}
	if err = f.apart(plan); err != nil {
		return nil, nil, err
	}
	if f.result != "" {
		if r.file, err = record.OpenResultFile(f.result, true); err != nil {
			return nil, nil, recordError(err)
		}
	}
	dir, err := f.dir()
	if err != nil && r.insists() {
		return nil, nil, recordError(err)
	}
	if !r.insists() {
		noDir := err
		r.later = func() {
			digest()
			err := noDir
			if err == nil {
				r.run, err = record.Open(dir, q)
			}
			if err != nil {
				// Nobody asked for it, and where there is no place for one (a service without HOME) the run goes on.
				r.run, r.unrecorded = record.Unrecorded(q), err
			}
		}
		return r, nil, nil
	}
	digest()
	if f.key != "" {
		if r.claim, replay, err = r.claimKey(dir, q.RunID); err != nil || replay != nil {
			return r, replay, err
		}
	}
	if r.run, err = record.Open(dir, q); err != nil {
		return nil, nil, recordError(err)
	}
	return r, nil, nil
}

// openControl checks that the descriptor is one to wait on, and the caller's.
func (f *recordFlags) openControl() (*os.File, error) {
	fd := int(f.control)
	var cause string
	var st unix.Stat_t
	switch {
	case !slices.Contains(f.given, fd) || unix.Fstat(fd, &st) != nil:
		cause = "it is not open"
	case st.Mode&unix.S_IFMT != unix.S_IFIFO && st.Mode&unix.S_IFMT != unix.S_IFSOCK:
		cause = "it is neither a pipe nor a socket"
	default:
		unix.CloseOnExec(fd)
		return os.NewFile(uintptr(fd), "control"), nil
	}
	return nil, &policy.Error{Step: "use control descriptor", Object: fmt.Sprint(fd), Err: errors.New(cause), Hint: "--control-fd 3 3< <(sleep 60)"}
}

// collectLimit is how long it may take to look through what a command wrote.
const collectLimit = 2 * time.Minute

// collect keeps what the command wrote to the overlay of its workspace, for gobox diff and gobox apply.
func (r *recorded) collect(upper *os.File, ended sandbox.Result) error {
	ctx, cancel := context.WithTimeout(context.Background(), collectLimit)
	defer cancel()
	up, err := fsguard.NewRoot(int(upper.Fd()), fsguard.Options{})
	if err != nil {
		return err
	}
	defer up.Close()
	low, err := fsguard.OpenRoot(r.plan.Workspace.Path, fsguard.Options{})
	if err != nil {
		return err
	}
	defer low.Close()
	if failed(&ended) {
		// Before Collect changes modes in it.
		r.foreign = newForeignSearch(ctx, up, low, r.plan).search()
	}
	if r.run.DirFD() < 0 {
		names, err := upper.Readdirnames(1)
		r.unkept = len(names) > 0
		if err == io.EOF {
			err = nil
		}
		return err
	}
	dir, err := fsguard.NewRoot(r.run.DirFD(), fsguard.Options{})
	if err != nil {
		return err
	}
	defer dir.Close()
	r.set, err = changes.Collect(ctx, up, low, dir, changes.Options{Workspace: r.plan.Workspace.Path, Started: r.start, Durable: r.durable, Secret: r.inspect.finder()})
	return err
}

// claimKey waits for the right to run under the caller's key, or for the answer of whoever has it.
func (r *recorded) claimKey(dir, id string) (*record.Claim, *record.Replay, error) {
	stdin, err := record.DigestStdin(os.Stdin)
	if err != nil {
		return nil, nil, recordError(err)
	}
	call := record.Call{
		PolicySHA256: r.policy.SHA256, Argv: r.plan.Exec.Argv, Env: r.plan.Exec.Env,
		Workspace: r.plan.Workspace.Path, WorkspaceMode: string(r.plan.Workspace.Mode), Stdin: stdin, Output: r.inspect.digest(),
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if l := r.plan.Limits; l.Timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, l.Timeout+l.Grace+5*time.Second)
		defer cancel()
	}
	cancelled := r.flags.cancelWith(cancel)
	claim, replay, err := record.ClaimKey(ctx, dir, r.flags.key, call.SHA256(), id)
	if sig := cancelled(); sig != 0 && err != nil {
		return nil, nil, &policy.Error{
			Step: "use idempotency key", Object: r.flags.key, Err: cancelledError{sig}, Code: 128 + int(sig),
			Hint: "another gobox runs for the key; the same command again waits for its answer",
		}
	}
	if err != nil {
		return nil, nil, recordError(err)
	}
	return claim, replay, nil
}

func parseLabels(list []string) (map[string]string, error) {
	if len(list) == 0 {
		return nil, nil
	}
	labels := make(map[string]string, len(list))
	for _, kv := range list {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return nil, &policy.Error{Step: "usage", Object: "--label " + kv, Err: errors.New("is not NAME=VALUE"), Hint: "--label model=NAME"}
		}
		labels[k] = v
	}
	return labels, nil
}

// abandon gives up a record whose run never started.
func (r *recorded) abandon() {
	if r.file != nil {
		r.file.Discard()
	}
	if r.claim != nil {
		r.claim.Abandon()
	}
	r.run.Close()
}

// finish writes what came of the run. runErr is that of a command that was never executed.
func (r *recorded) finish(res sandbox.Result, runErr error) error {
	r.begin()
	out := r.result(res, runErr)
	r.written = out
	out.Usage.Truncated = out.Usage.Truncated || r.captureErr != nil
	if !r.started {
		ended := record.Event{Kind: record.Ended, Outcome: out.Outcome, Signal: out.Signal}
		if out.Error != nil {
			ended.Detail = out.Error.Message
		}
		_ = r.run.Event(ended)
	}
	err := errors.Join(r.captureErr, r.run.Finish(out))
	r.release()
	if r.file != nil {
		err = errors.Join(err, r.file.Write(out))
	}
	if r.claim != nil {
		if !r.started {
			r.claim.Abandon()
		} else {
			r.claim.Release()
		}
	}
	if err != nil && r.insists() {
		return recordError(err)
	}
	if r.unrecorded == nil {
		r.unrecorded = err
	}
	return nil
}

func (r *recorded) result(res sandbox.Result, runErr error) *record.Result {
	p := r.plan
	out := &record.Result{
		RunID: r.run.ID(), IdempotencyKey: r.flags.key, Version: versionText(), Policy: r.policy, Labels: r.labels,
		StartedAt: record.Timestamp(r.start), Outcome: record.Outcome(res.Outcome), WallMS: res.Wall.Milliseconds(),
		Workspace: record.Workspace{Mode: string(p.Workspace.Mode)},
		Network: record.Network{
			Mode: p.Network.Mode(), Connections: res.Network.Connections, Failed: res.Network.Failed,
			BytesIn: res.Network.BytesIn, BytesOut: res.Network.BytesOut,
		},
		Layers: record.Layers{
			Namespaces: namespacesOf(p),
			Landlock:   record.Landlock{ABI: p.Landlock.ABI, Enforced: p.Landlock.ABI > 0},
			Seccomp:    len(p.Filter.BPF) > 0, Rlimits: len(p.Rlimits) > 0,
			Cgroup: record.Cgroup{Version: res.Cgroup.Version, Controllers: res.Cgroup.Controllers},
		},
		Usage: record.Usage{
			CPUUserMS: res.Usage.CPUUser.Milliseconds(), CPUSystemMS: res.Usage.CPUSystem.Milliseconds(),
			MaxRSSBytes: res.Usage.MaxRSS, PeakMemoryBytes: res.Usage.PeakMemory, PeakProcesses: res.Usage.PeakProcesses,
			StdoutBytes: res.Usage.Stdout, StderrBytes: res.Usage.Stderr, Truncated: res.Usage.Truncated,
		},
		Counters: record.Counters{
			DeniedConnections: res.DeniedConnections,
			EscapeAttempts:    res.EscapeAttempts, DeniedSyscalls: res.DeniedSyscalls, LimitsTriggered: res.LimitsTriggered(),
		},
		Teardown: record.Teardown{
			Destroyed: !res.Survived, DurationMS: float64(res.Teardown.Microseconds()) / 1000, Survivors: res.Survivors,
		},
	}
	if res.NoOverlay != "" {
		out.Workspace.Mode = string(policy.ModeReadOnly)
		out.Anomalies = append(out.Anomalies, record.Anomaly{Kind: record.NoOverlay, Object: p.Workspace.Path, Detail: res.NoOverlay})
	}
	if s := r.set; s != nil {
		sum := s.Summary()
		out.Workspace = record.Workspace{
			Mode: out.Workspace.Mode, Added: sum.Added, Modified: sum.Modified, Deleted: sum.Deleted, Bytes: sum.Bytes, Hash: s.Hash,
		}
		if s.Refused != "" {
			out.Anomalies = append(out.Anomalies, record.Anomaly{Kind: record.ChangesRefused, Object: p.Workspace.Path, Detail: s.Refused})
		}
		for i := range s.Entries {
			if e := &s.Entries[i]; e.Secret {
				out.Findings = append(out.Findings, record.Finding{Kind: "secret", Object: r.inspect.text(e.Path)})
			}
		}
		for _, n := range s.Dropped {
			out.Anomalies = append(out.Anomalies, record.Anomaly{Kind: record.NotKept, Object: n.Path, Detail: n.What})
		}
	}
	if res.ChangesError != nil {
		out.Anomalies = append(out.Anomalies, record.Anomaly{Kind: record.ChangesLost, Object: p.Workspace.Path, Detail: res.ChangesError.Error()})
	}
	out.Anomalies = append(out.Anomalies, asideAnomalies(res)...)
	var undelivered []record.Anomaly
	if out.OutputDir, undelivered = deliveredResult(p, res); out.OutputDir != nil {
		out.OutputDir.Path = r.inspect.text(out.OutputDir.Path)
	}
	out.Anomalies = append(out.Anomalies, undelivered...)
	if !r.started {
		out.Layers = record.Layers{}
	}
	out.SetArgv(r.inspect.texts(p.Exec.Argv))
	for _, m := range p.Missing {
		out.Layers.Missing = append(out.Layers.Missing, string(m))
	}
	for _, l := range res.Limits {
		out.Limits = append(out.Limits, record.Limit{Name: l.Name, Value: l.Value, Unit: l.Unit, EnforcedBy: l.EnforcedBy, Triggered: l.Triggered})
	}
	for _, d := range res.Denials {
		out.Denials = append(out.Denials, record.Denial{
			Layer: string(d.Layer), What: d.What, Object: r.inspect.text(d.Object), Count: d.Count,
			FirstMS: d.First.Milliseconds(), Rule: r.inspect.text(d.Rule), Fix: r.inspect.text(d.Fix),
		})
	}
	if res.OutputError != nil {
		out.Anomalies = append(out.Anomalies, record.Anomaly{Kind: record.OutputLost, Object: "stdout", Detail: res.OutputError.Error()})
	}
	if res.InputError != nil {
		out.Anomalies = append(out.Anomalies, record.Anomaly{Kind: record.InputCut, Object: "stdin", Detail: res.InputError.Error()})
	}
	r.captureErr = r.closeCaptures(res.Usage, out)
	if runErr == nil {
		r.look(out)
	}
	switch {
	case runErr != nil:
		r.explain(out, runErr)
	case res.Outcome == sandbox.Exited, res.ByItself && res.Signal == 0:
		code := res.ExitCode
		out.ExitCode = &code
	case res.Signal != 0:
		out.Signal = record.SignalName(res.Signal)
	}
	if res.Survived || res.Scratch != "" {
		out.Teardown.Quarantined = r.quarantine(res)
	}
	for i := range out.Anomalies {
		a := &out.Anomalies[i]
		a.Object, a.Detail = r.inspect.text(a.Object), r.inspect.text(a.Detail)
	}
	return out
}

// explain records why the command never ran. There is then nothing that was not destroyed.
func (r *recorded) explain(out *record.Result, err error) {
	out.Outcome = record.SetupFailed
	out.Teardown.Destroyed = true
	f := &record.Failure{Message: err.Error()}
	var e *policy.Error
	if errors.As(err, &e) {
		f.Step, f.Object, f.Hint, f.Message = e.Step, e.Object, e.Hint, e.Err.Error()
		if e.Code == policy.ExitNotFound || e.Code == policy.ExitNotExecutable {
			out.Outcome = record.ExecFailed
		}
	}
	var cancelled cancelledError
	if errors.As(err, &cancelled) {
		out.Outcome, out.Signal = record.Cancelled, record.SignalName(cancelled.signal)
	}
	var errno unix.Errno
	if errors.As(err, &errno) {
		f.Errno = unix.ErrnoName(errno)
	}
	f.Object, f.Message, f.Hint = r.inspect.text(f.Object), r.inspect.text(f.Message), r.inspect.text(f.Hint)
	out.Error = f
}

// quarantine notes what could not be destroyed, so that it is seen, never used again, and cleaned later.
func (r *recorded) quarantine(res sandbox.Result) bool {
	q := record.Quarantined{Cgroups: res.Cgroup.Paths, Reason: strings.Join(res.Survivors, ", ")}
	if res.Scratch != "" {
		q.Paths = []string{res.Scratch}
	}
	for _, s := range res.Survivors {
		var pid int
		if n, _ := fmt.Sscanf(s, "pid %d", &pid); n == 1 {
			q.Processes = append(q.Processes, record.ProcessOf(pid))
		}
	}
	return r.run.Quarantine(q) == nil
}
