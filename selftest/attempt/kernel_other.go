//go:build !amd64

package attempt

import "golang.org/x/sys/unix"

func int80(uint32) (uint32, bool) { return 0, false }

func notSwept() []uintptr {
	return []uintptr{
		unix.SYS_EXIT, unix.SYS_EXIT_GROUP, unix.SYS_RT_SIGRETURN, unix.SYS_CLONE, unix.SYS_SYNC, unix.SYS_UMASK,
		unix.SYS_VHANGUP, unix.SYS_SETSID, unix.SYS_SCHED_YIELD, unix.SYS_RESTART_SYSCALL, unix.SYS_MUNLOCKALL,
		unix.SYS_SET_TID_ADDRESS,
	}
}
