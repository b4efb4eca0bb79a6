package cgroup

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func (g *Group) createV2(l Limits, s Support) error {
	p, ok := s.place(l.needs())
	if !ok {
		return fmt.Errorf("create cgroup: no place for it")
	}
	if p.enable {
		if err := p.prepare(); err != nil {
			return err
		}
	}
	return g.fillV2(p.dir, l)
}

func (g *Group) fillV2(parent string, l Limits) error {
	dir, err := g.mkdir(parent)
	if err != nil {
		return err
	}
	for _, c := range [...]controllers{memory, pidsController, cpu, cpuacct, freezer} {
		g.dirs[c] = dir
	}
	var buf [64]byte
	if kind, err := read(dir+"/cgroup.type", buf[:]); err == nil && strings.TrimSpace(string(kind)) != "domain" {
		return fmt.Errorf("create cgroup %s: its type would be %q: %w", dir, strings.TrimSpace(string(kind)), unix.EOPNOTSUPP)
	}
	if l.Memory != 0 {
		if err := set(dir, "memory.max", decimal(l.Memory)); err != nil {
			return err
		}
		if err := setIfThere(dir, "memory.swap.max", "0"); err != nil {
			return err
		}
		// Half a process tree is nothing to go on with.
		if err := set(dir, "memory.oom.group", "1"); err != nil {
			return err
		}
		if g.events, err = unix.Open(dir+"/memory.events", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			return fmt.Errorf("open memory.events of cgroup %s: %w", dir, err)
		}
	}
	if l.Pids != 0 {
		if err := set(dir, "pids.max", pidsMax(l.Pids)); err != nil {
			return err
		}
	}
	if l.CPUs != 0 {
		if err := set(dir, "cpu.max", fmt.Sprintf("%d %d", quota(l.CPUs), cpuPeriod)); err != nil {
			return err
		}
	}
	if g.fd, err = unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("open cgroup %s: %w", dir, err)
	}
	return nil
}

// prepare enables controllers for the children of p's cgroup. Between its becoming empty and that, another
// process may be born there; then it is done again.
func (p placement) prepare() error {
	const rounds = 50
	var value []string
	for _, name := range p.need.names() {
		value = append(value, "+"+name)
	}
	for i := 0; ; i++ {
		if p.evacuate {
			if err := evacuate(p.dir, path.Join(p.dir, callerLeaf)); err != nil {
				return err
			}
		}
		err := set(p.dir, "cgroup.subtree_control", strings.Join(value, " "))
		if err == nil || !errors.Is(err, unix.EBUSY) || i == rounds {
			return err
		}
	}
}

func evacuate(from, to string) error {
	list, err := pids(from)
	if err != nil {
		return fmt.Errorf("read processes of cgroup %s: %w", from, err)
	}
	if len(list) == 0 {
		return nil
	}
	if err := unix.Mkdir(to, 0o755); err != nil && err != unix.EEXIST {
		return fmt.Errorf("create cgroup %s: %w", to, err)
	}
	for _, pid := range list {
		if pid == 0 {
			return fmt.Errorf("make room in cgroup %s: it has processes of another pid namespace: %w", from, unix.EBUSY)
		}
		if err := write(to+"/cgroup.procs", strconv.Itoa(pid)); err != nil && err != unix.ESRCH {
			return fmt.Errorf("move process %d to cgroup %s: %w", pid, to, err)
		}
	}
	return nil
}
