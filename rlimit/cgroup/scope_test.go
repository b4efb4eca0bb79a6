package cgroup

import (
	"encoding/binary"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// With a real systemd; integration/vm sees to it that there is one.
func TestScope(t *testing.T) {
	s := Detect()
	if !s.Scope() {
		t.Skip("this user has no systemd session, or owns its cgroups")
	}
	stand := exec.Command("sleep", "60") // in init's place
	if err := stand.Start(); err != nil {
		t.Fatal(err)
	}
	defer stand.Wait()
	defer stand.Process.Kill()
	start := time.Now()
	g, err := CreateScope("scope", Limits{Memory: limit, Pids: 20, CPUs: 1}, s, stand.Process.Pid, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("created in %v: %s", time.Since(start), g.Paths())
	defer g.Remove(5 * time.Second)
	if !strings.Contains(g.Paths()[0], ".scope/") {
		t.Errorf("no scope: %s", g.Paths())
	}
	cmd := helperCommand(t, "anon")
	enter(t, g, false, cmd)
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Errorf("the limit does not hold: %s", out)
	}
	if e, err := g.Events(); err != nil || e.OOMKills == 0 {
		t.Errorf("events %+v, %v", e, err)
	}
	if err := g.Remove(5 * time.Second); err != nil {
		t.Error(err)
	}
	scope := filepath.Dir(g.Paths()[0])
	stand.Process.Kill()
	stand.Wait()
	if !waitFor(5*time.Second, func() bool { return !exists(scope) }) {
		t.Errorf("%s outlives its processes", scope)
	}
}

// answer plays systemd's end: it checks what it gets and says one message.
func answer(t *testing.T, kind byte, text string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "bus")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "private")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		buf := make([]byte, 4096)
		n, _ := conn.Read(buf)
		if !strings.HasPrefix(string(buf[:n]), "\x00AUTH EXTERNAL ") {
			return
		}
		conn.Write([]byte("OK 0123456789abcdef\r\n"))
		if !strings.Contains(string(buf[:n]), "StartTransientUnit") {
			conn.Read(buf)
		}
		var body busWriter
		body.str(text)
		message := []byte{'l', kind, 0, 1}
		message = binary.LittleEndian.AppendUint32(message, uint32(len(body.b)))
		message = binary.LittleEndian.AppendUint32(message, 1)
		message = binary.LittleEndian.AppendUint32(message, 8)
		message = append(message, 5, 1, 'u', 0, 1, 0, 0, 0)
		conn.Write(append(message, body.b...))
	}()
	return socket
}

func TestBus(t *testing.T) {
	end := time.Now().Add(5 * time.Second)
	if err := startScope(answer(t, busReturn, "/job/1"), "x.scope", 1, end); err != nil {
		t.Error(err)
	}
	err := startScope(answer(t, busError, "Unit x.scope was already loaded"), "x.scope", 1, end)
	if err == nil || !strings.Contains(err.Error(), "already loaded") {
		t.Errorf("got %v", err)
	}
	if err := startScope("/nonexistent", "x.scope", 1, end); err == nil {
		t.Error("called nobody")
	}
	// A systemd that does not answer must not hold a run up.
	dir := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Skip(err)
	}
	defer l.Close()
	start := time.Now()
	if err := startScope(filepath.Join(dir, "s"), "x.scope", 1, start.Add(100*time.Millisecond)); err == nil || time.Since(start) > 3*time.Second {
		t.Errorf("%v after %v", err, time.Since(start))
	}
}
