package integration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"gobox/integration/harness"
)

// onTerminal starts gobox with a terminal as all of its stdio.
func onTerminal(t *testing.T, b *harness.Box, r harness.Run) (*harness.Terminal, *exec.Cmd) {
	t.Helper()
	term := harness.OpenTerminal(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	cmd := b.Command(ctx, r)
	term.Attach(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return term, cmd
}

// ended waits for the command and judges its status.
func ended(t *testing.T, term *harness.Terminal, cmd *exec.Cmd, want int) {
	t.Helper()
	_ = cmd.Wait()
	if got := harness.ExitCode(cmd.ProcessState); got != want {
		t.Errorf("want exit %d, got %d; terminal: %q", want, got, term.Text())
	}
	term.Restored(t)
}

// probeLines picks the probe's report out of what a terminal shows.
func probeLines(t *testing.T, text string) harness.Report {
	t.Helper()
	var lines strings.Builder
	for line := range strings.Lines(strings.ReplaceAll(text, "\r\n", "\n")) {
		if strings.HasPrefix(line, "{") {
			lines.WriteString(line)
		}
	}
	return harness.Parse(t, []byte(lines.String()))
}

// injections are TIOCSTI with and without a high bit, TIOCLINUX, TIOCCONS, TIOCSETD, on descriptor fd.
func injections(fd int) []string {
	var tries []string
	for _, try := range []string{"tty-inject %d 0x5412", "tty-inject %d 0x100005412", "tty-inject %d 0x8000000000005412", "tty-ioctl %d 0x541c bad", "tty-ioctl %d 0x10000541c bad", "tty-ioctl %d 0x541d 0", "tty-ioctl %d 0x5423 bad"} {
		tries = append(tries, fmt.Sprintf(try, fd))
	}
	return tries
}

// TestP15 types into the user's shell. CVE-2017-5226, CVE-2019-10063, CVE-2023-28100.
func TestP15NothingIsTypedIntoTheTerminal(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		tries := append(append(injections(0), injections(2)...), "device 0", "device 1", "device 2")
		argv := append([]string{b.Probe}, strings.Fields(strings.Join(tries, " + "))...)
		term, cmd := onTerminal(t, b, harness.Run{Argv: argv})
		ended(t, term, cmd, 0)
		waitFor(t, "the probe's report", func() bool { return strings.Count(term.Text(), "\n") >= len(tries) })
		rep := probeLines(t, term.Text())
		rep.Refused(t, append([]string{"ENOTTY"}, barred...), tries[:len(tries)-3]...)
		for _, o := range rep[len(rep)-3:] {
			notTheUsers(t, term, o)
		}
		if n := term.Waiting(t); n != 0 {
			t.Errorf("%d bytes wait in the terminal's input", n)
		}
	})
}

// notTheUsers compares what the probe found on a descriptor with the user's terminal.
func notTheUsers(t *testing.T, term *harness.Terminal, o harness.Outcome) {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Fstat(int(term.Slave.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	if o.Errno != "" || o.Detail == fmt.Sprintf("dev %d ino %d", st.Dev, st.Ino) {
		t.Errorf("%s: %+v is the user's terminal", o.Attempt, o)
	}
}

// TestP15StderrOnly has a terminal on stderr alone, as with `cmd </dev/null >out`.
func TestP15StderrOnlyIsATerminal(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		term := harness.OpenTerminal(t)
		tries := append(injections(2), "device 2", "device /dev/tty", "tty-ioctl 2 0x540e 1")
		cmd := b.Command(t.Context(), harness.Run{Argv: append([]string{b.Probe}, strings.Fields(strings.Join(tries, " + "))...)})
		cmd.Stderr = term.Slave
		cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty, cmd.SysProcAttr.Ctty = true, true, 2
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %s %s", err, out, term.Text())
		}
		rep := harness.Parse(t, out)
		rep.Refused(t, append([]string{"ENOTTY"}, barred...), injections(2)...)
		rep.Refused(t, []string{"EPERM", "ENOTTY", "ENOSYS"}, "tty-ioctl 2 0x540e 1")
		notTheUsers(t, term, rep.Of(t, "device 2"))
		if n := term.Waiting(t); n != 0 {
			t.Errorf("%d bytes wait in the terminal's input", n)
		}
		term.Restored(t)
	})
}

func TestP16NoTerminalToTake(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		rep := b.Inside(t, nil, "open rw /dev/tty", "open rw /dev/console", "tty-ioctl 0 0x540e 1", "session")
		rep.Refused(t, []string{"ENXIO", "ENOENT", "EACCES"}, "open rw /dev/tty", "open rw /dev/console")
		rep.Refused(t, []string{"EPERM", "ENOTTY", "ENOSYS"}, "tty-ioctl 0 0x540e 1")
		var pid, pgid, sid int
		if _, err := fmt.Sscanf(rep.Of(t, "session").Detail, "pid %d pgid %d sid %d", &pid, &pgid, &sid); err != nil || sid == 0 || pgid != pid {
			t.Errorf("not a group of its own in a session inside: %+v", rep.Of(t, "session"))
		}
		t.Run("modes", func(t *testing.T) {
			term, cmd := onTerminal(t, b, harness.Run{Argv: []string{"/bin/sh", "-c", "stty raw -echo; exit 4"}})
			ended(t, term, cmd, 4)
		})
	})
}

func shell(t *testing.T, b *harness.Box, flags ...string) (*harness.Terminal, *exec.Cmd) {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("this host has no bash")
	}
	return onTerminal(t, b, harness.Run{Flags: append(flags, "--env", "PS1=ready> "), Argv: []string{"bash", "--norc", "--noprofile", "-i"}})
}

func TestTerminalJobControl(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		term, cmd := shell(t, b)
		first := term.Expect(t, "ready> ")
		if strings.Contains(first, "job control") || strings.Contains(first, "terminal process group") {
			t.Errorf("bash complains: %q", first)
		}
		term.Type(t, "tty; stty size\r")
		if text := term.Expect(t, "24 80"); !strings.Contains(text, "/dev/") {
			t.Errorf("tty: %q", text)
		}
		term.Resize(t, 50, 132)
		time.Sleep(100 * time.Millisecond)
		term.Type(t, "stty size\r")
		term.Expect(t, "50 132")

		term.Type(t, b.Probe+" sleep 60s\r")
		time.Sleep(300 * time.Millisecond)
		term.Type(t, "\x1a")
		term.Expect(t, "Stopped")
		term.Type(t, "jobs; echo job$((40+2))\r")
		term.Expect(t, "job42")
		term.Type(t, "fg\r")
		time.Sleep(200 * time.Millisecond)
		term.Type(t, "\x03")
		term.Expect(t, "ready> ")
		term.Type(t, "echo status=$?\r")
		if text := term.Expect(t, "status="); !strings.Contains(text, "status=") {
			t.Error(text)
		}
		term.Type(t, "echo still-$((1+1))\r")
		term.Expect(t, "still-2")
		term.Type(t, "exit 3\r")
		ended(t, term, cmd, 3)
		b.NoSurvivors(t)
	})
}

func TestTerminalIsRestored(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		t.Run("timeout", func(t *testing.T) {
			term, cmd := shell(t, b, "--timeout", "1s", "--grace", "200ms")
			term.Expect(t, "ready> ")
			ended(t, term, cmd, 124)
		})
		t.Run("refusal", func(t *testing.T) {
			term, cmd := onTerminal(t, b, harness.Run{Argv: []string{"/nonexistent/command"}})
			ended(t, term, cmd, 127)
		})
		for name, c := range map[string]struct {
			signal syscall.Signal
			code   int
		}{"TERM": {syscall.SIGTERM, 143}, "HUP": {syscall.SIGHUP, 129}} {
			t.Run(name, func(t *testing.T) {
				term, cmd := onTerminal(t, b, harness.Run{Argv: []string{"/bin/sh", "-c", "echo up; exec sleep 60"}})
				term.Expect(t, "up")
				if err := cmd.Process.Signal(c.signal); err != nil {
					t.Fatal(err)
				}
				ended(t, term, cmd, c.code)
			})
		}
		t.Run("interrupt", func(t *testing.T) {
			term, cmd := onTerminal(t, b, harness.Run{Argv: []string{"/bin/sh", "-c", "echo up; exec sleep 60"}})
			term.Expect(t, "up")
			time.Sleep(100 * time.Millisecond)
			term.Type(t, "\x03")
			ended(t, term, cmd, 130)
		})
	})
}

func TestTerminalStdinWithPipedOutput(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		term := harness.OpenTerminal(t)
		cmd := b.Command(t.Context(), harness.Run{Argv: []string{"/bin/sh", "-c", "printf 'a\\nb\\n'; exit 5"}})
		cmd.Stdin = term.Slave
		cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty, cmd.SysProcAttr.Ctty = true, true, 0
		out, _ := cmd.Output()
		if string(out) != "a\nb\n" {
			t.Errorf("a pipe on stdout got %q", out)
		}
		ended(t, term, cmd, 5)
	})
}

func TestTerminalHangup(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		term, cmd := onTerminal(t, b, harness.Run{Argv: []string{"/bin/sh", "-c", "echo up; exec sleep 60", b.Marker}})
		term.Expect(t, "up")
		done := make(chan struct{})
		go func() { _ = cmd.Wait(); close(done) }()
		if err := term.Slave.Close(); err != nil {
			t.Fatal(err)
		}
		if err := term.Master.Close(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-done:
		case <-time.After(15 * time.Second):
			t.Error("gobox outlives its terminal")
		}
		b.NoSurvivors(t)
	})
}

func TestTerminalPython(t *testing.T) {
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		t.Skip("this host has no python3")
	}
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		term, cmd := onTerminal(t, b, harness.Run{Argv: []string{"/usr/bin/python3", "-q"}})
		term.Expect(t, ">>> ")
		term.Type(t, "import os; print('tty', os.isatty(0), os.get_terminal_size())\r")
		term.Expect(t, "tty True os.terminal_size(columns=80, lines=24)")
		// Short sleeps: a signal that Python takes just before one ends it no sooner.
		term.Type(t, "import time; print('go' + 'ing'); [time.sleep(0.1) for _ in range(600)]\r")
		term.Expect(t, "going")
		term.Type(t, "\x03")
		term.Expect(t, "KeyboardInterrupt")
		term.Type(t, "print(6*7)\r")
		term.Expect(t, "42")
		term.Type(t, "\x04")
		ended(t, term, cmd, 0)
	})
}

// TestTerminalEditor: a program that takes the whole screen and the terminal's modes.
func TestTerminalEditor(t *testing.T) {
	vim := "vim"
	if _, err := exec.LookPath(vim); err != nil {
		vim = "vim.tiny" // as Debian's small package has it
	}
	if _, err := exec.LookPath(vim); err != nil {
		t.Skip("this host has no vim")
	}
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		term, cmd := onTerminal(t, b, harness.Run{Flags: []string{"--workspace-mode", "rw"}, Argv: []string{vim, "-u", "NONE", "-N", "file.txt"}})
		term.Expect(t, "file.txt")
		term.Resize(t, 40, 100)
		time.Sleep(100 * time.Millisecond)
		term.Type(t, "ihello from inside\x1b")
		term.Expect(t, "hello from inside")
		term.Type(t, ":set lines?\r")
		term.Expect(t, "lines=40")
		term.Type(t, ":wq\r")
		ended(t, term, cmd, 0)
		if data, err := os.ReadFile(b.Work + "/file.txt"); err != nil || string(data) != "hello from inside\n" {
			t.Errorf("the file holds %q, %v", data, err)
		}
	})
}

// TestTerminalSuspend: Ctrl-Z on a single command stops gobox too, so that the user's shell gets the
// terminal back in its own modes, and fg goes on.
func TestTerminalSuspend(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		// A shell of the host as the parent, since an orphaned process group cannot be suspended.
		term := harness.OpenTerminal(t)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		t.Cleanup(cancel)
		cmd := b.Command(ctx, harness.Run{Bin: "/bin/bash", Args: []string{"--norc", "--noprofile", "-i"}, Env: []string{"PS1=host> "}})
		term.Attach(cmd)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		term.Expect(t, "host> ")
		term.Type(t, b.Gobox+" run -- /bin/sh -c 'echo u''p; read line; echo got-$line'\r")
		term.Expect(t, "up\r\n")
		term.Type(t, "\x1a")
		term.Expect(t, "Stopped")
		term.Type(t, "echo host-$((1+1))\r")
		term.Expect(t, "host-2")
		term.Type(t, "fg\r")
		time.Sleep(200 * time.Millisecond)
		term.Type(t, "line\r")
		term.Expect(t, "got-line")
		term.Expect(t, "host> ")
		term.Type(t, "exit 5\r")
		_ = cmd.Wait()
		if code := harness.ExitCode(cmd.ProcessState); code != 5 {
			t.Errorf("exit %d: %q", code, term.Text())
		}
	})
}
