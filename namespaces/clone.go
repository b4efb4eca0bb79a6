package namespaces

/*
#include <stdlib.h>
#include "clone.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Flags are the namespaces of init: all that clone(2) has, but for time, which would only move clocks, and
// for cgroup, which the command's process makes once it is in its cgroup.
const Flags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

// CloneError says which part of a start failed.
type CloneError struct {
	Step string // "clone", "stdio", "capabilities", "exec"
	Err  unix.Errno
}

func (e *CloneError) Error() string { return e.Step + ": " + e.Err.Error() }
func (e *CloneError) Unwrap() error { return e.Err }

// Clone executes path with argv and an environment of env in new namespaces (flags, CLONE_NEW* of
// <linux/sched.h>) and returns its pid and a pidfd (pidfd_open(2)), which the caller closes. The new process is PID 1 of its pid namespace, leads a new
// session, holds all capabilities of its user namespace, whose id maps are still empty (see
// [Identity.WriteMaps]), and has exactly the descriptors 0 to 2 (/dev/null) and 3 (a duplicate of sock).
//
// It is killed when the calling OS thread ends (PR_SET_PDEATHSIG of prctl(2)): the caller must have
// locked its goroutine to a thread that lives as long as the sandbox.
func Clone(flags int, path string, argv, env []string, sock int) (pid, pidfd int, err error) {
	cpath := C.CString(path)
	cargv, cenv := cStrings(argv), cStrings(env)
	c := (*C.struct_gobox_clone)(C.calloc(1, C.sizeof_struct_gobox_clone))
	defer func() {
		C.free(unsafe.Pointer(cpath))
		freeStrings(cargv, len(argv))
		freeStrings(cenv, len(env))
		C.free(unsafe.Pointer(c))
	}()
	c.flags = C.ulong(flags)
	c.path, c.argv, c.envp = cpath, cargv, cenv
	c.sock = C.int(sock)
	pid = int(C.gobox_clone(c))
	if pid < 0 {
		step := [...]string{"", "clone", "stdio", "capabilities", "exec"}[c.step]
		return -1, -1, &CloneError{Step: step, Err: unix.Errno(c.err)}
	}
	return pid, int(c.pidfd), nil
}

func cStrings(list []string) **C.char {
	p := (**C.char)(C.calloc(C.size_t(len(list)+1), C.size_t(unsafe.Sizeof((*C.char)(nil)))))
	for i, s := range list {
		unsafe.Slice(p, len(list)+1)[i] = C.CString(s)
	}
	return p
}

func freeStrings(p **C.char, n int) {
	for _, s := range unsafe.Slice(p, n) {
		C.free(unsafe.Pointer(s))
	}
	C.free(unsafe.Pointer(p))
}

// WriteMaps writes the id maps of the user namespace of process pid, a child made by [Clone]
// (user_namespaces(7)). An ordinary caller may map only its own ids and must give up setgroups(2).
func (id Identity) WriteMaps(pid int) error {
	if id.Root {
		return writeMaps(pid, false, rootMap(id.UID, id.HostUID), rootMap(id.GID, id.HostGID))
	}
	return writeMaps(pid, true, mapLine(id.UID, id.HostUID, 1), mapLine(id.GID, id.HostGID, 1))
}

func rootMap(inside, host uint32) string { return mapLine(0, 0, 1) + mapLine(inside, host, 1) }

func mapLine(inside, outside, count uint32) string {
	b := strconv.AppendUint(nil, uint64(inside), 10)
	b = strconv.AppendUint(append(b, ' '), uint64(outside), 10)
	b = strconv.AppendUint(append(b, ' '), uint64(count), 10)
	return string(append(b, '\n'))
}

func writeMaps(pid int, denySetgroups bool, uidMap, gidMap string) error {
	dir := "/proc/" + strconv.Itoa(pid)
	files := [...]struct{ name, text string }{
		{"/setgroups", "deny"}, {"/uid_map", uidMap}, {"/gid_map", gidMap},
	}
	for i, f := range files {
		if i == 0 && !denySetgroups {
			continue
		}
		if err := writeOnce(dir+f.name, f.text); err != nil {
			return fmt.Errorf("write %s: %w", f.name[1:], err)
		}
	}
	return nil
}

// writeOnce hands text to the kernel in one write(2), as id maps and sysctls need it.
func writeOnce(path, text string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte(text))
	return err
}

// idmapUserns returns a descriptor of a user namespace whose maps exchange owner's ids with the host
// ids of id and leave all others as they are, for MOUNT_ATTR_IDMAP. The caller closes it, and calls reap, on an error too,
// when there is time to wait for the process that made it, which is killed already.
func idmapUserns(owner Owner, id Identity) (_ *os.File, reap func(), err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var cerr C.int
	var stack unsafe.Pointer
	pid := int(C.gobox_clone_userns(&stack, &cerr))
	if pid < 0 {
		return nil, func() {}, fmt.Errorf("clone user namespace: %w", unix.Errno(cerr))
	}
	killed := false
	defer func() { killed = unix.Kill(pid, unix.SIGKILL) == nil }()
	reap = func() {
		for killed { // else it ends with this process, and the stack with it
			if _, err := unix.Wait4(pid, nil, 0, nil); err != unix.EINTR {
				C.gobox_free_stack(stack)
				return
			}
		}
	}
	err = writeMaps(pid, false, swapMap(owner.UID, id.HostUID), swapMap(owner.GID, id.HostGID))
	if errors.Is(err, unix.EPERM) {
		// Root of a user namespace that has not all ids: the one pair must do.
		err = writeMaps(pid, false, mapLine(owner.UID, id.HostUID, 1), mapLine(owner.GID, id.HostGID, 1))
	}
	if err != nil {
		return nil, reap, err
	}
	ns, err := os.Open("/proc/" + strconv.Itoa(pid) + "/ns/user")
	return ns, reap, err
}

// swapMap exchanges a and b among all ids. The last id, 4294967295, is no id (user_namespaces(7)).
func swapMap(a, b uint32) string {
	const all = 4294967295
	lo, hi := min(a, b), max(a, b)
	if lo == hi {
		return mapLine(0, 0, all)
	}
	var s string
	line := func(inside, outside, count uint32) {
		if count > 0 {
			s += mapLine(inside, outside, count)
		}
	}
	line(0, 0, lo)
	line(lo, hi, 1)
	line(lo+1, lo+1, hi-lo-1)
	line(hi, lo, 1)
	line(hi+1, hi+1, all-hi-1)
	return s
}
