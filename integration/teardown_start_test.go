package integration

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"gobox/integration/harness"
	"gobox/record"
)

// catch starts gobox and does something to its init as soon as the command runs, which mostly is before init has said so.
func catch(t *testing.T, b *harness.Box, file string, flags []string, sig syscall.Signal) (*exec.Cmd, int) {
	t.Helper()
	cmd := b.Start(t, harness.Run{Flags: append([]string{"--result", file}, flags...), Argv: []string{b.Probe, "sleep", "60s", b.Marker}})
	cmdline := func(pid int) string {
		line, _ := os.ReadFile("/proc/" + itoa(pid) + "/cmdline")
		return string(line)
	}
	init := 0
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		if init == 0 {
			for _, pid := range children(cmd.Process.Pid) {
				if strings.HasPrefix(cmdline(pid), "gobox-init") {
					init = pid
				}
			}
			continue
		}
		for _, pid := range children(init) {
			// Until it executes, the command's process is a copy of init.
			if line := cmdline(pid); line != "" && !strings.HasPrefix(line, "gobox-init") {
				kill(t, init, sig)
				return cmd, init
			}
		}
	}
	t.Fatal("the command does not start")
	return nil, 0
}

// endOf waits for gobox and reads its result.
func endOf(t *testing.T, cmd *exec.Cmd, file string) (harness.Result, *record.Result) {
	t.Helper()
	begin := time.Now()
	late := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait()
	if !late.Stop() {
		t.Fatal("gobox does not end")
	}
	res := harness.Result{Code: harness.ExitCode(cmd.ProcessState), Duration: time.Since(begin)}
	return res, readResult(t, file, res)
}

// TestInitLostAtTheStart: a command that has been executed is on record as one that was, also when init is killed or stopped
// before it could tell, and the clock runs.
func TestInitLostAtTheStart(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for range 30 {
			file := resultFile(t, b)
			cmd, _ := catch(t, b, file, nil, syscall.SIGKILL)
			res, rec := endOf(t, cmd, file)
			judged(t, res, rec, 137, record.Signaled, "")
			if rec.Signal != "SIGKILL" || !rec.Layers.Seccomp {
				t.Errorf("signal %q, %+v", rec.Signal, rec)
			}
		}
		for range 3 {
			file := resultFile(t, b)
			cmd, _ := catch(t, b, file, []string{"--timeout", "1s", "--grace", "100ms"}, syscall.SIGSTOP)
			res, rec := endOf(t, cmd, file)
			judged(t, res, rec, 124, record.TimedOut, "timeout")
			if rec.WallMS > 5000 {
				t.Errorf("%d ms, %v", rec.WallMS, res)
			}
		}
		file := resultFile(t, b)
		cmd, _ := catch(t, b, file, nil, syscall.SIGSTOP)
		kill(t, cmd.Process.Pid, syscall.SIGTERM)
		res, rec := endOf(t, cmd, file)
		judged(t, res, rec, 143, record.Cancelled, "")
		b.NoSurvivors(t)
	})
}
