package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gobox/integration/harness"
)

// records gives the flags that keep a box's records apart, and the folder.
func records(t *testing.T, b *harness.Box) (dir string, flags []string) {
	t.Helper()
	dir = filepath.Join(b.Dir, "records")
	b.Mkdir(t, dir)
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir, []string{"--audit", dir}
}

// overlayFlags are the flags of a run in an overlay of the workspace: before Linux 6.6, whose tmpfs is the first that can have the layer, with the
// layer on disk.
func overlayFlags(t *testing.T, b *harness.Box) []string {
	t.Helper()
	flags := []string{"--workspace-mode", "overlay"}
	var u unix.Utsname
	var major, minor int
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor); err != nil {
		t.Fatal(err)
	}
	if major > 6 || major == 6 && minor >= 6 {
		return flags
	}
	disk := filepath.Join(b.Dir, "disk")
	b.Mkdir(t, disk)
	return append(flags, "--scratch", disk)
}

// overlay runs a shell line in an overlay of the workspace, which must keep what it wrote.
func overlay(t *testing.T, b *harness.Box, line string) (dir string) {
	t.Helper()
	dir, flags := records(t, b)
	res := b.Run(t, harness.Run{Flags: append(flags, overlayFlags(t, b)...), Argv: []string{"/bin/sh", "-c", line}})
	if res.Code != 0 || !strings.Contains(string(res.Stderr), "gobox apply") {
		t.Fatalf("%v", res)
	}
	return dir
}

// changed asks gobox about the last run.
func changed(t *testing.T, b *harness.Box, dir, command string, flags ...string) harness.Result {
	t.Helper()
	return b.Run(t, harness.Run{Args: append([]string{command, "last", "--audit", dir}, flags...)})
}

// TestF38TheWorkspaceStaysAsItWas: whatever the command does to it in an overlay, and whatever modes it leaves.
func TestF38TheWorkspaceStaysAsItWas(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for _, name := range []string{"a", "b", "c", "d/e/f", "d/g", "h", "script"} {
			b.File(t, filepath.Join(b.Work, name), "old "+name+"\n")
		}
		b.Mkdir(t, filepath.Join(b.Work, "d/e"))
		b.Mkdir(t, filepath.Join(b.Work, "d"))
		before := tree(t, b.Work)
		dir := overlay(t, b, "echo new >> a; : > b; rm c; chmod 600 h; mv d/g d/moved; rm -r d/e; mkdir d/e; echo x > d/e/other; ln a hard; ln -s a soft; mv script d/script; touch -d @0 h; "+
			"echo secret > locked; chmod 0 locked; mkdir closed; echo y > closed/in; chmod 0 closed; chmod 000 d/e/other; chmod 500 d/e")
		if after := tree(t, b.Work); after != before {
			t.Errorf("the workspace was\n%sand is\n%s", before, after)
		}
		res := changed(t, b, dir, "diff", "--name-only")
		for _, name := range []string{"a", "b", "c", "d/e/f", "d/e/other", "d/moved", "h", "hard", "soft", "d/script", "locked", "closed/in"} {
			if !strings.Contains("\n"+string(res.Stdout), "\n"+name+"\n") {
				t.Errorf("no %s in %v", name, res)
			}
		}
		if after := tree(t, b.Work); after != before {
			t.Error("gobox diff has changed the workspace")
		}
	})
}

// TestF39LinksWhereTheWorkspaceIsWritten: the command leaves links where apply writes, and somebody on the host swaps folders for
// links while it does. What is outside is never touched.
func TestF39LinksWhereTheWorkspaceIsWritten(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		secret := b.Canary(t, filepath.Join(b.Dir, "out/file"))
		b.File(t, filepath.Join(b.Work, "sub/file"), "old")
		b.File(t, filepath.Join(b.Work, "file"), "old")
		dir := overlay(t, b, "rm -r sub; ln -s "+filepath.Dir(secret.Path)+" sub; rm file; ln -s "+secret.Path+" file; mkdir new; ln -s .. new/up; echo x > plain")
		res := changed(t, b, dir, "diff", "--json")
		hash := between(string(res.Stdout), `"hash": "`, `"`)
		if hash == "" {
			t.Fatalf("%v", res)
		}
		if res := changed(t, b, dir, "apply", "--hash", hash); res.Code != 125 || !strings.Contains(string(res.Stderr), "--allow-path file") || !strings.Contains(string(res.Stderr), "--allow-path sub") {
			t.Errorf("links that lead out: %v", res)
		}
		if data, err := os.ReadFile(filepath.Join(b.Work, "file")); err != nil || string(data) != "old" {
			t.Errorf("%q %v", data, err)
		}
		// With leave the links themselves come, and what they name stays as it is.
		if res := changed(t, b, dir, "apply", "--hash", hash, "--allow-path", "file", "--allow-path", "sub"); res.Code != 0 {
			t.Errorf("%v", res)
		}
		if to, err := os.Readlink(filepath.Join(b.Work, "file")); err != nil || to != secret.Path {
			t.Errorf("%q %v", to, err)
		}
		if got := names(t, filepath.Dir(secret.Path)); got != "file" {
			t.Errorf("outside: %q", got)
		}
		secret.Unchanged(t)
	})
}

func between(text, from, to string) string {
	_, rest, ok := strings.Cut(text, from)
	found, _, end := strings.Cut(rest, to)
	if !ok || !end {
		return ""
	}
	return found
}

// TestF40OddNamesAndManyFiles go through a run, its diff and its apply.
func TestF40OddNamesAndManyFiles(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		long := strings.Repeat("n", 255)
		deep := strings.Repeat("d/", 400)
		dir := overlay(t, b, "echo 1 > 'new\nline'; echo 2 > \"$(printf 'bad\\377')\"; echo 3 > "+long+"; echo 4 > '-n'; echo 5 > \"tab\tquote\\\"\"; mkdir -p "+deep+"; echo 6 > "+deep+"f; "+
			"mkdir many; cd many; i=0; while [ $i -lt 3000 ]; do : > $i; i=$((i+1)); done")
		res := changed(t, b, dir, "diff", "--json")
		hash := between(string(res.Stdout), `"hash": "`, `"`)
		if res.Code != 0 || hash == "" {
			t.Fatalf("exit %d, %.200s", res.Code, res.Stderr)
		}
		if res := changed(t, b, dir, "apply", "--hash", hash); res.Code != 0 {
			t.Fatalf("%v", res)
		}
		for name, want := range map[string]string{"new\nline": "1\n", "bad\xff": "2\n", long: "3\n", "-n": "4\n", "tab\tquote\"": "5\n", deep + "f": "6\n", "many/2999": ""} {
			if data, err := os.ReadFile(filepath.Join(b.Work, name)); err != nil || string(data) != want {
				t.Errorf("%.40q: %q %v", name, data, err)
			}
		}
	})
}

// TestF16GrantSwappedDuringStart: a folder that is granted lies in the workspace, and a run before this one keeps swapping the
// folder above it for a link to the outside. What is outside never shows. CVE-2021-30465.
func TestF16GrantSwappedDuringStart(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		secret := b.Canary(t, filepath.Join(b.Dir, "out/target/secret.txt"))
		rc := b.Canary(t, filepath.Join(b.Dir, "out/target/.envrc")) // what a look for protected files would set aside
		b.File(t, filepath.Join(b.Work, "real/target/mine.txt"), "mine")
		if err := os.Symlink(filepath.Dir(filepath.Dir(secret.Path)), filepath.Join(b.Work, "fake")); err != nil {
			t.Fatal(err)
		}
		parent := filepath.Join(b.Work, "parent")
		ctx, stop := context.WithCancel(context.Background())
		var swapper sync.WaitGroup
		swapper.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				source := filepath.Join(b.Work, []string{"real", "fake"}[i%2])
				if os.Rename(source, parent) == nil {
					time.Sleep(time.Duration(i%11) * time.Millisecond)
					_ = os.Rename(parent, source)
				}
			}
		})
		defer swapper.Wait()
		defer stop()
		ran, refused := 0, 0
		for i := 0; i < 60 || ran*refused == 0 && i < 400; i++ {
			flag := []string{"--ro", "--rw", "--input"}[i%3]
			res := b.Run(t, harness.Run{
				Flags: []string{"--workspace-mode", "rw", flag, parent + "/target:/mnt/given"}, NoGrant: true,
				Argv: []string{"/bin/sh", "-c", "ls -A /mnt/given; cat /mnt/given/secret.txt " + secret.Path + "; echo x > /mnt/given/new.txt; exit 0"},
			})
			if strings.Contains(string(res.Stdout), "canary") || strings.Contains(string(res.Stdout), "secret") {
				t.Errorf("what is outside shows: %v", res)
			}
			switch res.Code {
			case 0, 74: // 74: what was granted has moved when it is looked through
				ran++
			case 125:
				refused++
			default:
				t.Errorf("%v", res)
			}
		}
		t.Logf("%d ran, %d refused", ran, refused)
		if got := names(t, filepath.Dir(secret.Path)); got != ".envrc secret.txt" {
			t.Errorf("outside: %q", got)
		}
		secret.Unchanged(t)
		rc.Unchanged(t)
	})
}

// TestF33NoMeetingPlaceForDescriptors: a helping process of the host that waits at a socket in the workspace can hand nothing over
// in an overlay, where the socket is not the host's; nor can one in a folder for temporary files.
func TestF33NoMeetingPlaceForDescriptors(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		place := filepath.Join(b.Work, "s")
		heard := listenUnix(t, place, filepath.Join(b.Dir, "s"))
		for _, name := range []string{place, filepath.Join(b.Dir, "s")} {
			if err := os.Chmod(name, 0o777); err != nil {
				t.Fatal(err)
			}
		}
		tries := []string{"connect-unix stream " + place, "connect-unix stream " + filepath.Join(b.Dir, "s")}
		b.Outside(t, tries...).Allowed(t, tries...)
		for range tries {
			<-heard
		}
		rep := b.Inside(t, overlayFlags(t, b), tries...)
		rep.Refused(t, []string{"ECONNREFUSED", "ENOENT", "EACCES"}, tries...)
		silent(t, heard)
	})
}

// TestGitInAnOverlay: a commit that is made in an overlay is taken over by apply, and the patch that gobox shows by git.
func TestGitInAnOverlay(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for i := range 200 {
			b.File(t, filepath.Join(b.Work, "src", strconv.Itoa(i)), strings.Repeat(strconv.Itoa(i)+"\n", 20))
		}
		for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"commit", "-q", "-m", "first"}} {
			if res := git(t, b, args...); res.Code != 0 {
				t.Fatalf("git %v: %v", args, res)
			}
		}
		dir := overlay(t, b, "set -e; g() { git -c user.name=t -c user.email=t@example.org \"$@\"; }; sed -i s/^7$/seven/ src/7; git mv src/8 src/eight; rm src/9; echo new > new; g add -A; "+
			"g commit -q -m second; echo more >> new; git status --short")
		if res := git(t, b, "status", "--short"); res.Code != 0 || len(res.Stdout) != 0 {
			t.Errorf("the overlay leaks: %v", res)
		}
		patch := changed(t, b, dir, "diff", "--skip", ".git")
		file := b.File(t, filepath.Join(b.Dir, "patch"), string(patch.Stdout))
		if res := git(t, b, "apply", "--check", file); res.Code != 0 {
			t.Errorf("git does not take the patch: %v\n%s", res, patch.Stdout)
		}
		json := changed(t, b, dir, "diff", "--json")
		if res := changed(t, b, dir, "apply", "--hash", between(string(json.Stdout), `"hash": "`, `"`)); res.Code != 0 {
			t.Fatalf("%v", res)
		}
		if res := git(t, b, "log", "--format=%s"); string(res.Stdout) != "second\nfirst\n" {
			t.Errorf("%v", res)
		}
		if res := git(t, b, "status", "--short"); string(res.Stdout) != " M new\n" {
			t.Errorf("%v", res)
		}
		if res := git(t, b, "fsck", "--strict"); res.Code != 0 {
			t.Errorf("%v", res)
		}
		if res := git(t, b, "diff", "--stat", "HEAD~1", "HEAD", "-M"); !strings.Contains(string(res.Stdout), "4 files changed") {
			t.Errorf("%v", res)
		}
	})
}
