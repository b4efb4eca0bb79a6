package seccomp

// group is a set of calls that share a verdict whatever their arguments, and the reason for it.
type group struct {
	why   string
	names []string
}

// allowed lists what programs do in an ordinary day. What is not here, in denied or in filtered answers ENOSYS, as a
// kernel without the call would: the C library then takes the older way round.
var allowed = [...]group{
	{"opens and closes files; where to is for mounts and Landlock to decide", []string{
		"close", // close_range depends on its flags; open, openat and creat on the mode of what they make
	}},
	{"reads and writes what is open", []string{
		"read", "write", "readv", "writev", "pread64", "pwrite64", "preadv", "pwritev", "preadv2", "pwritev2", "lseek",
	}},
	// splice and tee: Go's net package gives up when splice is missing. vmsplice has few users and a history of
	// kernel bugs, so it stays out.
	{"copies between files, pipes and sockets without a buffer (cp, Go, Rust, nginx)", []string{
		"sendfile", "copy_file_range", "splice", "tee",
	}},
	{"flushes, sizes and locks files (databases, git, package managers)", []string{
		"fsync", "fdatasync", "sync", "syncfs", "sync_file_range", "truncate", "ftruncate", "fallocate", "flock",
		"readahead", "fadvise64", "cachestat",
	}},
	{"looks at files and folders", []string{
		"stat", "fstat", "lstat", "newfstatat", "statx", "access", "faccessat", "faccessat2", "readlink", "readlinkat",
		"statfs", "fstatfs", "getdents", "getdents64", "getcwd", "chdir", "fchdir", "umask",
	}},
	{"makes, renames and removes files and folders", []string{
		"mkdir", "mkdirat", "rmdir", "rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat",
		"unlink", "unlinkat",
	}},
	// chmod and its kin depend on the mode.
	{"changes owners and times of its own files (tar, make, pip); the user namespace bounds the owners", []string{
		"chown", "fchown", "lchown", "fchownat", "utime", "utimes",
		"futimesat", "utimensat",
	}},
	{"reads and writes extended attributes (cp -a, ls, tar)", []string{
		"getxattr", "lgetxattr", "fgetxattr", "listxattr", "llistxattr", "flistxattr", "setxattr", "lsetxattr",
		"fsetxattr", "removexattr", "lremovexattr", "fremovexattr",
	}},
	{"duplicates descriptors and makes pipes", []string{"dup", "dup2", "dup3", "pipe", "pipe2"}},
	{"waits for descriptors and events; every event loop", []string{
		"poll", "ppoll", "select", "pselect6", "epoll_create", "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait",
		"epoll_pwait2", "eventfd", "eventfd2", "signalfd", "signalfd4", "timerfd_create", "timerfd_settime",
		"timerfd_gettime", "inotify_init", "inotify_init1", "inotify_add_watch", "inotify_rm_watch",
	}},
	// PROT_EXEC stays free: the dynamic loader and every just-in-time compiler need it.
	{"manages its own memory", []string{
		"brk", "mmap", "munmap", "mprotect", "mremap", "madvise", "mincore", "msync", "mlock", "mlock2", "mlockall",
		"munlock", "munlockall", "membarrier", "pkey_alloc", "pkey_free", "pkey_mprotect", "map_shadow_stack",
	}},
	// A memfd can be executed. So can any file in the workspace, and it gains nothing by it.
	{"anonymous shared memory (V8, Wayland, Python's multiprocessing)", []string{"memfd_create"}},
	{"starts processes and threads; see clone for the flags", []string{
		"fork", "vfork", "execve", "execveat", "set_tid_address", "set_robust_list", "get_robust_list", "rseq",
		"arch_prctl", "futex", "futex_waitv",
	}},
	{"ends and waits", []string{"exit", "exit_group", "wait4", "waitid"}},
	// kill and its kin reach only what the process namespace shows.
	{"sends and takes signals", []string{
		"rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigpending", "rt_sigtimedwait", "rt_sigsuspend",
		"rt_sigqueueinfo", "rt_tgsigqueueinfo", "sigaltstack", "kill", "tkill", "tgkill", "pidfd_open",
		"pidfd_send_signal", "pause", "restart_syscall",
	}},
	{"asks who it is, and job control", []string{
		"getpid", "getppid", "gettid", "getuid", "geteuid", "getgid", "getegid", "getresuid", "getresgid", "getgroups",
		"getpgid", "getpgrp", "getsid", "setpgid", "setsid", "capget",
	}},
	// The command has no capability and no_new_privs: it can give up rights, or keep those it has.
	{"drops rights, as su, sudo, servers and test suites do", []string{
		"setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setfsuid", "setfsgid", "setgroups", "capset",
	}},
	{"reads clocks, sleeps and sets timers", []string{
		"clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep", "gettimeofday", "time", "times", "alarm",
		"getitimer", "setitimer", "timer_create", "timer_settime", "timer_gettime", "timer_getoverrun", "timer_delete",
	}},
	// More than one's share takes CAP_SYS_NICE or a RLIMIT_RTPRIO above 0; neither is given.
	{"schedules its own threads (Java, Go, OpenMP)", []string{
		"sched_yield", "sched_getaffinity", "sched_setaffinity", "sched_getparam", "sched_setparam",
		"sched_getscheduler", "sched_setscheduler", "sched_getattr", "sched_setattr", "sched_get_priority_max",
		"sched_get_priority_min", "sched_rr_get_interval", "getpriority", "setpriority", "ioprio_get", "ioprio_set", "getcpu",
	}},
	{"reads limits and lowers them; raising a hard limit takes CAP_SYS_RESOURCE", []string{
		"getrlimit", "setrlimit", "prlimit64", "getrusage", "sysinfo", "uname",
	}},
	{"random bytes", []string{"getrandom"}},
	{"uses sockets it has; see socket for the families", []string{
		"bind", "connect", "listen", "accept", "accept4", "getsockname", "getpeername", "shutdown", "sendto", "sendmsg",
		"sendmmsg", "recvfrom", "recvmsg", "recvmmsg", "getsockopt",
	}},
	// A fresh IPC namespace holds nothing but the command's own.
	{"System V and POSIX queues, semaphores and shared memory (PostgreSQL, Python)", []string{
		"shmget", "shmat", "shmdt", "shmctl", "semget", "semop", "semtimedop", "semctl", "msgget", "msgsnd", "msgrcv",
		"msgctl", "mq_open", "mq_unlink", "mq_timedsend", "mq_timedreceive", "mq_notify", "mq_getsetattr",
	}},
	{"sandboxes itself further", []string{
		"landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self",
	}},
}
