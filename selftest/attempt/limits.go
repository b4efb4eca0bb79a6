package attempt

import (
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// boundedAttempt takes of something until it is refused, at most as much as its argument says, and gives it back.
func boundedAttempt(name string) Func {
	switch name {
	case "hold-files":
		return holdFiles
	case "hold-processes":
		return holdProcesses
	case "fill":
		return fill
	case "make-files":
		return makeFiles
	case "raise-files":
		return func([]string) (int64, string, error) {
			var l unix.Rlimit
			if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
				return -1, "getrlimit", err
			}
			return 0, "", unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: l.Cur, Max: l.Max + 1})
		}
	}
	return nil
}

// hold-files N: ret is how many of the N were open at once; the errno is that of the first that was refused
func holdFiles(a []string) (int64, string, error) {
	var fds []int
	var err error
	for len(fds) < int(Number(a[0])) {
		var fd int
		if fd, err = unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			break
		}
		fds = append(fds, fd)
	}
	for _, fd := range fds {
		unix.Close(fd)
	}
	return held(len(fds), err)
}

// hold-processes N: children that have ended and are not waited for count as well, and do nothing. No call of
// this may need a thread of the runtime's, which would be refused too.
func holdProcesses(a []string) (int64, string, error) {
	n := 0
	var err error
	for ; n < int(Number(a[0])); n++ {
		if _, errno := CloneExit(uintptr(unix.SIGCHLD)); errno != 0 {
			err = errno
			break
		}
	}
	for range n {
		_, _, _ = syscall.RawSyscall6(unix.SYS_WAIT4, ^uintptr(0), 0, 0, 0, 0, 0)
	}
	return held(n, err)
}

// fill PATH KIB: a file of that size
func fill(a []string) (int64, string, error) {
	fd, err := unix.Open(a[0], unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return -1, "open", err
	}
	defer func() {
		unix.Close(fd)
		_ = unix.Unlink(a[0])
	}()
	buf := make([]byte, 64<<10)
	n := 0
	for n < int(Number(a[1]))<<10 {
		wrote, err := unix.Write(fd, buf)
		if err != nil {
			return held(n>>10, err)
		}
		n += wrote
	}
	return held(n>>10, nil)
}

// make-files DIR N: empty ones
func makeFiles(a []string) (int64, string, error) {
	n := 0
	var err error
	name := func(i int) string { return a[0] + "/gobox-selftest-" + strconv.Itoa(i) }
	for ; n < int(Number(a[1])); n++ {
		var fd int
		if fd, err = unix.Open(name(n), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600); err != nil {
			break
		}
		unix.Close(fd)
	}
	for i := range n {
		_ = unix.Unlink(name(i))
	}
	return held(n, err)
}

func held(n int, err error) (int64, string, error) { return int64(n), "after " + strconv.Itoa(n), err }
