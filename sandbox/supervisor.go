package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gobox/namespaces"
	"gobox/policy"
	"gobox/record"

	"golang.org/x/sys/unix"
)

// setupLimit bounds the time from the plan's handover to the command's start, which may touch file
// systems that do not answer.
const setupLimit = 60 * time.Second

// initGone is how long an init that seems to be dying may take to be dead, in milliseconds.
const initGone = 100

// teardownLimit is how long a killed sandbox may take to disappear before it counts as one that cannot be destroyed and the caller
// gets its answer without it. It is long, since what is dead already may wait for seconds on a loaded host until it is reaped.
const teardownLimit = 10 * time.Second

// killAgain is how often a sandbox that does not disappear is killed once more.
const killAgain = time.Second

// lastPatience is for what is nearly always there at once when a killed sandbox is gone: the rest of its output, and of the accounts.
const lastPatience = 350 * time.Millisecond

// Sandbox is an init that waits for its plan.
type Sandbox struct {
	launched chan struct{} // closed when the fields below are set
	over     chan struct{} // closed when init is gone
	ran      atomic.Bool
	err      error
	pid      int
	pidfd    int
	sock     int
	flags    int // CLONE_NEW*
}

// InitEnv is init's environment. One thread is enough for it, and so it takes less of the command's own number
// of processes; and it does not live long enough to collect garbage.
func InitEnv() []string { return []string{"GOMAXPROCS=1", "GOGC=off"} }

// Launch starts init in new namespaces and returns at once: init's own start runs beside the planning,
// and whatever goes wrong with it is [Sandbox.Run]'s to report. The caller must call Run or
// [Sandbox.Discard] in the end.
func Launch() *Sandbox { return launch(namespaces.Flags) }

// LaunchInNetwork is [Launch] for a plan whose network is the host's: the new namespaces are all but that of the network.
func LaunchInNetwork() *Sandbox { return launch(namespaces.Flags &^ unix.CLONE_NEWNET) }

func launch(flags int) *Sandbox {
	s := &Sandbox{launched: make(chan struct{}), over: make(chan struct{}), flags: flags}
	if !mainAsks.Load() {
		// Init would be the program's main once more, from its beginning, with all that this does and starts.
		s.err = errMain
		close(s.launched)
		return s
	}
	go s.launch()
	return s
}

// InNetwork says whether the network is the host's.
func (s *Sandbox) InNetwork() bool { return s.flags&unix.CLONE_NEWNET == 0 }

// Adopt takes over an init that was started as [Launch] does it: process pid with pidfd, a child of this
// process whose parent thread lives on, at the other end of the socket sock. The descriptors are the
// Sandbox's then.
func Adopt(pid, pidfd, sock int) *Sandbox {
	s := &Sandbox{launched: make(chan struct{}), over: make(chan struct{}), flags: namespaces.Flags, pid: pid, pidfd: pidfd, sock: sock}
	close(s.launched)
	return s
}

func (s *Sandbox) launch() {
	// Init dies with the thread that cloned it (PR_SET_PDEATHSIG), which therefore waits here.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s.err = s.clone()
	close(s.launched)
	if s.err == nil {
		<-s.over
	}
}

func (s *Sandbox) clone() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return &policy.Error{Step: "start", Err: fmt.Errorf("socketpair: %w", err)}
	}
	defer unix.Close(pair[1])
	s.pid, s.pidfd, err = namespaces.Clone(s.flags, "/proc/self/exe", []string{InitName}, InitEnv(), pair[1])
	if err != nil {
		unix.Close(pair[0])
		return explainClone(err)
	}
	s.sock = pair[0]
	return nil
}

// Discard ends a sandbox that has not run; it does nothing to one that has.
func (s *Sandbox) Discard() {
	<-s.launched
	if s.err != nil || s.gone() {
		return
	}
	s.kill()
	s.wait(0)
	s.release()
}

func (s *Sandbox) gone() bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}

// kill ends init and with it every process of its pid namespace.
func (s *Sandbox) kill() { _ = unix.PidfdSendSignal(s.pidfd, unix.SIGKILL, nil, 0) }

// wait reaps init, whose death the kernel reports when its pid namespace is empty (pid_namespaces(7)). In a program that waits
// for whatever child comes, or ignores SIGCHLD, that may have been done, and then nobody knows the status.
func (s *Sandbox) wait(options int) (st unix.WaitStatus, reaped bool) {
	for {
		pid, err := unix.Wait4(s.pid, &st, options, nil)
		switch err {
		case unix.EINTR:
		case unix.ECHILD:
			return reapedElsewhere, true
		default:
			return st, pid == s.pid
		}
	}
}

// reapedElsewhere is no status of a process that has ended: neither Exited nor Signaled.
const reapedElsewhere unix.WaitStatus = 0xffff

func (s *Sandbox) release() {
	closeAll([]int{s.sock, s.pidfd})
	close(s.over)
}

// underWay has the ids of the runs of this process.
var underWay sync.Map

const hintID = "record.NewID makes one for Spec.ID"

var (
	errNoPlan = &policy.Error{Step: "plan", Err: errors.New("the Spec has none"), Hint: "policy.Resolve makes one"}
	errTaken  = errors.New("another run of this process has it at the moment")
	errID     = errors.New("a run id is 1 to 64 of A-Z a-z 0-9 . _ -, and starts with none of the last three but _")
	errOnce   = &policy.Error{Step: "start", Object: "init", Err: errors.New("this Sandbox has run, or was discarded"), Hint: "sandbox.Launch starts another"}
	errMain   = &policy.Error{
		Step: "start", Object: "init", Err: errors.New("the program does not ask sandbox.IsInit in its main"),
		Hint: "first thing in main: if sandbox.IsInit() { sandbox.Init() }",
	}
)

// Run starts a sandbox for the plan of spec, executes it and waits for its end; see [Sandbox.Run]. The program
// must ask [IsInit] in its main.
func Run(ctx context.Context, spec Spec) (Result, error) {
	if spec.Plan == nil {
		return Result{}, errNoPlan
	}
	s := Launch
	if spec.Plan.Network.Namespace.Host {
		s = LaunchInNetwork
	}
	waiting := s()
	defer waiting.Discard()
	return waiting.Run(ctx, spec)
}

// Run executes the plan and waits for its end. When ctx ends, so does the run: the command gets SIGTERM and,
// after the plan's grace period, is killed, and the outcome is Cancelled. The error is a *policy.Error, and
// means that the command was never executed. A Sandbox runs once.
func (s *Sandbox) Run(ctx context.Context, spec Spec) (Result, error) {
	if s.ran.Swap(true) || s.gone() {
		return Result{}, errOnce
	}
	defer s.Discard()
	if spec.Plan == nil {
		return Result{}, errNoPlan
	}
	if !record.ValidID(spec.ID) {
		return Result{}, &policy.Error{Step: "use run id", Object: spec.ID, Err: errID, Hint: hintID}
	}
	if _, taken := underWay.LoadOrStore(spec.ID, nil); taken {
		// It would go without a cgroup, whose name is made of the id and this process.
		return Result{}, &policy.Error{Step: "use run id", Object: spec.ID, Err: errTaken, Hint: hintID}
	}
	defer underWay.Delete(spec.ID)
	if !mainAsks.Load() {
		return Result{}, errMain
	}
	if s.InNetwork() != spec.Plan.Network.Namespace.Host {
		return Result{}, &policy.Error{Step: "start", Object: "network", Err: errNetworks, Hint: "LaunchInNetwork is for plans with the host's network, Launch for all others"}
	}
	s.raiseDescriptors()
	if err := checkNetwork(&spec.Plan.Network); err != nil {
		return Result{}, err
	}
	doors, err := openDoors(spec.Plan.Network.Publish, spec.Plan.Network.Namespace.Gateway)
	if err != nil {
		return Result{}, err
	}
	defer doors.close()
	signals := -1
	if spec.Watched != nil || spec.Signals {
		giveBack, err := takeOurs()
		if err != nil {
			return Result{}, err
		}
		defer giveBack()
		if spec.Watched != nil {
			signals = spec.Watched.fd
		} else if signals, err = watchOurs(); err != nil {
			return Result{}, &policy.Error{Step: "signals", Err: err}
		}
	}
	cancel, stop, err := watchContext(ctx)
	if err != nil {
		return Result{}, &policy.Error{Step: "start", Err: err}
	}
	defer stop()
	streams, err := openStreams(spec.Stdio, spec.Plan.Limits.Output)
	if err != nil {
		return Result{}, err
	}
	defer streams.close()
	folder, err := openOutputFolder(spec.Plan, spec.ID, spec.HasSecret)
	if err != nil {
		return Result{}, err
	}
	defer folder.discard()
	<-s.launched
	if s.err != nil {
		return Result{}, s.err
	}
	layer := planScratch(spec.Plan, spec.ID)
	if err := spec.hold(layer, folder); err != nil {
		return Result{}, err
	}
	if err := layer.make(spec.Plan); err != nil {
		return Result{}, err
	}
	defer func() {
		// Where a callback has panicked, the command is still there.
		s.Discard()
		layer.stopWatch()
		_ = layer.remove() // unless that was done, or must not be
	}()
	plan, noLayer, err := s.handOver(&spec, streams, layer)
	if err != nil {
		// An init that is gone is the cause of whatever went wrong with it.
		fds := [...]unix.PollFd{{Fd: int32(s.pidfd), Events: unix.POLLIN}}
		_, _ = unix.Poll(fds[:], initGone)
		if st, ok := s.wait(unix.WNOHANG); ok {
			err = explainDeath(st)
		}
		return Result{}, err
	}
	defer plan.Close()
	// Init builds the tree meanwhile, and does not start the command before it has the cgroup.
	group, err := openGroup(spec.ID, spec.Plan.Limits, spec.Plan.RequireCgroup, s)
	if err != nil {
		return Result{}, err
	}
	defer group.discard()
	if group.group != nil {
		for _, path := range group.group.Paths() {
			spec.observe(record.Holding(record.HoldsCgroup, path))
		}
	}
	if err := group.give(s.sock); err != nil {
		return Result{}, err
	}
	if spec.Sent != nil {
		spec.Sent()
	}
	r := &run{sandbox: s, spec: &spec, plan: spec.Plan, mark: plan, streams: streams, groups: group, signals: signals, cancelled: cancel, noLayer: noLayer, layer: layer, doors: doors, deliver: folder}
	doors.start(s.sock)
	return r.loop()
}

// watchContext gives an eventfd that is readable once ctx is over, or -1 for one that never is, and what
// ends the watch.
func watchContext(ctx context.Context) (fd int, stop func(), err error) {
	if ctx.Done() == nil {
		return -1, func() {}, nil
	}
	if fd, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return -1, nil, fmt.Errorf("eventfd: %w", err)
	}
	written := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		_, _ = unix.Write(fd, []byte{0, 0, 0, 0, 0, 0, 0, 1})
		close(written)
	})
	return fd, func() {
		if !cancel() {
			<-written
		}
		unix.Close(fd)
	}, nil
}

// raiseDescriptors makes sure that root, who may, has room for a descriptor per mount made outside, and init for as many. The
// command has a limit of its own.
func (s *Sandbox) raiseDescriptors() {
	const need = 512
	var l unix.Rlimit
	if os.Geteuid() != 0 || unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil || l.Cur >= need {
		return
	}
	l = unix.Rlimit{Cur: need, Max: max(l.Max, need)}
	_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &l)
	if <-s.launched; s.err == nil {
		_ = unix.Prlimit(s.pid, unix.RLIMIT_NOFILE, &l, nil)
	}
}

// handOver writes the id maps and sends the plan with its descriptors. It gives the plan's memfd, which is the
// caller's; for noLayer see openMounts.
func (s *Sandbox) handOver(spec *Spec, st *streams, layer *scratch) (_ *os.File, noLayer string, err error) {
	p := spec.Plan
	if err := checkSecrets(spec); err != nil {
		return nil, "", err
	}
	h := &handover{Plan: *p, Terminal: st.terminal, TerminalFDs: st.terminalFDs, NullInput: st.nullInput}
	if len(spec.Secrets) > 0 {
		h.Plan.Exec.Env = slices.Concat(p.Exec.Env, spec.Secrets)
	}
	layer.place(h)
	mounts, noLayer, over, err := openMounts(h)
	defer over()
	defer func() { closeFiles(mounts) }()
	if err != nil {
		return nil, "", err
	}
	if err := h.Plan.Identity.WriteMaps(s.pid); err != nil {
		return nil, "", explainMaps(h.Plan.Identity, err)
	}
	if len(p.Filter.BPF) > 0 {
		notifying, err := p.Filter.Notifying()
		if err != nil {
			return nil, "", &policy.Error{Step: "seccomp", Object: p.Filter.Name, Err: err}
		}
		h.Notify, h.Plan.Filter = true, notifying
	}
	plan, err := planFile(h)
	if err != nil {
		return nil, "", &policy.Error{Step: "plan", Err: err}
	}
	defer func() {
		if err != nil {
			plan.Close()
		}
	}()
	files := make([]int, 0, 4+len(mounts))
	files = append(files, int(plan.Fd()))
	for _, f := range st.inside {
		files = append(files, int(f.Fd()))
	}
	for _, f := range mounts {
		files = append(files, int(f.Fd()))
	}
	if len(files) > maxFiles {
		return nil, "", &policy.Error{Step: "plan", Err: fmt.Errorf("more than %d mounts", maxFiles-4)}
	}
	if err := send(s.sock, message{kind: msgPlan}, files...); err != nil {
		e := &policy.Error{Step: "start", Object: "init", Err: err}
		if err == unix.ETOOMANYREFS {
			e.Hint = crowdedHint
		}
		return nil, "", e
	}
	return plan, noLayer, nil
}

// checkSecrets makes sure that the command gets the secrets that it was planned to get, and no others.
func checkSecrets(spec *Spec) error {
	names := spec.Plan.Exec.Secrets
	ok := len(names) == len(spec.Secrets)
	for i := 0; ok && i < len(names); i++ {
		ok = strings.HasPrefix(spec.Secrets[i], names[i].Name+"=") && strings.IndexByte(spec.Secrets[i], 0) < 0
	}
	if !ok {
		return &policy.Error{
			Step: "secret", Err: errors.New("the values given are not those of the plan"),
			Hint: "Spec.Secrets has NAME=VALUE for each of Plan.Exec.Secrets, in that order",
		}
	}
	return nil
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
