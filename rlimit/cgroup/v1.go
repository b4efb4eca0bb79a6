package cgroup

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

func (g *Group) createV1(l Limits, s Support) error {
	made := make(map[string]string) // cpu and cpuacct are often one hierarchy
	want := l.needs()
	if !l.Lean {
		want |= cpuacct | freezer
	}
	for _, c := range [...]controllers{memory, pidsController, cpu, cpuacct, freezer} {
		parent, ok := s.v1[c]
		if !ok || want&c == 0 && made[parent] == "" {
			continue
		}
		if made[parent] == "" {
			dir, err := g.mkdir(parent)
			if err != nil {
				return err
			}
			made[parent] = dir
		}
		g.dirs[c] = made[parent]
	}
	if l.Memory != 0 {
		if err := g.limitMemoryV1(g.dirs[memory], l.Memory); err != nil {
			return err
		}
	}
	if l.Pids != 0 {
		if err := set(g.dirs[pidsController], "pids.max", pidsMax(l.Pids)); err != nil {
			return err
		}
	}
	if l.CPUs != 0 {
		dir := g.dirs[cpu]
		if err := set(dir, "cpu.cfs_period_us", decimal(cpuPeriod)); err != nil {
			return err
		}
		// A quota above the parent's is refused, and then the parent's holds.
		if err := set(dir, "cpu.cfs_quota_us", decimal(quota(l.CPUs))); err != nil && !errors.Is(err, unix.EINVAL) {
			return err
		}
	}
	return nil
}

func (g *Group) limitMemoryV1(dir string, bytes uint64) error {
	if err := set(dir, "memory.limit_in_bytes", decimal(bytes)); err != nil {
		return err
	}
	// Memory and swap together, so none is left for swap; there only with swap accounting.
	if err := setIfThere(dir, "memory.memsw.limit_in_bytes", decimal(bytes)); err != nil {
		return err
	}
	if err := setIfThere(dir, "memory.swappiness", "0"); err != nil {
		return err
	}
	// Buffers of TCP are counted apart (cgroup-v1/memory.rst, section 2.7.2), and so may be as much again.
	if err := setIfThere(dir, "memory.kmem.tcp.limit_in_bytes", decimal(bytes)); err != nil {
		return err
	}
	// cgroup-v1/memory.rst, section 9: "<event_fd> <fd of memory.oom_control>".
	control, err := unix.Open(dir+"/memory.oom_control", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open memory.oom_control of cgroup %s: %w", dir, err)
	}
	defer unix.Close(control)
	if g.events, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	return set(dir, "cgroup.event_control", fmt.Sprintf("%d %d", g.events, control))
}
