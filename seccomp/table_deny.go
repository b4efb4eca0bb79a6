package seccomp

import "golang.org/x/sys/unix"

// refusal is a group that is refused with an errno of its own.
type refusal struct {
	errno unix.Errno
	group
}

// denied lists what is refused by name. EPERM is for calls that have always needed privilege: programs know that answer
// and print it. ENOSYS, the default, is spelled out where someone will look for the call here.
var denied = [...]refusal{
	{unix.EPERM, group{"changes the mount tree, and with it what every path means", []string{
		"mount", "umount2", "pivot_root", "chroot", "fsopen", "fsconfig", "fsmount", "fspick", "open_tree",
		"open_tree_attr", "move_mount", "mount_setattr",
	}}},
	{unix.EPERM, group{"enters or makes namespaces, where kernel code meant for root becomes reachable", []string{
		"setns", "unshare",
	}}},
	{unix.EPERM, group{"reads or steers another process; a tracer could also run calls past this filter", []string{
		"ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd", "kcmp",
	}}},
	{unix.EPERM, group{"loads code into the kernel", []string{
		"init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "bpf",
	}}},
	{unix.EPERM, group{"watches the kernel and other processes", []string{
		"perf_event_open", "syslog", "lookup_dcookie", "fanotify_init", "fanotify_mark",
	}}},
	{unix.EPERM, group{"the kernel's keyrings are not bounded by namespaces", []string{
		"add_key", "request_key", "keyctl",
	}}},
	{unix.EPERM, group{"opens files by handle, past every folder above them", []string{
		"name_to_handle_at", "open_by_handle_at",
	}}},
	{unix.EPERM, group{"sets the machine's clock", []string{
		"settimeofday", "clock_settime", "adjtimex", "clock_adjtime",
	}}},
	{unix.EPERM, group{"administers the machine", []string{
		"reboot", "swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "sethostname", "setdomainname", "vhangup",
		"lsm_set_self_attr",
	}}},
	{unix.EPERM, group{"touches hardware or the processor's segments", []string{"iopl", "ioperm", "modify_ldt"}}},
	{unix.EPERM, group{"places memory on other nodes, also another process's", []string{
		"mbind", "set_mempolicy", "set_mempolicy_home_node", "move_pages", "migrate_pages",
	}}},
	{unix.EPERM, group{"lets a program stop the kernel in the middle of a copy, which exploits of races need", []string{
		"userfaultfd",
	}}},
	{unix.EPERM, group{"loads a library the way of 1993", []string{"uselib"}}},

	// The flags of clone3 lie in memory, out of a filter's sight; glibc falls back to clone on ENOSYS and on nothing else.
	{unix.ENOSYS, group{"its flags cannot be seen by a filter; clone does the same", []string{"clone3"}}},
	// The mode lies in memory here too; nobody makes files by openat2 without the older way round.
	{unix.ENOSYS, group{"the mode of what it makes cannot be seen by a filter; openat does the same", []string{"openat2"}}},
	// Operations of io_uring pass no filter. libuv and others probe for it, so it must be an errno and never a kill.
	{unix.ENOSYS, group{"its operations pass no filter; programs fall back to epoll", []string{
		"io_uring_setup", "io_uring_enter", "io_uring_register",
	}}},
	{unix.ENOSYS, group{"rarely used, with a history of kernel bugs", []string{
		"io_setup", "io_destroy", "io_getevents", "io_pgetevents", "io_submit", "io_cancel", "vmsplice",
		"remap_file_pages", "memfd_secret", "process_mrelease",
	}}},
	// Answering would only make libnuma go on to set what is refused.
	{unix.ENOSYS, group{"reads memory placement; libnuma then sees a machine of one node", []string{"get_mempolicy"}}},
	{unix.ENOSYS, group{"lists mounts and namespaces", []string{"statmount", "listmount", "listns"}}},
}
