package sandbox

/*
#include <stdlib.h>
#include "spawn.h"
*/
import "C"

import (
	"unsafe"

	"gobox/policy"

	"golang.org/x/sys/unix"
)

// spawnStages are the stages of [stage] for enum gobox_spawn_step.
var spawnStages = [...]stage{
	C.GOBOX_SPAWN_CLONE:    stageClone,
	C.GOBOX_SPAWN_CGROUP:   stageCgroup,
	C.GOBOX_SPAWN_GROUP:    stageGroup,
	C.GOBOX_SPAWN_STDIO:    stageStdio,
	C.GOBOX_SPAWN_RLIMIT:   stageRlimit,
	C.GOBOX_SPAWN_KEYRING:  stageKeyring,
	C.GOBOX_SPAWN_CAPS:     stageCapabilities,
	C.GOBOX_SPAWN_IDS:      stageIDs,
	C.GOBOX_SPAWN_CHDIR:    stageChdir,
	C.GOBOX_SPAWN_NNP:      stageNoNewPrivs,
	C.GOBOX_SPAWN_LANDLOCK: stageLandlock,
	C.GOBOX_SPAWN_SECCOMP:  stageSeccomp,
	C.GOBOX_SPAWN_EXEC:     stageExec,
}

// membership is how a process gets into a cgroup: born in its directory dir where that works, or -1, and
// else by writing to each of the doors.
type membership struct {
	dir   int
	doors []int
}

func (m membership) close() {
	closeAll([]int{m.dir})
	closeAll(m.doors)
}

// spawn starts the plan's command in a process of its own, behind its last walls, and returns its pid
// once it executes. mark, outside of Go's memory, gets the time at which it is about to. stdio are its first three descriptors, none of them below 3; tty is the slave of its
// terminal and ruleset its Landlock ruleset, or -1; group says how it gets into its cgroup. All stay the
// caller's. With notify, it returns the listener of the filter too, which is the caller's then.
func spawn(p *policy.Plan, mark []byte, stdio [3]int, tty, ruleset int, group membership, notify bool) (pid int, listener []int, f *failure) {
	var a arena
	defer a.free()
	s := (*C.struct_gobox_spawn)(a.alloc(C.sizeof_struct_gobox_spawn))
	s.path, s.dir = a.cstring(p.Exec.Path), a.cstring(p.Exec.Dir)
	s.argv, s.envp = a.cstrings(p.Exec.Argv), a.cstrings(p.Exec.Env)
	for i, fd := range stdio {
		s.stdio[i] = C.int(fd)
	}
	s.tty, s.landlock = C.int(tty), C.int(ruleset)
	s.cgroup = C.int(group.dir)
	if n := len(group.doors); n > 0 {
		doors := (*C.int)(a.alloc(C.size_t(n) * C.sizeof_int))
		for i, fd := range group.doors {
			unsafe.Slice(doors, n)[i] = C.int(fd)
		}
		s.doors, s.ndoors = doors, C.int(n)
	}
	if notify {
		s.notify = 1
	}
	s.mark = (*C.uint64_t)(unsafe.Pointer(unsafe.SliceData(mark)))
	if p.Identity.Root {
		s.set_ids = 1
		s.uid, s.gid = C.uint32_t(p.Identity.UID), C.uint32_t(p.Identity.GID)
	}
	if n := len(p.Rlimits); n > 0 {
		limits := (*C.struct_gobox_rlimit)(a.alloc(C.size_t(n) * C.sizeof_struct_gobox_rlimit))
		for i, l := range p.Rlimits {
			unsafe.Slice(limits, n)[i] = C.struct_gobox_rlimit{
				resource: C.int(l.Resource), soft: C.uint64_t(l.Soft), hard: C.uint64_t(l.Hard),
			}
		}
		s.rlimits, s.nrlimits = limits, C.int(n)
	}
	if n := len(p.Filter.BPF); n > 0 {
		filter := a.alloc(C.size_t(n))
		copy(unsafe.Slice((*byte)(filter), n), p.Filter.BPF)
		s.filter, s.filter_len = filter, C.ushort(n/8)
	}
	null, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, initFD+1)
	if err != nil {
		return -1, nil, failed(stageStdio, 4, err)
	}
	defer unix.Close(null)
	pid = int(C.gobox_spawn(s))
	// Init must not hold the command's ends: a reader waits for the end of what it writes.
	for fd := range 3 {
		if err := unix.Dup3(null, fd, 0); err != nil {
			// The command runs, and it is too late to refuse it.
			unix.Close(fd)
		}
	}
	if pid < 0 {
		return -1, nil, &failure{spawnStages[s.step], int(s.index), unix.Errno(s.err)}
	}
	if notify {
		listener = []int{int(s.listener)}
	}
	return pid, listener, nil
}

// arena is memory of the C library's for the length of one call.
type arena []unsafe.Pointer

func (a *arena) alloc(size C.size_t) unsafe.Pointer {
	p := C.calloc(1, size)
	*a = append(*a, p)
	return p
}

func (a *arena) cstring(s string) *C.char {
	p := C.CString(s)
	*a = append(*a, unsafe.Pointer(p))
	return p
}

func (a *arena) cstrings(list []string) **C.char {
	p := (**C.char)(a.alloc(C.size_t(len(list)+1) * C.size_t(unsafe.Sizeof((*C.char)(nil)))))
	for i, s := range list {
		unsafe.Slice(p, len(list)+1)[i] = a.cstring(s)
	}
	return p
}

func (a *arena) free() {
	for _, p := range *a {
		C.free(p)
	}
}
