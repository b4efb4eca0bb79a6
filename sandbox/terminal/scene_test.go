package terminal

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long a test waits for what must happen; only a failure takes it.
const patience = 20 * time.Second

func openPTY(t *testing.T) (master, slave *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("no pseudoterminals here: %v", err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	peer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		t.Fatal(errno)
	}
	master, slave = os.NewFile(uintptr(fd), "master"), os.NewFile(peer, "slave")
	t.Cleanup(func() { master.Close(); slave.Close() })
	return master, slave
}

// scene is a user at a terminal, a relay, and an inner terminal.
type scene struct {
	*Relay
	user          *os.File // the user's hands and eyes
	tty           *os.File // what gobox has of the user's terminal
	master, slave *os.File // inner

	mu   sync.Mutex
	seen bytes.Buffer // all that appeared on the user's screen
	gone chan struct{}
}

func newScene(t *testing.T, shared bool) *scene {
	s := &scene{gone: make(chan struct{})}
	s.user, s.tty = openPTY(t)
	s.master, s.slave = openPTY(t)
	s.Relay = New(s.tty, s.tty, s.master)
	s.Relay.shared = shared
	t.Cleanup(func() { s.slave.Close(); s.Close() })
	return s
}

func (s *scene) watch() {
	go func() {
		defer close(s.gone)
		buf := make([]byte, 4096)
		for {
			n, err := s.user.Read(buf)
			s.mu.Lock()
			s.seen.Write(buf[:max(n, 0)])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
}

func (s *scene) screen() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen.String()
}

// run starts a shell line with the inner terminal as its controlling one.
func (s *scene) run(t *testing.T, line string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/bin/sh", append([]string{"-c", line, "sh"}, args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.slave, s.slave, s.slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd
}

func modes(t *testing.T, f *os.File) unix.Termios {
	t.Helper()
	fd, err := descriptor(f)
	if err != nil {
		t.Fatal(err)
	}
	m, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return *m
}

func setSize(t *testing.T, f *os.File, rows, cols uint16) {
	t.Helper()
	fd, _ := descriptor(f)
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols}); err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func within(t *testing.T, what string, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("%s takes for ever", what)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// variants runs a test with the terminal opened anew and with the shared description.
func variants(t *testing.T, f func(t *testing.T, shared bool)) {
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared=%v", shared), func(t *testing.T) { f(t, shared) })
	}
}
