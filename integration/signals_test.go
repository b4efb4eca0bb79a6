package integration

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gobox/integration/harness"

	"golang.org/x/sys/unix"
)

func TestSignalsAreForwarded(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for _, c := range []struct {
			signals []string
			code    int
		}{
			{[]string{"SIGCONT", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGHUP", "SIGQUIT"}, 0},
			// These two cancel the run, which the command sees and gets time to act on.
			{[]string{"SIGINT"}, 130},
			{[]string{"SIGTERM"}, 143},
		} {
			cmd := b.Command(t.Context(), harness.Run{Flags: []string{"--grace", "30s"}, Argv: append([]string{b.Probe, "signals"}, c.signals...)})
			out := &watcher{want: "ready\n", seen: make(chan struct{})}
			cmd.Stdout = out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cmd.Process.Kill() })
			out.wait(t)
			// A SIGCONT may come along with another, so that a stopped command sees that too.
			for _, name := range c.signals {
				if err := cmd.Process.Signal(unix.SignalNum(name)); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				waitFor(t, name, func() bool { return strings.Contains(out.String(), "\n"+name+"\n") })
			}
			_ = cmd.Wait()
			if code := harness.ExitCode(cmd.ProcessState); code != c.code || !strings.Contains(out.String(), `"errno":""`) {
				t.Errorf("%v: exit %d, %q", c.signals, code, out.String())
			}
		}
	})
}

// TestSecondSignalKills: who asks twice does not want to wait for the grace period.
func TestSecondSignalKills(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		cmd := b.Command(t.Context(), harness.Run{Flags: []string{"--grace", "60s"}, Argv: []string{"/bin/sh", "-c", "trap '' INT TERM; echo up; while :; do sleep 1; done", b.Marker}})
		out := &watcher{want: "up", seen: make(chan struct{})}
		cmd.Stdout = out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		out.wait(t)
		begin := time.Now()
		for range 2 {
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
			time.Sleep(200 * time.Millisecond)
		}
		_ = cmd.Wait()
		if code := harness.ExitCode(cmd.ProcessState); code != 143 || time.Since(begin) > 15*time.Second {
			t.Errorf("exit %d after %v", code, time.Since(begin))
		}
		b.NoSurvivors(t)
	})
}

func TestSignalEndsTheCommand(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for s, want := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGINT: 130, syscall.SIGHUP: 129, syscall.SIGQUIT: 131} {
			cmd := b.Command(t.Context(), harness.Run{Argv: []string{"/bin/sh", "-c", "echo up; exec sleep 60", b.Marker}})
			out := &watcher{want: "up", seen: make(chan struct{})}
			cmd.Stdout = out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			out.wait(t)
			time.Sleep(50 * time.Millisecond)
			if err := cmd.Process.Signal(s); err != nil {
				t.Error(err)
			}
			_ = cmd.Wait()
			if got := harness.ExitCode(cmd.ProcessState); got != want {
				t.Errorf("%v: want exit %d, got %d", s, want, got)
			}
		}
		b.NoSurvivors(t)
	})
}

// TestStopAndContinue suspends the command together with gobox, as a shell's job control does.
func TestStopAndContinue(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		beat := filepath.Join(b.Work, "beat")
		script := "while :; do echo x >>" + beat + "; sleep 0.02; done"
		cmd := b.Start(t, harness.Run{Flags: []string{"--workspace-mode", "rw"}, Argv: []string{"/bin/sh", "-c", script, b.Marker}})
		size := func() int64 {
			if st, err := os.Stat(beat); err == nil {
				return st.Size()
			}
			return 0
		}
		grows := func(d time.Duration) bool {
			before := size()
			time.Sleep(d)
			return size() > before
		}
		waitFor(t, "the command to start", func() bool { return size() > 0 })
		if err := cmd.Process.Signal(syscall.SIGTSTP); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "the command to stop", func() bool { return !grows(200 * time.Millisecond) })
		if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "the command to go on", func() bool { return grows(200 * time.Millisecond) })
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		b.NoSurvivors(t)
	})
}
