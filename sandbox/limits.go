package sandbox

import (
	"slices"
	"time"

	"gobox/namespaces"
	"gobox/policy"
	"gobox/rlimit"

	"golang.org/x/sys/unix"
)

// Names of limits in a result.
const (
	LimitTimeout = "timeout"
	LimitCPUTime = "cpu_time"
	LimitMemory  = "memory"
	LimitPids    = "pids"
	LimitCPUs    = "cpus"
	LimitDisk    = "disk"
	LimitInodes  = "inodes"
	LimitTmpfs   = "tmpfs"
	LimitOutput  = "output"
	LimitNofile  = "nofile"
	LimitFsize   = "fsize"
)

// Limit is one limit of a run.
type Limit struct {
	Name       string
	Value      uint64
	Unit       string // bytes, ms, millicpus, processes, files, connections or per_1000s (of seconds)
	EnforcedBy string // cgroup, rlimit, tmpfs, supervisor, init; several with +
	Triggered  bool   // as far as that can be told
}

// Usage is what a run used. What could not be measured is 0.
type Usage struct {
	CPUUser, CPUSystem time.Duration // of all processes; without a cgroup as far as init and the supervisor could see
	MaxRSS             uint64        // bytes, of the largest process, as far as that could be seen
	PeakMemory         uint64        // bytes, of all together; needs a cgroup
	PeakProcesses      uint64        // needs a cgroup
	Stdout, Stderr     uint64        // bytes
	Truncated          bool
}

// limitsOf lists the plan's limits and what enforces them, given what the cgroup does.
func limitsOf(p *policy.Plan, g *groups) []Limit {
	var list []Limit
	add := func(name string, value uint64, unit, by string) {
		if value > 0 {
			list = append(list, Limit{Name: name, Value: value, Unit: unit, EnforcedBy: by})
		}
	}
	either := func(inGroup bool, with, without string) string {
		if inGroup {
			return with
		}
		return without
	}
	l := p.Limits
	add(LimitTimeout, uint64(l.Timeout.Milliseconds()), "ms", "supervisor+init")
	add(LimitCPUTime, uint64(l.CPUTime.Milliseconds()), "ms", either(g.group != nil, "supervisor+rlimit", "init+rlimit"))
	add(LimitMemory, l.Memory, "bytes", either(g.by.Memory > 0, "cgroup", "init"))
	add(LimitPids, l.Pids, "processes", either(g.by.Pids > 0, "cgroup", "rlimit"))
	add(LimitCPUs, uint64(l.CPUs*1000), "millicpus", "cgroup")
	add(LimitDisk, p.Tree.Root.Size, "bytes", either(onDisk(p), "tmpfs+supervisor", "tmpfs"))
	add(LimitInodes, p.Tree.Root.Inodes, "files", either(onDisk(p), "tmpfs+supervisor", "tmpfs"))
	extra := uint64(0)
	for i := range p.Tree.Steps {
		if s := &p.Tree.Steps[i]; s.Op == namespaces.OpTmpfs {
			extra += s.Size
		}
	}
	add(LimitTmpfs, extra, "bytes", "tmpfs")
	add(LimitOutput, l.Output, "bytes", "supervisor")
	netLimits(p.Network.Limits, add)
	for _, r := range p.Rlimits {
		switch {
		case r.Soft == rlimit.Unlimited:
		case r.Resource == unix.RLIMIT_NOFILE:
			add(LimitNofile, r.Soft, "files", "rlimit")
		case r.Resource == unix.RLIMIT_FSIZE:
			add(LimitFsize, r.Soft, "bytes", "rlimit")
		}
	}
	return list
}

// onDisk tells whether the workspace's layer is on disk, where its size is watched.
func onDisk(p *policy.Plan) bool {
	return slices.ContainsFunc(p.Tree.Steps, func(s namespaces.Step) bool { return s.OnDisk })
}

// hit marks a limit as reached, if it was.
func (r *Result) hit(name string, was bool) {
	for i := range r.Limits {
		if was && r.Limits[i].Name == name {
			r.Limits[i].Triggered = true
		}
	}
}

// LimitsTriggered counts those that were reached.
func (r *Result) LimitsTriggered() uint64 {
	var n uint64
	for _, l := range r.Limits {
		if l.Triggered {
			n++
		}
	}
	return n
}
