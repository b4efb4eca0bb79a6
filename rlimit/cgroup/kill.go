package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// freezeLimit is how long Kill waits for a freezer before it kills what is not frozen; a process in an
// uninterruptible wait, such as a vfork(2)'s parent, freezes only later.
const freezeLimit = 50 * time.Millisecond

// Kill sends SIGKILL to every process in the group, and to those born meanwhile. It does not wait for
// their end; [Group.Remove] does.
func (g *Group) Kill() error {
	if g.version == 2 {
		return killTree(g.all[0])
	}
	return killV1(g.all, g.dirs[freezer])
}

// Unthrottle lifts the limit of CPU time, for processes that are being killed: what the kernel does to end them is charged to
// the group, and under a small quota they would wait for their turn to die. Where it fails they only take longer.
func (g *Group) Unthrottle() {
	if dir, ok := g.dirs[cpu]; ok {
		unthrottle(dir)
	}
}

func unthrottle(dir string) {
	if write(dir+"/cpu.max", "max") != nil {
		_ = write(dir+"/cpu.cfs_quota_us", "-1") // version 1
	}
}

// killTree kills below one directory of version 2. cgroup.kill came with Linux 5.14.
func killTree(dir string) error {
	defer unthrottle(dir)
	err := write(dir+"/cgroup.kill", "1")
	if err == nil || gone(err) && !exists(dir) {
		return nil
	}
	if !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("kill cgroup %s: %w", dir, err)
	}
	_ = write(dir+"/cgroup.freeze", "1")
	waitFor(freezeLimit, func() bool {
		var buf [256]byte
		data, err := read(dir+"/cgroup.events", buf[:])
		frozen, _ := field(data, "frozen")
		return err != nil || frozen == 1
	})
	defer write(dir+"/cgroup.freeze", "0") //nolint:errcheck // frozen processes of version 2 die all the same
	return killAll([]string{dir})
}

// killV1 freezes first, for two reasons: a fork bomb stands still, and a frozen process keeps its pid.
func killV1(dirs []string, frozen string) error {
	if frozen != "" {
		if err := write(frozen+"/freezer.state", "FROZEN"); err == nil {
			waitFor(freezeLimit, func() bool {
				var buf [16]byte
				state, err := read(frozen+"/freezer.state", buf[:])
				return err != nil || string(state) == "FROZEN\n"
			})
			// Frozen processes die when they thaw.
			defer write(frozen+"/freezer.state", "THAWED") //nolint:errcheck // Remove reports what is left
		}
	}
	defer func() {
		for _, dir := range dirs {
			unthrottle(dir)
		}
	}()
	return killAll(dirs)
}

// killAll goes around until nothing new is there, at most a bounded number of times: without a freezer a fork
// bomb can be faster, and Remove comes back here.
func killAll(dirs []string) error {
	killed := make(map[int]bool)
	for range 20 {
		fresh := false
		for _, dir := range dirs {
			list, err := pids(dir)
			if err != nil {
				if gone(err) {
					continue
				}
				return fmt.Errorf("kill cgroup %s: %w", dir, err)
			}
			for _, pid := range list {
				if killed[pid] || pid == 0 || pid == os.Getpid() {
					continue
				}
				killed[pid], fresh = true, true
				if err := unix.Kill(pid, unix.SIGKILL); err != nil && err != unix.ESRCH {
					return fmt.Errorf("kill process %d of cgroup %s: %w", pid, dir, err)
				}
			}
		}
		if !fresh {
			return nil
		}
	}
	return nil
}

// waitFor asks more and more rarely until done or for limit, and returns whether it was done.
func waitFor(limit time.Duration, done func() bool) bool {
	end := time.Now().Add(limit)
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, 20*time.Millisecond) {
		if done() {
			return true
		}
		left := time.Until(end)
		if left <= 0 {
			return false
		}
		time.Sleep(min(pause, left))
	}
}

// Survivors is the error for a group that still exists.
type Survivors struct {
	Path      string
	Processes []int // in it, as seen from this pid namespace
	Err       error
}

func (e *Survivors) Error() string {
	return fmt.Sprintf("remove cgroup %s with %d processes: %v", e.Path, len(e.Processes), e.Err)
}

func (e *Survivors) Unwrap() error { return e.Err }

// Remove kills what is left in the group, removes it within timeout, and closes its descriptors. The error is a
// *[Survivors]; Remove may then be called again. Read [Group.Usage] before.
func (g *Group) Remove(timeout time.Duration) error {
	g.close()
	again := func() { _ = g.Kill() }
	return removeAll(g.all, timeout, again)
}

// oddErrors is how often a group is to be removed that is not busy and cannot be.
const oddErrors = 3

func removeAll(dirs []string, timeout time.Duration, kill func()) error {
	var last *Survivors
	odd := 0
	waitFor(timeout, func() bool {
		busy := false
		last = nil
		for _, dir := range dirs {
			if err := removeTree(dir); err != nil {
				list, _ := pids(dir)
				last = &Survivors{Path: dir, Processes: list, Err: err}
				busy = busy || err == unix.EBUSY || err == unix.ENOTEMPTY
			}
		}
		// An empty group can be busy for a moment; only one with processes needs another kill.
		if last != nil && len(last.Processes) > 0 {
			kill()
		}
		// Other errors hardly go away by waiting, unless it was a signal or the like.
		odd++
		return last == nil || !busy && odd >= oddErrors
	})
	if last != nil {
		return last
	}
	return nil
}

// removeTree removes a cgroup and those below it, which a nested gobox may have left.
func removeTree(dir string) error {
	err := unix.Rmdir(dir)
	if err == nil || gone(err) {
		return nil
	}
	if err != unix.EBUSY && err != unix.ENOTEMPTY {
		return err
	}
	entries, readErr := os.ReadDir(dir)
	if readErr != nil {
		return err
	}
	children := slices.DeleteFunc(entries, func(e os.DirEntry) bool { return !e.IsDir() })
	if len(children) == 0 {
		return err
	}
	for _, e := range children {
		if err := removeTree(path.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	if err := unix.Rmdir(dir); err != nil && !gone(err) {
		return err
	}
	return nil
}
