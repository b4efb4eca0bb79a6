package sandbox

import (
	"errors"
	"fmt"

	"gobox/namespaces"
	"gobox/policy"

	"golang.org/x/sys/unix"
)

// explain turns what init reported into the error that the user sees.
func (r *run) explain(f *failure) *policy.Error {
	p := r.plan
	e := &policy.Error{Err: f.errno}
	switch f.stage {
	case stageTree:
		explainStep(e, p, f)
	case stageRuleset:
		e.Step = "landlock rule"
		if f.index >= 0 && f.index < len(p.Landlock.Rules) {
			e.Object = p.Landlock.Rules[f.index].Path
		}
	case stageRlimit:
		e.Step = "rlimit"
		if f.index >= 0 && f.index < len(p.Rlimits) {
			l := p.Rlimits[f.index]
			e.Object = fmt.Sprintf("%s %d:%d", l.Name(), l.Soft, l.Hard)
		}
	case stageChdir:
		e.Step, e.Object = "change directory to", p.Exec.Dir
		e.Hint = "the command's user must be able to enter it; name another folder with --workspace DIR"
	case stageExec:
		explainExec(e, p, f.errno)
	case stagePlan:
		e.Step, e.Object = "start", "init"
		if f.errno == unix.ETIMEDOUT {
			e.Err = fmt.Errorf("not ready after %v", setupLimit)
		}
	case stageWalls:
		e.Step, e.Err = "plan", errors.New("has no such wall, and the caller did not give it up")
		if layers := policy.Layers(); f.index >= 0 && f.index < len(layers) {
			e.Object = string(layers[f.index])
		}
	case stageStdio:
		e.Step = "stdio"
	case stageClone:
		e.Step = stageNames[stageClone]
		if f.errno == unix.EAGAIN {
			e.Hint = "the limit of the user's processes is used up: ulimit -u 4096 raises it; what the user runs besides counts too"
		}
	case stageNetwork:
		e.Step = stageNames[f.stage]
		if r.cause != nil {
			e.Err = r.cause
		}
		if f.errno == unix.ENOSPC || f.errno == unix.EUSERS {
			e.Hint = "the limit of network namespaces is reached: raise it with sysctl user.max_net_namespaces"
		}
	default:
		e.Step = stageNames[f.stage]
	}
	if e.Step == "" {
		e.Step = fmt.Sprintf("stage %d", int(f.stage))
	}
	if f.errno == unix.ETOOMANYREFS {
		e.Hint = crowdedHint
	}
	if e.Hint == "" && f.stage != stageExec && f.stage != stageRuleset {
		switch f.errno {
		case unix.EPERM, unix.EACCES, unix.ENOSYS:
			e.Hint = callRefused
		}
	}
	return e
}

// callRefused is for what no kernel of the age that gobox needs refuses by itself.
const callRefused = "a security module, or a filter as around a container, refuses a call that gobox needs, or the kernel is older than 5.13: " +
	"docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined"

// stageNames are the steps of errors that have no object.
var stageNames = [...]string{
	stageIdentity:     "identity",
	stageHostname:     "set hostname",
	stageKeyring:      "join a new session keyring",
	stageLoopback:     "set the loopback interface up",
	stageTerminal:     "make a pty",
	stageClone:        "clone the command's process",
	stageCgroup:       "enter the cgroup",
	stageGroup:        "make the command's process group",
	stageCapabilities: "drop capabilities",
	stageIDs:          "change to the command's user",
	stageNoNewPrivs:   "set no_new_privs",
	stageLandlock:     "enter the landlock domain",
	stageSeccomp:      "load the seccomp filter",
	stageExec:         "exec",
	stageWatch:        "watch the command's memory",
	stageNetwork:      "make the command's network",
}

func explainStep(e *policy.Error, p *policy.Plan, f *failure) {
	e.Step = "mount the new root"
	if f.index < 0 || f.index >= len(p.Tree.Steps) {
		if f.errno == unix.EPERM || f.errno == unix.EACCES {
			e.Hint = mountsRefused
		}
		return
	}
	s := p.Tree.Steps[f.index]
	verbs := map[namespaces.Op]string{
		namespaces.OpDir: "make directory", namespaces.OpSymlink: "make symlink", namespaces.OpFile: "write file",
		namespaces.OpCopy: "copy " + s.Source + " to", namespaces.OpBind: "mount " + s.Source + " on",
		namespaces.OpOverlay: "mount an overlay of " + s.Source + " on",
		namespaces.OpDevice:  "mount " + s.Source + " on", namespaces.OpTmpfs: "mount tmpfs on",
		namespaces.OpScratch: "mount scratch on", namespaces.OpOutput: "mount an output folder on", namespaces.OpProc: "mount proc on",
		namespaces.OpDevpts: "mount devpts on", namespaces.OpMask: "mask",
		namespaces.OpPivot: "pivot to the new root",
	}
	e.Step, e.Object = verbs[s.Op], s.Target
	switch {
	case s.Op == namespaces.OpProc && f.errno == unix.EPERM:
		e.Hint = "parts of this host's /proc are covered, as in a container, and the kernel then grants no new procfs: " +
			"docker run --security-opt systempaths=unconfined, podman run --security-opt unmask=ALL"
	case s.Op == namespaces.OpPivot && f.errno == unix.EINVAL:
		e.Hint = "the host's root is an initramfs, which cannot be left; switch_root first"
	case s.Op == namespaces.OpOverlay && f.errno != unix.ELOOP && f.errno != unix.ENOENT:
		cause, fix := overlayCause(f.errno)
		e.Hint = cause + "; --workspace-mode ro or rw can" + fix
	case s.Op == namespaces.OpMask && (f.errno == unix.ENOENT || f.errno == unix.ENOTDIR || f.errno == unix.ELOOP):
		e.Hint = "the path went away, or became a link, while gobox started, and could come back uncovered; run it again"
	case s.Op == namespaces.OpBind && f.errno == unix.ELOOP:
		e.Hint = "the path changed to a symbolic link while gobox started; run it again"
	case s.Op == namespaces.OpBind && f.errno == unix.EACCES:
		e.Hint = "you cannot open " + s.Source + " yourself"
	case s.Op == namespaces.OpBind && (f.errno == unix.EROFS || f.errno == unix.ENOENT):
		e.Hint = "the place must exist where it lies below something mounted read-only; name another with --ro PATH:DEST"
	}
}

// mountsRefused is for a security module or filter that refuses mount(2) in a user namespace.
const mountsRefused = "this host lets user namespaces be made but not used: sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0, " +
	"or an AppArmor profile for gobox that allows userns; in a container docker run --security-opt apparmor=unconfined --security-opt seccomp=unconfined"

// overlayCause says why an overlay cannot be had, and what else there is beside the other modes.
func overlayCause(errno unix.Errno) (cause, fix string) {
	switch errno {
	case unix.EINVAL:
		return "overlayfs does not take this folder as a layer: its file system cannot be one, or others are mounted below it", ""
	case unix.EOPNOTSUPP:
		return "the file system of the layer keeps no user.* attributes, which overlayfs needs; tmpfs does since Linux 6.6, and ext4, xfs and btrfs long since", " without, and --scratch DIR takes another file system"
	case unix.ENODEV, unix.EPERM:
		return "this kernel gives overlayfs to no user namespace (it takes Linux 5.11)", ""
	}
	return "overlayfs: " + errno.Error(), ""
}

// explainExec speaks of what execve(2) refused: found before, but not executable here.
func explainExec(e *policy.Error, p *policy.Plan, errno unix.Errno) {
	e.Step, e.Object = "exec", p.Exec.Path
	switch errno {
	case unix.ENOENT, unix.ENOTDIR:
		e.Code = policy.ExitNotFound
		e.Hint = "it, or the interpreter it names, is not visible inside; grant it with --rox PATH"
	case unix.E2BIG:
		e.Hint = "shorten the arguments or the environment"
	case unix.EAGAIN:
		e.Hint = "raise --pids"
	case unix.ENOMEM:
		e.Hint = "raise --memory or --address-space"
	default:
		e.Code = policy.ExitNotExecutable
		if errno == unix.ENOEXEC {
			e.Hint = "a script needs a first line such as #!/bin/sh, since gobox uses no shell"
		} else if errno == unix.EACCES {
			e.Hint = "the file must be executable, for the command's user too, and granted with --rox or --rwx"
		}
	}
}

// crowdedHint is for ETOOMANYREFS (unix(7)).
const crowdedHint = "the user's processes have more descriptors in flight over sockets than gobox may open: end those, or ulimit -n 65536"

// explainDeath speaks of an init that went away before it said why.
func explainDeath(st unix.WaitStatus) *policy.Error {
	e := &policy.Error{Step: "start", Object: "init", Err: errors.New("ended before the command started")}
	if st.Signaled() {
		e.Err = fmt.Errorf("killed by %v before the command started", st.Signal())
	} else if st == reapedElsewhere {
		e.Err = errors.New("ended before the command started, and something else in this process waited for it")
	} else if st.ExitStatus() == policy.ExitFailed {
		e.Err = errors.New("could start no thread: the limit of the user's processes and threads is used up")
		e.Hint = "ulimit -u 4096 raises it; what the user runs besides counts too"
	} else if st.Exited() {
		e.Err = fmt.Errorf("ended with status %d before the command started", st.ExitStatus())
	}
	return e
}

// explainClone names what keeps a host from giving out namespaces (clone(2), user_namespaces(7)).
func explainClone(err error) *policy.Error {
	e := &policy.Error{Step: "namespaces", Err: err}
	var ce *namespaces.CloneError
	if !errors.As(err, &ce) {
		return e
	}
	e.Object, e.Err = ce.Step, ce.Err
	switch {
	case ce.Step == "exec" && ce.Err == unix.ENOENT:
		e.Object, e.Hint = "/proc/self/exe", "mount /proc: gobox starts itself again from there"
	case ce.Step != "clone":
	case ce.Err == unix.EPERM || ce.Err == unix.EACCES:
		e.Hint = "user namespaces are refused here: in a container allow them (docker run --security-opt seccomp=unconfined " +
			"--security-opt systempaths=unconfined), else see sysctl kernel.unprivileged_userns_clone and " +
			"kernel.apparmor_restrict_unprivileged_userns; inside another gobox they are never allowed"
	case ce.Err == unix.ENOSPC || ce.Err == unix.EUSERS:
		e.Hint = "the limit of namespaces is reached or zero: raise it with sysctl user.max_user_namespaces and its siblings"
	case ce.Err == unix.EINVAL:
		e.Hint = "the kernel lacks a namespace; gobox needs Linux 5.13 or later with user, mount, pid, net, ipc, uts and cgroup namespaces"
	case ce.Err == unix.EAGAIN:
		e.Hint = "too many processes: raise ulimit -u"
	}
	return e
}

func explainMaps(id namespaces.Identity, err error) *policy.Error {
	e := &policy.Error{Step: "identity", Object: "id maps", Err: err}
	if id.Root {
		e.Hint = fmt.Sprintf("as root gobox runs the command with host id %d:%d, which this user namespace must have; start gobox as an ordinary user instead", id.HostUID, id.HostGID)
	}
	return e
}

func explainIdmap(s *namespaces.Step, err error) *policy.Error {
	readOnly := "grant it read-only"
	if s.Why == "workspace" {
		readOnly = "--workspace-mode ro can do without"
	}
	return &policy.Error{
		Step: "mount " + s.Source + " on", Object: s.Target, Err: err,
		Hint: "this file system has no idmapped mounts, by which root lets an unprivileged command write as the owner; " +
			readOnly + ", as can an ordinary user, or a folder of one's; or use a folder on ext4, xfs, btrfs or tmpfs",
	}
}
