package integration

import (
	"bufio"
	"bytes"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gobox/integration/harness"
	"gobox/selftest/attempt"
)

func itoa(n int) string { return strconv.Itoa(n) }

func systry(call string) string { return attempt.Syscall(call) }

func sysno(name string) string { return attempt.Sysno(name) }

// confined judges the probe's status lines: no capability in any set, no new privileges, a filter.
func confined(t *testing.T, status string) {
	t.Helper()
	status = strings.ReplaceAll(status, `\n`, "\n")
	for _, want := range []string{"NoNewPrivs 1", "Seccomp 2"} {
		if !strings.Contains(status, want) {
			t.Errorf("no %q in %q", want, status)
		}
	}
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		if !strings.Contains(status, set+" 0000000000000000") {
			t.Errorf("%s is not empty in %q", set, status)
		}
	}
	for _, bad := range []string{"NoNewPrivs 0", "Seccomp 0"} {
		if strings.Contains(status, bad) {
			t.Errorf("%q in %q", bad, status)
		}
	}
}

// listenUnix serves sockets of the host and tells of every connection.
func listenUnix(t *testing.T, names ...string) <-chan string {
	t.Helper()
	conns := make(chan string, 64)
	for _, name := range names {
		l, err := net.Listen("unix", name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				c.Close()
				conns <- name
			}
		}()
	}
	return conns
}

// waitFor polls for a condition that a loaded machine may take seconds to reach.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("gave up waiting for %s", what)
		}
	}
}

// host is a probe outside the sandbox, of the test's own identity: a canary that is a process.
type host struct {
	cmd   *exec.Cmd
	lines chan string
}

// startHost starts it and waits for its first line.
func startHost(t *testing.T, b *harness.Box, args ...string) *host {
	t.Helper()
	cmd := b.Command(t.Context(), harness.Run{Bin: b.Probe, Args: args})
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h := &host{cmd: cmd, lines: make(chan string, 64)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for s := bufio.NewScanner(out); s.Scan(); {
			h.lines <- s.Text()
		}
		close(h.lines)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done
		_ = cmd.Wait()
	})
	if line := h.line(10 * time.Second); line != "ready" {
		t.Fatalf("the process outside said %q", line)
	}
	return h
}

func (h *host) pid() int { return h.cmd.Process.Pid }

// line is the next one, or empty after d.
func (h *host) line(d time.Duration) string {
	select {
	case line := <-h.lines:
		return line
	case <-time.After(d):
		return ""
	}
}

// watcher is an output that closes seen when want has been written to it.
type watcher struct {
	want string
	seen chan struct{}

	mu   sync.Mutex
	buf  bytes.Buffer
	done bool
}

func (w *watcher) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf.Write(p)
	if !w.done && strings.Contains(w.buf.String(), w.want) {
		w.done = true
		close(w.seen)
	}
	return len(p), nil
}

// wait gives up after a time that no start takes.
func (w *watcher) wait(t *testing.T) {
	t.Helper()
	select {
	case <-w.seen:
	case <-time.After(20 * time.Second):
		t.Fatalf("never saw %q, only %q", w.want, w.String())
	}
}

func (w *watcher) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}
