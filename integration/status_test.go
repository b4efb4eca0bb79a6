package integration

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gobox/integration/harness"
)

func TestP19ExitStatus(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		plain := b.File(t, filepath.Join(b.Work, "plain"), "#!/bin/sh\nexit 0\n")
		orphan := b.File(t, filepath.Join(b.Work, "orphan"), "#!/nonexistent/interpreter\n")
		if err := os.Chmod(orphan, 0o755); err != nil {
			t.Fatal(err)
		}
		hiddenTool := b.File(t, filepath.Join(b.Dir, "hidden/tool"), "#!/bin/sh\nexit 0\n")
		if err := os.Chmod(hiddenTool, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name string
			argv []string
			want []int
		}{
			{"0", []string{"/bin/true"}, []int{0}},
			{"1", []string{"/bin/false"}, []int{1}},
			{"42", []string{b.Probe, "raw", "exit", "42"}, []int{42}},
			{"124 of its own", []string{b.Probe, "raw", "exit", "124"}, []int{124}},
			{"125 of its own", []string{b.Probe, "raw", "exit", "125"}, []int{125}},
			{"255", []string{b.Probe, "raw", "exit", "255"}, []int{255}},
			{"KILL", []string{"/bin/sh", "-c", "kill -KILL $$"}, []int{137}},
			{"SEGV", []string{"/bin/sh", "-c", "kill -SEGV $$"}, []int{139}},
			{"ABRT", []string{"/bin/sh", "-c", "kill -ABRT $$"}, []int{134}},
			{"TERM", []string{"/bin/sh", "-c", "kill -TERM $$"}, []int{143}},
			{"USR1", []string{"/bin/sh", "-c", "kill -USR1 $$"}, []int{138}},
			{"PIPE", []string{"/bin/sh", "-c", "kill -PIPE $$"}, []int{141}},
			{"not executable", []string{plain}, []int{126}},
			{"directory", []string{b.Work}, []int{126}},
			{"not there", []string{"/nonexistent/command"}, []int{127}},
			{"not in PATH", []string{"no-such-command-" + b.Marker}, []int{127}},
			{"no interpreter", []string{orphan}, []int{126, 127}},
			{"empty name", []string{""}, []int{125, 126, 127}},
		} {
			res := b.Run(t, harness.Run{Argv: c.argv})
			ok := false
			for _, w := range c.want {
				ok = ok || res.Code == w
			}
			if !ok {
				t.Errorf("%s: want exit %v, got %v", c.name, c.want, res)
			}
			if (res.Code == 126 || res.Code == 127) && !bytes.HasPrefix(res.Stderr, []byte("gobox: error: ")) {
				t.Errorf("%s: no error line: %v", c.name, res)
			}
		}
	})
}

// TestRefusals are gobox's own failures: 125, one error line, a hint, and the command never ran.
func TestRefusals(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		ran := filepath.Join(b.Work, "ran")
		command := []string{"--workspace-mode", "rw", "--", "/bin/sh", "-c", "touch " + ran}
		for name, args := range map[string][]string{
			"unknown flag":       {"--no-such-flag"},
			"layer off":          {"--without", "seccomp"},
			"layer off, joined":  {"--without=landlock"},
			"workspace missing":  {"--workspace", "/nonexistent/dir"},
			"workspace a file":   {"--workspace", b.Probe},
			"workspace empty":    {"--workspace", ""},
			"grant missing":      {"--ro", "/nonexistent/dir"},
			"grant empty":        {"--ro", ""},
			"timeout":            {"--timeout", "soon"},
			"timeout negative":   {"--timeout", "-1s"},
			"timeout empty":      {"--timeout", ""},
			"env without a name": {"--env", "=x"},
			"env empty":          {"--env", ""},
			"pids":               {"--pids", "many"},
			"pids negative":      {"--pids", "-1"},
			"fsize":              {"--fsize", "1 parsec"},
			"rootfs missing":     {"--rootfs", "/nonexistent/rootfs"},
			"tmpfs relative":     {"--tmpfs", "relative"},
			"seccomp missing":    {"--seccomp", "/nonexistent/profile.json"},
			"syscall unknown":    {"--allow-syscall", "no_such_call"},
			"syscall deny typo":  {"--deny-syscall", "no_such_call"},
			"layer unknown":      {"--require", "magic"},
			"missing unknown":    {"--allow-missing", "magic"},
		} {
			res := b.Run(t, harness.Run{Args: append(append([]string{"run"}, args...), command...)})
			if res.Code != 125 || len(res.Stdout) != 0 || !bytes.HasPrefix(res.Stderr, []byte("gobox: error: ")) {
				t.Errorf("%s: want a refusal, got %v", name, res)
			} else if !bytes.Contains(res.Stderr, []byte("\ngobox: hint: ")) {
				t.Errorf("%s: no hint: %v", name, res)
			}
			if _, err := os.Lstat(ran); err == nil {
				t.Errorf("%s: the command ran", name)
				_ = os.Remove(ran)
			}
		}
		for name, args := range map[string][]string{"mode": {"run", "--workspace-mode", "wide-open", "--", "/bin/true"}, "no command": {"run"}, "only dashes": {"run", "--"}, "unknown command": {"jog"}} {
			if res := b.Run(t, harness.Run{Args: args}); res.Code != 125 || len(res.Stdout) != 0 {
				t.Errorf("%s: want exit 125, got %v", name, res)
			}
		}
		// The control: without a reason to refuse, the same command runs.
		if res := b.Run(t, harness.Run{Args: append([]string{"run"}, command...)}); res.Code != 0 {
			t.Errorf("control: %v", res)
		}
		if _, err := os.Lstat(ran); err != nil {
			t.Error("control: the command did not run")
		}
	})
}

func TestControlCharactersInMessages(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for _, args := range [][]string{{"--ro", "/nonexistent/\x1b[31mred\nline"}, {"--workspace", "/nonexistent/\x1b[31mred\nline"}, {"--\x1b[31mred\nline"}} {
			res := b.Run(t, harness.Run{Args: append(append([]string{"run"}, args...), "--", "/bin/true")})
			if res.Code != 125 || bytes.Contains(res.Stderr, []byte("\x1b")) || bytes.Contains(res.Stderr, []byte("red\nline")) {
				t.Errorf("control characters of a name reach the terminal: %v", res)
			}
		}
		res := b.Run(t, harness.Run{Argv: []string{"/nonexistent/\x1b[31mred\nline"}})
		if res.Code != 127 || bytes.Contains(res.Stderr, []byte("\x1b")) || bytes.Contains(res.Stderr, []byte("red\nline")) {
			t.Errorf("control characters of a command reach the terminal: %v", res)
		}
	})
}

func TestSilenceOnSuccess(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		res := b.Run(t, harness.Run{Argv: []string{b.Probe, "raw", "both", "to stdout", "to stderr"}})
		if res.Code != 0 || string(res.Stdout) != "to stdout" || string(res.Stderr) != "to stderr" {
			t.Errorf("got %v", res)
		}
	})
}

// launched puts the probe's launch form before gobox.
func launched(b *harness.Box, options []string, flags []string, argv ...string) harness.Run {
	args := append(append([]string{"raw", "launch"}, options...), "--", b.Gobox, "run", "--rox", filepath.Dir(b.Probe))
	return harness.Run{Bin: b.Probe, Args: append(append(append(args, flags...), "--"), argv...)}
}

func TestStartedByACarelessParent(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		inFlight.RLock()
		defer inFlight.RUnlock()
		for name, options := range map[string][]string{
			"ignored SIGCHLD":  {"ignore=SIGCHLD"},
			"ignored signals":  {"ignore=SIGTERM", "ignore=SIGINT", "ignore=SIGPIPE", "ignore=SIGHUP", "ignore=SIGUSR1"},
			"blocked signals":  {"block=SIGTERM", "block=SIGCHLD", "block=SIGUSR1", "block=SIGALRM"},
			"few descriptors":  {"nofile=48"},
			"small stack":      {"stack=262144"},
			"strange umask":    {"umask=777"},
			"no core, no size": {"core=0", "fsize=1048576"},
		} {
			t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
				res := b.Run(t, launched(b, options, nil, "/bin/sh", "-c", "(exit 3); /bin/true && exit 9"))
				if res.Code != 9 || len(res.Stderr) != 0 {
					t.Errorf("want exit 9, got %v", res)
				}
				res = b.Run(t, launched(b, options, []string{"--timeout", "300ms", "--grace", "200ms"}, b.Probe, "sleep", "60s", b.Marker))
				timedOut(t, res, 500*time.Millisecond)
			})
		}
		// Too few is refused in words and not half way.
		if res := b.Run(t, launched(b, []string{"nofile=8"}, nil, "/bin/sh", "-c", "exit 9")); res.Code != 9 && (res.Code != 125 || !bytes.HasPrefix(res.Stderr, []byte("gobox: error: "))) {
			t.Errorf("nofile=8: %v", res)
		}
		b.NoSurvivors(t)
	})
}

// TestSignalStateOfTheCommand: what gobox does with signals is not the command's business.
func TestSignalStateOfTheCommand(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		res := b.Run(t, harness.Run{Argv: []string{"/bin/grep", "-E", "^(SigBlk|SigIgn|SigPnd)", "/proc/self/status"}})
		if res.Code != 0 || strings.Count(string(res.Stdout), "0000000000000000") != 3 {
			t.Errorf("want no signal blocked or ignored, got %v", res)
		}
	})
}

func TestWorkingDirectoryGone(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		gone := "gone=" + filepath.Join(b.Work, "gone")
		res := b.Run(t, launched(b, []string{gone}, nil, "/bin/true"))
		if res.Code != 125 || !bytes.HasPrefix(res.Stderr, []byte("gobox: error: ")) {
			t.Errorf("want a refusal, got %v", res)
		}
		res = b.Run(t, launched(b, []string{gone}, []string{"--workspace", b.Work}, "/bin/pwd"))
		if res.Code != 0 || strings.Contains(string(res.Stdout), "unreachable") {
			t.Errorf("want a run in a directory that exists, got %v", res)
		}
	})
}

func TestWithoutHomeAndPath(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for _, env := range [][]string{{"PATH=/usr/bin:/bin"}, {"HOME=" + b.Home}, {"A=1"}, {"HOME=", "PATH="}, {"HOME=relative", "PATH=.:relative"}} {
			cmd := b.Command(t.Context(), harness.Run{Argv: []string{"/bin/sh", "-c", "exit 6"}})
			cmd.Env = env
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			_ = cmd.Run()
			if code := harness.ExitCode(cmd.ProcessState); code != 6 && !(code == 125 && strings.HasPrefix(stderr.String(), "gobox: error: ")) {
				t.Errorf("%q: exit %d, %s", env, code, stderr.String())
			} else if code == 125 {
				t.Logf("%q: refused: %s", env, stderr.String())
			}
		}
	})
}
