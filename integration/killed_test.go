package integration

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gobox/integration/harness"
)

// killedAfter starts gobox, ends it by SIGKILL after a while, and waits until nothing of the sandbox is left.
func killedAfter(t *testing.T, b *harness.Box, after time.Duration, run harness.Run) {
	t.Helper()
	cmd := b.Start(t, run)
	time.Sleep(after)
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Errorf("gobox ended by itself after at most %v: %v", after, err)
	}
	_ = cmd.Wait()
	b.NoSurvivors(t)
}

// cleaned runs gc, which must have no problem.
func cleaned(t *testing.T, b *harness.Box) harness.Result {
	t.Helper()
	sweeping.RLock()
	defer sweeping.RUnlock()
	res := b.Run(t, harness.Run{Args: []string{"runs", "gc", "--json"}})
	if res.Code != 0 {
		t.Errorf("gc: %v", res)
	}
	return res
}

// moments gives times at which to kill, a half of them while the sandbox is being built.
func moments(n int) []time.Duration {
	var list []time.Duration
	for i := range n {
		list = append(list, time.Duration(rand.IntN([]int{400_000, 60_000}[i%2]))*time.Microsecond)
	}
	return list
}

// TestKilledWithALayerOnDisk: at whatever moment gobox is killed, gc removes its folder on disk, and nothing beside it.
func TestKilledWithALayerOnDisk(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		disk := diskFor(t, b)
		mine := b.Canary(t, filepath.Join(disk, "gobox-scratch-of-my-own", "file"))
		made := 0
		for _, after := range moments(24) {
			killedAfter(t, b, after, harness.Run{
				Flags: []string{"--scratch", disk, "--timeout", "60s"},
				Argv:  []string{"/bin/sh", "-c", "mkdir -p d/e; echo x >d/e/f; chmod 0 d/e d; sleep 60", b.Marker},
			})
			if len(entriesOf(t, disk)) > 1 {
				made++
			}
			cleaned(t, b)
			if left := entriesOf(t, disk); fmt.Sprint(left) != "[gobox-scratch-of-my-own]" {
				t.Fatalf("killed after %v: left %q", after, left)
			}
			mine.Unchanged(t)
		}
		if made == 0 {
			t.Error("no run was killed while it had its folder")
		}
	})
}

// TestE07KilledWhileItWrites: what a command put where the host would obey it is set aside by gc when gobox was killed before it
// could. What was there before, and what came later, stays.
func TestE07KilledWhileItWrites(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		before := b.Canary(t, filepath.Join(b.Work, ".zshrc"))
		ordinary := b.Canary(t, filepath.Join(b.Work, "ordinary"))
		write := harness.Run{
			Flags: []string{"--workspace-mode", "rw", "--timeout", "60s"},
			Argv: []string{"/bin/sh", "-c", "echo evil > .envrc; mkdir -p sub/.git/hooks; echo evil > sub/.git/hooks/pre-commit; mv loose .profile; mkdir \"$(printf 'b\\377')\"; echo evil > \"$(printf 'b\\377')/.bashrc\"; " +
				"echo > written; chmod 0 sub; sleep 60", b.Marker},
		}
		obeyed := func() []string {
			var found []string
			_ = os.Chmod(filepath.Join(b.Work, "sub"), 0o755)
			_ = filepath.WalkDir(b.Work, func(path string, _ fs.DirEntry, err error) error {
				name := filepath.Base(path)
				if err == nil && (name == ".envrc" || name == "hooks" || name == ".profile" || name == ".bashrc") {
					found = append(found, path)
				}
				return err
			})
			return found
		}
		wrote := 0
		for i, after := range moments(24) {
			// Not new, but new at its place.
			loose := b.File(t, filepath.Join(b.Work, "loose"), "old")
			if err := os.Chtimes(loose, time.Unix(1, 0), time.Unix(1, 0)); err != nil {
				t.Fatal(err)
			}
			killedAfter(t, b, after, write)
			if len(obeyed()) > 0 {
				wrote++
			}
			res := cleaned(t, b)
			if left := obeyed(); len(left) > 0 {
				t.Fatalf("killed after %v: %q is still there: %v", after, left, res)
			}
			for _, name := range []string{"sub", "written", "loose", "b\xff"} {
				if err := os.RemoveAll(filepath.Join(b.Work, name)); err != nil {
					t.Fatal(err)
				}
			}
			aside, _ := filepath.Glob(filepath.Join(b.Work, ".*.gobox-aside-*"))
			if i == 0 && wrote == 1 && !strings.Contains(string(res.Stdout), ".envrc.gobox-aside-") {
				t.Errorf("not told: %v", res)
			}
			for _, name := range aside {
				if err := os.Remove(name); err != nil {
					t.Fatal(err)
				}
			}
		}
		if wrote == 0 {
			t.Error("no run was killed after it wrote")
		}

		// What its owner does afterwards is the owner's.
		cmd := b.Start(t, write)
		waitFor(t, "the command to write", func() bool {
			_, err := os.Stat(filepath.Join(b.Work, "written"))
			return err == nil
		})
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		b.NoSurvivors(t)
		dead := time.Now()
		waitFor(t, "time to pass", func() bool { return time.Since(dead) > 4*time.Second })
		later := b.Canary(t, filepath.Join(b.Work, ".npmrc"))
		_ = os.Chmod(filepath.Join(b.Work, "sub"), 0o755)
		again := b.Canary(t, filepath.Join(b.Work, "sub/.cargo/config.toml"))
		if res := cleaned(t, b); !strings.Contains(string(res.Stdout), ".envrc.gobox-aside-") {
			t.Errorf("not told: %v", res)
		}
		if left := obeyed(); len(left) > 0 {
			t.Errorf("%q", left)
		}
		for _, c := range []*harness.Canary{before, ordinary, later, again} {
			c.Unchanged(t)
		}
		if res := cleaned(t, b); strings.Contains(string(res.Stdout), "aside-") {
			t.Errorf("a second gc: %v", res)
		}
		// A run that ends by itself leaves no note.
		if res := b.Run(t, inShell(b, "echo > fine")); res.Code != 0 {
			t.Error(res)
		}
		if found, _ := filepath.Glob(filepath.Join(b.Home, ".local/state/gobox/runs/*/held.json")); len(found) > 0 {
			t.Errorf("%q", found)
		}
	})
}

// TestKilledWhileItDelivers: nothing is left beside the output folder either.
func TestKilledWhileItDelivers(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		out := filepath.Join(b.Dir, "place")
		b.Mkdir(t, out)
		caught := false
		for range 40 {
			cmd := b.Start(t, harness.Run{
				Flags: []string{"--workspace-mode", "none", "--output-dir", filepath.Join(out, "dir"), "--timeout", "60s"},
				Argv:  []string{"/bin/sh", "-c", "i=0; while test $i -lt 3000; do echo x >" + out + "/dir/$i; i=$((i+1)); done", b.Marker},
			})
			over := make(chan struct{})
			go func() { _ = cmd.Wait(); close(over) }()
			for waiting := true; waiting; {
				select {
				case <-over:
					waiting = false
				case <-time.After(time.Millisecond):
					if found, _ := filepath.Glob(filepath.Join(out, ".gobox-output-*")); len(found) > 0 {
						_ = cmd.Process.Kill()
						<-over
						waiting = false
					}
				}
			}
			left, _ := filepath.Glob(filepath.Join(out, ".gobox-output-*"))
			caught = caught || len(left) > 0
			cleaned(t, b)
			if left, _ := filepath.Glob(filepath.Join(out, ".gobox-output-*")); len(left) > 0 {
				t.Fatalf("left: %q", left)
			}
			if err := os.RemoveAll(filepath.Join(out, "dir")); err != nil {
				t.Fatal(err)
			}
			if caught {
				return
			}
		}
		t.Error("it was never killed in between")
	})
}
