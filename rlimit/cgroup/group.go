package cgroup

import (
	"errors"
	"fmt"
	"path"
	"strconv"

	"golang.org/x/sys/unix"
)

// Group is a cgroup of gobox's own, on version 1 one in each hierarchy. It is the caller's to
// [Group.Remove]; methods may not be called at once from several goroutines.
type Group struct {
	name    string
	version int
	dirs    map[controllers]string // version 2: all the same directory
	all     []string               // every directory once
	fd      int                    // version 2: the directory
	events  int                    // version 2: memory.events; version 1: an eventfd
	doors   []int
}

// Create makes a group with the limits l, which must be [Support.Enforceable]; with none it only accounts and
// kills. Name is the run's id: letters, digits, '.', '_' and '-'. Nothing is left behind on error, but a cgroup
// "gobox-caller" may be, holding the processes that had to make room.
func Create(name string, l Limits, s Support) (*Group, error) {
	if err := checkID(name); err != nil {
		return nil, err
	}
	if s.Version == 0 {
		return nil, fmt.Errorf("create cgroup: %s", s.why[memory].why)
	}
	if lacks := s.Lacks(l); len(lacks) > 0 {
		return nil, fmt.Errorf("limit %s by cgroup: %s", lacks[0].Controller, lacks[0].Why)
	}
	me, err := self()
	if err != nil {
		return nil, err
	}
	g := &Group{name: me.name(name), version: s.Version, dirs: make(map[controllers]string), fd: -1, events: -1}
	if s.Version == 2 {
		err = g.createV2(l, s)
	} else {
		err = g.createV1(l, s)
	}
	if err != nil {
		g.discard()
		return nil, err
	}
	return g, nil
}

// discard undoes a creation that failed.
func (g *Group) discard() {
	for _, dir := range g.all {
		_ = unix.Rmdir(dir)
	}
	g.close()
}

func (g *Group) close() {
	for _, fd := range append(g.doors, g.fd, g.events) {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	g.doors, g.fd, g.events = nil, -1, -1
}

func (g *Group) mkdir(parent string) (string, error) {
	dir := path.Join(parent, g.name)
	if err := unix.Mkdir(dir, 0o755); err != nil {
		return "", fmt.Errorf("create cgroup %s: %w", dir, err)
	}
	g.all = append(g.all, dir)
	return dir, nil
}

func set(dir, file, value string) error {
	if err := write(dir+"/"+file, value); err != nil {
		return fmt.Errorf("set %s of cgroup %s to %s: %w", file, dir, value, err)
	}
	return nil
}

// setIfThere is for what not every kernel or configuration has.
func setIfThere(dir, file, value string) error {
	if err := set(dir, file, value); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

// pidsMax is what pids.max takes: more than the kernel can have at all (PID_MAX_LIMIT of <linux/threads.h>) is refused with EINVAL.
func pidsMax(n uint64) string {
	if n > 1<<22 {
		return "max"
	}
	return decimal(n)
}

// Name is the last part of the group's paths.
func (g *Group) Name() string { return g.name }

// Version is 1 or 2.
func (g *Group) Version() int { return g.version }

// Paths are the group's directories, for messages and records.
func (g *Group) Paths() []string { return g.all }

// FD is the group's directory for clone3's CLONE_INTO_CGROUP (clone(2)), or -1 on version 1. It stays the
// group's. The clone may be made by a process of a user namespace whose user on the host owns the group. Under the mount
// option nsdelegate (systemd's default) that process must not be in a cgroup namespace below the group's
// parent, so init's own clone should leave CLONE_NEWCGROUP out, and the command's process unshare it once it is
// in: then /proc/self/cgroup inside is "/".
func (g *Group) FD() int { return g.fd }

// Doors are descriptors to each of which a process's only thread writes "0" to be in the group; they stay the
// group's. The kernel judges the right to do so by the process that opened them, which is gobox itself (Linux 5.16, and
// stable kernels since CVE-2021-4197). On version 2 that waits for a grace period of the kernel's, as moving a process does.
func (g *Group) Doors() ([]int, error) {
	if g.doors != nil {
		return g.doors, nil
	}
	file := "/cgroup.procs"
	if g.version == 1 {
		// A thread that moves itself by this file needs no lock on its whole process.
		file = "/tasks"
	}
	for _, dir := range g.all {
		fd, err := unix.Open(dir+file, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			for _, open := range g.doors {
				unix.Close(open)
			}
			g.doors = nil
			return nil, fmt.Errorf("open %s: %w", dir+file, err)
		}
		g.doors = append(g.doors, fd)
	}
	return g.doors, nil
}
