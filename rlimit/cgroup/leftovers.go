package cgroup

import (
	"fmt"
	"os"
	"path"
	"slices"
	"time"
)

// Leftover is a group whose gobox has gone without removing it, or may have.
type Leftover struct {
	Name      string // of the group
	Run       string // the id it was created for
	PID       int    // of its gobox
	Paths     []string
	Processes []int // in it
	// Foreign groups were made in another pid namespace, such as a container's, or by a process that cannot be read about, so
	// whether their gobox lives cannot be known; [Leftover.Remove] refuses them.
	Foreign bool

	version int
	frozen  string
}

// Leftovers finds what killed gobox processes have left behind, where s lets gobox make groups. Groups of living
// ones are not in it.
func Leftovers(s Support) ([]Leftover, error) {
	me, err := self()
	if err != nil {
		return nil, err
	}
	var found []Leftover
	add := func(parent string, c controllers) error {
		entries, err := os.ReadDir(parent)
		if err != nil {
			return fmt.Errorf("list cgroup %s: %w", parent, err)
		}
		for _, e := range entries {
			run, o, ok := parseName(e.Name())
			if !ok || !e.IsDir() {
				continue
			}
			alive, known := o.life(me)
			if alive {
				continue
			}
			i := slices.IndexFunc(found, func(l Leftover) bool { return l.Name == e.Name() })
			if i < 0 {
				i = len(found)
				found = append(found, Leftover{Name: e.Name(), Run: run, PID: o.pid, Foreign: !known, version: s.Version})
			}
			l, dir := &found[i], path.Join(parent, e.Name())
			if list, err := pids(dir); err == nil && len(list) > len(l.Processes) {
				l.Processes = list
			}
			if c == freezer {
				l.frozen = dir
			}
			l.Paths = append(l.Paths, dir)
		}
		return nil
	}
	if s.Version == 1 {
		seen := make(map[string]bool)
		for _, c := range [...]controllers{freezer, memory, pidsController, cpu, cpuacct} {
			if dir, ok := s.v1[c]; ok && !seen[dir] {
				seen[dir] = true
				if err := add(dir, c); err != nil {
					return nil, err
				}
			}
		}
		return found, nil
	}
	for _, l := range s.levels {
		if err := add(l.dir, 0); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// Remove kills what is in the leftover and removes it within timeout.
func (l Leftover) Remove(timeout time.Duration) error {
	if l.Foreign {
		return fmt.Errorf("remove cgroup %s: its gobox, of another pid namespace or not to be read about, may still run", l.Name)
	}
	return removeAll(l.Paths, timeout, func() {
		if l.version == 1 {
			_ = killV1(l.Paths, l.frozen)
			return
		}
		for _, dir := range l.Paths {
			_ = killTree(dir)
		}
	})
}
