package sandbox

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"gobox/rlimit/cgroup"

	"golang.org/x/sys/unix"
)

// spent is what the command's processes have taken, as far as it was seen. Init tells it in the end. One that is killed cannot, and
// with it goes all that the kernel knows: what ends with its pid namespace is nobody's child that was waited for. So init leaves
// its last look in the mark, and the supervisor looks itself before it kills an init that has not told.
type spent struct {
	cpu, system time.Duration // system is a part of cpu
	largest     uint64        // bytes, of the largest process; 0 for unknown
}

// most is the account that saw more: what a process took that nobody waits for is seen only while it lives.
func (a spent) most(b spent) spent {
	largest := max(a.largest, b.largest)
	if b.cpu > a.cpu {
		a = b
	}
	a.largest = largest
	return a
}

// living adds what those have taken that are still there.
func (a spent) living(s cgroup.Sample) spent {
	return spent{a.cpu + s.CPU, a.system + s.System, max(a.largest, s.Largest)}
}

func (a spent) message() message {
	ms := func(d time.Duration) int32 { return int32(min(d.Milliseconds(), math.MaxInt32)) }
	return message{kind: msgUsed, a: ms(a.cpu - a.system), b: ms(a.system), errno: int32(min(a.largest>>10, math.MaxInt32))}
}

func spentOf(m message) spent {
	user, system := time.Duration(m.a)*time.Millisecond, time.Duration(m.b)*time.Millisecond
	return spent{user + system, system, uint64(m.errno) << 10}
}

// usage is what of it a result has.
func (a spent) usage() Usage {
	return Usage{CPUUser: a.cpu - a.system, CPUSystem: a.system, MaxRSS: a.largest}
}

// waited is what the children have taken that init has waited for. The command's process borrows init's memory until it
// executes, and the kernel counts that as memory of its own (getrusage(2), ru_maxrss): of one that took no more nothing is known.
func waited() spent {
	var children, own unix.Rusage
	if unix.Getrusage(unix.RUSAGE_CHILDREN, &children) != nil {
		return spent{}
	}
	system := time.Duration(children.Stime.Nano())
	a := spent{cpu: time.Duration(children.Utime.Nano()) + system, system: system}
	// The kernel's figures are rough by some pages for each processor.
	if unix.Getrusage(unix.RUSAGE_SELF, &own) == nil && children.Maxrss > own.Maxrss+own.Maxrss/8 {
		a.largest = uint64(children.Maxrss) << 10
	}
	return a
}

// markSize is how many bytes at the beginning of the plan's memfd are the mark, in native order: the time of CLOCK_MONOTONIC, in
// nanoseconds, at which the command's process went to execute the command, 0 before; and a spent, times in nanoseconds. The supervisor
// looks at it when init, which would tell, is stopped or gone.
const markSize = 32

// readMark is the time in the mark of the memfd plan.
func readMark(plan *os.File) time.Duration {
	at, _ := readMarks(plan)
	return at
}

func readMarks(plan *os.File) (at time.Duration, a spent) {
	var b [markSize]byte
	if _, err := plan.ReadAt(b[:], 0); err != nil {
		return 0, a
	}
	n := func(i int) uint64 { return binary.NativeEndian.Uint64(b[8*i:]) }
	return time.Duration(n(0)), spent{time.Duration(n(1)), time.Duration(n(2)), n(3)}
}

// leave puts a into the mark.
func (a spent) leave(mark []byte) {
	for i, n := range [...]uint64{uint64(a.cpu), uint64(a.system), a.largest} {
		atomic.StoreUint64((*uint64)(unsafe.Pointer(&mark[8*(i+1)])), n)
	}
}

// tallyInside looks at what is alive in the sandbox of the started init pid, by its own /proc, and at what init has waited for.
func tallyInside(pid int) spent {
	cpu, system := cgroup.Waited(pid)
	a := spent{cpu: cpu, system: system}
	proc, err := unix.Open(fmt.Sprintf("/proc/%d/root/proc", pid), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return a // init is going
	}
	defer unix.Close(proc)
	var fs unix.Statfs_t
	if unix.Fstatfs(proc, &fs) != nil || fs.Type != unix.PROC_SUPER_MAGIC {
		return a
	}
	scanner := cgroup.Scanner{Proc: proc}
	s, err := scanner.Tally()
	if err != nil {
		return a
	}
	return a.living(s)
}

// reckon looks at what the sandbox has taken while that can be seen, unless init has told. The watch of the scratch asks too.
func (r *run) reckon() {
	if r.told.Load() || readMark(r.mark) == 0 || wallTest && len(r.plan.Tree.Steps) == 0 {
		return // of what has not started there is nothing to tell, and its /proc is still the host's
	}
	a := tallyInside(r.sandbox.pid)
	r.seen.Lock()
	r.seen.spent = r.seen.most(a)
	r.seen.Unlock()
}

// account is all that is known of what the command took.
func (r *run) account() spent {
	if r.told.Load() {
		return r.used
	}
	_, left := readMarks(r.mark)
	r.seen.Lock()
	defer r.seen.Unlock()
	return r.seen.most(left)
}
