package integration

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gobox/integration/harness"
)

// parked starts gobox with a pipe as stdout that nobody reads yet.
func parked(t *testing.T, b *harness.Box, r harness.Run) (reader *os.File, wait func(time.Duration) int, signal func(os.Signal)) {
	t.Helper()
	reader, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reader.Close() })
	r.Stdout = w
	cmd := b.Command(t.Context(), r)
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-done })
	wait = func(limit time.Duration) int {
		select {
		case <-done:
			return harness.ExitCode(cmd.ProcessState)
		case <-time.After(limit):
			return -1
		}
	}
	return reader, wait, func(s os.Signal) {
		if err := cmd.Process.Signal(s); err != nil {
			t.Errorf("%v: %v", s, err)
		}
	}
}

// TestRoughShortWritesFillNoPipe: a pipe takes 64 KiB of short lines from a bare command, and so many a
// parent reads only after it has waited. Nothing may be lost, and nobody has to read first.
func TestRoughShortWritesFillNoPipe(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		script := `i=0; while [ $i -lt 60 ]; do echo line; sleep 0.01; i=$((i+1)); done; exit 3`
		reader, wait, _ := parked(t, b, harness.Run{Flags: []string{"--timeout", "6s"}, Argv: []string{"/bin/sh", "-c", script}})
		if code := wait(20 * time.Second); code != 3 {
			t.Errorf("want exit 3, got %d", code)
		}
		got, err := io.ReadAll(reader)
		if want := strings.Repeat("line\n", 60); err != nil || string(got) != want {
			t.Errorf("%d bytes of %d arrived, although the status is the command's own (%v)", len(got), len(want), err)
		}
	})
}

// TestRoughCutOutputIsNoSuccess: what a slow reader did not get in time must not look like a complete run.
func TestRoughCutOutputIsNoSuccess(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		const size = 100_000
		reader, wait, _ := parked(t, b, harness.Run{Flags: []string{"--timeout", "1s", "--grace", "200ms"}, Argv: []string{"/usr/bin/head", "-c", itoa(size), "/dev/zero"}})
		code := wait(20 * time.Second)
		got, err := io.ReadAll(reader)
		if err != nil || code == -1 {
			t.Fatal(code, err)
		}
		if (code == 0) != (len(got) == size) {
			t.Errorf("exit %d with %d bytes of %d", code, len(got), size)
		}
	})
}

// TestRoughWriteErrorIsNoSuccess: a full disk behind stdout is the same failure with gobox as without.
func TestRoughWriteErrorIsNoSuccess(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		// Who writes on after the failure gets SIGPIPE, as from any pipe without a reader.
		for _, c := range []struct {
			flags, argv []string
			code        int
		}{
			{nil, []string{"/bin/echo", "hi"}, 74}, {nil, []string{"/usr/bin/head", "-c", "1000000", "/dev/zero"}, 141},
			{[]string{"--tty"}, []string{"/bin/echo", "hi"}, 74}, {[]string{"--tty"}, []string{"/usr/bin/head", "-c", "1000000", "/dev/zero"}, 74},
		} {
			full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
			if err != nil {
				t.Skip("no /dev/full:", err)
			}
			res := b.Run(t, harness.Run{Stdout: full, Flags: c.flags, Argv: c.argv})
			full.Close()
			if res.Code != c.code || !strings.Contains(string(res.Stderr), "no space left") {
				t.Errorf("%v %v to /dev/full: want exit %d and the reason, got %v", c.flags, c.argv, c.code, res)
			}
		}
	})
}

// TestRoughCancelWhileDraining: the command has ended, its reader sleeps. TERM still ends gobox.
func TestRoughCancelWhileDraining(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		_, wait, signal := parked(t, b, harness.Run{Flags: []string{"--timeout", "0"}, Argv: []string{"/bin/sh", "-c", "head -c 90000 /dev/zero & sleep 0.3; :"}})
		if code := wait(1500 * time.Millisecond); code != -1 {
			return // it does not wait at all
		}
		signal(syscall.SIGTERM)
		if code := wait(5 * time.Second); code <= 0 {
			t.Errorf("TERM ended gobox, which waited for the reader of its stdout, with %d; output was lost", code)
		}
	})
}

// stoppedRun stops gobox itself shortly after the command has started and continues it later.
func stoppedRun(t *testing.T, b *harness.Box, timeout, script string, stopped time.Duration) int {
	t.Helper()
	cmd := b.Command(t.Context(), harness.Run{Flags: []string{"--timeout", timeout}, Argv: []string{"/bin/sh", "-c", "echo up; " + script, b.Marker}})
	out := &watcher{want: "up", seen: make(chan struct{})}
	cmd.Stdout = out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	out.wait(t)
	signalIt(t, cmd, syscall.SIGSTOP)
	time.Sleep(stopped)
	signalIt(t, cmd, syscall.SIGCONT)
	_ = cmd.Wait()
	return harness.ExitCode(cmd.ProcessState)
}

func signalIt(t *testing.T, cmd *exec.Cmd, s syscall.Signal) {
	t.Helper()
	if err := cmd.Process.Signal(s); err != nil {
		t.Errorf("%v: %v", s, err)
	}
}

// TestRoughInTimeWhileStopped: a command that ended in time has its own status, whatever gobox was kept
// from doing meanwhile (SIGSTOP, a suspended machine, a busy one).
func TestRoughInTimeWhileStopped(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for i := range 6 {
			t.Run(itoa(i), func(t *testing.T) {
				t.Parallel()
				if code := stoppedRun(t, b, "2s", "sleep 0.2; exit 3", 2200*time.Millisecond); code != 3 {
					t.Errorf("the command took 0.2 s of 2 s and exited with 3; gobox with %d", code)
				}
			})
		}
	})
}

// TestRoughStoppedBeyondTheDeadline: init's own clock ends the sandbox while gobox is stopped.
func TestRoughStoppedBeyondTheDeadline(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		cmd := b.Command(t.Context(), harness.Run{Flags: []string{"--timeout", "1s", "--grace", "200ms"}, Argv: []string{"/bin/sh", "-c", "echo up; trap '' TERM; while :; do sleep 0.05; done", b.Marker}})
		out := &watcher{want: "up", seen: make(chan struct{})}
		cmd.Stdout = out
		var stderr strings.Builder
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		out.wait(t)
		// The supervisor measures from when it has heard of the start, which output does not wait for.
		time.Sleep(300 * time.Millisecond)
		signalIt(t, cmd, syscall.SIGSTOP)
		// gobox's own command line has the marker, too.
		waitFor(t, "the sandbox to end without gobox", func() bool { return len(harness.Processes(b.Marker)) <= 1 })
		signalIt(t, cmd, syscall.SIGCONT)
		_ = cmd.Wait()
		if code := harness.ExitCode(cmd.ProcessState); code != 124 {
			t.Errorf("exit %d, %q", code, stderr.String())
		}
		b.NoSurvivors(t)
	})
}

// TestRoughHugeTimes: the longest times that are taken work together, and longer ones are refused.
func TestRoughHugeTimes(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for d, want := range map[string]int{"876000h": 5, "876001h": 125, "2562047h": 125, "9223372036": 125, "99999999h": 125} {
			res := b.Run(t, harness.Run{Flags: []string{"--timeout", d, "--grace", d}, Argv: []string{"/bin/sh", "-c", "sleep 0.3; exit 5"}})
			if res.Code != want || want == 125 && !strings.Contains(string(res.Stderr), "is too large") {
				t.Errorf("--timeout %s --grace %s: want %d, got %v", d, d, want, res)
			}
		}
	})
}

// TestRoughCPUTimeNeedsKill: cli.md promises 124 "whether the command took TERM or needed KILL".
func TestRoughCPUTimeNeedsKill(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for _, script := range []string{"while :; do :; done", "trap '' XCPU; while :; do :; done"} {
			res := b.Run(t, harness.Run{Flags: []string{"--cpu-time", "1s", "--timeout", "30s"}, Argv: []string{"/bin/sh", "-c", script}})
			if res.Code != 124 || !strings.Contains(string(res.Stderr), "gobox: error: cpu-time") {
				t.Errorf("%s: want exit 124 and a line that says why, got %v", script, res)
			}
		}
	})
}

// TestRoughKeyboardBesideAPipe is `producer | gobox run -- less`: stdin is a pipe, and the keys come
// through /dev/tty.
func TestRoughKeyboardBesideAPipe(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		term := harness.OpenTerminal(t)
		cmd := b.Command(t.Context(), harness.Run{Flags: []string{"--timeout", "15s"}, Argv: []string{"/bin/sh", "-c", "cat; echo ask; read x </dev/tty; echo got-$x"}})
		term.Attach(cmd)
		// Descriptor 0 is the pipe, so the controlling terminal is made from 1.
		cmd.SysProcAttr.Ctty = 1
		cmd.Stdin = strings.NewReader("piped\n")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		term.Expect(t, "ask")
		term.Type(t, "key\r")
		for deadline := time.Now().Add(5 * time.Second); !strings.Contains(term.Text(), "got-key"); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Errorf("the command never got what was typed; terminal: %q", term.Text())
				_ = cmd.Process.Signal(os.Interrupt)
				break
			}
		}
		_ = cmd.Wait()
		term.Restored(t)
	})
}

// TestRoughTooSmall: the error has to name the flag that is in the way, and what it needs, wherever it was said.
func TestRoughTooSmall(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for name, given := range map[string][3]string{
			"disk":   {"1", "1048575", "1MiB"},
			"memory": {"100", "1048575", "1MiB"},
			"nofile": {"1", "3", "4"},
		} {
			for _, value := range given[:2] {
				file := filepath.Join(b.Dir, name+value+".yaml")
				if err := os.WriteFile(file, []byte("version: 1\nlimits: {"+name+": "+value+"}\n"), 0o644); err != nil {
					t.Fatal(err)
				}
				for _, flags := range [][]string{{"--" + name, value}, {"--policy", file}} {
					res := b.Run(t, harness.Run{Flags: flags, Argv: []string{"/bin/true"}})
					if res.Code != 125 || !strings.Contains(string(res.Stderr), "limit --"+name+" ") || !strings.Contains(string(res.Stderr), "too small") ||
						!strings.Contains(string(res.Stderr), "hint: --"+name+" "+given[2]+" is the least") {
						t.Errorf("%v: want a refusal that names --%s and %s, got %v", flags, name, given[2], res)
					}
				}
			}
			if res := b.Run(t, harness.Run{Flags: []string{"--" + name, given[2]}, Argv: []string{"/bin/true"}}); res.Code != 0 {
				t.Errorf("--%s %s: %v", name, given[2], res)
			}
		}
	})
}

// TestRoughQuiet: no hints, on whichever side of the mistake the flag stands.
func TestRoughQuiet(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for _, args := range [][]string{
			{"run", "--quiet", "--", "no-such-command"}, {"run", "--quiet", "--ro", filepath.Join(b.Dir, "nothing"), "--", "/bin/true"},
			{"run", "--quiet", "--timeout", "1ms", "--", "/bin/sleep", "9"}, {"run", "--quiet", "--no-such-flag", "--", "/bin/true"}, {"run", "--quiet"},
		} {
			if res := b.Run(t, harness.Run{Args: args}); res.Code < 124 || strings.Contains(string(res.Stderr), "hint") || !strings.HasPrefix(string(res.Stderr), "gobox: error: ") {
				t.Errorf("%v: %v", args, res)
			}
		}
	})
}

// TestRoughStarved: what gobox itself lacks is its own refusal, and no crash.
func TestRoughStarved(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for limit, hint := range map[string]string{"-f 1": "ulimit -f", "-v 500000": "ulimit -v", "-n 8": "ulimit -n", "-u 4": "ulimit -u"} {
			if limit == "-u 4" && b.UID == 0 {
				continue // root is not held to it
			}
			res := b.Run(t, harness.Run{Bin: "/bin/bash", Args: []string{"-c", "ulimit " + limit + "; exec " + b.Gobox + " run -- /bin/true"}})
			if res.Code != 125 || !strings.HasPrefix(string(res.Stderr), "gobox: error: start ") || !strings.Contains(string(res.Stderr), "gobox: hint: "+hint) {
				t.Errorf("ulimit %s: %v", limit, res)
			}
		}
	})
}

// TestRoughCrashHint: a program that dies of refused memory rarely says so.
func TestRoughCrashHint(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for _, c := range []struct {
			memory, script string
			code           int
			hint           bool
		}{{"64M", "kill -SEGV $$", 139, true}, {"64M", "kill -ABRT $$", 134, true}, {"0", "kill -SEGV $$", 139, false}, {"64M", "kill -USR1 $$", 138, false}, {"64M", "exit 139", 139, false}} {
			res := b.Run(t, harness.Run{Flags: []string{"--memory", c.memory}, Argv: []string{"/bin/sh", "-c", c.script}})
			if res.Code != c.code || strings.Contains(string(res.Stderr), "--memory SIZE") != c.hint {
				t.Errorf("--memory %s, %s: %v", c.memory, c.script, res)
			}
		}
	})
}

// TestRoughCutCapture: a record that lacks output is no record, when one was asked for.
func TestRoughCutCapture(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		script := "ulimit -f 2000; exec " + b.Gobox + " run --audit " + filepath.Join(b.Home, "audit") + " --capture -- /usr/bin/head -c 5000000 /dev/zero"
		res := b.Run(t, harness.Run{Bin: "/bin/bash", Args: []string{"-c", script}})
		if res.Code != 125 || !strings.Contains(string(res.Stderr), "2048000 bytes of 5000000 were kept") {
			t.Errorf("want exit 125 and how much is missing, got %v", res)
		}
	})
}
