package attempt

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func processAttempt(name string, self []string) Func {
	switch name {
	case "kill":
		return func(a []string) (int64, string, error) {
			return 0, "", unix.Kill(int(Number(a[0])), syscall.Signal(Number(a[1])))
		}
	case "tgkill":
		return func(a []string) (int64, string, error) {
			r, err := Call(unix.SYS_TGKILL, Number(a[0]), Number(a[0]), Number(a[1]))
			return r, "", err
		}
	case "kill-init":
		return killInit
	case "pidfd-open":
		return func(a []string) (int64, string, error) {
			fd, err := unix.PidfdOpen(int(Number(a[0])), 0)
			return int64(fd), "", err
		}
	case "ptrace":
		return func(a []string) (int64, string, error) {
			r, err := Call(unix.SYS_PTRACE, Number(a[0]), Number(a[1]), 0, 0)
			return r, "", err
		}
	case "vmread":
		return vmTransfer(unix.SYS_PROCESS_VM_READV)
	case "vmwrite":
		return vmTransfer(unix.SYS_PROCESS_VM_WRITEV)
	case "procs":
		return processes
	case "status":
		return func(a []string) (int64, string, error) { return status(a, self) }
	case "setns":
		return setns
	case "clone":
		return clone
	case "threads":
		return threads
	case "child":
		return func(a []string) (int64, string, error) { return child(a, self) }
	case "session":
		return func([]string) (int64, string, error) {
			sid, err := unix.Getsid(0)
			return int64(sid), fmt.Sprintf("pid %d pgid %d sid %d", os.Getpid(), unix.Getpgrp(), sid), err
		}
	case "ids":
		return func([]string) (int64, string, error) {
			return int64(os.Geteuid()), fmt.Sprintf("uid %d euid %d gid %d egid %d", os.Getuid(), os.Geteuid(), os.Getgid(), os.Getegid()), nil
		}
	case "run":
		return func(a []string) (int64, string, error) {
			out, err := exec.Command(a[0], a[1:]...).CombinedOutput()
			return 0, string(out), err
		}
	case "signals":
		return signals
	}
	return nil
}

// killInit sends every signal to PID 1 and asks afterwards whether it is still there.
func killInit([]string) (int64, string, error) {
	sent := 0
	var errs []string
	for s := 1; s <= 64; s++ {
		if err := unix.Kill(1, syscall.Signal(s)); err != nil {
			errs = append(errs, fmt.Sprintf("%d:%s", s, ErrnoName(err)))
			continue
		}
		sent++
	}
	time.Sleep(100 * time.Millisecond)
	_, err := os.Stat("/proc/1")
	return int64(sent), strings.Join(errs, " "), err
}

func vmTransfer(nr uintptr) Func {
	return func(a []string) (int64, string, error) {
		buf := make([]byte, 8)
		local := unix.Iovec{Base: &buf[0]}
		local.SetLen(len(buf))
		remote := unix.RemoteIovec{Base: BadPointer, Len: 8}
		r, err := Call(nr, Number(a[0]), uintptr(unsafe.Pointer(&local)), 1, uintptr(unsafe.Pointer(&remote)), 1, 0)
		runtime.KeepAlive(buf)
		return r, "", err
	}
}

// processes lists the pids in /proc with their command lines.
func processes([]string) (int64, string, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	var b strings.Builder
	for _, d := range dirs {
		line, _ := os.ReadFile(d + "/cmdline")
		fmt.Fprintf(&b, "%s %q\n", filepath.Base(d), line)
	}
	return int64(len(dirs)), b.String(), err
}

// status gives the confinement lines of every thread of this process and of a child's, each once.
func status(args, self []string) (int64, string, error) {
	seen := map[string]bool{}
	tasks, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil {
		return -1, "", err
	}
	for _, path := range tasks {
		f, err := os.Open(path)
		if err != nil {
			return -1, path, err
		}
		s := bufio.NewScanner(f)
		for s.Scan() {
			if name, value, ok := strings.Cut(s.Text(), ":"); ok {
				switch name {
				case "NoNewPrivs", "Seccomp", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb":
					seen[name+" "+strings.TrimSpace(value)] = true
				}
			}
		}
		f.Close()
	}
	var b strings.Builder
	for line := range seen {
		fmt.Fprintln(&b, line)
	}
	if len(args) > 0 && args[0] == "deep" {
		out, err := again(self, "status").Output()
		b.Write(out)
		if err != nil {
			return -1, b.String(), err
		}
	}
	return int64(len(tasks)), b.String(), nil
}

// setns PATH FLAGS
func setns(a []string) (int64, string, error) {
	fd, err := unix.Open(a[0], unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		r, err2 := Call(unix.SYS_SETNS, ^uintptr(0), Number(a[1]))
		return r, "open " + ErrnoName(err), err2
	}
	defer unix.Close(fd)
	r, err := Call(unix.SYS_SETNS, uintptr(fd), Number(a[1]))
	return r, "", err
}

// clone FLAGS: a child that only exits
func clone(a []string) (int64, string, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid, errno := CloneExit(Number(a[0]) | uintptr(unix.SIGCHLD))
	if errno != 0 {
		return -1, "", errno
	}
	unix.Wait4(int(pid), nil, 0, nil)
	return int64(pid), "", nil
}

// CloneExit makes a child that only exits. flags are those of clone(2), with the signal for its end.
//
//go:norace
//go:nosplit
func CloneExit(flags uintptr) (uintptr, syscall.Errno) {
	pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, flags, 0, 0, 0, 0, 0)
	if errno == 0 && pid == 0 {
		for {
			syscall.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
		}
	}
	return pid, errno
}

// threads N: that many at once
func threads(a []string) (int64, string, error) {
	n := int(Number(a[0]))
	var ready, done sync.WaitGroup
	ready.Add(n)
	release := make(chan struct{})
	tids := make(chan int, n)
	for range n {
		done.Add(1)
		go func() {
			defer done.Done()
			runtime.LockOSThread()
			tids <- unix.Gettid()
			ready.Done()
			<-release
		}()
	}
	ready.Wait()
	close(release)
	done.Wait()
	close(tids)
	seen := map[int]bool{}
	for t := range tids {
		seen[t] = true
	}
	return int64(len(seen)), "", nil
}

// child ATTEMPT ARG...: made by a child, since the kernel may answer with a signal
func child(a, self []string) (int64, string, error) {
	cmd := again(self, a...)
	out, err := cmd.Output()
	if cmd.ProcessState == nil {
		return -1, "start", err
	}
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return int64(ws.Signal()), "signal " + unix.SignalName(ws.Signal()), nil
	}
	return 0, string(out), err
}

// signals WANT...: says "ready", then one line per signal received, until all of WANT came
func signals(a []string) (int64, string, error) {
	c := make(chan os.Signal, 64)
	want := map[string]bool{}
	for _, name := range a {
		want[name] = true
		signal.Notify(c, unix.SignalNum(name))
	}
	fmt.Println("ready")
	for len(want) > 0 {
		name := unix.SignalName((<-c).(syscall.Signal))
		fmt.Println(name)
		delete(want, name)
	}
	return int64(len(a)), "", nil
}

// again is this program with other attempts. self is what its own attempts come after.
func again(self []string, args ...string) *exec.Cmd {
	return exec.Command("/proc/self/exe", slices.Concat(self, args)...)
}
