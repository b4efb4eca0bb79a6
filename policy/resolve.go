package policy

import (
	"errors"
	"slices"
	"strings"
	"time"

	"gobox/namespaces"
)

// Hostname is what every sandbox is called inside.
const Hostname = "gobox"

// Resolve decides a run: what p asks for, on the host h. It reads h's file system but changes nothing
// and runs nothing, and everything that can be refused is refused here. The error is an *Error.
func Resolve(p Policy, h Host) (*Plan, error) {
	h.FS = newSnapshot(h.FS)
	b := &builder{policy: p, host: h}
	// The order is that of knowledge: a later part uses what an earlier one found out.
	for _, part := range []func(*builder) error{
		(*builder).checkPolicy,
		(*builder).checkNumbers,
		(*builder).checkLayers,
		(*builder).decideNetwork,
		(*builder).findHome,
		(*builder).findRootfs,
		(*builder).findSystemLinks,
		(*builder).addWorkspace,
		(*builder).addGrants,
		(*builder).addSubmounts,
		(*builder).addOutput,
		(*builder).settleScratch,
		(*builder).settleSecrets,
		(*builder).checkWays,
		(*builder).addCommand,
		(*builder).decideIdentity,
		(*builder).addScratch,
		(*builder).buildTree,
		(*builder).setEnvironment,
	} {
		if err := part(b); err != nil {
			return nil, err
		}
	}
	b.setLandlock()
	b.setRlimits()
	if !slices.Contains(b.plan.Missing, LayerSeccomp) {
		filter, notes, err := Filter(p, h)
		if err != nil {
			return nil, err
		}
		b.plan.Filter, b.plan.Notes = filter, append(b.plan.Notes, notes...)
	}
	if b.plan.NoOverlay != "" {
		b.plan.Notes = append(b.plan.Notes, "the workspace is read-only: "+b.plan.NoOverlay)
	}
	b.plan.Hostname = Hostname
	b.plan.Limits = Limits{
		Timeout: p.Timeout, Grace: p.Grace, Output: p.Output,
		Memory: p.Memory, Pids: p.Pids, CPUs: p.CPUs, CPUTime: p.CPUTime,
	}
	b.plan.RequireCgroup = slices.Contains(p.Require, LayerCgroup)
	return &b.plan, nil
}

// builder carries a plan through the parts of Resolve.
type builder struct {
	policy Policy
	host   Host
	plan   Plan

	account account
	home    string // HOME inside, free of symbolic links

	// claims are the places that something other than the plan's own files takes: folders of the host and
	// scratch. System folders are kept apart, as they give way to everything else.
	claims []claim
	system []claim
	// links are the symbolic links that make the caller's names for things work inside.
	links []namedLink
	// systemLinks are those that the system folders bring.
	systemLinks []namedLink
	// rootfs is the folder of --rootfs, empty without.
	rootfs string
	// ways are the names that the caller gave for places of the host.
	ways []way
	// masks are the places hidden by --deny.
	masks []string
	// scratch is the real path of --scratch, empty without.
	scratch string
	// submounts are the places below an overlay where the host has other mounts.
	submounts []string
	// denied are the paths of --deny, for what the plan makes itself.
	denied []string

	// allowed are the paths of --allow-path, on the host.
	allowed []string

	searchPath string

	mounted []Mount // see mounts
}

// claim is one place of the tree.
type claim struct {
	step  namespaces.Step // Target is always set; Source is for binds
	info  FileInfo        // of the source
	write bool
	exec  bool
}

func (c *claim) bound() bool {
	return c.step.Op == namespaces.OpBind || c.step.Op == namespaces.OpOverlay
}

type namedLink struct {
	path string
	text string
	why  string
}

func (b *builder) checkPolicy() error {
	p := &b.policy
	if len(p.Argv) == 0 || p.Argv[0] == "" {
		return &Error{Step: "exec", Err: errors.New("no command given"), Hint: "gobox run -- COMMAND ARG..."}
	}
	for _, arg := range p.Argv {
		if strings.IndexByte(arg, 0) >= 0 {
			return &Error{Step: "exec", Object: arg, Err: errNUL, Hint: "execve(2) takes none; pass such bytes by a file or by stdin"}
		}
	}
	if p.CPUTime%time.Second != 0 {
		return &Error{Step: "limit", Object: "--cpu-time " + p.CPUTime.String(), Err: errors.New("CPU time is counted in whole seconds"), Hint: "--cpu-time 1s is the least"}
	}
	return p.checkLeast()
}

// The least that a command can be started with.
const (
	leastMemory = 1 * mib // its first pages, and what the kernel counts a few at a time
	leastDisk   = 1 * mib // the files that every sandbox has of its own, such as /etc/passwd, with room to spare
	leastNofile = 4       // stdin, stdout, stderr and the filter's notifications, whose place is then the command's
)

func (p *Policy) checkLeast() error {
	for _, l := range []struct {
		flag         string
		value, least uint64
		text, why    string
	}{
		{"--memory", p.Memory, leastMemory, Size(leastMemory), "the kernel needs more to start any command"},
		{"--disk", p.Disk, leastDisk, Size(leastDisk), "the sandbox's own files need room, too"},
		{"--nofile", p.Nofile, leastNofile, countOf(leastNofile), "a command has stdin, stdout and stderr, and gobox needs one more to start it"},
	} {
		if l.value > 0 && l.value < l.least {
			value := Size(l.value)
			if l.flag == "--nofile" {
				value = countOf(l.value)
			}
			return &Error{Step: "limit", Object: l.flag + " " + value, Err: errors.New("too small: " + l.why), Hint: l.flag + " " + l.text + " is the least; 0 sets no limit"}
		}
	}
	return nil
}

// checkLayers refuses to run without a wall, unless the caller has accepted that.
func (b *builder) checkLayers() error {
	p := &b.policy
	for _, list := range [][]Layer{p.AllowMissing, p.Require} {
		for _, layer := range list {
			if !slices.Contains(Layers(), layer) && layer != LayerCgroup {
				return &Error{Step: "layer", Object: string(layer), Err: errors.New("no such layer"), Hint: "the layers are namespaces, landlock, seccomp, rlimits and cgroup"}
			}
		}
	}
	for _, layer := range p.AllowMissing {
		if layer == LayerCgroup {
			return &Error{Step: "layer", Object: string(layer), Err: errors.New("needs no leave to be missing"), Hint: "limits are then enforced by the next best means; --require cgroup insists on it"}
		}
		if layer == LayerNamespaces || layer == LayerRlimits {
			return &Error{Step: "layer", Object: string(layer), Err: errors.New("cannot be missing: nothing would be left to run in"), Hint: "--allow-missing takes landlock and seccomp"}
		}
		if slices.Contains(p.Require, layer) {
			return &Error{Step: "layer", Object: string(layer), Err: errors.New("is both required and allowed to be missing"), Hint: "give either --require or --allow-missing"}
		}
	}
	for _, layer := range [...]Layer{LayerLandlock, LayerSeccomp} {
		hint, cause := b.host.Lack(layer)
		if cause == nil {
			continue
		}
		if !slices.Contains(p.AllowMissing, layer) {
			return &Error{Step: "layer", Object: string(layer), Err: cause, Hint: hint}
		}
		b.plan.Missing = append(b.plan.Missing, layer)
	}
	return nil
}

// Lack says why this host has no such wall, and what to do about it; cause is nil where it has one.
func (h Host) Lack(layer Layer) (hint string, cause error) {
	switch {
	case layer == LayerLandlock && h.LandlockABI <= 0:
		cause, hint = h.LandlockLack, "Linux 5.13 or newer, landlock in the kernel's lsm= list, and around a container a seccomp profile that lets it through"
		if cause == nil {
			cause = errors.New("the kernel has no Landlock or it is not enabled")
		}
	case layer == LayerSeccomp && !h.Seccomp:
		cause, hint = h.SeccompLack, "a kernel with CONFIG_SECCOMP_FILTER, and around a container a seccomp profile that lets seccomp(2) through"
		if cause == nil {
			cause = errors.New("the kernel has no seccomp filters")
		}
	default:
		return "", nil
	}
	return hint + " (gobox doctor says more); until then: gobox run --allow-missing " + string(layer), cause
}

// Layers lists every layer in the order in which init raises them.
func Layers() []Layer {
	return []Layer{LayerNamespaces, LayerLandlock, LayerRlimits, LayerSeccomp}
}
