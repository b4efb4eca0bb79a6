package seccomp

import "golang.org/x/sys/unix"

// argTable is a call whose arguments decide.
type argTable struct {
	name   string
	rest   Action     // for what nothing below matches
	arg    uint8      // the argument that values compare, its low 32 bits
	values []argValue // or
	cases  []argCase
}

type argValue struct {
	value  uint32
	action tableAction
	why    string
}

type argCase struct {
	action tableAction
	why    string
	conds  []Cond
}

// tableAction is an Action whose zero value allows, so that a table of what is allowed need not repeat it.
type tableAction uint32

const refuse = tableAction(denyEPERM)

func (a tableAction) orAllow() Action {
	if a == 0 {
		return Allow
	}
	return Action(a)
}

const (
	errnoAction = unix.SECCOMP_RET_ERRNO

	// cloneNamespaces are the CLONE_NEW* bits of clone(2). CLONE_NEWTIME is not among them: its bit belongs to the exit
	// signal there, only clone3 and unshare take it.
	cloneNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
		unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

	// tmpfileBit is O_TMPFILE without the bit of O_DIRECTORY that it contains.
	tmpfileBit = unix.O_TMPFILE &^ unix.O_DIRECTORY

	// nodeMode are the bits of a mode that decide about mknod.
	nodeMode = unix.S_IFMT | unix.S_ISUID | unix.S_ISGID

	// sockType is the socket type without SOCK_CLOEXEC and SOCK_NONBLOCK.
	sockType = low32 &^ (unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK)
)

// Commands that golang.org/x/sys/unix does not name, <asm-generic/ioctls.h>.
const (
	fionread = 0x541B
	fionbio  = 0x5421
	fionclex = 0x5450
	fioclex  = 0x5451
	fioasync = 0x5452
)

// filtered lists the calls that are good or bad by their arguments. Every one of these arguments is 32 bits wide or
// narrower to the kernel, so every comparison masks.
var filtered = [...]argTable{
	// A thread with a descriptor table of its own would hide what it holds from init's watch, and from everyone who looks at
	// /proc/PID/fd, which is that of the first thread. No thread library makes one.
	{name: "clone", rest: denyEPERM, cases: []argCase{
		{0, "processes in the namespaces there are", []Cond{{0, MaskedEqual, cloneNamespaces | unix.CLONE_THREAD, 0}}},
		{0, "threads that share their descriptors", []Cond{{0, MaskedEqual, cloneNamespaces | unix.CLONE_FILES, unix.CLONE_FILES}}},
	}},
	// The same for a thread that there is already. Who asks for it knows kernels without close_range, whose first had this flag.
	{name: "close_range", rest: Allow, cases: []argCase{
		{errnoAction | tableAction(unix.ENOSYS), "a descriptor table of the thread's own",
			[]Cond{{2, MaskedEqual, unix.CLOSE_RANGE_UNSHARE, unix.CLOSE_RANGE_UNSHARE}}},
	}},
	{name: "socket", rest: denyEPERM, cases: []argCase{
		{0, "local stream", []Cond{{0, MaskedEqual, low32, unix.AF_UNIX}, {1, MaskedEqual, sockType, unix.SOCK_STREAM}, {2, MaskedEqual, low32, 0}}},
		{0, "local datagram", []Cond{{0, MaskedEqual, low32, unix.AF_UNIX}, {1, MaskedEqual, sockType, unix.SOCK_DGRAM}, {2, MaskedEqual, low32, 0}}},
		{0, "local packets", []Cond{{0, MaskedEqual, low32, unix.AF_UNIX}, {1, MaskedEqual, sockType, unix.SOCK_SEQPACKET}, {2, MaskedEqual, low32, 0}}},
		{0, "TCP", []Cond{{0, MaskedEqual, low32, unix.AF_INET}, {1, MaskedEqual, sockType, unix.SOCK_STREAM}, {2, MaskedEqual, low32, 0}}},
		{0, "TCP", []Cond{{0, MaskedEqual, low32, unix.AF_INET}, {1, MaskedEqual, sockType, unix.SOCK_STREAM}, {2, MaskedEqual, low32, unix.IPPROTO_TCP}}},
		{0, "UDP", []Cond{{0, MaskedEqual, low32, unix.AF_INET}, {1, MaskedEqual, sockType, unix.SOCK_DGRAM}, {2, MaskedEqual, low32, 0}}},
		{0, "UDP", []Cond{{0, MaskedEqual, low32, unix.AF_INET}, {1, MaskedEqual, sockType, unix.SOCK_DGRAM}, {2, MaskedEqual, low32, unix.IPPROTO_UDP}}},
		{0, "TCP", []Cond{{0, MaskedEqual, low32, unix.AF_INET6}, {1, MaskedEqual, sockType, unix.SOCK_STREAM}, {2, MaskedEqual, low32, 0}}},
		{0, "TCP", []Cond{{0, MaskedEqual, low32, unix.AF_INET6}, {1, MaskedEqual, sockType, unix.SOCK_STREAM}, {2, MaskedEqual, low32, unix.IPPROTO_TCP}}},
		{0, "UDP", []Cond{{0, MaskedEqual, low32, unix.AF_INET6}, {1, MaskedEqual, sockType, unix.SOCK_DGRAM}, {2, MaskedEqual, low32, 0}}},
		{0, "UDP", []Cond{{0, MaskedEqual, low32, unix.AF_INET6}, {1, MaskedEqual, sockType, unix.SOCK_DGRAM}, {2, MaskedEqual, low32, unix.IPPROTO_UDP}}},
		// The C library, Go, Node and Java list interfaces and addresses by route netlink.
		{0, "lists interfaces", []Cond{{0, MaskedEqual, low32, unix.AF_NETLINK}, {1, MaskedEqual, sockType, unix.SOCK_RAW}, {2, MaskedEqual, low32, unix.NETLINK_ROUTE}}},
		{0, "lists interfaces", []Cond{{0, MaskedEqual, low32, unix.AF_NETLINK}, {1, MaskedEqual, sockType, unix.SOCK_DGRAM}, {2, MaskedEqual, low32, unix.NETLINK_ROUTE}}},
		// su and its kin go on without audit only when the kernel says that it has none.
		{errnoAction | tableAction(unix.EPROTONOSUPPORT), "the kernel's audit", []Cond{{0, MaskedEqual, low32, unix.AF_NETLINK}, {2, MaskedEqual, low32, unix.NETLINK_AUDIT}}},
	}},
	{name: "socketpair", rest: denyEPERM, arg: 0, values: []argValue{
		{unix.AF_UNIX, 0, "pipes that go both ways"},
	}},
	{name: "setsockopt", rest: Allow, cases: []argCase{
		// Upper layer protocols (SMC, TLS, ...) load a module and turn a TCP socket into something else.
		{errnoAction | tableAction(unix.ENOPROTOOPT), "upper layer protocols over TCP",
			[]Cond{{1, MaskedEqual, low32, unix.IPPROTO_TCP}, {2, MaskedEqual, low32, unix.TCP_ULP}}},
	}},
	// What the command writes to a workspace belongs to its owner on the host, who may be root: no file there may get
	// the bits that make others run it as its owner or group. The mount's nosuid ends with the sandbox.
	{name: "chmod", rest: Allow, cases: setsMode(1)},
	{name: "fchmod", rest: Allow, cases: setsMode(1)},
	{name: "fchmodat", rest: Allow, cases: setsMode(2)},
	{name: "fchmodat2", rest: Allow, cases: setsMode(2)},
	{name: "creat", rest: Allow, cases: setsMode(1)},
	{name: "open", rest: Allow, cases: createsWithMode(1, 2)},
	{name: "openat", rest: Allow, cases: createsWithMode(2, 3)},
	// Character and block devices are what mknod is refused for, and the bits above.
	{name: "mknod", rest: denyEPERM, cases: []argCase{
		{0, "plain file", []Cond{{1, MaskedEqual, nodeMode, 0}}},
		{0, "plain file", []Cond{{1, MaskedEqual, nodeMode, unix.S_IFREG}}},
		{0, "named pipe", []Cond{{1, MaskedEqual, nodeMode, unix.S_IFIFO}}},
		{0, "socket", []Cond{{1, MaskedEqual, nodeMode, unix.S_IFSOCK}}},
	}},
	{name: "mknodat", rest: denyEPERM, cases: []argCase{
		{0, "plain file", []Cond{{2, MaskedEqual, nodeMode, 0}}},
		{0, "plain file", []Cond{{2, MaskedEqual, nodeMode, unix.S_IFREG}}},
		{0, "named pipe", []Cond{{2, MaskedEqual, nodeMode, unix.S_IFIFO}}},
		{0, "socket", []Cond{{2, MaskedEqual, nodeMode, unix.S_IFSOCK}}},
	}},
	// The flags left out undo randomisation (ADDR_NO_RANDOMIZE) or make all readable memory executable (READ_IMPLIES_EXEC).
	{name: "personality", rest: denyEPERM, arg: 0, values: []argValue{
		{0x00000000, 0, "PER_LINUX"},
		{0x00000008, 0, "PER_LINUX32 (setarch, linux32)"},
		{0x00020000, 0, "UNAME26"},
		{0x00020008, 0, "PER_LINUX32 with UNAME26"},
		{0xFFFFFFFF, 0, "asks for the current one"},
	}},
	// A filter on top can only take more away: the kernel obeys the strictest, and an errno outranks a listener's answer.
	// A listener is refused all the same, it would let a program decide for others by what it reads of their memory.
	{name: "seccomp", rest: denyEPERM, cases: []argCase{
		{0, "sandboxes itself further", []Cond{{1, MaskedEqual, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, 0}}},
	}},
	// Unknown commands answer as the kernel does, so that programs which probe for new ones go on.
	{name: "fcntl", rest: errnoAction | Action(unix.EINVAL), arg: 1, values: []argValue{
		{unix.F_DUPFD, 0, "duplicates a descriptor"},
		{unix.F_GETFD, 0, "close-on-exec"},
		{unix.F_SETFD, 0, "close-on-exec"},
		{unix.F_GETFL, 0, "status flags"},
		{unix.F_SETFL, 0, "status flags"},
		{unix.F_GETLK, 0, "record locks (sqlite)"},
		{unix.F_SETLK, 0, "record locks (sqlite)"},
		{unix.F_SETLKW, 0, "record locks (sqlite)"},
		{unix.F_SETOWN, 0, "who gets SIGIO"},
		{unix.F_GETOWN, 0, "who gets SIGIO"},
		{unix.F_SETSIG, 0, "which signal for SIGIO"},
		{unix.F_GETSIG, 0, "which signal for SIGIO"},
		{unix.F_SETOWN_EX, 0, "who gets SIGIO"},
		{unix.F_GETOWN_EX, 0, "who gets SIGIO"},
		{unix.F_OFD_GETLK, 0, "record locks of the open file"},
		{unix.F_OFD_SETLK, 0, "record locks of the open file"},
		{unix.F_OFD_SETLKW, 0, "record locks of the open file"},
		{unix.F_DUPFD_CLOEXEC, 0, "duplicates a descriptor"},
		{unix.F_DUPFD_QUERY, 0, "asks whether two are the same file"},
		{unix.F_SETPIPE_SZ, 0, "pipe size"},
		{unix.F_GETPIPE_SZ, 0, "pipe size"},
		{unix.F_ADD_SEALS, 0, "seals of a memfd"},
		{unix.F_GET_SEALS, 0, "seals of a memfd"},
		{unix.F_GET_RW_HINT, 0, "write lifetime (RocksDB)"},
		{unix.F_SET_RW_HINT, 0, "write lifetime (RocksDB)"},
		{unix.F_GET_FILE_RW_HINT, 0, "write lifetime (RocksDB)"},
		{unix.F_SET_FILE_RW_HINT, 0, "write lifetime (RocksDB)"},
		// Both tell the command what others do with a file of a read-only tree, and a lease makes them wait.
		{unix.F_SETLEASE, refuse, "leases hold up other openers"},
		{unix.F_NOTIFY, refuse, "old folder watches"},
	}},
	{name: "ioctl", rest: errnoAction | Action(unix.ENOTTY), arg: 1, values: ioctls},
	{name: "prctl", rest: errnoAction | Action(unix.EINVAL), arg: 0, values: prctls, cases: []argCase{
		// Without capabilities nothing can be raised; asking and clearing is what libcap does at start.
		{0, "asks for an ambient capability", []Cond{{0, MaskedEqual, low32, unix.PR_CAP_AMBIENT}, {1, MaskedEqual, low32, unix.PR_CAP_AMBIENT_IS_SET}}},
		{0, "clears ambient capabilities", []Cond{{0, MaskedEqual, low32, unix.PR_CAP_AMBIENT}, {1, MaskedEqual, low32, unix.PR_CAP_AMBIENT_CLEAR_ALL}}},
		{refuse, "raises an ambient capability", []Cond{{0, MaskedEqual, low32, unix.PR_CAP_AMBIENT}, {1, MaskedEqual, low32, unix.PR_CAP_AMBIENT_RAISE}}},
	}},
}

// setsMode refuses the set-user-ID and set-group-ID bits in the argument that is a file's mode.
func setsMode(mode uint8) []argCase {
	return []argCase{
		{refuse, "runs as its owner", []Cond{{mode, MaskedEqual, unix.S_ISUID, unix.S_ISUID}}},
		{refuse, "runs as its group", []Cond{{mode, MaskedEqual, unix.S_ISGID, unix.S_ISGID}}},
	}
}

// createsWithMode is setsMode for calls that look at the mode only where the flags make a file.
func createsWithMode(flags, mode uint8) []argCase {
	named, nameless := Cond{flags, MaskedEqual, unix.O_CREAT, unix.O_CREAT}, Cond{flags, MaskedEqual, tmpfileBit, tmpfileBit}
	owner, group := Cond{mode, MaskedEqual, unix.S_ISUID, unix.S_ISUID}, Cond{mode, MaskedEqual, unix.S_ISGID, unix.S_ISGID}
	return []argCase{
		{refuse, "new file that runs as its owner", []Cond{named, owner}},
		{refuse, "new file that runs as its group", []Cond{named, group}},
		{refuse, "nameless file that runs as its owner", []Cond{nameless, owner}},
		{refuse, "nameless file that runs as its group", []Cond{nameless, group}},
	}
}

// ioctls are exact commands. All others answer ENOTTY, which is what a descriptor that does not know a command says:
// cp goes on without FICLONE, and a driver's own commands (block, loop, tun, kvm, ...) are out of reach.
var ioctls = []argValue{
	{unix.TCGETS, 0, "terminal settings; isatty"},
	{unix.TCSETS, 0, "terminal settings"},
	{unix.TCSETSW, 0, "terminal settings"},
	{unix.TCSETSF, 0, "terminal settings"},
	{unix.TCGETS2, 0, "terminal settings; isatty of newer C libraries"},
	{unix.TCSETS2, 0, "terminal settings"},
	{unix.TCSETSW2, 0, "terminal settings"},
	{unix.TCSETSF2, 0, "terminal settings"},
	{unix.TCSBRK, 0, "tcdrain, tcsendbreak"},
	{unix.TCSBRKP, 0, "tcsendbreak"},
	{unix.TCXONC, 0, "tcflow"},
	{unix.TCFLSH, 0, "tcflush"},
	{unix.TIOCGWINSZ, 0, "window size"},
	{unix.TIOCSWINSZ, 0, "window size"},
	{unix.TIOCGPGRP, 0, "job control"},
	{unix.TIOCSPGRP, 0, "job control"},
	{unix.TIOCGSID, 0, "job control"},
	{unix.TIOCSCTTY, 0, "controlling terminal of a new session"},
	{unix.TIOCNOTTY, 0, "gives up the controlling terminal"},
	{unix.TIOCOUTQ, 0, "bytes not yet sent"},
	{unix.TIOCPKT, 0, "packet mode of a pty it made"},
	{unix.TIOCGPTN, 0, "makes a pty"},
	{unix.TIOCSPTLCK, 0, "makes a pty"},
	{unix.TIOCGPTLCK, 0, "makes a pty"},
	{unix.TIOCGPTPEER, 0, "makes a pty"},
	{fionread, 0, "bytes to read"},
	{fionbio, 0, "non-blocking"},
	{fioasync, 0, "SIGIO"},
	{fioclex, 0, "close-on-exec"},
	{fionclex, 0, "close-on-exec"},
	{unix.SIOCATMARK, 0, "urgent data"},
	{unix.SIOCGIFNAME, 0, "reads interfaces"},
	{unix.SIOCGIFCONF, 0, "reads interfaces"},
	{unix.SIOCGIFFLAGS, 0, "reads interfaces"},
	{unix.SIOCGIFADDR, 0, "reads interfaces"},
	{unix.SIOCGIFDSTADDR, 0, "reads interfaces"},
	{unix.SIOCGIFBRDADDR, 0, "reads interfaces"},
	{unix.SIOCGIFNETMASK, 0, "reads interfaces"},
	{unix.SIOCGIFMTU, 0, "reads interfaces"},
	{unix.SIOCGIFHWADDR, 0, "reads interfaces"},
	{unix.SIOCGIFINDEX, 0, "reads interfaces"},
	{unix.TIOCSTI, refuse, "types into the terminal for the user (CVE-2017-5226)"},
	{unix.TIOCLINUX, refuse, "pastes into a virtual console (CVE-2023-28100)"},
	{unix.TIOCCONS, refuse, "takes the machine's console"},
	{unix.TIOCSETD, refuse, "loads a line discipline into the kernel"},
}

// prctls are options. Unknown ones answer EINVAL as the kernel does, those refused for what they do EPERM.
var prctls = []argValue{
	{unix.PR_SET_NAME, 0, "thread names"},
	{unix.PR_GET_NAME, 0, "thread names"},
	{unix.PR_SET_PDEATHSIG, 0, "dies with its parent"},
	{unix.PR_GET_PDEATHSIG, 0, "dies with its parent"},
	{unix.PR_SET_DUMPABLE, 0, "keeps its own memory private (ssh-agent, gpg)"},
	{unix.PR_GET_DUMPABLE, 0, "asks"},
	{unix.PR_SET_KEEPCAPS, 0, "servers that change user"},
	{unix.PR_GET_KEEPCAPS, 0, "asks"},
	{unix.PR_GET_SECCOMP, 0, "asks"},
	{unix.PR_SET_SECCOMP, 0, "sandboxes itself further"},
	{unix.PR_CAPBSET_READ, 0, "asks"},
	{unix.PR_GET_SECUREBITS, 0, "asks"},
	{unix.PR_GET_TIMING, 0, "asks"},
	{unix.PR_GET_TSC, 0, "asks"},
	{unix.PR_MCE_KILL_GET, 0, "asks"},
	{unix.PR_GET_TID_ADDRESS, 0, "asks"},
	{unix.PR_GET_AUXV, 0, "asks"},
	{unix.PR_GET_SPECULATION_CTRL, 0, "asks"},
	{unix.PR_GET_IO_FLUSHER, 0, "asks"},
	{unix.PR_SET_TIMERSLACK, 0, "coarser timers"},
	{unix.PR_GET_TIMERSLACK, 0, "asks"},
	{unix.PR_SET_CHILD_SUBREAPER, 0, "inherits orphans (supervisors, systemd-run)"},
	{unix.PR_GET_CHILD_SUBREAPER, 0, "asks"},
	{unix.PR_SET_NO_NEW_PRIVS, 0, "sandboxes itself further; already set"},
	{unix.PR_GET_NO_NEW_PRIVS, 0, "asks"},
	{unix.PR_SET_THP_DISABLE, 0, "huge pages (Java, Redis, Go)"},
	{unix.PR_GET_THP_DISABLE, 0, "huge pages"},
	{unix.PR_SET_VMA, 0, "names for memory (Go, glibc, Android)"},
	{unix.PR_SET_MDWE, 0, "sandboxes itself further"},
	{unix.PR_GET_MDWE, 0, "asks"},
	{unix.PR_SVE_SET_VL, 0, "vector length of arm64"},
	{unix.PR_SVE_GET_VL, 0, "vector length of arm64"},
	{unix.PR_SME_SET_VL, 0, "matrix extension of arm64"},
	{unix.PR_SME_GET_VL, 0, "matrix extension of arm64"},
	{unix.PR_PAC_RESET_KEYS, 0, "pointer authentication of arm64"},
	{unix.PR_PAC_SET_ENABLED_KEYS, 0, "pointer authentication of arm64"},
	{unix.PR_PAC_GET_ENABLED_KEYS, 0, "pointer authentication of arm64"},
	{unix.PR_SET_TAGGED_ADDR_CTRL, 0, "memory tagging of arm64 (glibc)"},
	{unix.PR_GET_TAGGED_ADDR_CTRL, 0, "memory tagging of arm64"},
	{unix.PR_SET_MM, refuse, "rewrites what /proc says about the process"},
	{unix.PR_SET_SECUREBITS, refuse, "what being root means"},
	{unix.PR_CAPBSET_DROP, refuse, "needs a capability nobody here has"},
	{unix.PR_SET_PTRACER, refuse, "invites a tracer"},
	{unix.PR_MCE_KILL, refuse, "memory error policy"},
	{unix.PR_SET_SPECULATION_CTRL, refuse, "turns processor mitigations off"},
}
