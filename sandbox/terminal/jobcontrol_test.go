package terminal

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const roleEnv = "GOBOX_TEST_TERMINAL_ROLE"

func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(roleEnv) {
	case "":
		os.Exit(m.Run())
	case "shell":
		err = actShell()
	case "gobox":
		err = actGobox()
	}
	if err != nil {
		fmt.Fprintln(os.NewFile(3, "report"), "error:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// actShell is a shell with job control: it starts gobox in the background, reads a line itself, brings
// gobox to the foreground, and takes the terminal back when it ended.
func actShell() error {
	runtime.LockOSThread()
	signal.Ignore(syscall.SIGTTOU)
	report := os.NewFile(3, "report")
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), roleEnv+"=gobox")
	cmd.Stdin, cmd.Stdout = os.Stdin, os.Stdout
	cmd.ExtraFiles = []*os.File{report}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil {
		return err
	}
	fmt.Fprint(report, "shell read ", line)
	if err := unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, cmd.Process.Pid); err != nil {
		return err
	}
	err = cmd.Wait()
	unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, unix.Getpgrp())
	return err
}

// actGobox relays to an inner terminal, from which it reads one line as the command would.
func actGobox() error {
	report := os.NewFile(3, "report")
	// The shell's way of ignoring this signal is inherited, and must not be what keeps Start from stopping.
	signal.Reset(syscall.SIGTTOU)
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return err
	}
	peer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return errno
	}
	slave := os.NewFile(peer, "slave")
	r := New(os.Stdin, os.Stdout, os.NewFile(uintptr(fd), "master"))
	defer r.Close()
	if err := r.Start(); err != nil {
		return err
	}
	fmt.Fprintln(report, "gobox started")
	line, err := bufio.NewReader(slave).ReadString('\n')
	if err != nil {
		return err
	}
	fmt.Fprint(report, "command read ", line)
	slave.Close()
	return r.Close()
}

// Started in the background, gobox neither stops nor touches the terminal nor takes the shell's line;
// brought to the foreground without a signal, it works, and puts the modes back at the end.
func TestBackgroundThenForeground(t *testing.T) {
	user, tty := openPTY(t)
	go io.Copy(io.Discard, user)
	before := modes(t, tty)
	r, w, err := os.Pipe()
	check(t, err)
	defer r.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), roleEnv+"=shell")
	cmd.Stdin, cmd.Stdout = tty, tty
	cmd.ExtraFiles = []*os.File{w}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // whose end would be the parent's death
	defer runtime.UnlockOSThread()
	check(t, cmd.Start())
	w.Close()
	defer cmd.Process.Kill()
	lines := bufio.NewScanner(r)
	expect := func(want string) {
		t.Helper()
		within(t, want, func() {
			if !lines.Scan() || lines.Text() != want {
				t.Errorf("reported %q, want %q", lines.Text(), want)
			}
		})
	}
	expect("gobox started")
	if modes(t, tty) != before {
		t.Error("modes changed in the background")
	}
	io.WriteString(user, "for the shell\n")
	expect("shell read for the shell")
	eventually(t, "raw mode", func() bool { return modes(t, tty).Lflag&unix.ICANON == 0 })
	io.WriteString(user, "for the command\r")
	expect("command read for the command")
	within(t, "the shell", func() { check(t, cmd.Wait()) })
	if modes(t, tty) != before {
		t.Error("modes not restored")
	}
	if lines.Scan() {
		t.Errorf("also reported %s", strings.TrimSpace(lines.Text()))
	}
}
