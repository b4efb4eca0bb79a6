package integration

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gobox/integration/harness"
	"gobox/record"
)

// TestStatusOwnDescriptors: a number that the caller has not opened is refused, also when gobox uses it itself.
func TestStatusOwnDescriptors(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for n := 3; n < 20; n++ {
			res := b.Run(t, harness.Run{Flags: []string{"--status-fd", itoa(n), "--timeout", "5s"}, Argv: []string{"/bin/echo", "ran"}})
			if res.Code != 125 || len(res.Stdout) > 0 || !strings.Contains(string(res.Stderr), "status descriptor") {
				t.Errorf("--status-fd %d: %v", n, res)
			}
		}
	})
}

// TestResultInTheWorkspace: a command that can write where the result goes cannot make one, nor lead it elsewhere.
func TestResultInTheWorkspace(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		canary := b.Canary(t, filepath.Join(b.Dir, "outside/canary"))
		forged := `{"schema_version":1,"run_id":"forged","outcome":"exited","exit_code":0,"teardown":{"destroyed":true}}`
		for name, script := range map[string]string{
			"replaced":    `for f in .result*; do rm "$f"; echo "$1" >"$f"; done`,
			"linked":      `for f in .result*; do rm "$f"; ln -s "$2" "$f"; done; ln -s "$2" result.json`,
			"hard linked": `for f in .result*; do ln "$f" mine; done`,
			"moved":       `cd ..; mv out old; ln -s "$(dirname "$2")" out`,
			"made":        `echo "$1" >result.json; mkdir x`,
			"a directory": `mkdir result.json`,
		} {
			dir := filepath.Join(b.Work, "d-"+strings.ReplaceAll(name, " ", "-"), "out")
			b.Mkdir(t, filepath.Dir(dir))
			b.Mkdir(t, dir)
			file := filepath.Join(dir, "result.json")
			res := b.Run(t, harness.Run{
				Dir: b.Work, Flags: []string{"--workspace", b.Work, "--workspace-mode", "rw", "--result", file},
				Argv: []string{"/bin/sh", "-c", "cd " + dir + "; " + script + "; exit 9", "sh", forged, canary.Path},
			})
			canary.Unchanged(t)
			if entries, _ := os.ReadDir(filepath.Dir(canary.Path)); len(entries) != 1 {
				t.Errorf("%s: outside has %v", name, entries)
			}
			// Where the folder was led away, there may be none, as long as gobox says so.
			data, err := os.ReadFile(file)
			if err != nil {
				if res.Code != 125 && name != "moved" {
					t.Errorf("%s: %v, %v", name, err, res)
				}
				continue
			}
			var rec record.Result
			if err := json.Unmarshal(data, &rec); err != nil || rec.RunID == "forged" || rec.ExitCode == nil || *rec.ExitCode != 9 {
				if res.Code != 125 {
					t.Errorf("%s: the result is %.200q, %v", name, data, res)
				}
			}
		}
	})
}

// TestStaleResult: the result of an earlier run does not stand for one that was refused.
func TestStaleResult(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		file := resultFile(t, b)
		for _, r := range []harness.Run{
			{Argv: []string{"/nonexistent/command"}},
			{Flags: []string{"--rw", "/nonexistent/path"}, Argv: []string{"/bin/true"}},
		} {
			if res := b.Run(t, harness.Run{Flags: []string{"--result", file}, Argv: []string{"/bin/true"}}); res.Code != 0 {
				t.Fatalf("%v", res)
			}
			old := readResult(t, file, nil)
			r.Flags = append(r.Flags, "--result", file)
			res := b.Run(t, r)
			if data, err := os.ReadFile(file); err == nil && strings.Contains(string(data), old.RunID) {
				t.Errorf("exit %d, and the result is that of run %s which went well", res.Code, old.RunID)
			}
		}
	})
}

// TestCancelledAtAnyMomentIsOnRecord: a run that was cancelled while it was being built has a result, or none was begun.
func TestCancelledAtAnyMomentIsOnRecord(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		state := audited(t, b, "state")
		crowd(60, 3, func(i int) {
			cmd := b.Start(t, harness.Run{Flags: []string{"--audit", state}, Argv: []string{b.Probe, "sleep", "60s", b.Marker}})
			time.Sleep(time.Duration(rand.IntN(25_000)) * time.Microsecond)
			_ = cmd.Process.Signal(syscall.SIGTERM)
			late := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
			_ = cmd.Wait()
			if !late.Stop() {
				t.Error("TERM was lost")
			}
		})
		if done := gc(t, b, state); len(done.Crashed) > 0 {
			t.Errorf("%d cancelled runs count as crashed", len(done.Crashed))
		}
		found, _ := filepath.Glob(filepath.Join(state, "runs", "*"))
		for _, dir := range found {
			if _, err := os.Stat(filepath.Join(dir, "crashed.json")); err == nil {
				continue
			}
			rec := readResult(t, filepath.Join(dir, "result.json"), dir)
			if rec.Outcome != record.Cancelled || rec.Signal != "SIGTERM" {
				t.Errorf("%+v", rec)
			}
			destroyed(t, rec)
		}
	})
}

// TestKeyResult: the answer of another run is a result too, and gobox leaves nothing beside it.
func TestKeyResult(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		state := audited(t, b, "state")
		for range 2 {
			res, rec := recorded(t, b, harness.Run{Flags: []string{"--audit", state, "--idempotency-key", "k"}, Argv: []string{"/bin/sh", "-c", "exit 6"}})
			judged(t, res, rec, 6, record.Exited, "")
			if left, _ := filepath.Glob(filepath.Join(b.Dir, "results", ".*")); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		}
	})
}

// TestKeyOfARealTimeSignal: its answer is that of the first call.
func TestKeyOfARealTimeSignal(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		state := audited(t, b, "state")
		for range 2 {
			res := b.Run(t, harness.Run{Flags: []string{"--audit", state, "--idempotency-key", "k"}, Argv: []string{"/bin/sh", "-c", "kill -34 $$"}})
			if res.Code != 162 {
				t.Errorf("%v", res)
			}
		}
	})
}
