// Command injector runs a program and makes one of its system calls fail, chosen by process, number and count: a fault that
// hits gobox and never the command that it runs. strace's injection counts by thread and does not tell processes apart.
//
// Usage: injector [-role ROLE -call NR -nth N -errno E] -report FILE PROGRAM ARG...
//
// The roles are supervisor (the program itself), init (its child) and spawn (init's child until it executes; then it is let go
// for good). The report is a [Report]; the exit status is the program's.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Report is what was seen. Calls counts by role and number.
type Report struct {
	Calls    map[string]map[int]int
	Injected bool
	Started  string   // "PID-STARTTIME" of the program, as in the names of its cgroups
	Hung     bool     // something had to be killed
	Left     []string // tracees that outlived the program by seconds
}

const (
	hangLimit = 40 * time.Second // for all of it
	leftLimit = 8 * time.Second  // for what outlives the program
)

type tracer struct {
	role  string
	call  int
	nth   int
	errno int

	rep     Report
	roles   map[int]string // of each thread group
	groups  map[int]int    // thread to thread group
	inside  map[int]bool   // in a system call
	armed   map[int]bool   // its system call is to fail
	mu      sync.Mutex     // for killing by the clock
	program int
}

func main() {
	t := &tracer{roles: map[int]string{}, groups: map[int]int{}, inside: map[int]bool{}, armed: map[int]bool{}}
	t.rep.Calls = map[string]map[int]int{}
	flag.StringVar(&t.role, "role", "", "")
	flag.IntVar(&t.call, "call", -1, "")
	flag.IntVar(&t.nth, "nth", 1, "")
	flag.IntVar(&t.errno, "errno", int(unix.EIO), "")
	report := flag.String("report", "", "")
	flag.Parse()
	status, err := t.run(flag.Args())
	if err == nil {
		var text []byte
		if text, err = json.Marshal(t.rep); err == nil {
			err = os.WriteFile(*report, text, 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "injector:", err)
		os.Exit(99)
	}
	os.Exit(status)
}

// started is the process's pid and the time of its start in ticks, the 22nd field of proc_pid_stat(5).
func started(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(text), ") ")
	if fields := strings.Fields(rest); len(fields) > 19 {
		return fmt.Sprintf("%d-%s", pid, fields[19])
	}
	return ""
}

// run gives the program's exit status as a shell shows it.
func (t *tracer) run(argv []string) (int, error) {
	// All of ptrace(2) must come from the thread that attached.
	runtime.LockOSThread()
	p, err := os.StartProcess(argv[0], argv, &os.ProcAttr{Env: os.Environ(), Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: &syscall.SysProcAttr{Ptrace: true}})
	if err != nil {
		return 0, err
	}
	t.program, t.rep.Started = p.Pid, started(p.Pid)
	var ws unix.WaitStatus
	if _, err := unix.Wait4(p.Pid, &ws, 0, nil); err != nil || !ws.Stopped() {
		return 0, fmt.Errorf("first stop: %v, %v", ws, err)
	}
	const options = unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK | unix.PTRACE_O_TRACEEXEC | unix.PTRACE_O_EXITKILL
	if err := unix.PtraceSetOptions(p.Pid, options); err != nil {
		return 0, err
	}
	t.roles[p.Pid], t.groups[p.Pid] = "supervisor", p.Pid
	if err := unix.PtraceSyscall(p.Pid, 0); err != nil {
		return 0, err
	}
	defer time.AfterFunc(hangLimit, func() { t.killAll("still there") }).Stop()
	status, ended := 0, false
	var left *time.Timer
	for {
		tid, err := unix.Wait4(-1, &ws, unix.WALL, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil { // ECHILD
			if left != nil {
				left.Stop()
			}
			if !ended {
				return 0, fmt.Errorf("wait: %w", err)
			}
			return status, nil
		}
		if ws.Exited() || ws.Signaled() {
			t.mu.Lock()
			delete(t.groups, tid)
			t.mu.Unlock()
			if tid == t.program {
				ended, status = true, ws.ExitStatus()
				if ws.Signaled() {
					status = 128 + int(ws.Signal())
				}
				left = time.AfterFunc(leftLimit, func() { t.killAll("outlived the program") })
			}
			continue
		}
		t.stopped(tid, ws)
	}
}

// killAll ends what is left, and notes it.
func (t *tracer) killAll(why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rep.Hung = true
	for tid, group := range t.groups {
		t.rep.Left = append(t.rep.Left, fmt.Sprintf("%s %d: %s", t.roles[group], tid, why))
		_ = unix.Kill(group, unix.SIGKILL)
	}
}

func (t *tracer) stopped(tid int, ws unix.WaitStatus) {
	t.mu.Lock()
	defer t.mu.Unlock()
	group, known := t.groups[tid]
	if !known {
		group = t.adopt(tid)
	}
	deliver := 0
	switch sig := ws.StopSignal(); {
	case sig == unix.SIGTRAP|0x80:
		t.systemCall(tid, t.roles[group])
	case sig == unix.SIGTRAP && ws.TrapCause() == unix.PTRACE_EVENT_EXEC && t.roles[group] == "spawn":
		// The command is nobody's business.
		delete(t.groups, tid)
		_ = unix.PtraceDetach(tid)
		return
	case sig == unix.SIGTRAP && ws.TrapCause() == unix.PTRACE_EVENT_EXEC:
		// The call returns without having been entered.
		t.inside[tid] = true
	case sig == unix.SIGTRAP && ws.TrapCause() > 0:
	case !known && sig == unix.SIGSTOP: // of the automatic attach
	default:
		deliver = int(sig)
		if t.roles[group] == "init" && t.rep.Injected && (sig == unix.SIGSEGV || sig == unix.SIGABRT || sig == unix.SIGILL || sig == unix.SIGBUS) {
			// The kernel ends a PID 1 that faults, but not while it is traced (force_sig_info_to_task).
			_ = unix.Kill(group, unix.SIGKILL)
		}
	}
	_ = unix.PtraceSyscall(tid, deliver)
}

// adopt finds out whose a new thread is.
func (t *tracer) adopt(tid int) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	group, parent := tid, 0
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "Tgid:"); ok {
			_, _ = fmt.Sscan(rest, &group)
		}
		if rest, ok := strings.CutPrefix(line, "PPid:"); ok {
			_, _ = fmt.Sscan(rest, &parent)
		}
	}
	t.groups[tid] = group
	if _, ok := t.roles[group]; !ok {
		next := map[string]string{"supervisor": "init", "init": "spawn"}
		role, ok := next[t.roles[parent]]
		if !ok {
			role = "other"
		}
		t.roles[group] = role
	}
	return group
}

func (t *tracer) systemCall(tid int, role string) {
	if t.inside[tid] {
		t.inside[tid] = false
		if t.armed[tid] {
			delete(t.armed, tid)
			t.setResult(tid)
		}
		return
	}
	t.inside[tid] = true
	var regs unix.PtraceRegsAmd64
	if unix.PtraceGetRegsAmd64(tid, &regs) != nil {
		return
	}
	nr := int(regs.Orig_rax)
	if t.rep.Calls[role] == nil {
		t.rep.Calls[role] = map[int]int{}
	}
	t.rep.Calls[role][nr]++
	if role != t.role || nr != t.call || t.rep.Calls[role][nr] != t.nth {
		return
	}
	if nr == unix.SYS_CLOSE || nr == unix.SYS_CLOSE_RANGE {
		// Linux closes a descriptor also where close(2) fails.
		t.armed[tid], t.rep.Injected = true, true
		return
	}
	// Something harmless is done instead, which the filter knows as well.
	regs.Orig_rax = unix.SYS_GETPID
	if unix.PtraceSetRegsAmd64(tid, &regs) == nil {
		t.armed[tid], t.rep.Injected = true, true
	}
}

func (t *tracer) setResult(tid int) {
	var regs unix.PtraceRegsAmd64
	if unix.PtraceGetRegsAmd64(tid, &regs) != nil {
		return
	}
	regs.Rax = uint64(-int64(t.errno))
	_ = unix.PtraceSetRegsAmd64(tid, &regs)
}
