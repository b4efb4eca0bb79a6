package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gobox/integration/harness"
)

// TestRoughStuckStderr: nobody reads stderr either, and the message is not worth the deadline.
func TestRoughStuckStderr(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		cmd := b.Command(t.Context(), harness.Run{Flags: []string{"--timeout", "1s", "--grace", "200ms"}, Argv: []string{"/bin/sh", "-c", "yes >&2", b.Marker}})
		cmd.Stderr = w
		begin := time.Now()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		w.Close()
		timer := time.AfterFunc(15*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		timer.Stop()
		if code := harness.ExitCode(cmd.ProcessState); code != 124 || time.Since(begin) > 10*time.Second {
			t.Errorf("exit %d after %v", code, time.Since(begin))
		}
		b.NoSurvivors(t)
	})
}

// TestRoughOneFileForBoth keeps the order of stdout and stderr where they are one file, and appends.
func TestRoughOneFileForBoth(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		path := b.File(t, filepath.Join(b.Dir, "log"), "before\n")
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		cmd := b.Command(t.Context(), harness.Run{Argv: []string{"/bin/sh", "-c", "for i in 1 2 3; do echo o$i; echo e$i >&2; done"}})
		cmd.Stdout, cmd.Stderr = f, f
		err = cmd.Run()
		f.Close()
		got, _ := os.ReadFile(path)
		if want := "before\no1\ne1\no2\ne2\no3\ne3\n"; err != nil || string(got) != want {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// TestRoughStdinIsLeftAlone: who reads one line takes one line of the caller's file, and who reads nothing
// takes nothing.
func TestRoughStdinIsLeftAlone(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		path := b.File(t, filepath.Join(b.Dir, "in"), "l1\nl2\nl3\n")
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for _, c := range []struct{ script, want string }{{"read x; echo $x", "l1\n"}, {"true", ""}, {"read x; echo $x", "l2\n"}} {
			cmd := b.Command(t.Context(), harness.Run{Argv: []string{"/bin/sh", "-c", c.script}})
			cmd.Stdin = f
			if out, err := cmd.Output(); err != nil || string(out) != c.want {
				t.Errorf("%s: %q, %v", c.script, out, err)
			}
		}
		if rest, _ := io.ReadAll(f); !bytes.Equal(rest, []byte("l3\n")) {
			t.Errorf("left in the file: %q", rest)
		}
	})
}

// TestRoughModesOnEveryWayOut leaves the terminal as it was, however a command that made it raw ends.
func TestRoughModesOnEveryWayOut(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for _, c := range []struct {
			flags []string
			end   string
			code  int
		}{
			{nil, "kill -KILL $$", 137},
			{nil, "exit 9", 9},
			{[]string{"--timeout", "500ms"}, "sleep 60", 124},
			{[]string{"--timeout", "500ms", "--grace", "100ms"}, "trap '' TERM; while :; do sleep 0.05; done", 124},
			{[]string{"--fsize", "64k"}, "exec head -c 1000000 /dev/zero >/tmp/x", 137},
		} {
			term, cmd := onTerminal(t, b, harness.Run{Flags: c.flags, Argv: []string{"/bin/sh", "-c", "stty raw -echo; " + c.end}})
			ended(t, term, cmd, c.code)
		}
	})
}

// TestRoughFolderNames runs in folders with every kind of name, names them as workspace and as grant, and
// reads the plan as JSON.
func TestRoughFolderNames(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for _, name := range []string{"a\nb", "sp ace", `q"uo`, `bs\x`, "tab\t", "\x1b[31m", "\xff\xfe", "ü", "a:b", "-x", "*", "x (deleted)", strings.Repeat("n", 255)} {
			dir := filepath.Join(b.Work, name)
			b.File(t, filepath.Join(dir, "f"), "hi\n")
			for _, r := range []harness.Run{
				{Dir: dir, Argv: []string{"/bin/cat", "f"}},
				{Flags: []string{"--workspace", dir}, Argv: []string{"/bin/cat", "f"}},
				{Flags: []string{"--workspace-mode", "none", "--ro", dir}, Argv: []string{"/bin/cat", filepath.Join(dir, "f")}},
			} {
				if res := b.Run(t, r); res.Code != 0 || string(res.Stdout) != "hi\n" || len(res.Stderr) != 0 {
					t.Errorf("%q %q: %v", name, r.Flags, res)
				}
			}
			res := b.Run(t, harness.Run{Dir: dir, Flags: []string{"--dry-run", "--json"}, Argv: []string{"/bin/true", name}})
			if res.Code != 0 || !json.Valid(res.Stdout) {
				t.Errorf("%q: plan is no JSON: %v", name, res)
			}
		}
	})
}

// TestRoughEnvironments starts from what cron, sudo, su and broken scripts leave.
func TestRoughEnvironments(t *testing.T) {
	suite.EachAside(t, func(t *testing.T, b *harness.Box) {
		state := filepath.Join(b.Dir, "state")
		b.Mkdir(t, state)
		for _, env := range [][]string{
			{"HOME="}, {"HOME=relative"}, {"HOME=/"}, {"HOME=/nonexistent/home"}, {"HOME=/usr"}, {"HOME=/proc/self"}, {"HOME=/tmp"},
			{"HOME=/var/tmp/some-home"}, {"HOME=/dev/shm"}, {"HOME=/home/ü\n"}, {"USER="}, {"USER=a:b\nroot:x"}, {"USER=" + strings.Repeat("u", 5000)},
			{"TMPDIR=/nonexistent"}, {"PATH=/usr/bin::"}, {"TERM=a\nb", "LANG=\x1b[31m", "TZ=/etc/shadow"},
		} {
			// Records stay with the test, whatever HOME is.
			env = append(env, "XDG_STATE_HOME="+state)
			res := b.Run(t, harness.Run{Env: env, Argv: []string{"/bin/sh", "-c", `cd "$HOME" && : >"$HOME/written" && mktemp >/dev/null && id -un >/dev/null && echo fine`}})
			if res.Code != 0 || string(res.Stdout) != "fine\n" || len(res.Stderr) != 0 {
				t.Errorf("%.60q: %v", env, res)
			}
		}
		home := filepath.Join(b.Dir, "missing")
		res := b.Run(t, harness.Run{Env: []string{"HOME=" + home}, Argv: []string{"/bin/true"}})
		if _, err := os.Lstat(home); res.Code != 0 || err == nil {
			t.Errorf("a HOME that was not there: %v, made: %v", res, err == nil)
		}
		cmd := b.Command(t.Context(), harness.Run{Argv: []string{"/bin/echo", "fine"}})
		cmd.Env = []string{}
		// There is no place for a record, and gobox says so.
		if out, err := cmd.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "fine\ngobox: hint: this run has no record") || strings.Count(string(out), "\n") != 2 {
			t.Errorf("without any environment: %q, %v", out, err)
		}
	})
}

// TestRoughCrowd is many runs at once in one workspace, each with its own status and output.
func TestRoughCrowd(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		var all sync.WaitGroup
		for i := range 30 {
			all.Go(func() {
				cmd := b.Command(t.Context(), harness.Run{Flags: []string{"--workspace-mode", "rw"}, Argv: []string{"/bin/sh", "-c", fmt.Sprintf("echo %d >f%d; cat f%d; exit %d", i, i, i, i)}})
				out, _ := cmd.CombinedOutput()
				if code := harness.ExitCode(cmd.ProcessState); code != i || string(out) != fmt.Sprintf("%d\n", i) {
					t.Errorf("run %d: exit %d, %q", i, code, out)
				}
			})
		}
		all.Wait()
		b.NoSurvivors(t)
	})
}

// TestRoughNestedOwners: as root, each file stays its owner's, and what is made belongs to the
// workspace's.
func TestRoughNestedOwners(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make files of several owners")
	}
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		if b.UID != 0 {
			return
		}
		mine, other := filepath.Join(b.Work, "mine"), filepath.Join(b.Work, "other")
		b.Mkdir(t, mine)
		b.Mkdir(t, other)
		for path, uid := range map[string]int{b.Work: 12345, mine: 12345, other: 12346} {
			if err := os.Chown(path, uid, uid); err != nil {
				t.Fatal(err)
			}
		}
		res := b.Run(t, harness.Run{Flags: []string{"--workspace-mode", "rw"}, Argv: []string{"/bin/sh", "-c", "echo x >top; echo x >mine/new; echo x >other/new; :"}})
		if res.Code != 0 {
			t.Fatal(res)
		}
		for _, path := range []string{filepath.Join(b.Work, "top"), filepath.Join(mine, "new")} {
			if st, err := os.Stat(path); err != nil || st.Sys().(*syscall.Stat_t).Uid != 12345 {
				t.Errorf("%s: %v %v", path, st, err)
			}
		}
		if _, err := os.Stat(filepath.Join(other, "new")); err == nil {
			t.Error("the command wrote into another owner's folder")
		}
	})
}
