package attempt

import "fmt"

// PrivilegedCalls have arguments with which none of them does anything when it gets through.
func PrivilegedCalls() []string {
	calls := []string{
		"bpf 99 bad 0", "perf_event_open bad 0 -1 -1 0", "userfaultfd 0xffff", "io_uring_setup 0 bad", "io_uring_enter -1 0 0 0 bad 0", "io_uring_register -1 0 bad 0",
		"keyctl 99 0 0 0 0", "add_key bad bad bad 0 0", "request_key bad bad bad 0", "kexec_load 0 1 bad 0", "kexec_file_load -1 -1 0 bad 0",
		"init_module bad 0 bad", "finit_module -1 bad 0", "delete_module bad 0", "reboot 0 0 0 0", "swapon bad 0", "swapoff bad", "acct bad",
		"quotactl 0 bad 0 bad", "quotactl_fd -1 0 0 bad", "settimeofday bad 0", "clock_settime 0 bad", "clock_adjtime 0 bad", "adjtimex bad", "syslog 99 bad 0", "lookup_dcookie 0 bad 0",
		"mbind 0 0 99 bad 0 0xffff", "set_mempolicy 99 bad 0", "set_mempolicy_home_node 0 0 0 1", "move_pages 0 1 bad bad bad 0", "migrate_pages 0 0 bad bad",
		"fanotify_init 0xffffffff 0", "fanotify_mark -1 0 0 -1 bad", "nfsservctl 0 bad bad", "lsm_set_self_attr 0 bad 0 0",
		"statmount bad bad 0 0", "listmount bad bad 0 0", "listns bad bad 0 0", "process_mrelease -1 0", "sethostname bad 1", "setdomainname bad 1",
		// Without arguments, so only inside: it hangs up the own terminal of whoever gets through.
		"vhangup",
	}
	return syscalls(append(calls, ArchRefused()...))
}

// MountCalls are those that change or describe mounts, with arguments that no kernel accepts.
func MountCalls() []string {
	return syscalls([]string{
		"mount bad bad bad 0 bad", "umount2 bad 0", "pivot_root bad bad", "move_mount -1 bad -1 bad 0", "fsopen bad 0",
		"fsconfig -1 0 bad bad 0", "fsmount -1 0 0", "fspick -1 bad 0", "open_tree -1 bad 0", "mount_setattr -1 bad 0 bad 0", "open_tree_attr -1 bad 0 bad 0",
	})
}

// NewNamespaces ask for each namespace there is, by unshare(2) and by clone(2), the latter with a user namespace and without.
func NewNamespaces() []string {
	var tries []string
	// CLONE_NEWTIME, NS, CGROUP, UTS, IPC, USER, PID, NET of <linux/sched.h>
	for _, bit := range []uint64{0x80, 0x20000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000} {
		tries = append(tries, Syscall(fmt.Sprintf("unshare %#x", bit)))
		if bit != 0x80 { // CSIGNAL bits for clone(2)
			tries = append(tries, fmt.Sprintf("clone %#x", bit), fmt.Sprintf("clone %#x", bit|0x10000000))
		}
	}
	return tries
}

// OwnTables ask for a thread with a descriptor table of its own, in a way that every kernel refuses with EINVAL.
func OwnTables() []string {
	return syscalls([]string{"clone 0x10000", "close_range 2 1 2", "close_range 2 1 6", "close_range 2 1 0x100000002"})
}

// HighBits set the bits that the kernel ignores in an int argument and a naive filter compares.
func HighBits() []string {
	var tries []string
	for bit := 32; bit < 64; bit++ {
		high := uint64(1) << bit
		for _, call := range []string{"socket %d 1 0", "socketpair %d 1 0 bad"} {
			tries = append(tries, Syscall(fmt.Sprintf(call, high|0x26))) // AF_ALG
		}
		tries = append(tries,
			Syscall(fmt.Sprintf("socket %d 1 0", high|40)),         // AF_VSOCK
			Syscall(fmt.Sprintf("socket 2 1 %d", high|262)),        // IPPROTO_MPTCP
			Syscall(fmt.Sprintf("socket 2 %d 1", high|3)),          // SOCK_RAW
			Syscall(fmt.Sprintf("personality %d", high|0x0400000)), // READ_IMPLIES_EXEC
			fmt.Sprintf("clone %d", high|0x10000000),
			fmt.Sprintf("tty-ioctl 0 %d 1", high|0x5412), // TIOCSTI
			Syscall(fmt.Sprintf("prctl %d 1 1 0 0", high|35)),
		)
	}
	return tries
}

// Prctls would loosen what a process is held to.
func Prctls() []string {
	return syscalls([]string{
		"prctl 35 1 bad 0 0",       // PR_SET_MM, START_CODE
		"prctl 28 0x15 0 0 0",      // PR_SET_SECUREBITS
		"prctl 47 2 0 0 0",         // PR_CAP_AMBIENT, RAISE CAP_CHOWN
		"prctl 0x59616d61 1 0 0 0", // PR_SET_PTRACER
		"prctl 24 64 0 0 0",        // PR_CAPBSET_DROP of no capability
		"prctl 38 0 0 0 0",         // PR_SET_NO_NEW_PRIVS off
		"prctl 8 1 0 0 0",          // PR_SET_KEEPCAPS
	})
}

// Protocols are sockets of families that are there and protocols that are not.
func Protocols() []string {
	var tries []string
	for _, s := range []string{"2 1 262", "10 1 262", "2 1 132", "2 5 132", "2 2 136", "2 2 1", "10 2 58", "2 3 1", "2 3 255", "10 3 58", "2 6 33"} {
		tries = append(tries, Syscall("socket "+s))
	}
	return tries
}

func syscalls(calls []string) []string {
	var tries []string
	for _, c := range calls {
		tries = append(tries, Syscall(c))
	}
	return tries
}
