package integration

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"gobox/integration/harness"
)

// TestKeyRacers: of callers with one key one runs, and all get its answer.
func TestKeyRacers(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		state := audited(t, b, "state")
		run := harness.Run{
			Flags: []string{"--audit", state, "--idempotency-key", "k 1", "--workspace-mode", "rw"},
			Argv:  []string{"/bin/sh", "-c", "sleep 0.3; echo ran >>log; echo out $$; echo err >&2; exit 6"},
		}
		var mu sync.Mutex
		answers := map[string]int{}
		var racers sync.WaitGroup
		for range 6 {
			racers.Go(func() {
				res := b.Run(t, run)
				mu.Lock()
				defer mu.Unlock()
				answers[string(res.Stdout)+"|"+string(res.Stderr)+"|"+itoa(res.Code)]++
			})
		}
		racers.Wait()
		if len(answers) != 1 {
			t.Errorf("answers %v", answers)
		}
		if log, err := os.ReadFile(filepath.Join(b.Work, "log")); err != nil || string(log) != "ran\n" {
			t.Errorf("%q, %v", log, err)
		}
	})
}

// TestKeyOfAnother: the same key is no answer to another request.
func TestKeyOfAnother(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		state := audited(t, b, "state")
		input := b.File(t, filepath.Join(b.Dir, "in/input"), "a")
		stdin := func(path string) *os.File {
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { f.Close() })
			return f
		}
		do := func(script string, in *os.File, flags ...string) harness.Result {
			r := harness.Run{Flags: append([]string{"--audit", state, "--idempotency-key", "k"}, flags...), Argv: []string{"/bin/sh", "-c", script}}
			if in != nil {
				r.Stdin = in
			}
			return b.Run(t, r)
		}
		first := do("echo 1", stdin(input))
		if first.Code != 0 || string(first.Stdout) != "1\n" {
			t.Fatalf("%v", first)
		}
		if again := do("echo 1", stdin(input)); string(again.Stdout) != "1\n" || again.Code != 0 {
			t.Errorf("%v", again)
		}
		other := b.File(t, filepath.Join(b.Dir, "in/other"), "b")
		for name, res := range map[string]harness.Result{
			"command":     do("echo 2", stdin(input)),
			"environment": do("echo 1", stdin(input), "--env", "X=1"),
			"policy":      do("echo 1", stdin(input), "--memory", "300M"),
			"timeout":     do("echo 1", stdin(input), "--timeout", "7s"),
			"stdin":       do("echo 1", stdin(other)),
			"no stdin":    do("echo 1", nil),
		} {
			if res.Code != 125 || len(res.Stdout) > 0 || !strings.Contains(string(res.Stderr), "gobox: hint: ") {
				t.Errorf("another %s: %v", name, res)
			}
		}
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		defer w.Close()
		if res := do("echo 1", r); res.Code != 125 || len(res.Stdout) > 0 {
			t.Errorf("a pipe as stdin: %v", res)
		}
	})
}

// TestKeyOfEveryEnd: the answer to a repeated request has the first one's status, whatever that was.
func TestKeyOfEveryEnd(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		state := audited(t, b, "state")
		for name, c := range map[string]struct {
			flags []string
			argv  []string
			code  int
		}{
			"exit":    {nil, []string{b.Probe, "raw", "exit", "125"}, 125},
			"signal":  {nil, []string{"/bin/sh", "-c", "kill -SEGV $$"}, 139},
			"timeout": {[]string{"--timeout", "300ms", "--grace", "50ms"}, []string{"/bin/sleep", "60"}, 124},
			"output":  {[]string{"--output", "1000"}, []string{b.Probe, "raw", "pour", "stdout", "5000"}, 137},
			"fsize":   {[]string{"--fsize", "1M"}, []string{"/bin/sh", "-c", "exec head -c 2m /dev/zero >/tmp/x"}, 137},
		} {
			var first harness.Result
			for i := range 2 {
				res := b.Run(t, harness.Run{Flags: append([]string{"--audit", state, "--idempotency-key", name}, c.flags...), Argv: c.argv})
				if res.Code != c.code {
					t.Errorf("%s, call %d: %v", name, i+1, res)
				}
				if i == 0 {
					first = res
				} else if string(res.Stdout) != string(first.Stdout) {
					t.Errorf("%s: %d bytes, then %d", name, len(first.Stdout), len(res.Stdout))
				}
			}
		}
	})
}

// TestKeyOfACrash: nobody knows what a killed run did, so that it is not done again until somebody says so.
func TestKeyOfACrash(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		state := audited(t, b, "state")
		run := harness.Run{
			Flags: []string{"--audit", state, "--idempotency-key", "k"},
			Argv:  []string{"/bin/sh", "-c", "test -e stop && exit 0; " + b.Probe + " sleep 60s " + b.Marker},
		}
		cmd := b.Start(t, run)
		waitFor(t, "the command", func() bool { return inside(b, "sleep 60s") > 0 })
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		b.NoSurvivors(t)
		b.File(t, filepath.Join(b.Work, "stop"), "")
		for range 2 {
			res := b.Run(t, run)
			if res.Code != 125 || !strings.Contains(string(res.Stderr), "gobox runs gc --key") {
				t.Errorf("%v", res)
			}
		}
		gc(t, b, state) // does not forget it
		if res := b.Run(t, run); res.Code != 125 {
			t.Errorf("after gc: %v", res)
		}
		if done := gc(t, b, state, "--key", "k"); done.Keys != 1 {
			t.Errorf("%+v", done)
		}
		if res := b.Run(t, run); res.Code != 0 {
			t.Errorf("after gc --key: %v", res)
		}
	})
}
