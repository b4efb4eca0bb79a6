package terminal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestModes(t *testing.T) {
	s := newScene(t, false)
	user := modes(t, s.tty)
	user.Cc[unix.VERASE] = 8
	fd, _ := descriptor(s.tty)
	check(t, unix.IoctlSetTermios(fd, unix.TCSETS, &user))
	raw := func(when string, want bool) {
		t.Helper()
		if got := modes(t, s.tty); (got.Lflag&(unix.ICANON|unix.ECHO|unix.ISIG) == 0) != want || !want && got != user {
			t.Errorf("%s: modes %+v", when, got)
		}
	}
	check(t, s.Start())
	raw("started", true)
	if inner := modes(t, s.slave); inner != user {
		t.Errorf("inner modes %+v, user's %+v", inner, user)
	}
	if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK != 0 {
		t.Errorf("the user's terminal has flags %#x, %v", flags, err)
	}
	check(t, s.Suspend())
	raw("suspended", false)
	user.Lflag |= unix.TOSTOP // what the user sets while gobox is stopped is what he gets back
	check(t, unix.IoctlSetTermios(fd, unix.TCSETS, &user))
	check(t, s.Resume())
	raw("resumed", true)
	check(t, s.Resume()) // SIGCONT without a stop
	raw("resumed twice", true)
	s.slave.Close()
	check(t, s.Close())
	raw("closed", false)
	check(t, s.Close())
	check(t, s.Suspend())
	check(t, s.Resume())
	raw("all again", false)
	if s.Start() == nil {
		t.Error("a closed relay starts")
	}
}

func TestWindowSize(t *testing.T) {
	s := newScene(t, false)
	s.watch()
	setSize(t, s.tty, 33, 101)
	check(t, s.Start())
	cmd := s.run(t, `trap 'stty size; exit' WINCH; stty size; while :; do read -r line; done`)
	eventually(t, "the first size", func() bool { return strings.Contains(s.screen(), "33 101\r\n") })
	setSize(t, s.tty, 44, 77)
	check(t, s.Resize())
	eventually(t, "the second size", func() bool { return strings.Contains(s.screen(), "44 77\r\n") })
	fd, _ := descriptor(s.master)
	if rows, cols, err := Size(fd); rows != 44 || cols != 77 || err != nil {
		t.Errorf("Size: %d %d %v", rows, cols, err)
	}
	within(t, "the command", func() { cmd.Wait() })
}

// All of a large output arrives as it was written, though the user's terminal is slow now and then, and
// what was written last is there after Close.
func TestOutputComplete(t *testing.T) {
	variants(t, func(t *testing.T, shared bool) {
		s := newScene(t, shared)
		data := make([]byte, 10<<20)
		rand.New(rand.NewSource(1)).Read(data)
		file := filepath.Join(t.TempDir(), "data")
		check(t, os.WriteFile(file, data, 0o600))
		check(t, s.Start())
		cmd := s.run(t, `stty raw; cat "$1"`, file)
		s.slave.Close()
		got := make([]byte, 0, len(data)+1)
		read := make(chan error, 1)
		go func() {
			buf := make([]byte, 64<<10)
			for len(got) < len(data) {
				n, err := s.user.Read(buf)
				got = append(got, buf[:max(n, 0)]...)
				if err != nil {
					read <- err
					return
				}
				if rand.Intn(200) == 0 {
					time.Sleep(5 * time.Millisecond)
				}
			}
			read <- nil
		}()
		within(t, "the command", func() { check(t, cmd.Wait()) })
		within(t, "Close", func() { check(t, s.Close()) })
		within(t, "the reader", func() { check(t, <-read) })
		if !bytes.Equal(got, data) {
			t.Errorf("%d bytes arrived, or not the same, of %d", len(got), len(data))
		}
	})
}

// Everything typed arrives, even when the command is slow to read, and nothing before it reads at all
// is lost.
func TestInputComplete(t *testing.T) {
	variants(t, func(t *testing.T, shared bool) {
		s := newScene(t, shared)
		s.watch()
		data := make([]byte, 1<<20)
		rand.New(rand.NewSource(2)).Read(data)
		file := filepath.Join(t.TempDir(), "got")
		check(t, s.Start())
		cmd := s.run(t, `stty raw -echo; echo ready; sleep 0.3; head -c "$2" >"$1"; echo done`, file, fmt.Sprint(len(data)))
		eventually(t, "the command", func() bool { return strings.Contains(s.screen(), "ready") })
		within(t, "typing", func() { s.user.Write(data) })
		within(t, "the command", func() { check(t, cmd.Wait()) })
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes arrived, or not the same, of %d; %v", len(got), len(data), err)
		}
	})
}

// ^C typed by the user is a signal inside and nothing outside.
func TestInterrupt(t *testing.T) {
	s := newScene(t, false)
	s.watch()
	check(t, s.Start())
	cmd := s.run(t, `trap 'echo caught; exit 7' INT; echo ready; while :; do sleep 0.05; done`)
	eventually(t, "the command", func() bool { return strings.Contains(s.screen(), "ready") })
	s.user.Write([]byte{3})
	within(t, "the command", func() { cmd.Wait() })
	if code := cmd.ProcessState.ExitCode(); code != 7 {
		t.Errorf("exit %d, screen %q", code, s.screen())
	}
}

// The end of a pipe as input is the end of input inside, whether its last line is finished or not.
func TestInputEnds(t *testing.T) {
	for _, text := range []string{"", "one\n", "one\ntwo"} {
		t.Run(fmt.Sprintf("%q", text), func(t *testing.T) {
			s := newScene(t, false)
			s.watch()
			r, w, err := os.Pipe()
			check(t, err)
			defer r.Close()
			s.Relay = New(r, s.tty, s.master)
			before := modes(t, s.tty)
			check(t, s.Start())
			if modes(t, s.tty) != before {
				t.Error("modes changed though input is no terminal")
			}
			file := filepath.Join(t.TempDir(), "got")
			cmd := s.run(t, `cat >"$1"`, file)
			io.WriteString(w, text)
			w.Close()
			within(t, "the command", func() { check(t, cmd.Wait()) })
			if got, _ := os.ReadFile(file); string(got) != text {
				t.Errorf("%q arrived", got)
			}
		})
	}
}

// Only stdout is a terminal.
func TestOutputOnly(t *testing.T) {
	s := newScene(t, false)
	s.watch()
	s.Relay = New(nil, s.tty, s.master)
	before := modes(t, s.tty)
	setSize(t, s.tty, 12, 34)
	check(t, s.Start())
	if modes(t, s.tty) != before {
		t.Error("modes changed")
	}
	cmd := s.run(t, `stty size`)
	s.slave.Close()
	within(t, "the command", func() { check(t, cmd.Wait()) })
	check(t, s.Close())
	eventually(t, "the size", func() bool { return strings.Contains(s.screen(), "12 34") })
}

// What is typed while gobox is suspended, or after it closed, is the shell's.
func TestNoByteStolen(t *testing.T) {
	variants(t, func(t *testing.T, shared bool) {
		s := newScene(t, shared)
		s.watch()
		check(t, s.Start())
		file := filepath.Join(t.TempDir(), "got")
		cmd := s.run(t, `stty -echo; echo ready; cat >"$1"`, file)
		eventually(t, "the command", func() bool { return strings.Contains(s.screen(), "ready") })
		shell := func(text string) {
			t.Helper()
			io.WriteString(s.user, text+"\n")
			time.Sleep(50 * time.Millisecond) // a thief's chance
			buf := make([]byte, 100)
			within(t, "the shell", func() {
				if n, err := s.tty.Read(buf); err != nil || string(buf[:n]) != text+"\n" {
					t.Errorf("the shell read %q, %v; want %q", buf[:max(n, 0)], err, text)
				}
			})
		}
		enter := func(text string) {
			t.Helper()
			want, _ := os.ReadFile(file)
			io.WriteString(s.user, text)
			eventually(t, "the typed line", func() bool {
				got, _ := os.ReadFile(file)
				return string(got) == string(want)+strings.ReplaceAll(text, "\r", "\n")
			})
		}
		enter("inside\r")
		check(t, s.Suspend())
		shell("while suspended")
		check(t, s.Resume())
		enter("inside again\r")
		io.WriteString(s.user, "\x04")
		within(t, "the command", func() { check(t, cmd.Wait()) })
		s.slave.Close()
		check(t, s.Close())
		shell("after close")
	})
}

// Nothing of the relay is left after Close: goroutines, descriptors.
func TestNothingLeft(t *testing.T) {
	descriptors := func() map[string]bool {
		set := make(map[string]bool)
		entries, err := os.ReadDir("/proc/self/fd")
		check(t, err)
		for _, e := range entries {
			target, _ := os.Readlink("/proc/self/fd/" + e.Name())
			if target != "" && !strings.HasPrefix(target, "/proc/") { // the listing itself
				set[e.Name()+" "+target] = true
			}
		}
		return set
	}
	s := newScene(t, false)
	goroutines, before := runtime.NumGoroutine(), descriptors()
	check(t, s.Start())
	s.slave.Close()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { s.Close() })
	}
	within(t, "Close", wg.Wait)
	eventually(t, "goroutines to end", func() bool { return runtime.NumGoroutine() <= goroutines })
	for d := range descriptors() {
		if !before[d] {
			t.Errorf("descriptor left: %s", d)
		}
	}
}

func TestStartFails(t *testing.T) {
	s := newScene(t, false)
	before := modes(t, s.tty)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	check(t, err)
	defer null.Close()
	s.Relay = New(s.tty, s.tty, null)
	if err := s.Start(); !errors.Is(err, unix.ENOTTY) {
		t.Errorf("start on %s: %v", os.DevNull, err)
	}
	if modes(t, s.tty) != before {
		t.Error("modes changed")
	}
	check(t, s.Close())
}

// The user closes the window.
func TestTerminalVanishes(t *testing.T) {
	variants(t, func(t *testing.T, shared bool) {
		s := newScene(t, shared)
		check(t, s.Start())
		cmd := s.run(t, `cat >/dev/null; head -c 1000000 /dev/zero; exit 5`)
		s.slave.Close()
		s.user.Close()
		within(t, "the command", func() { cmd.Wait() })
		if code := cmd.ProcessState.ExitCode(); code != 5 {
			t.Errorf("exit %d", code)
		}
		within(t, "OutputLost", func() { <-s.OutputLost() })
		within(t, "Close", func() { check(t, s.Close()) })
	})
}

// Close ends though a slave stays open, and though nobody looks at the user's terminal.
func TestCloseIsBounded(t *testing.T) {
	t.Run("slave stays open", func(t *testing.T) {
		s := newScene(t, false)
		s.watch()
		check(t, s.Start())
		io.WriteString(s.slave, "last words")
		within(t, "Close", func() { check(t, s.Close()) })
		eventually(t, "the last words", func() bool { return s.screen() == "last words" })
	})
	t.Run("slave goes on writing", func(t *testing.T) {
		s := newScene(t, false)
		s.watch()
		check(t, s.Start())
		s.run(t, `exec cat /dev/zero`)
		within(t, "Close", func() { check(t, s.Close()) })
	})
	variants(t, func(t *testing.T, shared bool) {
		s := newScene(t, shared)
		check(t, s.Start())
		cmd := s.run(t, `exec cat /dev/zero`)
		before := modes(t, s.tty)
		time.Sleep(200 * time.Millisecond) // until both terminals are full
		cmd.Process.Kill()
		within(t, "Close", func() { check(t, s.Close()) })
		if modes(t, s.tty) == before {
			t.Error("modes not restored")
		}
		s.watch() // lets a blocked write end
	})
}
