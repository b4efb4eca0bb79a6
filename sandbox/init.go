package sandbox

import (
	"errors"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"gobox/landlock"
	"gobox/namespaces"
	"gobox/policy"

	"golang.org/x/sys/unix"
)

// InitName is init's whole command line: nothing of the plan can be read from /proc/1/cmdline.
const InitName = "gobox-init"

// watchdogMargin is how much later than the supervisor's clock init's own ends the sandbox, in case the
// supervisor is stopped.
const watchdogMargin = 2 * time.Second

// killPatience is how long a command that was sent SIGKILL may take to be reaped by init, which then tells
// what it used, before init is killed as well. On a loaded host that takes a while; an init that is stopped delays
// the end by it.
const killPatience = 400 * time.Millisecond

// mainAsks is set once this process's main has asked IsInit, as init's copy of it then will too.
var mainAsks atomic.Bool

// IsInit says whether this process was started as init by [Launch]. A program that runs sandboxes must ask
// first thing in main, before it reads its arguments, and call [Init] when it is so: init is the program
// itself, executed again.
//
//	func main() {
//		if sandbox.IsInit() {
//			sandbox.Init()
//		}
//		...
//	}
func IsInit() bool {
	mainAsks.Store(true)
	return len(os.Args) == 1 && os.Args[0] == InitName && os.Getpid() == 1
}

// Init is the main function of PID 1 of a sandbox and does not return.
func Init() { os.Exit(initMain()) }

// initMain runs top to bottom; each step has its place for the reason given.
func initMain() int {
	// Before anything can be sent from inside.
	ignoreSignals()
	children, err := watchSignals(unix.SIGCHLD)
	if err != nil {
		return report(initFD, failed(stagePlan, 0, err))
	}
	// Its own number only keeps the place of the listener of the command's filter.
	sock, err := unix.FcntlInt(initFD, unix.F_DUPFD_CLOEXEC, initFD+1)
	if err != nil {
		return report(initFD, failed(stagePlan, 0, err))
	}
	unix.CloseOnExec(initFD)
	offerToTheOOMKiller()
	// The plan is still in the making; this is the same in all of them.
	loopback := namespaces.LoopbackUp()
	h, mark, files, err := receivePlan(sock)
	if errors.Is(err, errClosed) {
		return 1
	}
	if err != nil {
		return report(sock, failed(stagePlan, 0, err))
	}
	if loopback != nil && !h.Plan.Network.Namespace.Host {
		return report(sock, failed(stageLoopback, 0, loopback))
	}
	s := server{h: h, sock: sock, children: children}
	pid, listener, f := setUp(h, sock, mark, files, &s.watch)
	if f != nil {
		return report(sock, f)
	}
	s.command = pid
	// The command's change of ids may have made the memory it borrowed dumpable, by fs.suid_dumpable.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		// Too late to refuse: the command runs. So once more, and if that fails it ends with init.
		if err = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
			return 1
		}
	}
	s.published.open(h.Plan.Network.Publish)
	hi, lo := split(monotonic())
	if err := send(sock, message{kind: msgStarted, a: hi, b: lo}, listener...); err == unix.ETOOMANYREFS {
		return exitCrowded
	} else if err != nil {
		return 1
	}
	closeAll(files)
	closeAll(listener)
	s.serve()
	return 0
}

// exitCrowded is init's exit status when the command runs, and the descriptor of its filter's listener cannot be passed on.
const exitCrowded = 4

// offerToTheOOMKiller has a host that is out of memory end this sandbox before anything else of its own: what a command
// takes without being counted, or beyond what the host has, costs nobody but the command (proc_pid_oom_score_adj(5)). The
// command inherits it, and cannot undo it, as its /proc is read-only. Where it cannot be set, in a container with a /proc
// that is read-only, the run goes on: it is no wall.
func offerToTheOOMKiller() {
	fd, err := unix.Open("/proc/self/oom_score_adj", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	_, _ = unix.Write(fd, []byte("1000"))
	unix.Close(fd)
}

func report(sock int, f *failure) int {
	_ = send(sock, f.message())
	return 1
}

// receivePlan waits for the one message that starts the work. mark is where to put the time of the start.
func receivePlan(sock int) (h *handover, mark []byte, rest []int, err error) {
	m, files, err := receive(sock, make([]byte, unix.CmsgSpace(4*maxFiles)))
	if err != nil {
		return nil, nil, nil, err
	}
	if m.kind != msgPlan || len(files) < 4 {
		closeAll(files)
		return nil, nil, nil, errWire
	}
	if h, err = readPlan(files[0]); err == nil {
		mark, err = unix.Mmap(files[0], 0, markSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	unix.Close(files[0])
	if err == nil && len(files) != 4+len(h.Mounts) {
		err = errWire
	}
	if err != nil {
		closeAll(files[1:])
		return nil, nil, nil, err
	}
	return h, mark, files[1:], nil
}

// setUp builds the sandbox and starts the command; it returns its pid and, if there is one, the listener
// of its filter. mark gets the time of its start; files are the command's first three descriptors and the mounts made
// outside.
func setUp(h *handover, sock int, mark []byte, files []int, w *watch) (pid int, listener []int, f *failure) {
	p := &h.Plan
	if f := checkWalls(p); f != nil {
		return -1, nil, f
	}
	// Not earlier: the supervisor writes the id maps through /proc, which belongs to root for a process
	// that is not dumpable. Not later: from here on nothing inside may look at this process.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return -1, nil, failed(stageIdentity, 0, err)
	}
	if f := checkIdentity(p.Identity); f != nil {
		return -1, nil, f
	}
	if err := unix.Sethostname([]byte(p.Hostname)); err != nil {
		return -1, nil, failed(stageHostname, 0, err)
	}
	if f := giveNetwork(&p.Network.Namespace, sock); f != nil {
		return -1, nil, f
	}
	w.mark = mark
	umask := unix.Umask(0)
	built, err := buildTree(h, files[3:])
	if err != nil {
		var se *namespaces.StepError
		index := -1
		if errors.As(err, &se) {
			index = se.Index
		}
		return -1, nil, failed(stageTree, index, err)
	}
	stdio := [3]int{files[0], files[1], files[2]}
	if f := tellOverlay(sock, p, built); f != nil {
		return -1, nil, f
	}
	group, f := receiveGroup(sock, p, w)
	if f != nil {
		return -1, nil, f
	}
	defer group.close()
	if p.Network.Namespace.Gateway {
		// The supervisor has made its end meanwhile. Before the command could dial.
		if err := awaitReady(sock); err != nil {
			return -1, nil, failed(stageNetwork, 3, err)
		}
	}
	if built.Output >= 0 {
		err := send(sock, message{kind: msgOutput}, built.Output)
		unix.Close(built.Output)
		if err != nil {
			return -1, nil, failed(stageTree, -1, err)
		}
	}
	if h.NullInput {
		null, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1, nil, failed(stageStdio, 0, err)
		}
		defer unix.Close(null)
		stdio[0] = null
	}
	slave := -1
	if h.Terminal {
		var err error
		// After the tree: the terminal is one of the sandbox's own devpts.
		if slave, err = giveTerminal(sock, p.Identity); err != nil {
			return -1, nil, failed(stageTerminal, 0, err)
		}
		for i := range stdio {
			if h.TerminalFDs&(1<<i) != 0 {
				stdio[i] = slave
			}
		}
	}
	ruleset := -1
	if p.Landlock.ABI > 0 {
		var err error
		// After the tree, since rules hold on to what their paths name now.
		if ruleset, err = p.Landlock.Build(); err != nil {
			var re *landlock.Error
			index := -1
			if errors.As(err, &re) {
				index = re.Index
			}
			return -1, nil, failed(stageRuleset, index, err)
		}
		defer unix.Close(ruleset)
	}
	unix.Umask(umask)
	// Not later: once the command runs, a run can no longer be refused.
	if err := w.open(h); err != nil {
		return -1, nil, failed(stageWatch, 0, err)
	}
	// The filter is loaded under the command's own limit of open files, and its listener, which is init's too, takes the lowest number
	// that is free: with this one a --nofile of 4 is enough.
	unix.Close(initFD)
	pid, listener, f = spawn(p, mark, stdio, slave, ruleset, group, h.Notify)
	if f != nil {
		return -1, nil, f
	}
	// The slave stays open here, so that the master does not hang up between two of the command's
	// processes.
	return pid, listener, nil
}

// receiveGroup waits for the command's cgroup, and has init take over what that does not limit.
func receiveGroup(sock int, p *policy.Plan, w *watch) (membership, *failure) {
	m, files, err := receive(sock, make([]byte, unix.CmsgSpace(4*maxFiles)))
	c := confinementOf(m)
	if err == nil && (m.kind != msgGroup || len(files) != c.files()) {
		closeAll(files)
		err = errWire
	}
	if err != nil {
		return membership{}, failed(stagePlan, 0, err)
	}
	w.besides(c, p)
	group := membership{dir: -1, doors: files}
	if c.dir {
		group.dir, group.doors = files[0], files[1:]
	}
	return group, nil
}

// checkWalls refuses a plan that lacks a wall which the caller has not given up by name. Package policy
// makes no such plan; this is the second lock on that door.
func checkWalls(p *policy.Plan) *failure {
	for _, w := range [...]struct {
		layer policy.Layer
		there bool
	}{
		{policy.LayerNamespaces, len(p.Tree.Steps) > 0 && p.Tree.Steps[len(p.Tree.Steps)-1].Op == namespaces.OpPivot},
		{policy.LayerLandlock, p.Landlock.ABI > 0},
		{policy.LayerSeccomp, len(p.Filter.BPF) > 0},
		{policy.LayerRlimits, len(p.Rlimits) > 0},
	} {
		if w.there || slices.Contains(p.Missing, w.layer) && (w.layer == policy.LayerLandlock || w.layer == policy.LayerSeccomp || wallTest) {
			continue
		}
		return &failure{stageWalls, slices.Index(policy.Layers(), w.layer), unix.EINVAL}
	}
	return nil
}

// checkIdentity makes sure that the id maps are those of the plan before anything relies on them.
func checkIdentity(id namespaces.Identity) *failure {
	want := id.UID
	if id.Root {
		want = 0
	}
	if uint32(unix.Getuid()) != want {
		return &failure{stageIdentity, 0, unix.EPERM}
	}
	return nil
}

// tellOverlay tells what came of the workspace's overlay, if there was to be one.
func tellOverlay(sock int, p *policy.Plan, built namespaces.Built) *failure {
	var err error
	switch {
	case built.Upper >= 0:
		// The supervisor looks at it when all is over; until then it keeps the file system alive.
		files := []int{built.Upper}
		if onDisk(p) {
			// What is in memory counts as well.
			var root int
			if root, err = unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
				break
			}
			files = append(files, root)
		}
		err = send(sock, message{kind: msgUpper}, files...)
		closeAll(files)
	case built.NoOverlay != nil:
		// The mount is read-only; this is the second wall.
		withoutWrite(p)
		err = send(sock, message{kind: msgNoOverlay, errno: int32(failed(stageTree, -1, built.NoOverlay).errno)})
	}
	if err != nil {
		return failed(stageTree, -1, err)
	}
	return nil
}

// withoutWrite takes the right to write to the workspace out of the ruleset.
func withoutWrite(p *policy.Plan) {
	for _, s := range p.Tree.Steps {
		for i := range p.Landlock.Rules {
			if r := &p.Landlock.Rules[i]; s.OrReadOnly && r.Path == s.Target {
				r.Access &^= landlock.Write
			}
		}
	}
}

func buildTree(h *handover, donated []int) (namespaces.Built, error) {
	if len(h.Plan.Tree.Steps) == 0 {
		return namespaces.Built{Upper: -1, Output: -1}, nil // only where checkWalls lets that pass
	}
	mounts := make([]int, len(h.Plan.Tree.Steps))
	for i := range mounts {
		mounts[i] = -1
	}
	for i, index := range h.Mounts {
		if index < 0 || index >= len(mounts) {
			return namespaces.Built{Upper: -1, Output: -1}, errWire
		}
		mounts[index] = donated[i]
	}
	return namespaces.Build(h.Plan.Tree, h.Plan.Identity, mounts)
}

// giveTerminal makes a pty, hands its master to the supervisor and waits until that has made it like the
// user's terminal, so that the command finds its modes and size in place. It returns the slave.
func giveTerminal(sock int, id namespaces.Identity) (int, error) {
	master, slave, err := openTerminal(id)
	if err != nil {
		return -1, err
	}
	err = send(sock, message{kind: msgTerminal}, master)
	unix.Close(master)
	if err != nil {
		return -1, err
	}
	return slave, awaitReady(sock)
}

// awaitReady waits until the supervisor has made its end of what it was handed.
func awaitReady(sock int) error {
	m, files, err := receive(sock, nil)
	closeAll(files)
	if err == nil && m.kind != msgReady {
		err = errWire
	}
	return err
}

// openTerminal makes a pty of the new devpts (pts(4)) and makes it the controlling terminal of init's
// session. The command leads the foreground process group of that session, so that its stop signals work
// as they do under a shell.
func openTerminal(id namespaces.Identity) (master, slave int, err error) {
	master, err = unix.Open("/dev/pts/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, -1, err
	}
	if err = unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		unix.Close(master)
		return -1, -1, err
	}
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		unix.Close(master)
		return -1, -1, errno
	}
	slave = int(fd)
	err = unix.IoctlSetInt(slave, unix.TIOCSCTTY, 0)
	if err == nil && id.Root {
		err = unix.Fchown(slave, int(id.UID), int(id.GID))
	}
	if err != nil {
		closeAll([]int{master, slave})
		return -1, -1, err
	}
	return master, slave, nil
}

// server is init once the command runs.
type server struct {
	h              *handover
	sock, children int
	command        int // its pid, and its process group's
	watch          watch
	published      published
}

// serve does what the supervisor says and collects every process of the sandbox that ends. It returns
// when the command has ended, when the supervisor is gone, or when a limit is passed: the end of PID 1 is
// the end of all.
func (s *server) serve() {
	var end time.Time
	if l := s.h.Plan.Limits; l.Timeout > 0 {
		end = time.Now().Add(l.Timeout + l.Grace + watchdogMargin)
	}
	var space [2]unix.PollFd
	late := 0
	for {
		fds := append(space[:0], unix.PollFd{Fd: int32(s.sock), Events: unix.POLLIN}, unix.PollFd{Fd: int32(s.children), Events: unix.POLLIN})
		fds = s.published.polls(fds)
		ready := poll(fds, earlier(earlier(end, s.watch.next), s.published.due()))
		if end.IsZero() || !time.Now().After(end) {
			late = 0
		} else if late++; !ready || late > lateRounds {
			return
		}
		if next := s.watch.next; !next.IsZero() && !time.Now().Before(next) {
			// Also where so much happens that poll never runs out of time.
			if which := s.watch.look(s.h); which != 0 {
				_ = send(s.sock, message{kind: msgLimit, a: int32(which)})
				// Killed and reaped here, what they used is known.
				_ = unix.Kill(-1, unix.SIGKILL)
				s.watch.next, end = time.Time{}, time.Now().Add(killPatience)
			}
		}
		s.published.ready(s.sock, fds[2:])
		if next := s.published.next; !next.IsZero() && !time.Now().Before(next) {
			s.published.look(s.sock)
		}
		if fds[1].Revents != 0 {
			takeSignals(s.children)
			if s.reap() {
				return
			}
		}
		if fds[0].Revents != 0 {
			m, files, err := receive(s.sock, nil)
			closeAll(files)
			if err != nil {
				return
			}
			switch m.kind {
			case msgSignal:
				// The group may be gone already; its end is reported elsewhere.
				_ = unix.Kill(-s.command, unix.Signal(m.a))
			case msgDial:
				s.published.begin(s.sock, m.a, m.b)
			}
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// reap collects what has ended, and tells the supervisor of the command. It says whether that has ended,
// or nobody is left to tell.
func (s *server) reap() bool {
	options := unix.WNOHANG
	if s.h.Terminal {
		options |= unix.WUNTRACED
	}
	ended := 0
	for try := 0; ; {
		var st unix.WaitStatus
		pid, err := unix.Wait4(-1, &st, options, nil)
		switch {
		case err != nil && err != unix.ECHILD && try < 100:
			// The signal that told of it is taken, and there may be no other.
			try++
		case err != nil || pid == 0:
			return false
		case pid != s.command:
			ended++
		case st.Stopped():
			if send(s.sock, message{kind: msgStopped, a: int32(st.StopSignal())}) != nil {
				return true
			}
		default:
			s.farewell(st, ended+1)
			return true
		}
	}
}

// restLimit bounds what is collected of a flood that the command leaves behind.
const restLimit = 1 << 13

// reapRest collects what else has ended, how many that are, and says whether any process is left: whatever has lost its parent
// is init's.
func reapRest() (ended int, left bool) {
	for range restLimit {
		if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); err == unix.ECHILD {
			return ended, false
		} else if err == nil && pid == 0 {
			break
		} else if err == nil {
			ended++
		}
	}
	return ended, true
}

// farewell tells how the command ended and what it and those that it leaves behind took; ended is how many processes were
// collected together with it, itself included.
func (s *server) farewell(st unix.WaitStatus, ended int) {
	more, left := reapRest()
	_ = send(s.sock, s.watch.settle(left).message())
	_ = send(s.sock, message{kind: msgExited, a: int32(st), b: int32(s.watch.last(s.h, st != 0, ended+more))})
}
