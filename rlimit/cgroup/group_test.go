package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const helperEnv = "GOBOX_CGROUP_HELPER"

// In a helper, main is the process's first thread.
var _ = func() bool {
	if os.Getenv(helperEnv) != "" {
		runtime.LockOSThread()
	}
	return true
}()

func TestMain(m *testing.M) {
	if work := os.Getenv(helperEnv); work != "" {
		helper(work)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const (
	mib   = 1 << 20
	limit = 48 * mib
	greed = 80 * mib // what a helper tries to use
)

// helper takes memory in one of several ways and says so when it has it all.
func helper(work string) {
	kind, arg, _ := strings.Cut(work, ":")
	fail := func(err error) {
		fmt.Println("helper:", err)
		os.Exit(3)
	}
	page := bytes.Repeat([]byte{1}, 64<<10)
	fill := func(fd int) {
		for n := 0; n < greed; n += len(page) {
			if _, err := unix.Write(fd, page); err != nil {
				fail(err)
			}
		}
	}
	touch := func(b []byte) {
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
	}
	switch kind {
	case "hold":
		hold(arg)
		return
	case "spawner":
		spawner(arg)
		return
	case "where":
		where()
		return
	case "watched":
		watched(arg)
		return
	case "anon":
		b, err := unix.Mmap(-1, 0, greed, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			fail(err)
		}
		touch(b)
	case "shared":
		b, err := unix.Mmap(-1, 0, greed, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
		if err != nil {
			fail(err)
		}
		touch(b)
	case "memfd":
		fd, err := unix.MemfdCreate("greed", 0)
		if err != nil {
			fail(err)
		}
		fill(fd)
	case "tmpfs":
		fd, err := unix.Open(arg, unix.O_WRONLY, 0)
		if err != nil {
			fail(err)
		}
		fill(fd)
	case "sysv":
		id, err := unix.SysvShmGet(unix.IPC_PRIVATE, greed, unix.IPC_CREAT|0o600)
		if err != nil {
			fail(err)
		}
		b, err := unix.SysvShmAttach(id, 0, 0)
		// Marked at once, so that it goes with the process.
		_, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
		if err != nil {
			fail(err)
		}
		touch(b)
	}
	fmt.Println("helper: done")
}

func support(t *testing.T, l Limits) Support {
	t.Helper()
	s := Detect()
	if s.Version == 0 {
		t.Skip("no usable cgroup: " + s.Lacks(Limits{Memory: 1})[0].Why)
	}
	if lacks := s.Lacks(l); len(lacks) > 0 {
		t.Skip("no limit by cgroup: " + lacks[0].Why)
	}
	return s
}

// create makes a group and sees to it that the test leaves none behind.
func create(t *testing.T, l Limits) *Group {
	t.Helper()
	g, err := Create("test-"+strings.NewReplacer("/", ".", "=", "-").Replace(t.Name()), l, support(t, l))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Remove(10 * time.Second); err != nil {
			t.Error(err)
		}
		for _, dir := range g.Paths() {
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				t.Errorf("%s is still there: %v", dir, err)
			}
		}
	})
	return g
}

// enter makes cmd run inside g, by the descriptor or by the doors.
func enter(t *testing.T, g *Group, doors bool, cmd *exec.Cmd) {
	t.Helper()
	if g.FD() >= 0 && !doors {
		cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: g.FD()}
		return
	}
	list, err := g.Doors()
	if err != nil {
		t.Fatal(err)
	}
	script := ""
	for i, fd := range list {
		dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			t.Fatal(err)
		}
		f := os.NewFile(uintptr(dup), "door")
		t.Cleanup(func() { f.Close() })
		cmd.ExtraFiles = append(cmd.ExtraFiles, f)
		script += fmt.Sprintf("echo 0 >&%d || exit 99; exec %d>&-; ", i+3, i+3)
	}
	cmd.Args = append([]string{"sh", "-c", script + `exec "$@"`, "sh", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
}

func helperCommand(t *testing.T, work string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), helperEnv+"="+work, "GOMAXPROCS=1")
	return cmd
}

func ready(g *Group) bool {
	fd, events := g.Notify()
	p := []unix.PollFd{{Fd: int32(fd), Events: events}}
	n, err := unix.Poll(p, 0)
	return err == nil && n == 1 && p[0].Revents&events != 0
}

func TestMemory(t *testing.T) {
	s := support(t, Limits{Memory: limit})
	dir := ""
	for _, d := range []string{"/dev/shm", "/tmp"} {
		var fs unix.Statfs_t
		if unix.Statfs(d, &fs) == nil && fs.Type == unix.TMPFS_MAGIC && unix.Access(d, unix.W_OK) == nil {
			dir = d
			break
		}
	}
	for _, kind := range []string{"anon", "shared", "memfd", "sysv", "tmpfs"} {
		for _, doors := range []bool{false, true} {
			if !doors && s.Version == 1 {
				continue // it has only doors
			}
			t.Run(fmt.Sprintf("%s/doors-%v", kind, doors), func(t *testing.T) {
				g := create(t, Limits{Memory: limit})
				g.Acknowledge()
				if ready(g) {
					t.Fatal("out of memory before anything ran")
				}
				work := kind
				if kind == "tmpfs" {
					if dir == "" {
						t.Skip("no tmpfs to write to")
					}
					f, err := os.CreateTemp(dir, "gobox-cgroup-test-")
					if err != nil {
						t.Fatal(err)
					}
					defer os.Remove(f.Name())
					f.Close()
					work += ":" + f.Name()
				}
				cmd := helperCommand(t, work)
				enter(t, g, doors, cmd)
				out, err := cmd.CombinedOutput()
				var exit *exec.ExitError
				if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
					t.Fatalf("a helper of %d MiB under a limit of %d MiB: %v, %s", greed/mib, limit/mib, err, out)
				}
				if !waitFor(time.Second, func() bool { return ready(g) }) {
					t.Error("no notification of the kill")
				}
				e, err := g.Events()
				if err != nil || e.OOMKills == 0 {
					t.Errorf("events %+v, %v; want a kill", e, err)
				}
				u, err := g.Usage()
				// The kernel charges a few pages beyond the limit when it has to.
				if err != nil || u.MemoryPeak > limit+mib || u.MemoryPeak != 0 && u.MemoryPeak < limit/2 {
					t.Errorf("usage %+v, %v; want a peak near %d", u, err, limit)
				}
				// Version 2 tells of what follows within 10 ms later (CGROUP_FILE_NOTIFY_MIN_INTV of kernel/cgroup/cgroup.c), so that
				// one acknowledgement may not be all.
				if !waitFor(time.Second, func() bool { g.Acknowledge(); return !ready(g) }) {
					t.Error("acknowledged and still ready")
				}
			})
		}
	}
}

func TestMemoryWithin(t *testing.T) {
	g := create(t, Limits{Memory: 2 * greed})
	g.Acknowledge()
	cmd := helperCommand(t, "anon")
	enter(t, g, false, cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v, %s", err, out)
	}
	if e, err := g.Events(); err != nil || e != (Events{}) || ready(g) {
		t.Errorf("events %+v, %v, ready %v", e, err, ready(g))
	}
	u, err := g.Usage()
	if err != nil || u.CPUUser+u.CPUSystem == 0 || u.MemoryPeak != 0 && u.MemoryPeak < greed {
		t.Errorf("usage %+v, %v", u, err)
	}
}

// On version 2 the whole tree goes, not the one process that was too greedy.
func TestMemoryGroup(t *testing.T) {
	g := create(t, Limits{Memory: limit})
	if g.Version() != 2 {
		t.Skip("version 1 has no memory.oom.group")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", `sleep 60 & "$1"; sleep 60`, "sh", exe)
	cmd.Env = append(os.Environ(), helperEnv+"=anon")
	enter(t, g, false, cmd)
	start := time.Now()
	if err := cmd.Run(); err == nil || time.Since(start) > 30*time.Second {
		t.Fatalf("%v after %v", err, time.Since(start))
	}
	if !waitFor(20*time.Second, func() bool { list, err := pids(g.all[0]); return err == nil && len(list) == 0 }) {
		t.Error("processes are left")
	}
}

func TestPids(t *testing.T) {
	const max = 12
	g := create(t, Limits{Pids: max})
	cmd := exec.Command("/bin/sh", "-c", `n=0; while [ $n -lt 40 ]; do sleep 60 & n=$((n+1)); done`)
	enter(t, g, false, cmd)
	var out bytes.Buffer
	f, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// A file, not a pipe: those that sleep would keep it open.
	cmd.Stdout, cmd.Stderr = f, f
	_ = cmd.Run()
	data, _ := os.ReadFile(f.Name())
	out.Write(data)
	if !strings.Contains(strings.ToLower(out.String()), "fork") {
		t.Errorf("40 processes under a limit of %d: %q", max, out.String())
	}
	e, err := g.Events()
	if err != nil || e.PidsMax == 0 {
		t.Errorf("events %+v, %v", e, err)
	}
	u, err := g.Usage()
	if err != nil || u.PidsCurrent == 0 || u.PidsCurrent > max || u.PidsPeak > max {
		t.Errorf("usage %+v, %v", u, err)
	}
}

func TestCPU(t *testing.T) {
	const cpus, wall = 0.2, time.Second
	g := create(t, Limits{CPUs: cpus})
	start := time.Now()
	for range 2 {
		cmd := exec.Command("/bin/sh", "-c", "while :; do :; done")
		enter(t, g, false, cmd)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	}
	time.Sleep(wall)
	// A machine that is busy may not have given them their share yet.
	waitFor(10*time.Second, func() bool { e, err := g.Events(); return err != nil || e.Throttled > 0 })
	if err := g.Kill(); err != nil {
		t.Fatal(err)
	}
	u, err := g.Usage()
	used := u.CPUUser + u.CPUSystem
	// Two spinning processes would use up to two seconds on a free machine.
	if err != nil || used > 3*time.Since(start)/4 {
		t.Errorf("used %v of %v at %v CPUs, %v", used, time.Since(start), cpus, err)
	}
	if e, err := g.Events(); err != nil || e.Throttled == 0 {
		t.Errorf("events %+v, %v, after %v of CPU time", e, err, used)
	}
}

// What is being killed gets the time to end: without it, the two would use 200 ms of these 20 s.
func TestUnthrottle(t *testing.T) {
	g := create(t, Limits{CPUs: 0.01})
	for range 2 {
		cmd := exec.Command("/bin/sh", "-c", "while :; do :; done")
		enter(t, g, false, cmd)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	}
	used := func() time.Duration { u, _ := g.Usage(); return u.CPUUser + u.CPUSystem }
	waitFor(10*time.Second, func() bool { e, err := g.Events(); return err != nil || e.Throttled > 0 })
	g.Unthrottle()
	before := used()
	if !waitFor(20*time.Second, func() bool { return used()-before > 500*time.Millisecond }) {
		t.Errorf("used %v and then %v more", before, used()-before)
	}
	if err := g.Kill(); err != nil {
		t.Fatal(err)
	}
}

func TestKillForks(t *testing.T) {
	g := create(t, Limits{Pids: 64})
	cmd := exec.Command("/bin/sh", "-c", `while :; do (sleep 0.01; sleep 60) & done`)
	cmd.Stderr = nil
	enter(t, g, false, cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	waitFor(20*time.Second, func() bool { u, _ := g.Usage(); return u.PidsCurrent > 8 })
	if err := g.Kill(); err != nil {
		t.Error(err)
	}
	if err := g.Remove(10 * time.Second); err != nil {
		t.Error(err)
	}
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		t.Error("the shell lives")
	}
}

func TestRemoveNamesSurvivors(t *testing.T) {
	g := create(t, Limits{Pids: 20})
	cmd := exec.Command("sleep", "60")
	enter(t, g, false, cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	// The shell of the doors needs a moment for each, and ends when one of them is gone.
	waitFor(20*time.Second, func() bool {
		u, _ := g.Usage()
		return u.PidsCurrent == 1 && (g.version == 2 || !slices.ContainsFunc(g.all, func(dir string) bool { list, _ := pids(dir); return len(list) != 1 }))
	})
	err := removeAll(g.all, 5*time.Millisecond, func() {})
	var s *Survivors
	if !errors.As(err, &s) || !errors.Is(err, unix.EBUSY) || len(s.Processes) != 1 || s.Processes[0] != cmd.Process.Pid {
		t.Errorf("got %v", err)
	}
}

func TestLeftovers(t *testing.T) {
	s := support(t, Limits{Pids: 20})
	me, err := self()
	if err != nil {
		t.Fatal(err)
	}
	dead := owner{pid: me.pid, start: me.start - 1, ns: me.ns} // this pid, but an earlier process
	stranger := owner{pid: me.pid, start: me.start - 1, ns: me.ns + 1}
	id := "left-" + strconv.Itoa(os.Getpid())
	for _, o := range []owner{dead, me, stranger} {
		g := &Group{name: o.name(id), version: s.Version, dirs: make(map[controllers]string), fd: -1, events: -1}
		if s.Version == 2 {
			err = g.createV2(Limits{Pids: 20}, s)
		} else {
			err = g.createV1(Limits{Pids: 20}, s)
		}
		t.Cleanup(func() { g.Remove(5 * time.Second) })
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sleep", "60")
		enter(t, g, false, cmd)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		waitFor(20*time.Second, func() bool { u, _ := g.Usage(); return u.PidsCurrent == 1 })
	}
	list, err := Leftovers(Detect())
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]Leftover)
	for _, l := range list {
		if l.Run == id {
			found[l.Name] = l
		}
	}
	if len(found) != 2 {
		t.Fatalf("found %+v", found)
	}
	l, ok := found[dead.name(id)]
	if !ok || l.Foreign || l.PID != me.pid || len(l.Processes) != 1 {
		t.Errorf("leftover %+v", l)
	}
	if err := l.Remove(5 * time.Second); err != nil {
		t.Error(err)
	}
	for _, dir := range l.Paths {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s is still there", dir)
		}
	}
	f, ok := found[stranger.name(id)]
	if !ok || !f.Foreign {
		t.Errorf("group of another pid namespace: %+v", f)
	}
	if err := f.Remove(time.Second); err == nil {
		t.Error("removed a group whose gobox may live")
	}
	if _, err := os.Stat(f.Paths[0]); err != nil {
		t.Error(err)
	}
}

func TestCreateRefuses(t *testing.T) {
	s := Detect()
	for _, id := range []string{"", "..", "a/b", "a b", "ä", strings.Repeat("x", 200)} {
		g, err := Create(id, Limits{}, s)
		if id == ".." && err == nil {
			// One component of a longer name, and so harmless.
			if strings.Contains(g.Name(), "/") || filepath.Base(g.Paths()[0]) != g.Name() {
				t.Errorf("%q: %v", id, g.Paths())
			}
			g.Remove(time.Second)
			continue
		}
		if err == nil {
			g.Remove(time.Second)
			t.Errorf("%q: created", id)
		}
	}
	if _, err := Create("x", Limits{Memory: 1 << 20}, detect(host{prefix: t.TempDir()})); err == nil {
		t.Error("created without a cgroup file system")
	}
}

func BenchmarkCreate(b *testing.B) {
	for b.Loop() {
		s := Detect()
		l := Limits{Memory: 1 << 30, Pids: 128}
		g, err := Create("bench", l, s)
		if err != nil {
			b.Skip(err)
		}
		if err := g.Remove(time.Second); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDetect(b *testing.B) {
	for b.Loop() {
		Detect()
	}
}

// What pids.max would refuse must not cost the whole group.
func TestPidsMax(t *testing.T) {
	for n, want := range map[uint64]string{1: "1", 1 << 22: "4194304", 1<<22 + 1: "max", 1 << 63: "max"} {
		if got := pidsMax(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
