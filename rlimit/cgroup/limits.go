package cgroup

import (
	"math"
	"strings"
)

// Limits are those of the command's whole tree. Zero is none.
type Limits struct {
	Memory uint64  // bytes; with tmpfs pages, shared memory and the kernel's own, without swap
	Pids   uint64  // processes and threads
	CPUs   float64 // seconds of CPU time per second

	// Lean leaves out, on version 1, the hierarchies that only account for CPU time and freeze: each costs a tenth
	// of a millisecond, and a tree that dies with its pid namespace needs no freezer to be killed.
	Lean bool
}

// controllers is a set of those gobox uses.
type controllers uint8

const (
	memory controllers = 1 << iota
	pidsController
	cpu
	cpuacct // version 1 only: version 2 accounts for CPU time without a controller
	freezer // version 1 only: version 2 has cgroup.kill and cgroup.freeze everywhere

	limiting = memory | pidsController | cpu
)

func controllerOf(name string) controllers {
	switch name {
	case "memory":
		return memory
	case "pids":
		return pidsController
	case "cpu":
		return cpu
	case "cpuacct":
		return cpuacct
	case "freezer":
		return freezer
	}
	return 0
}

func (c controllers) names() []string {
	var list []string
	for i, name := range [...]string{"memory", "pids", "cpu", "cpuacct", "freezer"} {
		if c&(1<<i) != 0 {
			list = append(list, name)
		}
	}
	return list
}

func (c controllers) String() string { return strings.Join(c.names(), ", ") }

func (l Limits) needs() controllers {
	var c controllers
	if l.Memory != 0 {
		c |= memory
	}
	if l.Pids != 0 {
		c |= pidsController
	}
	if l.CPUs != 0 {
		c |= cpu
	}
	return c
}

// keep is l without what c cannot enforce.
func (l Limits) keep(c controllers) Limits {
	if c&memory == 0 {
		l.Memory = 0
	}
	if c&pidsController == 0 {
		l.Pids = 0
	}
	if c&cpu == 0 {
		l.CPUs = 0
	}
	return l
}

// cpuPeriod is the kernel's default of cpu.max and cpu.cfs_period_us, in microseconds; minQuota is
// min_cfs_quota_period of kernel/sched/core.c.
const (
	cpuPeriod = 100_000
	minQuota  = 1_000
)

func quota(cpus float64) uint64 {
	q := math.Ceil(cpus * cpuPeriod)
	return uint64(min(max(q, minQuota), 1<<40))
}
