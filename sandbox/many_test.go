package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gobox/policy"
	"gobox/sandbox"
)

// one is a kind of run that goes on beside others.
type one struct {
	name   string
	script string
	ask    func(p *policy.Policy)
	spec   func(s *sandbox.Spec)
	cancel bool // once it has said something
	want   string
}

var kinds = []one{
	{name: "plain", script: "echo $0; exit 3", want: "exited 3"},
	{name: "overlay", script: "echo $0 > here; cat here", ask: func(p *policy.Policy) { p.Workspace.Mode = policy.ModeOverlay }, want: "exited 0",
		spec: func(s *sandbox.Spec) { s.Changes = func(*os.File, sandbox.Result) error { return nil } }},
	{name: "terminal", script: "test -t 0 && echo $0", spec: func(s *sandbox.Spec) { s.Stdio.ForceTerminal = true }, want: "exited 0"},
	{name: "network", script: "echo $0", ask: func(p *policy.Policy) { p.AllowNet = []string{"example.invalid:443"} }, want: "exited 0"},
	{name: "published", script: "echo $0; sleep 0.1", ask: func(p *policy.Policy) {
		p.Publish = []policy.Publish{{Addr: "127.0.0.1", HostPort: freePort(), Port: 8080}}
	}, want: "exited 0"},
	{name: "timeout", script: "echo $0; sleep 60", ask: func(p *policy.Policy) { p.Timeout, p.Grace = 300*time.Millisecond, 0 }, want: "timeout 0"},
	{name: "cancelled", script: "echo $0; sleep 60", cancel: true, want: "cancelled 0"},
	{name: "input", script: "echo $0; cat >/dev/null", want: "exited 0", spec: func(s *sandbox.Spec) {
		r, w, err := os.Pipe()
		if err != nil {
			panic(err)
		}
		go func() { fmt.Fprintln(w, "text"); w.Close() }()
		s.Stdio.In = r
	}},
	{name: "memory", script: "echo $0; head -c 200000000 /dev/zero | tail -c 190000000 >/dev/null; exit 5", ask: func(p *policy.Policy) { p.Memory = 64 << 20 }},
}

func freePort() uint16 {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer l.Close()
	return uint16(l.Addr().(*net.TCPAddr).Port)
}

func (k one) run(id string) error {
	dir, err := os.MkdirTemp("", "gobox-many-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	p := policy.Default()
	p.Argv = []string{"/bin/sh", "-c", k.script, id}
	p.Workspace = policy.Workspace{Path: dir, Mode: policy.ModeReadWrite, Explicit: true}
	if k.ask != nil {
		k.ask(&p)
	}
	plan, err := policy.Resolve(p, policy.CurrentHost())
	if err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	in := null().In
	defer in.Close()
	spec := sandbox.Spec{ID: id, Plan: plan, Stdio: sandbox.Stdio{In: in, Out: w, Err: w}}
	if k.spec != nil {
		k.spec(&spec)
		if spec.Stdio.In != in {
			defer spec.Stdio.In.Close()
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	out := make(chan string, 1)
	go func() {
		first := make([]byte, 1)
		n, _ := r.Read(first)
		if k.cancel {
			cancel()
		}
		rest, _ := io.ReadAll(r)
		out <- string(first[:n]) + string(rest)
	}()
	res, err := sandbox.Run(ctx, spec)
	w.Close()
	if err != nil {
		return err
	}
	got, text := fmt.Sprintf("%s %d", res.Outcome, res.ExitCode), strings.TrimSpace(<-out)
	early := k.name == "timeout" && text == "" // on a busy machine
	if k.want != "" && (got != k.want || text != id && !early) || res.Survived || res.OutputError != nil || len(res.Survivors) > 0 {
		return fmt.Errorf("%s, %q: %+v", got, text, res)
	}
	return nil
}

// left counts what runs could leave behind: descriptors, goroutines, threads, children, mounts, cgroups.
func left(t *testing.T) map[string]int {
	t.Helper()
	tasks, _ := os.ReadDir("/proc/self/task")
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	groups, _ := filepath.Glob("/sys/fs/cgroup/*gobox-many-id*")
	more, _ := filepath.Glob("/sys/fs/cgroup/*/*gobox-many-id*")
	return map[string]int{
		"descriptors": len(descriptors(t)), "goroutines": runtime.NumGoroutine(), "threads": len(tasks), "children": len(children(t)),
		"mounts": strings.Count(string(mounts), "\n"), "cgroups": len(groups) + len(more),
	}
}

// TestManyAtOnce: runs of every kind beside each other, and beside what the program does itself, are as if alone, and leave
// nothing behind.
func TestManyAtOnce(t *testing.T) {
	if !again(t, "GOBOX_TEST_MANY") {
		return
	}
	if testing.Short() {
		t.Skip("takes seconds")
	}
	round := func(times int) {
		stop := make(chan struct{})
		var busy, runs sync.WaitGroup
		busy.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				// A child of the program's own has none of the runs' descriptors.
				out, err := exec.Command("/bin/sh", "-c", "ls -l /proc/self/fd | sed -n 's/.* -> //p'; exit 7").CombinedOutput()
				if e, ok := err.(*exec.ExitError); !ok || e.ExitCode() != 7 {
					t.Errorf("the program's own child: %v", err)
				}
				for _, to := range strings.Fields(string(out)) {
					if strings.HasPrefix(to, "anon_inode") || strings.HasPrefix(to, "socket") || strings.Contains(to, "memfd") {
						t.Errorf("the program's own child has %s", to)
					}
				}
			}
		})
		for n := range times {
			for i, k := range kinds {
				runs.Go(func() {
					err := k.run(fmt.Sprintf("gobox-many-id-%d-%d", i, n))
					for range 20 {
						if !errors.Is(err, unix.EADDRINUSE) {
							break // else somebody was given the port that was free
						}
						err = k.run(fmt.Sprintf("gobox-many-id-%d-%d", i, n))
					}
					if err != nil {
						t.Errorf("%s: %v", k.name, err)
					}
				})
			}
		}
		runs.Wait()
		close(stop)
		busy.Wait()
	}
	round(1)
	before := left(t)
	for range 2 {
		round(3)
	}
	var after map[string]int
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		runtime.GC()
		after = left(t)
		if after["descriptors"] <= before["descriptors"] && after["goroutines"] <= before["goroutines"] {
			break
		}
	}
	for what, n := range after {
		// Threads stay with the Go runtime, at most as many as were needed at once.
		if n > before[what] && what != "threads" || what == "threads" && n > 300 {
			t.Errorf("%d %s, and %d before", n, what, before[what])
		}
	}
	if t.Failed() {
		buf := make([]byte, 1<<20)
		t.Logf("%v\n%s", descriptors(t), buf[:runtime.Stack(buf, true)])
	}
	var st unix.WaitStatus
	if pid, err := unix.Wait4(-1, &st, unix.WNOHANG, nil); err != unix.ECHILD {
		t.Errorf("a child is left: %d %v", pid, err)
	}
}

// TestOnePlanForMany: a plan is nobody's while it is run.
func TestOnePlanForMany(t *testing.T) {
	p := plan("/bin/true")
	defer os.RemoveAll(p.Workspace.Path)
	var runs sync.WaitGroup
	for i := range 8 {
		runs.Go(func() {
			stdio := null()
			defer stdio.In.Close()
			if res, err := sandbox.Run(context.Background(), sandbox.Spec{ID: fmt.Sprint("same-", i), Plan: p, Stdio: stdio}); err != nil || res.Outcome != sandbox.Exited || res.ExitCode != 0 {
				t.Errorf("%+v %v", res, err)
			}
		})
	}
	runs.Wait()
}
