package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"gobox/selftest/attempt"
)

const mib = 1 << 20

// limitAttempt holds what takes of something until it is refused. Each is bounded by its argument, so that
// none is a danger to a host without limits.
func limitAttempt(name string) attempt.Func {
	switch name {
	case "pipes":
		return pipes
	case "sockets":
		return sockets
	case "in-flight":
		return inFlight
	case "epolls":
		return gather(func() (int, error) { return unix.EpollCreate1(unix.EPOLL_CLOEXEC) })
	case "inotifies":
		return gather(func() (int, error) { return unix.InotifyInit1(unix.IN_CLOEXEC) })
	case "watch":
		return watch
	case "ptys":
		return gather(func() (int, error) { return unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0) })
	case "timers":
		return timers
	case "opens":
		return gather(func() (int, error) { return unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	case "spawns":
		return spawns
	case "inodes":
		return inodes
	case "fill":
		return fill
	case "sparse":
		return func(a []string) (int64, string, error) {
			f, err := os.Create(a[0])
			if err != nil {
				return -1, "", err
			}
			defer f.Close()
			return 0, "", f.Truncate(int64(number(a[1])))
		}
	case "raise":
		return func(a []string) (int64, string, error) {
			var l unix.Rlimit
			if err := unix.Getrlimit(int(number(a[0])), &l); err != nil {
				return -1, "", err
			}
			hard := l.Max
			l.Max++
			return int64(hard), "", unix.Setrlimit(int(number(a[0])), &l)
		}
	case "write":
		return func(a []string) (int64, string, error) {
			return 0, "", os.WriteFile(a[0], []byte(a[1]), 0o644)
		}
	case "read":
		return func(a []string) (int64, string, error) {
			data, err := os.ReadFile(a[0])
			return int64(len(data)), strings.TrimSpace(string(data)), err
		}
	case "mlockall":
		return func([]string) (int64, string, error) { return 0, "", unix.Mlockall(unix.MCL_CURRENT) }
	case "nice":
		return func(a []string) (int64, string, error) {
			return 0, "", unix.Setpriority(unix.PRIO_PROCESS, 0, int(int32(number(a[0]))))
		}
	case "fifo":
		return func([]string) (int64, string, error) {
			param := [1]int32{1}
			r, err := call(unix.SYS_SCHED_SETSCHEDULER, 0, unix.SCHED_FIFO, uintptr(unsafe.Pointer(&param[0])))
			return r, "", err
		}
	case "refused":
		return refused
	case "orphans":
		return orphans
	}
	return nil
}

// gather gives "NAME N": as many descriptors of a kind
func gather(open func() (int, error)) attempt.Func {
	return func(a []string) (int64, string, error) {
		for n := range int64(number(a[0])) {
			if _, err := open(); err != nil {
				return n, fmt.Sprintf("after %d", n), err
			}
		}
		return int64(number(a[0])), "", nil
	}
}

// watch DIR: makes a file there and waits for inotify's word of it; detail is the name
func watch(a []string) (int64, string, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return -1, "", err
	}
	defer unix.Close(fd)
	if _, err = unix.InotifyAddWatch(fd, a[0], unix.IN_CREATE); err != nil {
		return -1, "", err
	}
	if err = os.WriteFile(filepath.Join(a[0], "watched"), nil, 0o600); err != nil {
		return -1, "", err
	}
	buf := make([]byte, 4096)
	n, err := unix.Read(fd, buf)
	if err != nil {
		return -1, "", err
	}
	return int64(n), string(bytes.TrimRight(buf[unix.SizeofInotifyEvent:n], "\x00")), nil
}

// pipes N: filled, and as large as each may be made; detail is what all hold
func pipes(a []string) (int64, string, error) {
	buf := make([]byte, mib)
	held := 0
	for n := range int64(number(a[0])) {
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_NONBLOCK); err != nil {
			return n, fmt.Sprintf("after %d with %d bytes", n, held), err
		}
		_, _ = unix.FcntlInt(uintptr(p[1]), unix.F_SETPIPE_SZ, mib)
		for {
			k, err := unix.Write(p[1], buf)
			if err != nil {
				break
			}
			held += k
		}
	}
	return int64(number(a[0])), fmt.Sprintf("%d bytes", held), nil
}

// sockets N: pairs with full buffers
func sockets(a []string) (int64, string, error) {
	buf := make([]byte, 64<<10)
	held := 0
	for n := range int64(number(a[0])) {
		p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return n, fmt.Sprintf("after %d with %d bytes", n, held), err
		}
		for _, fd := range p {
			_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 16*mib)
			for {
				k, err := unix.Write(fd, buf)
				if err != nil {
					break
				}
				held += k
			}
		}
	}
	return int64(number(a[0])), fmt.Sprintf("%d bytes", held), nil
}

// inFlight N: descriptors that only messages hold, which count to no process's number of open files
func inFlight(a []string) (int64, string, error) {
	limit, sent := int64(number(a[0])), int64(0)
	for sent < limit {
		p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return sent, fmt.Sprintf("after %d", sent), err
		}
		for sent < limit {
			fd, err := unix.Open("/dev/null", unix.O_RDONLY, 0)
			if err != nil {
				return sent, fmt.Sprintf("after %d", sent), err
			}
			err = unix.Sendmsg(p[0], []byte{0}, unix.UnixRights(fd), nil, 0)
			unix.Close(fd)
			if err == unix.EAGAIN {
				break
			}
			if err != nil {
				return sent, fmt.Sprintf("after %d", sent), err
			}
			sent++
		}
	}
	return sent, "", nil
}

// timers N: POSIX timers
func timers(a []string) (int64, string, error) {
	for n := range int64(number(a[0])) {
		var id int32
		if _, err := call(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, 0, uintptr(unsafe.Pointer(&id))); err != nil {
			return n, fmt.Sprintf("after %d", n), err
		}
	}
	return int64(number(a[0])), "", nil
}

// spawns N: that many children at once, as the kernel counts them, that do nothing
func spawns(a []string) (int64, string, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var made []int
	defer func() {
		for _, pid := range made {
			// Raw, so that the Go runtime does not want another thread meanwhile: the limit has none left.
			_, _, _ = syscall.RawSyscall(unix.SYS_KILL, uintptr(pid), uintptr(unix.SIGKILL), 0)
			_, _, _ = syscall.RawSyscall6(unix.SYS_WAIT4, uintptr(pid), 0, 0, 0, 0, 0)
		}
	}()
	for n := range int64(number(a[0])) {
		pid, errno := clonePause(uintptr(unix.SIGCHLD))
		if errno != 0 {
			return n, fmt.Sprintf("after %d", n), errno
		}
		made = append(made, int(pid))
	}
	return int64(number(a[0])), "", nil
}

//go:norace
//go:nosplit
func clonePause(flags uintptr) (uintptr, syscall.Errno) {
	pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, flags, 0, 0, 0, 0, 0)
	if errno == 0 && pid == 0 {
		for {
			// select(2) without anything, and so without end
			syscall.RawSyscall6(unix.SYS_PSELECT6, 0, 0, 0, 0, 0, 0)
		}
	}
	return pid, errno
}

// inodes DIR N: empty files
func inodes(a []string) (int64, string, error) {
	for n := range int64(number(a[1])) {
		fd, err := unix.Open(fmt.Sprintf("%s/%d", a[0], n), unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return n, fmt.Sprintf("after %d", n), err
		}
		unix.Close(fd)
	}
	return int64(number(a[1])), "", nil
}

// fill FILE BYTES: what fitted
func fill(a []string) (int64, string, error) {
	fd, err := unix.Open(a[0], unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return -1, "", err
	}
	defer unix.Close(fd)
	buf := make([]byte, 256<<10)
	written := int64(0)
	for written < int64(number(a[1])) {
		n, err := unix.Write(fd, buf)
		if err != nil {
			return written, fmt.Sprintf("after %d bytes", written), err
		}
		written += int64(n)
	}
	return written, "", nil
}

// refused N NR ARG...: a call made N times; ret is how many were refused
func refused(a []string) (int64, string, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	args := make([]uintptr, len(a)-1)
	for i := range args {
		args[i] = number(a[i+1])
	}
	var n int64
	var last error
	for range number(a[0]) {
		if _, err := call(args[0], args[1:]...); err != nil {
			last = err
			n++
		}
	}
	name := ""
	if last != nil {
		name = errnoName(last)
	}
	return n, name, nil
}

// orphans N: grandchildren whose parent ends first; ret is how many were left unreaped after a while
func orphans(a []string) (int64, string, error) {
	for range number(a[0]) {
		cmd := exec.Command("/bin/sh", "-c", "(exit 0) & exit 0")
		if err := cmd.Run(); err != nil {
			return -1, "", err
		}
	}
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		n, list, err := attempt.Lookup("procs")(nil)
		if err != nil || n <= 2 || time.Now().After(deadline) {
			return n - 2, list, err
		}
	}
}

// spin N: threads that do nothing but compute
func spin(n int) int {
	for range n {
		go func() {
			for i := 0; ; i++ {
			}
		}()
	}
	select {}
}

// relay computes for a fifth of a second of CPU time, and then has a new process go on: a limit of each
// process's CPU time never comes into force.
func relay() int {
	var used unix.Rusage
	for used.Utime.Nano() < int64(200*time.Millisecond) {
		for range 1 << 20 {
		}
		_ = unix.Getrusage(unix.RUSAGE_SELF, &used)
	}
	cmd := exec.Command("/proc/self/exe", "raw", "relay")
	if err := cmd.Start(); err != nil {
		return refusal(err)
	}
	_ = cmd.Wait()
	return 0
}

// pour WHERE BYTES: bytes without newline, not text, to stdout, stderr or both by turns
func pour(a []string) int {
	buf := make([]byte, 64<<10)
	for i := range buf {
		buf[i] = byte(i*7) | 0x80
	}
	fds := map[string][]int{"stdout": {1}, "stderr": {2}, "both": {1, 2}}[a[0]]
	for left := int(number(a[1])); left > 0; {
		for _, fd := range fds {
			n, err := unix.Write(fd, buf[:min(left, len(buf))])
			if err != nil {
				return 3
			}
			left -= n
			if left == 0 {
				break
			}
		}
	}
	return 0
}

// bomb forks without end.
func bomb() int {
	for {
		if _, errno := clonePause(uintptr(unix.SIGCHLD)); errno == syscall.EAGAIN {
			rawSleep(time.Millisecond)
		}
	}
}

// rawSleep sleeps without the Go runtime's knowledge, which at a full limit would end for want of another thread.
func rawSleep(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	_, _, _ = syscall.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&ts)), 0, 0)
}

// zombies N: children that have ended and are not waited for; says how many there came to be, and stays
func zombies(n int) int {
	made := 0
	for ; made < n; made++ {
		if _, errno := attempt.CloneExit(uintptr(unix.SIGCHLD)); errno != 0 {
			fmt.Println("refused", errnoName(errno))
			break
		}
	}
	fmt.Println("zombies", made)
	for {
		rawSleep(time.Hour)
	}
}
