package changes

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"gobox/fsguard"
)

// swapping exchanges pairs of names in dir as fast as it can until the test ends.
func swapping(t *testing.T, dir string, pairs ...[2]string) (stop func()) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Renameat2(fd, pairs[0][0], fd, pairs[0][1], unix.RENAME_EXCHANGE); err != nil {
		t.Skip("the file system of the temporary directory cannot exchange names:", err)
	}
	end := make(chan struct{})
	var swapper sync.WaitGroup
	swapper.Go(func() {
		for {
			select {
			case <-end:
				return
			default:
			}
			for _, p := range pairs {
				_ = unix.Renameat2(fd, p[0], fd, p[1], unix.RENAME_EXCHANGE)
			}
		}
	})
	return sync.OnceFunc(func() {
		close(end)
		swapper.Wait()
		unix.Close(fd)
	})
}

// TestApplyWhileSwapped applies and undoes while a folder of the workspace and a link to the outside change places. It may
// fail, but nothing outside may change, and afterwards the workspace is as before or as after.
func TestApplyWhileSwapped(t *testing.T) {
	applied, refused := 0, 0
	for range 80 {
		top := memoryDir(t)
		workspace, outside, run := top+"/w", top+"/outside", top+"/run"
		shell(t, top, "mkdir w outside run; echo canary >outside/a; echo canary >outside/b; mkdir w/d; echo a >w/d/a; echo b >w/d/b; ln -s ../outside w/l; echo x >w/x; mkdir outside/sub w/d/sub; echo s >w/d/sub/s")
		canary := tree(t, outside)
		f := &fixture{t: t, workspace: workspace, run: run}
		f.set = collectCopy(t, workspace, run, "echo A >d/a; rm d/b; echo n >d/n; chmod 700 d/sub; echo S >d/sub/s; mkdir d/new; echo q >d/new/q; echo X >x; rm l; mkdir l")
		before := tree(t, workspace)
		f.set.Entries = nil
		stop := swapping(t, workspace, [2]string{"d", "l"})
		_, err := f.apply(Request{Skip: []string{"l"}})
		stop()
		if _, statErr := os.Lstat(workspace + "/d/a"); statErr != nil || isLink(workspace+"/d") {
			if err := os.Rename(workspace+"/d", workspace+"/t"); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(os.Rename(workspace+"/l", workspace+"/d"), os.Rename(workspace+"/t", workspace+"/l")); err != nil {
				t.Fatal(err)
			}
		}
		if got := tree(t, outside); got != canary {
			t.Fatalf("outside was changed:\n%s", got)
		}
		// What was interrupted by the swapper is undone or done now that it has gone.
		var stuck *StuckError
		if errors.As(err, &stuck) {
			_, err = f.apply(Request{Skip: []string{"l"}})
		}
		got := tree(t, workspace)
		switch {
		case err == nil && strings.Contains(got, `d/a -rw-r--r-- "A\n"`) && strings.Contains(got, `x -rw-r--r-- "X\n"`) && strings.Contains(got, "d/new/q") && !strings.Contains(got, "d/b "):
			applied++
		case err != nil && got == before:
			refused++
		default:
			t.Fatalf("error %v, and the workspace is\n%s", err, got)
		}
	}
	t.Logf("applied %d times, refused %d times", applied, refused)
}

func isLink(p string) bool {
	info, err := os.Lstat(p)
	return err == nil && info.Mode()&os.ModeSymlink != 0
}

// TestCollectWhileSwapped has the workspace's owner change places of a folder and a link to a secret while the changes are
// being taken out. Nothing of the secret may come to be stored.
func TestCollectWhileSwapped(t *testing.T) {
	top := memoryDir(t)
	shell(t, top, "mkdir w outside upper upper/d; echo secret >outside/a; echo secret >outside/b; mkdir w/d; echo a >w/d/a; echo b >w/d/b; ln -s ../outside w/l; echo A >upper/d/a; chmod 755 upper/d")
	if err := unix.Mknod(top+"/upper/d/b", unix.S_IFCHR, 0); err != nil {
		t.Skip("no whiteouts here:", err)
	}
	stop := swapping(t, top+"/w", [2]string{"d", "l"})
	defer stop()
	full := 0
	for i := range 300 {
		run := filepath.Join(top, "run")
		if err := os.Mkdir(run, 0o700); err != nil {
			t.Fatal(err)
		}
		r := openRoot(t, run)
		set, err := Collect(context.Background(), openRoot(t, top+"/upper"), openRoot(t, top+"/w"), r, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if set.Refused == "" {
			full++
		}
		_ = filepath.WalkDir(run, func(p string, d os.DirEntry, err error) error {
			if b, err := os.ReadFile(p); err == nil && strings.Contains(string(b), "secret") {
				t.Errorf("round %d: %s has the secret", i, p)
			}
			return nil
		})
		if err := r.RemoveAll(context.Background(), "."); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(run); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d of 300 sets were taken", full)
}

// TestAnEditAtTheLastMoment has somebody change the workspace after it was checked and before each of the steps. Either
// way the edit is kept, and the rest is as before.
func TestAnEditAtTheLastMoment(t *testing.T) {
	const before = "echo a >a; echo b >b; echo c >c; mkdir d; echo x >d/x; echo m >m"
	const script = "echo A >a; rm b; echo n >n; rm -r d; chmod 755 m; mkdir e"
	edits := map[string]string{
		"modified in place":    "echo edited >a",
		"replaced":             "echo edited >t; mv t a",
		"a link for it":        "rm a; ln -s c a",
		"gone":                 "rm a",
		"deleted one edited":   "echo edited >b",
		"added one there":      "echo edited >n",
		"a folder for it":      "mkdir n; echo edited >n/x",
		"more in the folder":   "echo edited >d/y",
		"mode":                 "chmod 600 m",
		"another for the mode": "rm m; echo edited >m",
		"folder there":         "mkdir e; echo edited >e/e",
	}
	for name, edit := range edits {
		t.Run(name, func(t *testing.T) {
			f := changedIn(t, memoryDir, before, script)
			a := &applying{ctx: t.Context(), run: openRoot(t, f.run), workspace: openRoot(t, f.workspace), root: os.Geteuid() == 0}
			want := ""
			a.after = func(what string) {
				if what == "moving" {
					shell(t, f.workspace, edit)
					want = withoutStaging(tree(t, f.workspace))
				}
			}
			_, err := a.apply(Request{Hash: f.set.Hash})
			var conflict *ConflictError
			if !errors.As(err, &conflict) || want == "" {
				t.Errorf("error %v", err)
			}
			if got := tree(t, f.workspace); got != want {
				t.Errorf("got\n%swant\n%s", got, want)
			}
			if _, err := readJournal(a.run); err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(f.run + "/" + journalName); err == nil {
				t.Error("the journal is still there")
			}
		})
	}
}

// withoutStaging leaves out of a tree what apply has at work.
func withoutStaging(tree string) string {
	var b strings.Builder
	for line := range strings.Lines(tree) {
		if !strings.HasPrefix(line, stagingPrefix) {
			b.WriteString(line)
		}
	}
	return b.String()
}

func TestTwoAppliesAtOnce(t *testing.T) {
	f := changed(t, "echo a >a", "echo A >a")
	unlock, err := lock(openRoot(t, f.run), openRoot(t, tempDir(t)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.apply(Request{}); !errors.Is(err, ErrBusy) {
		t.Errorf("the run is taken: %v", err)
	}
	unlock()
	other := tempDir(t)
	shell(t, other, "mkdir changes")
	if unlock, err = lock(openRoot(t, other), openRoot(t, f.workspace)); err != nil {
		t.Fatal(err)
	}
	if _, err := f.apply(Request{}); !errors.Is(err, ErrBusy) {
		t.Errorf("the workspace is taken: %v", err)
	}
	unlock()
	if _, err := f.apply(Request{}); err != nil {
		t.Error(err)
	}
}

// TestRootAppliesForTheOwner needs root; an ordinary user cannot give files away.
func TestRootAppliesForTheOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can write for another user")
	}
	f := changed(t, "echo a >a; mkdir d; echo x >d/x; chmod 600 d/x; mkdir g; echo t >t", "echo A >a; echo n >n; mkdir -p d/e; echo q >d/e/q; echo X >d/x; ln -s a l; echo i >g/i; mkdir g/h; rm t; mkdir t")
	shell(t, f.workspace, "chown -R 65534:65533 .; chown 1234:65533 d/x; chown 77:88 g; chmod 2775 g")
	if _, err := f.apply(Request{}); err != nil {
		t.Fatal(err)
	}
	r, err := fsguard.OpenRoot(f.workspace, fsguard.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for path, want := range map[string][2]uint32{
		"a": {65534, 65533}, "n": {65534, 65533}, "d/e": {65534, 65533}, "d/e/q": {65534, 65533},
		"d/x": {1234, 65533}, "l": {65534, 65533}, "g/i": {77, 88}, "g/h": {77, 88}, "t": {65534, 65533},
	} {
		info, err := r.Lstat(path)
		if err != nil || info.UID != want[0] || info.GID != want[1] {
			t.Errorf("%s: %d:%d, %v, want %v", path, info.UID, info.GID, err, want)
		}
	}
	if info, err := r.Lstat("g/h"); err != nil || info.Mode != os.ModeDir|os.ModeSetgid|0o755 {
		t.Errorf("g/h: %v, %v", info.Mode, err)
	}
}
