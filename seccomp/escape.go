package seccomp

import "golang.org/x/sys/unix"

// Escape says whether r is a call that no ordinary program makes, so that it counts as an attempt to get
// out. docs/syscalls.md has the table. What runtimes try by habit is none: io_uring, clone3, rseq, perf
// events, a scheduling policy or memory policy that is refused.
func (r Refusal) Escape() bool {
	arg := func(i int) uint32 { return uint32(r.Args[i]) }
	switch r.NR {
	case unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG,
		unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_MOUNT_SETATTR:
		return true // another view of the file system
	case unix.SYS_SETNS, unix.SYS_UNSHARE:
		return true // other namespaces
	case unix.SYS_CLONE:
		return arg(0)&cloneNamespaces != 0
	case unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP:
		return true // other processes
	case unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_FANOTIFY_INIT, unix.SYS_QUOTACTL, unix.SYS_ACCT:
		return true // files past their paths, and other people's
	case unix.SYS_BPF, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD,
		unix.SYS_KEXEC_FILE_LOAD, unix.SYS_USERFAULTFD, unix.SYS_SYSLOG, unix.SYS_LOOKUP_DCOOKIE:
		return true // the kernel
	case unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME,
		unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_VHANGUP:
		return true // the machine
	case unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL:
		return true // the caller's keys
	case unix.SYS_MKNODAT:
		return true // refused for devices alone
	case unix.SYS_SECCOMP:
		return true // refused for a listener alone
	case unix.SYS_SOCKET:
		switch arg(0) {
		case unix.AF_UNIX, unix.AF_INET, unix.AF_INET6:
			return arg(1)&0xf == unix.SOCK_RAW || arg(1)&0xf == unix.SOCK_PACKET
		case unix.AF_NETLINK:
			return false // audit and uevent listeners ask at their start
		}
		return true
	case unix.SYS_IOCTL:
		switch arg(1) {
		case unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCCONS, unix.TIOCSETD:
			return true // the terminal of whoever looks on
		}
	case unix.SYS_PRCTL:
		switch arg(0) {
		case unix.PR_SET_MM, unix.PR_SET_PTRACER, unix.PR_CAP_AMBIENT, unix.PR_SET_SECUREBITS:
			return true
		}
	}
	return escapeOfArch(r.NR)
}
