package harness

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Terminal is a pseudo-terminal of the test, in the place of the user's.
type Terminal struct {
	Master *os.File
	Slave  *os.File
	before unix.Termios

	mu     sync.Mutex
	seen   bytes.Buffer
	paused bool
}

// OpenTerminal makes one of 24 lines and 80 columns and collects what is written to it.
func OpenTerminal(t *testing.T) *Terminal {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Skipf("this host has no pseudo-terminals: %v", err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	// A non-blocking master lets Close end the reader.
	term := &Terminal{Master: os.NewFile(uintptr(fd), "ptmx")}
	if term.Slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	term.Resize(t, 24, 80)
	modes, err := unix.IoctlGetTermios(int(term.Slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	term.before = *modes
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 4096)
		for {
			n, err := term.Master.Read(buf)
			term.mu.Lock()
			term.seen.Write(buf[:n])
			paused := term.paused
			term.mu.Unlock()
			if paused {
				return
			}
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		term.Slave.Close()
		term.Master.Close()
		<-done
	})
	return term
}

// Resize sets the window size, as a terminal emulator does.
func (term *Terminal) Resize(t *testing.T, rows, cols uint16) {
	t.Helper()
	raw, err := term.Master.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if cerr := raw.Control(func(fd uintptr) {
		err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
	}); cerr != nil || err != nil {
		t.Fatal(cerr, err)
	}
}

// Attach makes the terminal the stdio and the controlling terminal of a command that is not started.
func (term *Terminal) Attach(cmd *exec.Cmd) {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = term.Slave, term.Slave, term.Slave
	cmd.SysProcAttr.Setsid = true
	cmd.SysProcAttr.Setctty = true
	cmd.SysProcAttr.Ctty = 0
}

// Pause makes this the last that is ever read from the terminal, whose buffer then fills up.
func (term *Terminal) Pause(t *testing.T) {
	t.Helper()
	term.mu.Lock()
	term.paused = true
	term.mu.Unlock()
	if _, err := term.Slave.WriteString("paused\r\n"); err != nil {
		t.Fatal(err)
	}
}

// Text is everything that was written so far.
func (term *Terminal) Text() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.seen.String()
}

// Type writes what a user types and forgets what was seen before.
func (term *Terminal) Type(t *testing.T, keys string) {
	t.Helper()
	term.mu.Lock()
	term.seen.Reset()
	term.mu.Unlock()
	if _, err := term.Master.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// Expect waits for a text; it gives everything seen with it.
func (term *Terminal) Expect(t *testing.T, want string) string {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		text := term.Text()
		if strings.Contains(text, want) {
			return text
		}
		if time.Now().After(deadline) {
			t.Fatalf("the terminal never showed %q, only %q", want, text)
		}
	}
}

// Restored fails the test when the terminal's modes are not what they were.
func (term *Terminal) Restored(t *testing.T) {
	t.Helper()
	modes, err := unix.IoctlGetTermios(int(term.Slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	if *modes != term.before {
		t.Errorf("terminal modes were %+v, are %+v", term.before, *modes)
	}
}

// Waiting is the number of bytes in the terminal's input queue.
func (term *Terminal) Waiting(t *testing.T) int {
	t.Helper()
	n, err := unix.IoctlGetInt(int(term.Slave.Fd()), unix.TIOCINQ)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
