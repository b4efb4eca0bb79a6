package changes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gobox/fsguard"
)

// fixture is a workspace, and the run directory of a command that changed a copy of it.
type fixture struct {
	t              *testing.T
	workspace, run string
	set            *Set
}

// changed makes a fixture without an overlay: the upper directory is an opaque folder by way of a whole copy.
func changed(t *testing.T, before, script string) *fixture {
	t.Helper()
	return changedIn(t, tempDir, before, script)
}

func changedIn(t *testing.T, dir func(*testing.T) string, before, script string) *fixture {
	t.Helper()
	f := &fixture{t: t, workspace: dir(t), run: dir(t)}
	shell(t, f.workspace, before)
	f.set = collectCopy(t, f.workspace, f.run, script)
	return f
}

// collectCopy has script change a copy of the workspace, and collects the difference: deletions by a lower that is
// walked as below an opaque folder.
func collectCopy(t *testing.T, workspace, run, script string) *Set {
	t.Helper()
	after := tempDir(t)
	if out, err := exec.Command("cp", "-a", workspace+"/.", after).CombinedOutput(); err != nil {
		t.Fatalf("%s", out)
	}
	shell(t, after, script)
	upper, lower := openRoot(t, after), openRoot(t, workspace)
	c := &collector{ctx: context.Background(), upper: upper, lower: lower, limits: Limits{}.filled()}
	c.store = &store{run: openRoot(t, run), size: 1 << 30, hashed: 1 << 30}
	info, err := lower.Lstat(".")
	if err == nil {
		err = c.deleted(".", &info, true)
	}
	if err == nil {
		err = c.walk()
	}
	if err != nil {
		t.Fatal(err)
	}
	set := &Set{Workspace: workspace, Entries: c.entries, Dropped: c.dropped}
	set.seal()
	// The walk does not know that the root is opaque, and tells of a folder's content a second time.
	set.Entries = slices.CompactFunc(set.Entries, func(a, b Entry) bool { return a.Path == b.Path })
	set.seal()
	if err := c.store.finish(set); err != nil {
		t.Fatal(err)
	}
	return set
}

func (f *fixture) apply(r Request) (*Report, error) {
	f.t.Helper()
	if r.Hash == "" {
		r.Hash = f.set.Hash
	}
	r.Path = f.workspace
	return Apply(context.Background(), openRoot(f.t, f.run), openRoot(f.t, f.workspace), r)
}

// tree lists a folder: a line for each path with type, mode and content.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := ""
		switch info.Mode().Type() {
		case 0:
			content, err := os.ReadFile(p)
			if errors.Is(err, fs.ErrPermission) {
				content, err = []byte("locked"), nil
			}
			if err != nil {
				return err
			}
			text = string(content)
		case fs.ModeSymlink:
			text, _ = os.Readlink(p)
		}
		fmt.Fprintf(&b, "%s %v %q\n", p[len(dir)+1:], info.Mode(), text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

const busyBefore = `
echo one >one; echo two >two; echo run >run.sh; mkdir -p d/e/f; echo f >d/e/f/f; echo g >d/g; ln -s one l; ln -s two m
echo tofolder >tofolder; mkdir tofile; echo x >tofile/x; mkdir locked; echo l >locked/l; chmod 555 locked
`

const busyAfter = `
echo ONE >one; rm two; chmod 755 run.sh; rm -r d/e; echo G >d/g; ln -sfn run.sh l; rm m; echo m >m; rm tofolder; mkdir tofolder; echo y >tofolder/y
rm -r tofile; echo file >tofile; mkdir -p new/deep; echo n >new/deep/n; : >new/empty; mkdir new/none; chmod 500 new/deep; printf x >"$(printf 'n\nl\377')"
chmod 755 locked; echo L >locked/l; echo k >locked/k; chmod 555 locked
`

func TestApplyMakesTheWorkspaceAsTheCommandLeftIt(t *testing.T) {
	f := changed(t, busyBefore, busyAfter)
	before := tree(t, f.workspace)
	want := tempDir(t)
	shell(t, want, busyBefore+busyAfter)

	if _, err := f.apply(Request{Hash: strings.Repeat("0", 64)}); !errors.Is(err, ErrHash) {
		t.Errorf("with another hash: %v", err)
	}
	dry, err := f.apply(Request{DryRun: true})
	if err != nil || len(dry.Entries) != len(f.set.Entries) {
		t.Errorf("dry run: %+v, %v", dry, err)
	}
	if got := tree(t, f.workspace); got != before {
		t.Fatalf("it was changed:\n%s", got)
	}
	report, err := f.apply(Request{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := tree(t, f.workspace), tree(t, want); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if len(report.Entries) != len(f.set.Entries) || report.Left != 0 {
		t.Errorf("report %+v", report)
	}
	if _, err := f.apply(Request{}); !errors.Is(err, ErrApplied) {
		t.Errorf("a second time: %v", err)
	}
	if _, err := os.Lstat(f.run + "/" + journalName); err == nil {
		t.Error("the journal is still there")
	}
}

func TestApplyRefusesAnAlteredContent(t *testing.T) {
	f := changed(t, "echo a >a; echo b >b", "echo A >a; echo B >b")
	before := tree(t, f.workspace)
	if err := os.WriteFile(f.run+"/"+blobName(f.set.find("b").New.SHA256), []byte("x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.apply(Request{}); !errors.Is(err, ErrManifest) {
		t.Errorf("error %v", err)
	}
	if got := tree(t, f.workspace); got != before {
		t.Errorf("it was changed:\n%s", got)
	}
}

func TestConflicts(t *testing.T) {
	const before = "echo a >a; mkdir d; echo b >d/b; ln -s a l; mkdir e"
	tests := []struct{ name, after, host, want string }{
		{"both modify", "echo A >a", "echo B >a", `"a": it has another content by now`},
		{"both modify to the same", "echo A >a; echo n >n", "echo A >a", ""},
		{"modify what is gone", "echo A >a", "rm a", `"a": the file is there no more`},
		{"modify what is a folder", "echo A >a", "rm a; mkdir a", `"a": it was a file and is a folder by now`},
		{"modify what is a link", "echo A >a", "rm a; ln -s d/b a", `"a": it was a file and is a symlink by now`},
		{"modify where the mode changed", "echo A >a", "chmod 600 a", `"a": its mode was 0644 and is 0600 by now`},
		{"mode where the content changed", "chmod 755 a", "echo B >a", `"a": it has another content by now`},
		{"delete what was modified", "rm a", "echo bb >a", `"a": it has another content by now`},
		{"delete what is gone", "rm a; echo n >n", "rm a", ""},
		{"add what is there", "echo n >n", "echo m >n", `"n": a file is there by now`},
		{"add what is there, the same", "echo n >n", "echo n >n", ""},
		{"add a folder that is there", "mkdir n; echo x >n/x", "mkdir -m 700 n; echo y >n/y", ""},
		{"add a folder where a link is", "mkdir n; echo x >n/x", "ln -s d n", `"n": a symlink is there by now; "n/x": the folder "n" is there no more`},
		{"add to a folder that is gone", "echo x >e/x", "rmdir e", `"e/x": the folder "e" is there no more`},
		{"add to a folder that is a link", "echo x >e/x", "rmdir e; ln -s d e", `"e/x": the folder "e" is there no more`},
		{"modify in a folder that is a link", "echo x >d/b", "mv d D; ln -s D d", `"d/b": the file is there no more`},
		{"delete a folder with more in it", "rm -r d", "echo x >d/x", `"d": it holds "x", which the changes do not remove`},
		{"delete a folder with something modified", "rm -r d", "echo x >d/b", `"d/b": it has another content by now`},
		{"link", "ln -sfn d l", "ln -sfn e l", `"l": the link has another target by now`},
		{"folder mode", "chmod 700 d", "chmod 750 d", `"d": its mode was 0755 and is 0750 by now`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := changed(t, before, test.after)
			shell(t, f.workspace, test.host)
			was := tree(t, f.workspace)
			_, err := f.apply(Request{})
			got := ""
			var conflicts *ConflictError
			if errors.As(err, &conflicts) {
				for i, o := range conflicts.Entries {
					if i > 0 {
						got += "; "
					}
					got += fmt.Sprintf("%q: %s", o.Path, o.Why)
				}
			} else if err != nil {
				t.Fatal(err)
			}
			if test.name == "add a folder where a link is" {
				// What is beneath is told of as well or not; the folder is enough.
				got, test.want, _ = strings.Cut(got+"; ", "; ")
				test.want = `"n": a symlink is there by now`
			}
			if got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			if now := tree(t, f.workspace); err != nil && now != was {
				t.Errorf("it was changed:\n%s", now)
			}
		})
	}
}

// applyHelper applies and kills itself after so many steps.
func applyHelper(run, workspace, hash string, steps string) int {
	left, _ := strconv.Atoi(steps)
	r, err := fsguard.OpenRoot(run, fsguard.Options{})
	if err != nil {
		panic(err)
	}
	w, err := fsguard.OpenRoot(workspace, fsguard.Options{})
	if err != nil {
		panic(err)
	}
	a := &applying{ctx: context.Background(), run: r, workspace: w, root: os.Geteuid() == 0}
	a.after = func(string) {
		if left--; left == 0 {
			unix.Kill(os.Getpid(), unix.SIGKILL)
			select {}
		}
	}
	if _, err := a.apply(Request{Hash: hash}); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// crash runs an apply that is killed after so many steps, and reports whether it was.
func crash(t *testing.T, f *fixture, steps int) bool {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", f.run, f.workspace, f.set.Hash, strconv.Itoa(steps))
	cmd.Env = append(os.Environ(), helperEnv+"=apply")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == -1 {
		return true
	}
	if err != nil && strings.TrimSpace(string(out)) != ErrApplied.Error() {
		t.Fatalf("%s: %v", out, err)
	}
	return false
}

func TestCrashAtEveryStep(t *testing.T) {
	t.Parallel()
	want := tempDir(t)
	shell(t, want, busyBefore+busyAfter)
	wantTree := tree(t, want)
	points := 0
	for steps := 1; ; steps++ {
		f := changedIn(t, memoryDir, busyBefore, busyAfter)
		before := tree(t, f.workspace)
		if !crash(t, f, steps) {
			break
		}
		points++
		again := changedCopy(t, f)
		// Killed twice, the second time while it undoes.
		crash(t, again, 2)

		_, err := f.apply(Request{})
		if err != nil && !errors.Is(err, ErrApplied) {
			t.Fatalf("after %d steps: %v", steps, err)
		}
		if got := tree(t, f.workspace); got != wantTree {
			t.Fatalf("after %d steps: got\n%swant\n%s", steps, got, wantTree)
		}
		if err := Discard(context.Background(), openRoot(t, again.run), openRoot(t, again.workspace)); err != nil {
			t.Fatalf("discard after %d steps: %v", steps, err)
		}
		if got := tree(t, again.workspace); got != before && got != wantTree {
			t.Fatalf("discard after %d steps: got\n%swant\n%s", steps, got, before)
		}
	}
	if points < 40 {
		t.Errorf("only %d points to crash at", points)
	}
}

// changedCopy copies a fixture, an interrupted apply included. Inodes differ in a copy, so the journal is told.
func changedCopy(t *testing.T, f *fixture) *fixture {
	t.Helper()
	g := &fixture{t: t, workspace: memoryDir(t), run: memoryDir(t), set: f.set}
	for _, c := range [][2]string{{f.workspace, g.workspace}, {f.run, g.run}} {
		if out, err := exec.Command("cp", "-a", c[0]+"/.", c[1]).CombinedOutput(); err != nil {
			t.Fatalf("%s", out)
		}
	}
	run := openRoot(t, g.run)
	j, err := readJournal(run)
	if err != nil {
		t.Fatal(err)
	}
	if j == nil {
		return g
	}
	inodes := map[uint64]uint64{}
	_ = filepath.WalkDir(f.workspace, func(p string, d fs.DirEntry, err error) error {
		var old, new unix.Stat_t
		if err == nil && unix.Lstat(p, &old) == nil && unix.Lstat(g.workspace+p[len(f.workspace):], &new) == nil {
			inodes[old.Ino] = new.Ino
		}
		return nil
	})
	for i := range j.Steps {
		if ino, ok := inodes[j.Steps[i].Ino]; ok {
			j.Steps[i].Ino = ino
		}
	}
	if err := j.write(run); err != nil {
		t.Fatal(err)
	}
	return g
}

// memoryDir is a temporary folder that is quick to sync.
func memoryDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "gobox-changes-")
	if err != nil {
		return tempDir(t)
	}
	t.Cleanup(func() {
		r, err := fsguard.OpenRoot(dir, fsguard.Options{})
		if err == nil {
			err = errors.Join(r.RemoveAll(context.Background(), "."), r.Close(), os.Remove(dir))
		}
		if err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestUndoKeepsWhatWasChangedSince(t *testing.T) {
	f := changed(t, "echo one >one; echo two >two", "echo ONE >one; echo TWO >two")
	// journal, staging, two staged, moving, and the first swap
	if !crash(t, f, 6) {
		t.Fatal("it was not killed")
	}
	if err := Finished(f.run); !errors.Is(err, ErrUnfinished) {
		t.Errorf("in the middle: %v", err)
	}
	if got := tree(t, f.workspace); !strings.Contains(got, `one -rw-r--r-- "ONE\n"`) {
		t.Fatalf("not in the middle:\n%s", got)
	}
	shell(t, f.workspace, "echo mine >one")
	_, err := f.apply(Request{})
	var stuck *StuckError
	if !errors.As(err, &stuck) || stuck.Path != "one" {
		t.Fatalf("error %v", err)
	}
	if got := tree(t, f.workspace); !strings.Contains(got, `one -rw-r--r-- "mine\n"`) || !strings.Contains(got, `"one\n"`) {
		t.Errorf("something is lost:\n%s", got)
	}
	shell(t, f.workspace, "mv one kept")
	if _, err := f.apply(Request{}); err != nil {
		t.Fatal(err)
	}
	if err := Finished(f.run); err != nil {
		t.Errorf("at the end: %v", err)
	}
	want := "kept -rw-r--r-- \"mine\\n\"\none -rw-r--r-- \"ONE\\n\"\ntwo -rw-r--r-- \"TWO\\n\"\n"
	if got := tree(t, f.workspace); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
