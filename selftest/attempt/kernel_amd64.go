package attempt

import "golang.org/x/sys/unix"

// int80 enters the kernel by the 32-bit gate.
func int80sys(nr uint32) uint32

func int80(nr uint32) (uint32, bool) { return int80sys(nr), true }

func notSwept() []uintptr {
	return []uintptr{
		unix.SYS_EXIT, unix.SYS_EXIT_GROUP, unix.SYS_RT_SIGRETURN, unix.SYS_PAUSE, unix.SYS_FORK, unix.SYS_VFORK,
		unix.SYS_CLONE, unix.SYS_SYNC, unix.SYS_ALARM, unix.SYS_UMASK, unix.SYS_VHANGUP, unix.SYS_SETSID,
		unix.SYS_SCHED_YIELD, unix.SYS_RESTART_SYSCALL, unix.SYS_MUNLOCKALL, unix.SYS_SET_TID_ADDRESS,
		335, 336, // uretprobe and uprobe pass by every filter and answer strangers with SIGILL
	}
}
