package sandbox

import (
	"errors"
	"fmt"
	"time"

	"gobox/policy"
	"gobox/rlimit/cgroup"

	"golang.org/x/sys/unix"
)

// groups is the command's cgroup, or what stands in for it.
type groups struct {
	group *cgroup.Group // nil for none
	by    cgroup.Limits // what it enforces
	had   cgroup.Support
}

// openGroup makes the cgroup for a run with the limits l. Insist makes it an error when a limit cannot be enforced by
// cgroup; else that is an error only for one that nothing else enforces.
func openGroup(id string, l policy.Limits, insist bool, s *Sandbox) (*groups, error) {
	want := cgroup.Limits{Memory: l.Memory, Pids: l.Pids, CPUs: l.CPUs}
	g := &groups{}
	if want == (cgroup.Limits{}) && !insist {
		return g, nil
	}
	g.had = cgroup.Detect()
	g.by = g.had.Enforceable(want)
	needed := insist || want.CPUs > 0
	var err error
	if g.by != want && needed && g.had.Scope() {
		if <-s.launched; s.err != nil {
			return nil, s.err
		}
		if g.group, err = cgroup.CreateScope(id, want, g.had, s.pid, setupLimit/10); err == nil {
			g.by = want
			return g, nil
		}
	}
	for _, lack := range g.had.Lacks(want) {
		if insist || lack.Controller == "cpu" {
			return nil, explainLack(insist, lack)
		}
	}
	if g.by == (cgroup.Limits{}) && !insist {
		return g, nil
	}
	asked := g.by
	asked.Lean = l.CPUTime == 0
	if g.group, err = cgroup.Create(id, asked, g.had); err != nil {
		if needed {
			return nil, &policy.Error{Step: "cgroup", Object: id, Err: err, Hint: "without --require cgroup and --cpus the run needs none; gobox doctor says what this host has"}
		}
		// The means that need no cgroup stand in.
		g.group, g.by = nil, cgroup.Limits{}
	}
	return g, nil
}

func explainLack(insist bool, l cgroup.Lack) *policy.Error {
	flag := map[string]string{"memory": "--memory", "pids": "--pids", "cpu": "--cpus"}[l.Controller]
	e := &policy.Error{Step: "limit", Object: flag, Err: fmt.Errorf("no cgroup can enforce it: %s", l.Why), Hint: l.Hint}
	if e.Hint == "" {
		e.Hint = "run without " + flag
		if insist {
			e.Hint = "run without --require cgroup, and other means enforce --memory and --pids"
		}
	}
	return e
}

// give tells init what the group does, and hands over the descriptors by which the command enters it.
func (g *groups) give(sock int) error {
	c := confinement{memory: g.by.Memory > 0, pids: g.by.Pids > 0}
	var files []int
	if g.group != nil {
		c.group, c.cpu = true, g.group.CountsCPU()
		if fd := g.group.FD(); fd >= 0 {
			c.dir = true
			files = append(files, fd)
		}
		doors, err := g.group.Doors()
		if err != nil {
			return &policy.Error{Step: "cgroup", Object: g.group.Name(), Err: err}
		}
		c.doors = len(doors)
		files = append(files, doors...)
	}
	err := send(sock, c.message(), files...)
	if err == unix.EPIPE || err == unix.ECONNRESET {
		// Init has failed, and told how before.
		err = nil
	}
	if err != nil {
		return &policy.Error{Step: "start", Object: "init", Err: err}
	}
	return nil
}

// notify is what to poll for memory that has run out.
func (g *groups) notify() unix.PollFd {
	if g.group == nil {
		return unix.PollFd{Fd: -1}
	}
	fd, events := g.group.Notify()
	return unix.PollFd{Fd: int32(fd), Events: events}
}

// outOfMemory says whether the kernel has killed for want of memory in the group.
func (g *groups) outOfMemory() bool {
	if g.group == nil || g.by.Memory == 0 {
		return false
	}
	g.group.Acknowledge()
	e, err := g.group.Events()
	return err == nil && e.OOMKills > 0
}

// hasten lets what is being killed end at full speed.
func (g *groups) hasten() {
	if g.group != nil && g.by.CPUs > 0 {
		g.group.Unthrottle()
	}
}

// pidsRefused says whether the group has refused a process or thread.
func (g *groups) pidsRefused() bool {
	if g.group == nil || g.by.Pids == 0 {
		return false
	}
	e, err := g.group.Events()
	return err == nil && e.PidsMax > 0
}

// close reads the accounts into res and removes the group, which has until then to be empty. What is still there is noted in res.
func (g *groups) close(res *Result, end time.Time) {
	if g.group == nil {
		return
	}
	if u, err := g.group.Usage(); err == nil {
		if u.CPUUser+u.CPUSystem > 0 {
			res.Usage.CPUUser, res.Usage.CPUSystem = u.CPUUser, u.CPUSystem
		}
		res.Usage.PeakMemory, res.Usage.PeakProcesses = u.MemoryPeak, u.PidsPeak
	}
	if e, err := g.group.Events(); err == nil {
		res.hit(LimitMemory, g.by.Memory > 0 && e.OOMKills > 0)
		res.hit(LimitPids, e.PidsMax > 0)
		res.hit(LimitCPUs, e.Throttled > 0)
	}
	res.Cgroup = Cgroup{Version: g.group.Version(), Controllers: g.had.Controllers(), Paths: g.group.Paths()}
	if err := g.group.Remove(max(time.Until(end), lastPatience)); err != nil {
		res.Survived = true
		var left *cgroup.Survivors
		if errors.As(err, &left) {
			res.Survivors = append(res.Survivors, "cgroup "+left.Path)
			for _, pid := range left.Processes {
				res.Survivors = append(res.Survivors, fmt.Sprintf("pid %d", pid))
			}
		}
	}
	g.group = nil
}

// discard removes the group of a run that never was.
func (g *groups) discard() {
	if g != nil && g.group != nil {
		_ = g.group.Remove(lastPatience)
		g.group = nil
	}
}

// Cgroup is the one a run was in; Version is 0 for none.
type Cgroup struct {
	Version     int
	Controllers []string
	Paths       []string
}
