package integration

import (
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gobox/integration/harness"

	"golang.org/x/sys/unix"
)

// TestDeadlineWithFullPipe: nobody reads what the command writes.
func TestDeadlineWithFullPipe(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		defer w.Close()
		res := b.Run(t, harness.Run{Stdout: w, Flags: []string{"--timeout", "500ms", "--grace", "200ms"}, Argv: []string{b.Probe, "raw", "flood", b.Marker}})
		timedOut(t, res, 700*time.Millisecond)
		b.NoSurvivors(t)
	})
}

// TestDeadlineWithDenialFlood: refusals are reported, and must not keep the supervisor from its work.
func TestDeadlineWithDenialFlood(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		res := b.Run(t, harness.Run{Flags: []string{"--timeout", "1s", "--grace", "200ms"}, Argv: []string{b.Probe, "raw", "denial-flood", b.Marker}})
		timedOut(t, res, 1200*time.Millisecond)
		if len(res.Stderr) > 4096 {
			t.Errorf("%d bytes of messages", len(res.Stderr))
		}
		// The same with a supervisor that is killed meanwhile.
		cmd := b.Start(t, harness.Run{Argv: []string{b.Probe, "raw", "denial-flood", b.Marker}})
		time.Sleep(300 * time.Millisecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		b.NoSurvivors(t)
	})
}

// TestDeadlineWithSilentStdin: the other end of stdin neither writes nor closes.
func TestDeadlineWithSilentStdin(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		defer w.Close()
		res := b.Run(t, harness.Run{Stdin: r, Flags: []string{"--timeout", "500ms", "--grace", "200ms"}, Argv: []string{"/bin/cat", "-", "/nonexistent/" + b.Marker}})
		timedOut(t, res, 700*time.Millisecond)
		// A command that does not care for stdin ends at once.
		res = b.Run(t, harness.Run{Stdin: r, Argv: []string{"/bin/sh", "-c", "exit 8"}})
		if res.Code != 8 || res.Duration > 10*time.Second {
			t.Errorf("want exit 8 at once, got %v", res)
		}
		b.NoSurvivors(t)
	})
}

// TestDeadlineWithBlockedTerminal: the user pressed Ctrl-S, or the terminal's program hangs.
func TestDeadlineWithBlockedTerminal(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		term := harness.OpenTerminal(t)
		term.Pause(t)
		ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
		defer cancel()
		cmd := b.Command(ctx, harness.Run{Flags: []string{"--timeout", "1s", "--grace", "200ms"}, Argv: []string{b.Probe, "raw", "flood", b.Marker}})
		term.Attach(cmd)
		begin := time.Now()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if code := harness.ExitCode(cmd.ProcessState); code != 124 || time.Since(begin) > 10*time.Second {
			t.Errorf("exit %d after %v", code, time.Since(begin))
		}
		b.NoSurvivors(t)
		term.Restored(t)
	})
}

// TestDeadlineWithStoppedSupervisor: init has a watchdog of its own.
func TestDeadlineWithStoppedSupervisor(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		cmd := b.Start(t, harness.Run{Flags: []string{"--timeout", "1s", "--grace", "200ms"}, Argv: []string{b.Probe, "sleep", "60s", b.Marker}})
		inside := func() bool {
			return slices.ContainsFunc(harness.Processes(b.Marker), func(line string) bool { return strings.Contains(line, "sleep 60s") && !strings.Contains(line, " run ") })
		}
		waitFor(t, "the command to start", inside)
		if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "the command to end under a stopped supervisor", func() bool { return !inside() })
		if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if code := harness.ExitCode(cmd.ProcessState); code != 124 {
			t.Errorf("exit %d", code)
		}
		b.NoSurvivors(t)
	})
}

// TestP14 forks without end, and P13 leaves zombies: the limit holds and init answers.
func TestP13P14ForkBomb(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		script := `f() { f | f & }; f 2>/dev/null; while :; do sleep 1; done 2>/dev/null`
		peak := 0
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 20 {
				peak = max(peak, len(harness.Processes(b.Marker)))
				time.Sleep(50 * time.Millisecond)
			}
		}()
		res := b.Run(t, harness.Run{Flags: []string{"--timeout", "1s", "--grace", "100ms", "--pids", "40"}, Argv: []string{"/bin/bash", "-c", script, b.Marker}})
		<-done
		if res.Duration > 10*time.Second || res.Code != 124 && res.Code < 100 {
			t.Errorf("%v", res)
		}
		// The supervisor carries the marker as well.
		if peak > 45 {
			t.Errorf("%d processes with a limit of 40", peak)
		}
		b.NoSurvivors(t)
	})
}

// TestP20 starts gobox in gobox: refused in words, or as tight as ever.
func TestP20Nested(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		own := b.Own(t, b.Gobox)
		secret := b.Canary(t, b.Dir+"/out/secret.txt")
		res := b.Run(t, harness.Run{Flags: []string{"--rox", own}, Argv: []string{own, "run", "--", "/bin/cat", secret.Path}})
		if res.Code == 0 || len(res.Stdout) != 0 || res.Code == 125 && !strings.HasPrefix(string(res.Stderr), "gobox: error: ") {
			t.Errorf("%v", res)
		}
	})
}

// TestManySandboxesAtOnce: runs do not see or disturb each other.
func TestManySandboxesAtOnce(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		const n = 12
		results := make(chan string, n)
		for i := range n {
			go func() {
				cmd := b.Command(t.Context(), harness.Run{Argv: []string{"/bin/sh", "-c", `echo "$1" >/tmp/name; echo "$1" >/dev/shm/name; sleep 0.3; cat /tmp/name /dev/shm/name; ls /proc | grep -c '^[0-9]'`, "sh", itoa(i)}})
				out, err := cmd.Output()
				fields := strings.Fields(string(out))
				if err != nil || len(fields) != 3 || fields[0] != itoa(i) || fields[1] != itoa(i) || len(fields[2]) != 1 {
					results <- string(out)
					return
				}
				results <- ""
			}()
		}
		for range n {
			if bad := <-results; bad != "" {
				t.Errorf("got %q", bad)
			}
		}
	})
}

// TestOutputOrderAndEnd: what was written before the end arrives, however the command ended.
func TestOutputBeforeTheEnd(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for script, want := range map[string]struct {
			flags []string
			code  int
		}{
			`echo last; kill -KILL $$`: {nil, 137},
			`echo last; exit 1`:        {nil, 1},
			`echo last; sleep 60`:      {[]string{"--timeout", "500ms", "--grace", "100ms"}, 124},
			`echo last; kill -STOP $$`: {[]string{"--timeout", "500ms", "--grace", "100ms"}, 124},
		} {
			res := b.Run(t, harness.Run{Flags: want.flags, Argv: []string{"/bin/sh", "-c", script}})
			if res.Code != want.code || string(res.Stdout) != "last\n" {
				t.Errorf("%s: %v", script, res)
			}
		}
		// More than a pipe holds, read slowly.
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		cmd := b.Start(t, harness.Run{Stdout: w, Argv: []string{"/bin/sh", "-c", "head -c 1000000 /dev/zero; exit 5"}})
		w.Close()
		time.Sleep(300 * time.Millisecond)
		n, err := io.Copy(io.Discard, r)
		_ = cmd.Wait()
		if code := harness.ExitCode(cmd.ProcessState); n != 1_000_000 || err != nil || code != 5 {
			t.Errorf("%d bytes, %v, exit %d", n, err, code)
		}
	})
}

// TestNonBlockingStdio: flags of a shared open file description are the caller's.
func TestNonBlockingStdio(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		defer w.Close()
		flags := func() int {
			raw, err := w.SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			var f int
			if err := raw.Control(func(fd uintptr) { f, _ = unix.FcntlInt(fd, unix.F_GETFL, 0) }); err != nil {
				t.Fatal(err)
			}
			return f
		}
		cmd := b.Command(t.Context(), harness.Run{Argv: []string{"/bin/true"}})
		cmd.Stdout = w // exec makes the copy of it blocking, and thereby this one
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		before := flags()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		if after := flags(); after != before {
			t.Errorf("flags of the caller's pipe were %#x, are %#x", before, after)
		}
	})
}
