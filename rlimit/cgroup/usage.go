package cgroup

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Usage is what the group's processes, living and dead, have taken. A figure the kernel does not keep, or a
// controller the group does not have, is zero: memory.peak came with Linux 5.19, pids.peak with 6.11.
type Usage struct {
	CPUUser, CPUSystem        time.Duration
	MemoryCurrent, MemoryPeak uint64 // bytes
	PidsCurrent, PidsPeak     uint64 // processes and threads
}

// Events counts how often the group's limits were hit.
type Events struct {
	OOM       uint64        // allocations that failed for good (version 2)
	OOMKills  uint64        // processes the kernel killed for memory
	PidsMax   uint64        // refused forks
	Throttled time.Duration // time for which processes waited for --cpus
}

// CountsCPU says whether the group has an account of CPU time.
func (g *Group) CountsCPU() bool {
	_, ok := g.dirs[cpuacct]
	return ok || g.version == 2
}

// Usage reads the group's accounts. What is there is returned even with an error.
func (g *Group) Usage() (Usage, error) {
	var u Usage
	var failed error
	figure := func(c controllers, file string) uint64 {
		dir, ok := g.dirs[c]
		if !ok {
			return 0
		}
		n, err := number(dir + "/" + file)
		if err != nil && !gone(err) {
			failed = fmt.Errorf("read %s of cgroup %s: %w", file, dir, err)
		}
		return n
	}
	u.PidsCurrent = figure(pidsController, "pids.current")
	u.PidsPeak = figure(pidsController, "pids.peak")
	if g.version == 1 {
		u.CPUUser = time.Duration(figure(cpuacct, "cpuacct.usage_user"))
		u.CPUSystem = time.Duration(figure(cpuacct, "cpuacct.usage_sys"))
		u.MemoryCurrent = figure(memory, "memory.usage_in_bytes")
		u.MemoryPeak = figure(memory, "memory.max_usage_in_bytes")
		return u, failed
	}
	u.MemoryCurrent = figure(memory, "memory.current")
	u.MemoryPeak = figure(memory, "memory.peak")
	var buf [1024]byte
	stat, err := read(g.dirs[cpu]+"/cpu.stat", buf[:])
	if err != nil {
		return u, fmt.Errorf("read cpu.stat of cgroup %s: %w", g.dirs[cpu], err)
	}
	u.CPUUser, u.CPUSystem = micros(stat, "user_usec"), micros(stat, "system_usec")
	return u, failed
}

func micros(data []byte, key string) time.Duration {
	n, _ := field(data, key)
	return time.Duration(n) * time.Microsecond
}

// Events reads the group's counters.
func (g *Group) Events() (Events, error) {
	var e Events
	var buf [1024]byte
	events := func(c controllers, file string) ([]byte, error) {
		dir, ok := g.dirs[c]
		if !ok {
			return nil, nil
		}
		data, err := read(dir+"/"+file, buf[:])
		if err != nil && !gone(err) {
			return nil, fmt.Errorf("read %s of cgroup %s: %w", file, dir, err)
		}
		return data, nil
	}
	data, err := events(pidsController, "pids.events")
	if err != nil {
		return e, err
	}
	e.PidsMax, _ = field(data, "max")
	if data, err = events(cpu, "cpu.stat"); err != nil {
		return e, err
	}
	e.Throttled = micros(data, "throttled_usec")
	if g.version == 1 {
		ns, _ := field(data, "throttled_time")
		e.Throttled = time.Duration(ns)
		if data, err = events(memory, "memory.oom_control"); err != nil {
			return e, err
		}
		e.OOMKills, _ = field(data, "oom_kill")
		return e, nil
	}
	if data, err = events(memory, "memory.events"); err != nil {
		return e, err
	}
	e.OOM, _ = field(data, "oom")
	e.OOMKills, _ = field(data, "oom_kill")
	return e, nil
}

// Notify is a descriptor and the events for which to poll(2) it: it becomes ready when memory may have run
// out, and [Group.Events] then says whether it has. It is -1 without a memory limit, and stays the group's.
// On version 1 the kernel kills one process and not the group, so the caller should [Group.Kill] the rest.
func (g *Group) Notify() (fd int, events int16) {
	if g.version == 1 {
		return g.events, unix.POLLIN
	}
	return g.events, unix.POLLPRI
}

// Acknowledge makes the descriptor of [Group.Notify] not ready until the next event.
func (g *Group) Acknowledge() {
	if g.events < 0 {
		return
	}
	var buf [512]byte
	if g.version == 2 {
		_, _ = unix.Pread(g.events, buf[:], 0)
		return
	}
	_, _ = unix.Read(g.events, buf[:8])
}
