package integration

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"gobox/integration/harness"
)

// freePort gives one of the host's loopback that nobody has at the moment.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// ask sends a line and gives the one that comes back.
func ask(port int, line string) (string, error) {
	c, err := net.DialTimeout("tcp4", fmt.Sprintf("127.0.0.1:%d", port), 5*time.Second)
	if err != nil {
		return "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprintln(c, line)
	answer, err := bufio.NewReader(c).ReadString('\n')
	return strings.TrimSpace(answer), err
}

// A connection to a published port is accepted when one inside was, and refused before and after there is a server, on whatever
// address that listens.
func TestPublish(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for name, at := range map[string]string{"loopback": "127.0.0.1:80", "all": "0.0.0.0:80", "v6": "[::1]:80", "both": "[::]:80"} {
			for _, flags := range [][]string{nil, {"--allow-net", "example.org"}} {
				t.Run(fmt.Sprint(name, len(flags)), func(t *testing.T) {
					port := freePort(t)
					published(t, b, port, at, append([]string{"--publish", fmt.Sprintf("%d:80", port)}, flags...))
				})
			}
		}
	})
}

func published(t *testing.T, b *harness.Box, port int, at string, flags []string) {
	cmd := b.Command(t.Context(), harness.Run{Flags: flags, Argv: []string{b.Probe, "serve", at, "3", "1s"}})
	serving := &watcher{want: "serving", seen: make(chan struct{})}
	var out strings.Builder
	cmd.Stderr, cmd.Stdout = serving, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	refused := func(when string) {
		if answer, err := ask(port, "early"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s there is a server: %q, %v", when, answer, err)
		}
	}
	refused("before")
	serving.wait(t)
	// It listens a moment later than it does inside.
	waitFor(t, "the port to be open", func() bool {
		answer, err := ask(port, "first")
		return err == nil && answer == "inside first"
	})
	for _, line := range []string{"second", "third"} {
		if answer, err := ask(port, line); err != nil || answer != "inside "+line {
			t.Errorf("%s: %q, %v", line, answer, err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s %s", err, out.String(), serving)
	}
	refused("after")
	b.NoSurvivors(t)
}

// A port that somebody has is refused before the command runs; one that had connections a moment ago is not.
func TestPublishedPortIsTaken(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		port := l.Addr().(*net.TCPAddr).Port
		flags := []string{"--publish", fmt.Sprintf("%d:80", port)}
		res := b.Run(t, harness.Run{Flags: flags, Argv: []string{"echo", "ran"}})
		if res.Code != 125 || len(res.Stdout) != 0 || !strings.Contains(string(res.Stderr), fmt.Sprintf("gobox: error: publish 127.0.0.1:%d: address already in use", port)) {
			t.Errorf("%v", res)
		}
		// Another gobox that has the port and does not listen yet is somebody, too.
		l.Close()
		first := b.Start(t, harness.Run{Flags: flags, Argv: []string{b.Probe, "sleep", "20s", b.Marker}})
		// It has the port before it has the command. Who tries the port itself may be in its way.
		waitFor(t, "the first to have the port", func() bool { return inside(b, "sleep 20s") == 1 })
		if res = b.Run(t, harness.Run{Flags: flags, Argv: []string{"echo", "ran"}}); res.Code != 125 || len(res.Stdout) != 0 {
			t.Errorf("%v", res)
		}
		_ = first.Process.Kill()
	})
}

// The command cannot publish more than it was given, and a server that is not the published one is not reached.
func TestPublishIsOnePort(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		port, other := freePort(t), freePort(t)
		cmd := b.Command(t.Context(), harness.Run{Flags: []string{"--publish", fmt.Sprintf("%d:80", port)}, Argv: []string{b.Probe, "serve", fmt.Sprintf("0.0.0.0:%d", other), "1", "0s"}})
		serving := &watcher{want: "serving", seen: make(chan struct{})}
		cmd.Stderr = serving
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		serving.wait(t)
		time.Sleep(300 * time.Millisecond)
		for _, p := range []int{port, other} {
			if answer, err := ask(p, "x"); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("port %d: %q, %v", p, answer, err)
			}
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		b.NoSurvivors(t)
	})
}
