package attempt

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

func kernelAttempt(name string) Func {
	switch name {
	case "syscall":
		return func(a []string) (int64, string, error) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			args := make([]uintptr, len(a))
			for i := range a {
				args[i] = Number(a[i])
			}
			r, err := Call(args[0], args[1:]...)
			return r, "", err
		}
	case "sweep":
		return sweep
	case "families":
		return families
	case "int80":
		return func([]string) (int64, string, error) {
			r, ok := int80(20) // __NR_getpid of the 32-bit table
			if !ok {
				return -1, "no 32-bit entry on this architecture", unix.ENOSYS
			}
			if int32(r) < 0 {
				return -1, "", unix.Errno(-int32(r))
			}
			return int64(r), "", nil
		}
	case "positive":
		return positive
	case "listener":
		// A whole, valid program that allows everything: only a filter can refuse it.
		return func([]string) (int64, string, error) {
			insn := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}}
			prog := unix.SockFprog{Len: 1, Filter: &insn[0]}
			r, err := Call(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&prog)))
			return r, "", err
		}
	case "loosen":
		return loosen
	}
	return nil
}

// sweep FROM TO: every number with arguments that no call can use; what would end, block or fork the
// probe is left out by name. Detail counts the answers: "ENOSYS 100-200,203 EPERM 5".
func sweep(a []string) (int64, string, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	answers := map[string][]int{}
	n := 0
	bad := ^uintptr(0)
	for nr := int(Number(a[0])); nr <= int(Number(a[1])); nr++ {
		if slices.Contains(notSwept(), uintptr(nr)) {
			continue
		}
		n++
		_, err := Call(uintptr(nr), bad, bad, bad, bad, bad, bad)
		name := "OK"
		if err != nil {
			name = ErrnoName(err)
		}
		answers[name] = append(answers[name], nr)
	}
	var b strings.Builder
	for name, list := range answers {
		fmt.Fprintf(&b, "%s", name)
		for _, nr := range list {
			fmt.Fprintf(&b, " %d", nr)
		}
		fmt.Fprintln(&b)
	}
	return int64(n), b.String(), nil
}

// families: every address family with every type; detail names the ones that gave a socket
func families([]string) (int64, string, error) {
	types := []struct {
		name string
		typ  int
	}{{"stream", unix.SOCK_STREAM}, {"dgram", unix.SOCK_DGRAM}, {"raw", unix.SOCK_RAW}, {"seqpacket", unix.SOCK_SEQPACKET}}
	var b strings.Builder
	n := 0
	for family := range 64 {
		for _, t := range types {
			fd, err := unix.Socket(family, t.typ|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				continue
			}
			unix.Close(fd)
			n++
			fmt.Fprintf(&b, "%d/%s\n", family, t.name)
		}
	}
	return int64(n), b.String(), nil
}

// loosen adds a filter that allows everything and asks for a denied call afterwards.
func loosen([]string) (int64, string, error) {
	runtime.LockOSThread()
	insn := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}}
	prog := unix.SockFprog{Len: 1, Filter: &insn[0]}
	_, added := Call(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(insn)
	r, err := Call(unix.SYS_UNSHARE, unix.CLONE_NEWUSER)
	return r, fmt.Sprintf("filter added: %v", added), err
}

// positive makes the calls that workloads need and names the ones that failed.
func positive([]string) (int64, string, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var failed []string
	n := 0
	check := func(name string, err error, accepted ...error) {
		n++
		if err != nil && !slices.Contains(accepted, err) {
			failed = append(failed, name+" "+ErrnoName(err))
		}
	}
	fd, err := unix.MemfdCreate("probe", unix.MFD_CLOEXEC)
	check("memfd_create", err)
	unix.Close(fd)
	fd, err = unix.PidfdOpen(unix.Getpid(), 0)
	check("pidfd_open", err)
	check("pidfd_send_signal", unix.PidfdSendSignal(fd, 0, nil, 0))
	unix.Close(fd)
	fd, err = unix.InotifyInit1(unix.IN_CLOEXEC)
	check("inotify_init1", err)
	unix.Close(fd)
	fd, err = unix.Eventfd(0, unix.EFD_CLOEXEC)
	check("eventfd2", err)
	unix.Close(fd)
	fd, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC)
	check("timerfd_create", err)
	unix.Close(fd)
	var set unix.CPUSet
	check("sched_getaffinity", unix.SchedGetaffinity(0, &set))
	var cpu uint32
	_, err = Call(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), 0, 0)
	check("getcpu", err)
	_, err = Call(unix.SYS_MEMBARRIER, 0, 0) // MEMBARRIER_CMD_QUERY
	check("membarrier", err)
	_, err = Call(unix.SYS_RSEQ, BadPointer, 0, 0, 0)
	check("rseq", err, unix.EINVAL, unix.EFAULT)
	_, err = Call(unix.SYS_SET_ROBUST_LIST, 0, 24)
	check("set_robust_list", err)
	_, err = Call(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, 1) // LANDLOCK_CREATE_RULESET_VERSION
	check("landlock_create_ruleset", err)
	var st unix.Statx_t
	check("statx", unix.Statx(unix.AT_FDCWD, "/", 0, unix.STATX_BASIC_STATS, &st))
	_, err = unix.Getrandom(make([]byte, 8), 0)
	check("getrandom", err)
	// Programs that use it do without where it is missing.
	_, err = unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC})
	check("openat2", err, unix.ENOSYS)
	check("close_range", unix.CloseRange(1000, 2000, 0))
	_, err = Call(unix.SYS_PRCTL, unix.PR_SET_NAME, BadPointer)
	check("prctl(PR_SET_NAME)", err, unix.EFAULT)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	check("socketpair", err)
	unix.Close(pair[0])
	unix.Close(pair[1])
	return int64(n), strings.Join(failed, "\n"), nil
}
