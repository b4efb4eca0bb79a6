package integration

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gobox/integration/harness"
)

// mounted gives a folder with a new file system of the kind, until the test ends. What this machine cannot mount skips.
func mounted(t *testing.T, kind string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounting takes root")
	}
	dir, err := os.MkdirTemp(suite.Dir, "fs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	top := filepath.Join(dir, "top")
	image := filepath.Join(dir, "image")
	do := func(argv ...string) {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Skipf("no %s here: %v: %v %s", kind, argv, err, out)
		}
	}
	for _, d := range []string{dir, top, dir + "/lower", dir + "/upper", dir + "/inner"} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	switch kind {
	case "tmpfs":
		do("mount", "-t", "tmpfs", "-o", "mode=755", "none", top)
	case "overlay":
		do("mount", "-t", "overlay", "-o", "lowerdir="+dir+"/lower,upperdir="+dir+"/upper,workdir="+dir+"/inner", "none", top)
	default:
		f, err := os.Create(image)
		if err != nil {
			t.Fatal(err)
		}
		err = f.Truncate(400 << 20)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		if kind == noJournal {
			// A block for each inode, so that none is on the disk by its neighbour's sync.
			do("mkfs.ext4", "-q", "-O", "^has_journal", "-b", "1024", "-I", "1024", image)
		} else {
			do("mkfs."+kind, "-q", image)
		}
		do("mount", "-o", "loop", "-t", mountType(kind), image, top)
	}
	t.Cleanup(func() {
		if err := unmount(top); err != nil {
			t.Errorf("umount %s: %v", top, err)
			_ = syscall.Unmount(top, syscall.MNT_DETACH)
		}
	})
	if err := os.Chmod(top, 0o755); err != nil {
		t.Fatal(err)
	}
	return top
}

// noJournal is a kind of file system for mounted.
const noJournal = "ext4 without a journal"

func mountType(kind string) string {
	if kind == noJournal {
		return "ext4"
	}
	return kind
}

// unmount waits for the descriptors that a process of another test's has until it is executed.
func unmount(top string) error {
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if err := syscall.Unmount(top, 0); !errors.Is(err, syscall.EBUSY) || time.Now().After(end) {
			return err
		}
	}
}

// fixture makes a workspace of everything that is awkward, of one owner.
func fixture(t *testing.T, dir string, owner int) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"old/deep/er", "locked", "moved"} {
		must(os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
	for name, text := range map[string]string{
		"plain": "plain\n", "readonly": "readonly\n", "new\nline": "nl\n", "bad\xff\xfe": "bad\n", "old/deep/er/f": "f\n", "old/g": "g\n",
		"locked/in": "in\n", "moved/m": "m\n", "gone": "gone\n",
	} {
		must(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	f, err := os.Create(filepath.Join(dir, "sparse"))
	must(err)
	must(f.Truncate(10 << 30))
	_, err = f.WriteAt([]byte("end"), 10<<30-3)
	must(err)
	must(f.Close())
	must(os.Symlink("plain", filepath.Join(dir, "link")))
	must(os.Link(filepath.Join(dir, "plain"), filepath.Join(dir, "twin")))
	must(os.Chmod(filepath.Join(dir, "readonly"), 0o444))
	must(os.Chmod(filepath.Join(dir, "locked"), 0o555))
	must(filepath.Walk(dir, func(path string, _ os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, owner, owner)
	}))
}

// works changes everything in the fixture, and proves that it fails where it should and leaves nothing in the folder until
// it is applied.
func works(t *testing.T, b *harness.Box, dir string) {
	t.Helper()
	before := tree(t, dir)
	script := `set -e
bad=$(printf 'bad\377\376'); nl=$(printf 'new\nline')
test "$(cat plain link twin readonly "$nl" "$bad" old/g | tr '\n' .)" = plain.plain.plain.readonly.nl.bad.g.
test "$(tail -c 3 sparse)" = end
(echo x >readonly) 2>/dev/null && exit 31
(echo x >locked/new) 2>/dev/null && exit 32
chmod u+w readonly; echo more >>readonly
chmod u+w locked; echo x >locked/new
rm "$nl"; echo more >>"$bad"; printf x >"$(printf 'n\n\377')"
rm -r old; mkdir old; echo h >old/h
mv moved/m m; rmdir moved
echo changed >link
rm gone; mkdir gone; echo file >gone/file
ln plain twin2; mkdir -p fresh/er; ln -s /nowhere fresh/er/link
ls -a | tr '\n' ' '`
	res := b.Run(t, harness.Run{Dir: dir, Argv: []string{"/bin/sh", "-c", script}})
	if res.Code != 0 || !strings.Contains(string(res.Stderr), "gobox apply") || strings.Contains(string(res.Stderr), "read-only") {
		t.Fatalf("in %s: %v", dir, res)
	}
	if after := tree(t, dir); after != before {
		t.Errorf("%s was\n%sand is\n%s", dir, before, after)
	}
	want := map[string]string{
		`"bad\377\376"`: "M", "fresh": "A", "fresh/er": "A", "fresh/er/link": "A", "gone": "T", "gone/file": "A", "locked": "", "locked/new": "A",
		"m": "A", "moved": "D", "moved/m": "D", `"new\nline"`: "D", `"n\n\377"`: "A", "old/deep": "D", "old/deep/er": "D", "old/deep/er/f": "D", "old/g": "D", "old/h": "A",
		"plain": "M", "readonly": "M", "twin2": "A", // twin is another file for the overlay, as hard links are when copied up
	}
	diff := b.Run(t, harness.Run{Dir: dir, Args: []string{"diff", "last", "--name-only"}})
	var missing []string
	for name := range want {
		if !strings.Contains("\n"+string(diff.Stdout), "\n"+name+"\n") {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 || strings.Contains(string(diff.Stdout), "sparse") {
		t.Errorf("in %s: diff lacks %q, or has too much: %v", dir, missing, diff)
	}
	_, rest, _ := strings.Cut(string(res.Stderr), "--hash ")
	hash, _, _ := strings.Cut(rest, " ")
	apply := b.Run(t, harness.Run{Dir: dir, Args: []string{"apply", "last", "--hash", hash, "--skip", "fresh/er/link"}})
	if apply.Code != 0 {
		t.Fatalf("in %s: %v", dir, apply)
	}
	for name, text := range map[string]string{"plain": "changed\n", "twin": "plain\n", "readonly": "readonly\nmore\n", "bad\xff\xfe": "bad\nmore\n", "n\n\xff": "x", "m": "m\n", "old/h": "h\n", "gone/file": "file\n", "locked/new": "x\n"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != text {
			t.Errorf("applied in %s: %q is %q, %v", dir, name, got, err)
		}
	}
}

// owners are those of the workspaces that an identity works on.
func owners(b *harness.Box) []int {
	if b.UID == 0 {
		return []int{0, 1234}
	}
	return []int{b.UID}
}

func TestOverlayFileSystems(t *testing.T) {
	for _, kind := range []string{"ext4", "xfs", "btrfs", "tmpfs", "overlay"} {
		t.Run(kind, func(t *testing.T) {
			top := mounted(t, kind)
			suite.Each(t, func(t *testing.T, b *harness.Box) {
				for _, owner := range owners(b) {
					dir := filepath.Join(top, itoa(b.UID)+"-"+itoa(owner))
					fixture(t, dir, owner)
					if kind == "overlay" && owner == 0 {
						readOnlyInstead(t, b, dir, "idmapped mounts")
						continue
					}
					works(t, b, dir)
				}
			})
		})
	}
}

// readOnlyInstead proves that the default is read-only and says why, and that an overlay that was asked for is refused.
func readOnlyInstead(t *testing.T, b *harness.Box, dir, why string) {
	t.Helper()
	before := tree(t, dir)
	const script = "cat plain; echo x >plain || echo x >new || rm plain || mkdir d"
	res := b.Run(t, harness.Run{Dir: dir, Argv: []string{"/bin/sh", "-c", script}})
	if string(res.Stdout) != "plain\n" || res.Code == 0 || !strings.Contains(string(res.Stderr), "hint: the workspace was read-only: ") || !strings.Contains(string(res.Stderr), why) {
		t.Errorf("default in %s: %v", dir, res)
	}
	res = b.Run(t, harness.Run{Dir: dir, Flags: []string{"--workspace-mode", "overlay"}, Argv: []string{"/bin/sh", "-c", script}})
	if len(res.Stdout) != 0 || res.Code != 125 || !strings.Contains(string(res.Stderr), "gobox: hint: ") || !strings.Contains(string(res.Stderr), why) {
		t.Errorf("overlay in %s: %v", dir, res)
	}
	if after := tree(t, dir); after != before {
		t.Errorf("%s was\n%sand is\n%s", dir, before, after)
	}
}

// TestOverlaySubmounts: what is mounted below the workspace is shown and stays as it is; only root can have an
// overlay then, and what a mount hides stays hidden.
func TestOverlaySubmounts(t *testing.T) {
	top := mounted(t, "tmpfs")
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for _, owner := range owners(b) {
			dir := filepath.Join(top, itoa(b.UID)+"-"+itoa(owner))
			fixture(t, dir, owner)
			sub := filepath.Join(dir, "old/deep")
			if err := syscall.Mount("none", sub, "tmpfs", 0, "mode=755"); err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := syscall.Unmount(sub, 0); err != nil {
					t.Error(err)
				}
			}()
			if err := os.WriteFile(sub+"/mounted", []byte("mounted\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.Chown(sub+"/mounted", owner, owner); err != nil {
				t.Fatal(err)
			}
			if b.UID != 0 {
				readOnlyInstead(t, b, dir, "is mounted below")
				continue
			}
			before := tree(t, dir)
			res := b.Run(t, harness.Run{Dir: dir, Argv: []string{"/bin/sh", "-c", `cat old/deep/mounted; ls old/deep
echo x >old/deep/mounted || echo x >old/deep/new || rm old/deep/mounted || echo x >plain && echo x >old/g`}})
			if string(res.Stdout) != "mounted\nmounted\n" || !strings.Contains(string(res.Stderr), ": 0 added, 2 modified, ") {
				t.Errorf("in %s: %v", dir, res)
			}
			if after := tree(t, dir); after != before {
				t.Errorf("%s was\n%sand is\n%s", dir, before, after)
			}
		}
	})
}

// TestOverlayLarge: a file larger than all scratch is read as it is, and changed where limits allow for it; it takes no
// more room than its data.
func TestOverlayLarge(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		path := b.File(t, filepath.Join(b.Work, "large"), "begin")
		if err := os.Truncate(path, 600<<20); err != nil {
			t.Fatal(err)
		}
		const script = "printf middle | dd of=large bs=1 seek=300M conv=notrunc status=none && stat -c %s large"
		res := b.Run(t, inOverlay(script))
		if res.Code == 0 {
			t.Errorf("beyond --fsize: %v", res)
		}
		run := inOverlay(script, "--fsize", "0")
		run.Timeout = 3 * time.Minute // gobox reads both
		res = b.Run(t, run)
		if res.Code != 0 || strings.TrimSpace(string(res.Stdout)) != "629145600" || !strings.Contains(string(res.Stderr), "0 added, 1 modified, 0 deleted") {
			t.Errorf("with room: %v", res)
		}
	})
}

// inOverlay is a run in an overlay of the box's workspace.
func inOverlay(script string, flags ...string) harness.Run {
	return harness.Run{Flags: append([]string{"--workspace-mode", "overlay"}, flags...), Argv: []string{"/bin/sh", "-c", script}}
}

// TestOverlayForeignFiles: what belongs to somebody else can be read in an overlay and not be changed, whatever its mode; a command
// that has most likely tried is told so, and nobody else: not one that fails for a reason of its own, such as grep without a match.
func TestOverlayForeignFiles(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		if os.Getuid() != 0 {
			t.Skip("making files of another owner takes root")
		}
		const hint = "can only be read"
		fails := harness.Run{Argv: []string{"/bin/sh", "-c", "exit 3"}}
		if res := b.Run(t, fails); res.Code != 3 || strings.Contains(string(res.Stderr), hint) {
			t.Errorf("without such files: %v", res)
		}
		foreign := filepath.Join(b.Work, "deep/er/foreign")
		b.Mkdir(t, filepath.Join(b.Work, "deep"))
		b.File(t, foreign, "theirs\n")
		if err := os.Chmod(foreign, 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(foreign, 4711, 4711); err != nil {
			t.Fatal(err)
		}
		canary := harness.Watch(t, foreign)
		res := b.Run(t, harness.Run{Argv: []string{"/bin/sh", "-c", "cat deep/er/foreign; echo x >>deep/er/foreign"}})
		if string(res.Stdout) != "theirs\n" || res.Code == 0 || !strings.Contains(string(res.Stderr), "Value too large") && !strings.Contains(string(res.Stderr), "ermission denied") {
			t.Errorf("%v", res)
		}
		told := func(how, whose string, res harness.Result) {
			t.Helper()
			if res.Code == 0 || !strings.Contains(string(res.Stderr), whose) || !strings.Contains(string(res.Stderr), hint) {
				t.Errorf("%s is not told: %v", how, res)
			}
			// As root there is no mode in which it could.
			if rw := strings.Contains(string(res.Stderr), "--workspace-mode rw"); rw != (b.UID != 0) {
				t.Errorf("%s: the way out: %v", how, res)
			}
		}
		told("a user's file", foreign+" belongs to user 4711", res)
		// A group that the command is not in is no other.
		shared, mine := b.File(t, filepath.Join(b.Work, "shared"), "ours\n"), b.File(t, filepath.Join(b.Work, "mine"), "mine\n")
		folder := filepath.Join(b.Work, "group")
		b.Mkdir(t, folder)
		for _, path := range []string{shared, folder} {
			if err := os.Chown(path, b.UID, 4711); err != nil {
				t.Fatal(err)
			}
		}
		told("a group's file", shared+" belongs to group 4711", b.Run(t, inOverlay("echo x >>shared")))
		told("a group's folder", folder+" belongs to group 4711", b.Run(t, inOverlay("echo x >group/new")))
		for _, script := range []string{"exit 3", "grep -r nothing .", "grep nothing mine", "echo x >>mine; exit 3", "echo x >new; cat deep/er/foreign >copy; rm mine; exit 3", "mkdir -p a/b; cp deep/er/foreign a/b; cat none"} {
			if res := b.Run(t, inOverlay(script)); res.Code == 0 || strings.Contains(string(res.Stderr), hint) {
				t.Errorf("%s: %v", script, res)
			}
		}
		if got, err := os.ReadFile(mine); err != nil || string(got) != "mine\n" {
			t.Errorf("%q, %v", got, err)
		}
		if res := b.Run(t, harness.Run{Argv: []string{"/bin/cat", "deep/er/foreign"}}); res.Code != 0 || strings.Contains(string(res.Stderr), hint) {
			t.Errorf("a command that only reads: %v", res)
		}
		for _, mode := range []string{"ro", "rw"} {
			if res := b.Run(t, harness.Run{Flags: []string{"--workspace-mode", mode}, Argv: fails.Argv}); res.Code != 3 || strings.Contains(string(res.Stderr), hint) {
				t.Errorf("%s: %v", mode, res)
			}
		}
		canary.Unchanged(t)
	})
}
