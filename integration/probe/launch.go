package main

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// launch OPTION... -- PATH ARG... becomes PATH as a careless or hostile parent would start it:
//
//	ignore=SIGNAL   with the signal ignored
//	block=SIGNAL    with the signal blocked
//	close=FD        without the descriptor
//	path=FD:PATH    with an O_PATH descriptor of PATH
//	nofile=N, stack=N, fsize=N, nproc=N, core=N, as=N  with that limit
//	gone=DIR        in a working directory that was removed
//	umask=OCTAL
//	refuse=NR:ERRNO[:MASK]    behind a filter that refuses a system call, with MASK only where its first argument has one of
//	                          these bits: as a container's profile does it, or a kernel without what the call is for
func launch(a []string) int {
	runtime.LockOSThread()
	var closed []int
	for len(a) > 0 && a[0] != "--" {
		option, value, _ := strings.Cut(a[0], "=")
		a = a[1:]
		var err error
		switch option {
		case "ignore":
			signal.Ignore(unix.SignalNum(value))
		case "block":
			set := uint64(1) << (unix.SignalNum(value) - 1)
			_, err = call(unix.SYS_RT_SIGPROCMASK, unix.SIG_BLOCK, uintptr(unsafe.Pointer(&set)), 0, 8)
		case "close":
			closed = append(closed, int(number(value)))
		case "path":
			fd, path, _ := strings.Cut(value, ":")
			var opened int
			if opened, err = unix.Open(path, unix.O_PATH, 0); err == nil {
				err = unix.Dup3(opened, int(number(fd)), 0)
			}
		case "nofile", "stack", "fsize", "nproc", "core", "as":
			resource := map[string]int{"nofile": unix.RLIMIT_NOFILE, "stack": unix.RLIMIT_STACK, "fsize": unix.RLIMIT_FSIZE, "nproc": unix.RLIMIT_NPROC, "core": unix.RLIMIT_CORE, "as": unix.RLIMIT_AS}[option]
			n := uint64(number(value))
			err = unix.Setrlimit(resource, &unix.Rlimit{Cur: n, Max: n})
		case "gone":
			if err = os.Mkdir(value, 0o755); err == nil {
				if err = os.Chdir(value); err == nil {
					err = os.Remove(value)
				}
			}
		case "refuse":
			err = refuse(strings.Split(value, ":"))
		case "umask":
			unix.Umask(int(number("0" + value)))
		default:
			err = fmt.Errorf("unknown option")
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "probe: %s=%s: %v\n", option, value, err)
			return 2
		}
	}
	if len(a) < 2 {
		fmt.Fprintln(os.Stderr, "probe: launch: no program")
		return 2
	}
	for _, fd := range closed {
		_ = unix.Close(fd)
	}
	err := syscall.Exec(a[1], a[1:], os.Environ())
	fmt.Fprintln(os.Stderr, "probe: exec:", err)
	return 2
}

// refuse loads a filter for one call. Arguments of 64 bits are little endian on all that gobox runs on.
func refuse(a []string) error {
	if len(a) < 2 {
		return unix.EINVAL
	}
	errno := uint32(0)
	for e := unix.Errno(1); e < 134; e++ {
		if unix.ErrnoName(e) == a[1] {
			errno = uint32(e)
		}
	}
	if errno == 0 {
		return fmt.Errorf("no errno %s", a[1])
	}
	mask := uint32(0)
	if len(a) > 2 {
		mask = uint32(number(a[2]))
	}
	const nr, arg0 = 0, 16 // offsets in struct seccomp_data
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	ret := func(action uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
	}
	filter := []unix.SockFilter{
		load(nr),
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(number(a[0])), Jt: 1},
		ret(unix.SECCOMP_RET_ALLOW),
		load(arg0),
		{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: mask, Jt: 1},
		ret(unix.SECCOMP_RET_ALLOW),
		ret(unix.SECCOMP_RET_ERRNO | errno),
	}
	if mask == 0 {
		filter = append(filter[:3], filter[6])
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)), 0, 0)
}
