package integration

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gobox/integration/harness"
	"gobox/record"
)

// TestRefusedIsOnRecord: where a record was asked for, also a run that was refused has one, and says why.
func TestRefusedIsOnRecord(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for name, c := range map[string]struct {
			flags   []string
			argv    []string
			code    int
			outcome record.Outcome
		}{
			"not found": {nil, []string{"/nonexistent/command"}, 127, record.ExecFailed},
			"grant":     {[]string{"--rw", "/nonexistent/path"}, []string{"/bin/true"}, 125, record.SetupFailed},
			"policy":    {[]string{"--policy", "/nonexistent.yaml"}, []string{"/bin/true"}, 125, record.SetupFailed},
			"nothing":   {nil, nil, 125, record.SetupFailed},
		} {
			state := audited(t, b, "state-"+name)
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			flags := append([]string{"--audit", state, "--status-fd", "3", "--idempotency-key", "k"}, c.flags...)
			res, rec := recorded(t, b, harness.Run{Files: []*os.File{w}, Flags: flags, Argv: c.argv})
			w.Close()
			judged(t, res, rec, c.code, c.outcome, "")
			if rec.Error == nil || rec.Error.Message == "" || len(rec.Layers.Namespaces) > 0 {
				t.Errorf("%s: %+v", name, rec)
			}
			if kept := readResult(t, filepath.Join(only(t, state), "result.json"), res); kept.RunID != rec.RunID {
				t.Errorf("%s: two runs, %s and %s", name, kept.RunID, rec.RunID)
			}
			if status, _ := io.ReadAll(r); kinds(events(t, status)) != "ended" {
				t.Errorf("%s: %s", name, status)
			}
			if keys, _ := filepath.Glob(filepath.Join(state, "idempotency", "*")); len(keys) > 0 {
				t.Errorf("%s: the key is taken: %v", name, keys)
			}
		}
	})
}

// TestTakenRunID: the result of a run that was refused for its id has another.
func TestTakenRunID(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		flags := []string{"--audit", audited(t, b, "state"), "--run-id", "taken"}
		if _, rec := recorded(t, b, harness.Run{Flags: flags, Argv: []string{"/bin/true"}}); rec.RunID != "taken" {
			t.Errorf("%+v", rec)
		}
		res, rec := recorded(t, b, harness.Run{Flags: flags, Argv: []string{"/bin/true"}})
		judged(t, res, rec, 125, record.SetupFailed, "")
		if rec.RunID == "taken" {
			t.Errorf("%+v", rec)
		}
	})
}

// TestAuditInTheWorkspace: nor can a command change its record.
func TestAuditInTheWorkspace(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		b.Mkdir(t, filepath.Join(b.Work, "out"))
		outside := audited(t, b, "outside")
		if err := os.Symlink(outside, filepath.Join(b.Work, "away")); err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{b.Work, b.Work + "/out", b.Work + "/new/place", b.Work + "/away", b.Work + "/../work/out"} {
			for mode, want := range map[string]int{"rw": 125, "ro": 0} {
				if strings.HasSuffix(dir, "away") && b.UID != 0 && mode == "ro" {
					continue // a link of another user's than the caller: the tests' own
				}
				res := b.Run(t, harness.Run{Flags: []string{"--workspace-mode", mode, "--audit", dir}, Argv: []string{"/bin/true"}})
				if res.Code != want || want == 125 && !strings.Contains(string(res.Stderr), "the command may write to") {
					t.Errorf("%s, %s: %v", mode, dir, res)
				}
				if left, _ := filepath.Glob(filepath.Join(dir, "runs")); mode == "rw" && len(left) > 0 {
					t.Errorf("%s: a record in spite of it", dir)
				}
				_ = os.RemoveAll(filepath.Join(dir, "runs"))
			}
		}
	})
}

// TestReplayTells: who waits for the status descriptor or the result learns of an answer that was there already.
func TestReplayTells(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		state := audited(t, b, "state")
		var first *record.Result
		for i := range 2 {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			_, rec := recorded(t, b, harness.Run{Files: []*os.File{w}, Flags: []string{"--audit", state, "--idempotency-key", "k", "--status-fd", "3"}, Argv: []string{"/bin/sh", "-c", "exit 6"}})
			w.Close()
			status, _ := io.ReadAll(r)
			if i == 0 {
				first = rec
				continue
			}
			list := events(t, status)
			if kinds(list) != "replayed" || list[0].RunID != first.RunID || list[0].ExitCode == nil || *list[0].ExitCode != 6 {
				t.Errorf("%s", status)
			}
			if was, _ := json.Marshal(first); string(was) != marshal(rec) {
				t.Errorf("%s\n%s", was, marshal(rec))
			}
		}
	})
}

func marshal(v any) string { b, _ := json.Marshal(v); return string(b) }

// TestCancelledWhileWaiting: who waits for another run's answer can be stopped, and the other goes on.
func TestCancelledWhileWaiting(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		state := audited(t, b, "state")
		run := harness.Run{Flags: []string{"--audit", state, "--idempotency-key", "k", "--timeout", "5m"}, Argv: []string{b.Probe, "sleep", "60s", b.Marker}}
		first := b.Start(t, run)
		waitFor(t, "the first", func() bool { return inside(b, "sleep 60s") > 0 })
		file := resultFile(t, b)
		run.Flags = append(run.Flags, "--result", file)
		second := b.Start(t, run)
		waitFor(t, "the second to look at the key", func() bool {
			fds, _ := filepath.Glob("/proc/" + itoa(second.Process.Pid) + "/fd/*")
			return slices.ContainsFunc(fds, func(fd string) bool {
				to, err := os.Readlink(fd)
				return err == nil && strings.HasPrefix(to, filepath.Join(state, "idempotency"))
			})
		})
		_ = second.Process.Signal(syscall.SIGTERM)
		_ = second.Wait()
		if code := harness.ExitCode(second.ProcessState); code != 143 {
			t.Errorf("exit %d", code)
		}
		if inside(b, "sleep 60s") == 0 {
			t.Error("it waited for the first")
		}
		if rec := readResult(t, file, nil); rec.Outcome != record.Cancelled || rec.Signal != "SIGTERM" {
			t.Errorf("%+v", rec)
		}
		_ = first.Process.Signal(syscall.SIGTERM)
		_ = first.Wait()
		if code := harness.ExitCode(first.ProcessState); code != 143 {
			t.Errorf("the first: exit %d", code)
		}
	})
}

// TestSecretOwnDescriptors: nor is what gobox itself has open read for a secret.
func TestSecretOwnDescriptors(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for n := 3; n < 20; n++ {
			if flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(n), syscall.F_GETFD, 0); errno == 0 && flags&syscall.FD_CLOEXEC == 0 {
				continue // that is inherited from whoever runs the tests
			}
			res := b.Run(t, harness.Run{Flags: []string{"--secret", "S=fd:" + itoa(n), "--timeout", "5s"}, Argv: []string{"/bin/echo", "ran"}})
			if res.Code != 125 || len(res.Stdout) > 0 || !strings.Contains(string(res.Stderr), "is not open") {
				t.Errorf("fd:%d: %v", n, res)
			}
		}
	})
}
