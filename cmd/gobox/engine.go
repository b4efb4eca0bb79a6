package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"gobox/egress"
	"gobox/policy"
	"gobox/record"
	"gobox/sandbox"
)

// runPlan hands the plan to the waiting sandbox, keeps the record, and gives the exit status of the run.
func runPlan(say messages, waiting *sandbox.Sandbox, name string, plan *policy.Plan, terminal bool, keep *recordFlags, output *inspection) int {
	say.redact = output.text
	known := func() *inspection { return output }
	// From here on a run that is cancelled is one on record.
	signals, err := sandbox.WatchSignals()
	if err != nil {
		return refuse(say, keep, name, plan, known, &policy.Error{Step: "signals", Err: err})
	}
	keep.signals = signals
	r, replay, err := newRecorded(keep, name, plan, output)
	if err != nil {
		return refuse(say, keep, name, plan, known, err)
	}
	if replay != nil {
		return answerAgain(say, r, replay, output)
	}
	spec := sandbox.Spec{
		ID: keep.runID(), Plan: plan, Sent: r.begin, Hold: r.hold, Secrets: output.variables(), HasSecret: output.finder(), Watched: signals, Control: r.control,
		Stdio: sandbox.Stdio{
			In: os.Stdin, Out: os.Stdout, Err: os.Stderr, ForceTerminal: terminal, Over: closeStdout,
			CaptureOut: r.capture("stdout", r.run.Stdout()), CaptureErr: r.capture("stderr", r.run.Stderr()),
		},
		// What breaks the record is told by finish.
		Observe: r.observe,
		Changes: r.collect,
	}
	if plan.Network.Namespace.Gateway {
		spec.Upstream = sandbox.Upstream{Proxies: egress.ProxiesFromEnv(os.Environ()), Secrets: output.tokens()}
	}
	spec.Observe(record.Event{Kind: record.Prepared, What: name})
	result, err := waiting.Run(context.Background(), spec)
	if sig := signals.Cancelled(); err != nil && sig != 0 {
		// Init got it as well, and was gone before the supervisor could end it.
		result, err = sandbox.Result{Outcome: sandbox.Cancelled, Signal: sig}, nil
	}
	if recordErr := r.finish(result, err); recordErr != nil {
		say.fail(recordErr)
		if err == nil {
			return policy.ExitFailed
		}
	}
	if err != nil {
		return say.fail(err)
	}
	if result.OutputError != nil {
		say.fail(result.OutputError)
	}
	if result.InputError != nil {
		say.fail(result.InputError)
	}
	explainEnd(say, plan, result)
	tellReadOnly(say, plan, result)
	tellWorktree(say, plan, result)
	tellForeign(say, r)
	tellNetwork(say, plan, r, result)
	if r.unrecorded != nil {
		say.hint("this run has no record, or not all of one: " + r.unrecorded.Error() + "; --audit DIR keeps it elsewhere")
	}
	tellChanges(say, r, result)
	tellAside(say, plan, result)
	tellDelivered(say, plan, result)
	status := result.Status()
	if status == 0 && r.set != nil && r.set.Refused != "" {
		status = policy.ExitOutput
	}
	return output.explain(say, r.written, status)
}

// closeStdout lets the reader of a pipe see its end as soon as the command has closed it, and not only when gobox ends. Stderr
// stays open for gobox's own words.
func closeStdout() {
	if null, err := unix.Open(os.DevNull, unix.O_WRONLY|unix.O_CLOEXEC, 0); err == nil {
		_ = unix.Dup3(null, 1, 0)
		unix.Close(null)
	}
}

// explainEnd says why gobox ended the command, when it was gobox.
func explainEnd(say messages, plan *policy.Plan, result sandbox.Result) {
	tell := func(text, hint string) {
		say.line("error", text)
		say.hint(hint)
	}
	l := plan.Limits
	switch result.Outcome {
	case sandbox.TimedOut:
		tell(fmt.Sprintf("timeout: the command ran longer than %v and was ended", l.Timeout), "--timeout D gives it more time, --timeout 0 no limit")
	case sandbox.CPUTime:
		tell(fmt.Sprintf("cpu-time: the command used more than %v of CPU time and was ended", l.CPUTime), "--cpu-time D gives it more")
	case sandbox.Memory:
		tell(fmt.Sprintf("memory: the command needed more than %s and was ended", policy.Size(l.Memory)), "--memory SIZE gives it more")
	case sandbox.Output:
		tell(fmt.Sprintf("output: the command wrote more than %s and was ended; the rest is dropped", policy.Size(l.Output)), "--output SIZE allows more, --output 0 any amount")
	case sandbox.Disk:
		if result.ByItself {
			say.hint(fullScratch(result))
			break
		}
		tell(overDisk(plan, result))
	}
	if result.Outcome == sandbox.Pids {
		say.hint(fmt.Sprintf("the command was refused a process or thread, and failed: --pids N gives it more than %d", l.Pids))
	}
	if slices.ContainsFunc(result.Denials, func(d sandbox.Denial) bool { return d.What == sandbox.KilledCall }) {
		say.hint("SIGSYS ended the command: the filter does that at a call of another architecture (i386, x32), which no flag allows, and where a profile of --seccomp says so; a native build of the program runs")
	}
	if crashed(result) && l.Memory > 0 {
		say.hint("if it ran out of memory, --memory SIZE gives it more than " + policy.Size(l.Memory))
	}
	if result.Lost != nil {
		tell(result.Lost.Error()+"; everything in the sandbox is killed", result.Lost.Hint)
	}
	if result.Survived {
		isProcess := func(what string) bool { return strings.HasPrefix(what, "pid ") }
		if len(result.Survivors) > 0 && !slices.ContainsFunc(result.Survivors, isProcess) {
			tell("teardown: no process of the sandbox is left, but "+strings.Join(result.Survivors, ", "), "gobox runs gc tries again to remove it")
		} else {
			tell("teardown: the kernel has not ended every process of the sandbox yet; they are killed and cannot run on", "gobox runs gc cleans up once they are gone")
		}
	}
}

// overDisk says what ended a command that did not see it coming.
func overDisk(plan *policy.Plan, result sandbox.Result) (text, hint string) {
	root := plan.Tree.Root
	switch result.OverScratch {
	case sandbox.ScratchSize:
		return "disk: the command wrote more than " + policy.Size(root.Size) + " to the workspace and other scratch and was ended", "--disk SIZE allows more"
	case sandbox.ScratchFiles:
		return fmt.Sprintf("disk: the command made more than %d files in the workspace and other scratch and was ended", root.Inodes), "--disk 0 sets no limit on their number"
	case sandbox.ScratchRoom:
		return "disk: the file system of --scratch had less than a tenth left of the room that was free, and the command was ended", "--scratch DIR takes a folder of another file system"
	}
	return "disk: the command made a file larger than it may and was ended", "--fsize SIZE and --disk SIZE allow more"
}

// fullScratch says what the command had no room for.
func fullScratch(result sandbox.Result) string {
	var size, files, file uint64
	for _, l := range result.Limits {
		switch {
		case l.Name == sandbox.LimitDisk && l.Triggered:
			size = l.Value
		case l.Name == sandbox.LimitInodes && l.Triggered:
			files = l.Value
		case l.Name == sandbox.LimitFsize && l.Triggered:
			file = l.Value
		}
	}
	switch {
	case files > 0:
		return fmt.Sprintf("the scratch had room for no file more than %d, and the command failed: --tmpfs DEST makes other scratch", files)
	case size > 0:
		return "the scratch was full, and the command failed: --disk SIZE gives it more than " + policy.Size(size)
	}
	if file > 0 {
		return "a file would have become too large, and the command failed: --fsize SIZE allows more than " + policy.Size(file)
	}
	return "a --tmpfs was full, and the command failed: --tmpfs DEST:SIZE gives it more room"
}

// crashed tells an end by which programs often show that they were refused memory.
func crashed(result sandbox.Result) bool {
	return result.Outcome == sandbox.Signaled &&
		(result.Signal == unix.SIGSEGV || result.Signal == unix.SIGABRT || result.Signal == unix.SIGBUS)
}

// answerAgain gives the answer of an earlier run with the same idempotency key.
func answerAgain(say messages, r *recorded, replay *record.Replay, output *inspection) int {
	defer replay.Close()
	if err := r.again(replay); err != nil {
		return say.fail(recordError(err))
	}
	if err := replay.WriteOutput(os.Stdout, os.Stderr); err != nil {
		return say.fail(recordError(err))
	}
	return output.explain(say, replay.Result, replay.Result.ExitStatus())
}

// tellReadOnly says that the default workspace was another than usual, since what the command could not do then is no
// fault of the command's.
func tellReadOnly(say messages, plan *policy.Plan, result sandbox.Result) {
	if cause := cmp.Or(plan.NoOverlay, result.NoOverlay); cause != "" {
		say.hint("the workspace was read-only: " + cause + "; --workspace-mode ro is without this hint, rw lets the command change it")
	}
}

// tellChanges says what became of what the command wrote to an overlay: the one thing that a run which went
// well has to say.
func tellChanges(say messages, r *recorded, result sandbox.Result) {
	switch {
	case result.ChangesError != nil:
		say.line("error", "changes: "+result.ChangesError.Error())
		say.hint("what the command wrote to the workspace is lost; the workspace is as it was")
	case r.unkept:
		say.hint("what the command wrote to the workspace is dropped, as there is no record to keep it in; --audit DIR makes one")
	case r.set == nil || r.set.Empty():
	case r.set.Refused != "":
		say.line("error", "changes: what the command wrote to the workspace is not kept: "+r.set.Refused)
		say.hint("the workspace is as it was; --workspace-mode rw lets the command change it")
	default:
		s := r.set.Summary()
		say.hint(fmt.Sprintf("%d added, %d modified, %d deleted: gobox diff %s shows it, gobox apply %s --hash %s applies it",
			s.Added, s.Modified, s.Deleted, r.run.ID(), r.run.ID(), r.set.Hash))
		for i := range r.set.Entries {
			if r.set.Entries[i].Secret {
				say.hint("a secret of --secret is in what changed; gobox apply tells where and takes that only by name, gobox discard removes it")
				break
			}
		}
	}
}
