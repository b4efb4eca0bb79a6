package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
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

// eat KIND BYTES takes memory of a kind step by step, says "had N" when it got all of it, and stays.
func eat(a []string) int {
	take, err := eater(a[0], int(number(a[1])))
	if err != nil {
		return refusal(err)
	}
	for i := 0; i < int(number(a[1])); i += mib {
		if err := take(i); err != nil {
			return refusal(err)
		}
	}
	fmt.Println("had", a[1])
	for {
		time.Sleep(time.Hour)
	}
}

func refusal(err error) int {
	fmt.Println("refused", errnoName(err))
	return 3
}

// eater gives a function that takes one MiB more, at an offset.
func eater(kind string, size int) (func(int) error, error) {
	touch := func(m []byte) func(int) error {
		return func(at int) error {
			for i := at; i < at+mib; i += 4096 {
				m[i] = 1
			}
			return nil
		}
	}
	block := make([]byte, mib)
	written := func(fd int) func(int) error {
		return func(at int) error {
			_, err := unix.Pwrite(fd, block, int64(at))
			return err
		}
	}
	const rw = unix.PROT_READ | unix.PROT_WRITE
	switch kind {
	case "anon":
		// In pieces, as allocators do.
		return func(int) error {
			m, err := unix.Mmap(-1, 0, mib, rw, unix.MAP_PRIVATE|unix.MAP_ANON)
			if err != nil {
				return err
			}
			return touch(m)(0)
		}, nil
	case "shared":
		m, err := unix.Mmap(-1, 0, size, rw, unix.MAP_SHARED|unix.MAP_ANON)
		if err != nil {
			return nil, err
		}
		return touch(m), nil
	case "memfd", "memfd-mapped":
		fd, err := unix.MemfdCreate("eaten", 0)
		if err != nil || kind == "memfd" {
			return written(fd), err
		}
		if err := unix.Ftruncate(fd, int64(size)); err != nil {
			return nil, err
		}
		m, err := unix.Mmap(fd, 0, size, rw, unix.MAP_SHARED)
		if err != nil {
			return nil, err
		}
		return touch(m), nil
	case "sysv":
		id, err := unix.SysvShmGet(unix.IPC_PRIVATE, size, unix.IPC_CREAT|0o600)
		if err != nil {
			return nil, err
		}
		m, err := unix.SysvShmAttach(id, 0, 0)
		if err != nil {
			return nil, err
		}
		return touch(m), nil
	case "page-tables":
		// One page of each table is read, which is the kernel's one page of zeroes: nothing but tables is taken, 4 KiB for 2 MiB.
		return func(int) error {
			m, err := unix.Mmap(-1, 0, 512*mib, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
			if err != nil {
				return err
			}
			_ = unix.Madvise(m, unix.MADV_NOHUGEPAGE)
			sum := byte(0)
			for i := 0; i < len(m); i += 2 * mib {
				sum += m[i]
			}
			if sum != 0 {
				return errors.New("memory that is not zero")
			}
			return nil
		}, nil
	case "semaphores":
		// A cache line each.
		return func(int) error {
			_, err := call(unix.SYS_SEMGET, unix.IPC_PRIVATE, 16<<10, unix.IPC_CREAT|0o600)
			return err
		}, nil
	case "messages":
		return messages, nil
	case "tcp":
		return tcpBuffers()
	case "pipes":
		return pipeBuffers(), nil
	case "locks":
		return fileLocks, nil
	case "mappings":
		return manyMappings, nil
	}
	// A path below which to write.
	fd, err := unix.Open(kind, unix.O_CREAT|unix.O_RDWR, 0o600)
	return written(fd), err
}

// messages takes a MiB in queues of 16 KiB (kernel.msgmnb).
func messages(int) error {
	msg := struct {
		kind int64
		text [4 << 10]byte
	}{kind: 1}
	for range 64 {
		id, err := call(unix.SYS_MSGGET, unix.IPC_PRIVATE, unix.IPC_CREAT|0o600)
		if err != nil {
			return err
		}
		for range 4 {
			if _, err := call(unix.SYS_MSGSND, uintptr(id), uintptr(unsafe.Pointer(&msg)), unsafe.Sizeof(msg.text), unix.IPC_NOWAIT); err != nil {
				return err
			}
		}
	}
	return nil
}

// pipeBuffers gives a function that fills pipes until a MiB more is in them. The reading ends alone hold it.
func pipeBuffers() func(int) error {
	block := make([]byte, 64<<10)
	held, want := 0, 0
	return func(int) error {
		for want += mib; held < want; {
			var p [2]int
			if err := unix.Pipe2(p[:], unix.O_NONBLOCK); err != nil {
				return err
			}
			for {
				n, err := unix.Write(p[1], block)
				if err != nil {
					break
				}
				held += n
			}
			unix.Close(p[1])
		}
		return nil
	}
}

// fileLocks takes a MiB of struct file_lock, 192 bytes each, in several files: the kernel looks at all of one file's for each.
func fileLocks(int) error {
	const files = 6
	for range files {
		f, err := os.CreateTemp("", "locks")
		if err != nil {
			return err
		}
		keptFiles = append(keptFiles, f)
		for i := range int64(mib / 192 / files) {
			if err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Start: 2 * i, Len: 1}); err != nil {
				return err
			}
		}
	}
	return nil
}

// manyMappings takes a MiB of struct vm_area_struct, 192 bytes each, and no memory: pages that may be read and pages that may not, by turns.
func manyMappings(int) error {
	m, err := unix.Mmap(-1, 0, mib/192*4096, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return err
	}
	for i := 0; i+4096 <= len(m); i += 2 * 4096 {
		if err := unix.Mprotect(m[i:i+4096], unix.PROT_READ); err != nil {
			return err
		}
	}
	return nil
}

// tcpBuffers gives a function that fills connections of the loopback's until about a MiB more is in them.
func tcpBuffers() (func(int) error, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	block := make([]byte, 64<<10)
	held, want := 0, 0
	return func(int) error {
		for want += mib; held < want; {
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				return err
			}
			other, err := l.Accept()
			if err != nil {
				return err
			}
			kept = append(kept, c, other)
			before := held
			for {
				_ = c.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
				n, err := c.Write(block)
				held += n
				if err != nil {
					break
				}
			}
			if held-before < 4*len(block) {
				return unix.ENOBUFS
			}
		}
		return nil
	}, nil
}

// kept are connections that must not be collected, keptFiles files.
var (
	kept      []net.Conn
	keptFiles []*os.File
)

// eatTogether N KIND BYTES: by N children, each its part
func eatTogether(a []string) int {
	n := int(number(a[0]))
	part := fmt.Sprint(int(number(a[2])) / n / mib * mib)
	for range n {
		cmd := exec.Command("/proc/self/exe", "raw", "eat", a[1], part)
		cmd.Stdout = os.Stdout
		if err := cmd.Start(); err != nil {
			return refusal(err)
		}
	}
	for {
		time.Sleep(time.Hour)
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
