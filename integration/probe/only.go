package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gobox/selftest/attempt"
)

// onlyAttempt are what `gobox selftest` has no row for, or what leaves more behind than it may.
func onlyAttempt(name string) attempt.Func {
	switch name {
	case "chdir":
		return func(a []string) (int64, string, error) { return 0, "", unix.Chdir(a[0]) }
	case "removexattr":
		return func(a []string) (int64, string, error) { return 0, "", unix.Removexattr(a[0], "user.canary") }
	case "setflags":
		return setFlags
	case "link-empty":
		return func(a []string) (int64, string, error) { return 0, "", linkEmpty(a[0], a[1]) }
	case "pidfd-getfd":
		// pidfd-getfd PID|self FD
		return func(a []string) (int64, string, error) {
			pid := os.Getpid()
			if a[0] != "self" {
				pid = int(number(a[0]))
			}
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				return -1, "pidfd_open", err
			}
			defer unix.Close(fd)
			got, err := unix.PidfdGetfd(fd, int(number(a[1])), 0)
			return int64(got), "", err
		}
	case "socketcall":
		return socketcall
	case "listen":
		return func(a []string) (int64, string, error) { return attempt.Accept(a, func() { fmt.Println("listening") }) }
	case "daemon":
		return daemon
	case "stop-self":
		return func([]string) (int64, string, error) { return 0, "", unix.Kill(os.Getpid(), unix.SIGSTOP) }
	case "sleep":
		return func(a []string) (int64, string, error) {
			d, err := time.ParseDuration(a[0])
			time.Sleep(d)
			return 0, "", err
		}
	}
	return nil
}

// setflags PATH: FS_IOC_SETFLAGS with the flags the file already has, which changes nothing
func setFlags(args []string) (int64, string, error) {
	fd, err := unix.Open(args[0], unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, "open", err
	}
	defer unix.Close(fd)
	flags, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS)
	if err != nil {
		flags = 0
	}
	return 0, "", unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, flags)
}

func linkEmpty(a, b string) error {
	fd, err := unix.Open(a, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Linkat(fd, "", unix.AT_FDCWD, b, unix.AT_EMPTY_PATH)
}

// daemon FILE MARKER: leaves a process in its own session, with an orphaned parent, that appends to FILE
func daemon(a []string) (int64, string, error) {
	if len(a) == 3 { // the middle and last generation
		if a[2] == "middle" {
			return 0, "", spawnDetached("daemon", a[0], a[1], "last")
		}
		signal.Ignore(unix.SIGTERM, unix.SIGHUP, unix.SIGINT)
		for i := 0; ; i++ {
			f, err := os.OpenFile(a[0], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
			if err != nil {
				return -1, "", err
			}
			fmt.Fprintln(f, strconv.Itoa(i))
			f.Close()
			time.Sleep(20 * time.Millisecond)
		}
	}
	if err := spawnDetached("daemon", a[0], a[1], "middle"); err != nil {
		return -1, "", err
	}
	for range 200 {
		if st, err := os.Stat(a[0]); err == nil && st.Size() > 0 {
			return 0, "", nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return -1, "no heartbeat", syscall.ETIMEDOUT
}

func spawnDetached(args ...string) error {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd.Start()
}
