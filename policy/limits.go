package policy

import (
	"time"

	"golang.org/x/sys/unix"

	"gobox/rlimit"
)

// initThreads is how many threads init has at the most (GOMAXPROCS=1).
const initThreads = 6

// setRlimits gives the limits of the command's own process; see setrlimit(2).
func (b *builder) setRlimits() {
	p := &b.policy
	limit := func(resource int, soft, hard uint64) {
		l := rlimit.Limit{Resource: resource, Soft: soft, Hard: hard}
		b.plan.Rlimits = append(b.plan.Rlimits, rlimit.Clamp(l, b.host.HardLimit(resource)))
	}
	both := func(resource int, value uint64) { limit(resource, value, value) }
	asked := func(resource int, value uint64) {
		if value > 0 {
			both(resource, value)
		}
	}
	if p.CPUTime > 0 {
		// SIGXCPU at the soft limit, SIGKILL a second later whatever the command does with it.
		seconds := uint64((p.CPUTime + time.Second - 1) / time.Second)
		limit(unix.RLIMIT_CPU, seconds, seconds+1)
	}
	asked(unix.RLIMIT_AS, p.Address)
	// No RLIMIT_DATA: it counts what a process asks for, used or not (a sanitizer asks for terabytes), and refuses it with an error that
	// nobody else hears of. A cgroup or init's watch counts what is used, and says so.
	asked(unix.RLIMIT_FSIZE, p.Fsize)
	// Always set: the Go runtime has raised gobox's own soft limit, which the command must not inherit.
	if nofile := p.Nofile; nofile > 0 {
		both(unix.RLIMIT_NOFILE, nofile)
	} else {
		both(unix.RLIMIT_NOFILE, rlimit.Unlimited)
	}
	if pids := p.Pids; pids > 0 {
		if !b.plan.Identity.Root {
			// Init is the same user then, and its threads count too.
			pids += initThreads
		}
		both(unix.RLIMIT_NPROC, pids)
	}
	both(unix.RLIMIT_CORE, 0)
	// The kernel's default (_STK_LIM). Programs that know why may raise it, as compilers do, but not past
	// the memory that they may have: A stack counts when it is used.
	stack := rlimit.Unlimited
	if p.Memory > 0 {
		stack = max(8*mib, p.Memory)
	}
	limit(unix.RLIMIT_STACK, 8*mib, stack)
	// The rest are the kernel's defaults (<asm-generic/resource.h>), whatever the host allows beyond.
	both(unix.RLIMIT_MEMLOCK, 8*mib)
	both(unix.RLIMIT_MSGQUEUE, 819200)
	both(unix.RLIMIT_SIGPENDING, 4096)
	// No better priority than the caller's, and no real-time scheduling at all.
	both(unix.RLIMIT_NICE, 0)
	both(unix.RLIMIT_RTPRIO, 0)
}
