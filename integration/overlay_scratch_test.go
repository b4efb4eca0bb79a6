package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gobox/integration/harness"
)

// diskFor gives a folder for --scratch outside of all that the command sees.
func diskFor(t *testing.T, b *harness.Box) string {
	t.Helper()
	dir := filepath.Join(b.Dir, "disk")
	b.Mkdir(t, dir)
	return dir
}

func empty(t *testing.T, dir string) {
	t.Helper()
	if left := entriesOf(t, dir); len(left) > 0 {
		t.Errorf("left in %s: %q", dir, left)
	}
}

func entriesOf(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// TestScratchOnDisk: the layer is on disk while the command runs and nowhere afterwards, and the command cannot get at it.
func TestScratchOnDisk(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for _, owner := range owners(b) {
			dir := filepath.Join(b.Dir, "owned"+itoa(owner))
			fixture(t, dir, owner)
			disk := diskFor(t, b)
			before := tree(t, dir)
			res := b.Run(t, harness.Run{Dir: dir, Flags: []string{"--scratch", disk}, Argv: []string{"/bin/sh", "-c",
				"echo x >new; echo y >>plain; rm -r old; mkdir old; mkdir shut; echo z >shut/z; chmod 0 shut; ls -a /.gobox-overlay; ls -d " + disk + "; cat /proc/mounts | grep -c gobox-scratch"}})
			if !strings.Contains(string(res.Stderr), "gobox apply") || strings.TrimSpace(string(res.Stdout)) != ".\n..\n0" {
				t.Errorf("owner %d: %v", owner, res)
			}
			diff := b.Run(t, harness.Run{Dir: dir, Args: []string{"diff", "last", "--name-only"}})
			if got := strings.Join(strings.Fields(string(diff.Stdout)), " "); got != "new old/deep old/deep/er old/deep/er/f old/g plain shut shut/z" {
				t.Errorf("owner %d: changed: %s", owner, got)
			}
			if after := tree(t, dir); after != before {
				t.Errorf("%s was\n%sand is\n%s", dir, before, after)
			}
			empty(t, disk)
		}
	})
}

// TestScratchOnDiskIsLimited: by size and by number, whatever the files look like.
func TestScratchOnDiskIsLimited(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		disk := diskFor(t, b)
		for name, script := range map[string]string{
			"with memory": "dd if=/dev/zero of=f bs=1M count=6 status=none; dd if=/dev/zero of=/tmp/f bs=1M count=6 status=none; sleep 20",
			"one file":    "dd if=/dev/zero of=f bs=1M count=64 status=none; sleep 20",
			"many files":  "i=0; while test $i -lt 64; do dd if=/dev/zero of=f$i bs=1M count=1 status=none; i=$((i+1)); done; sleep 20",
			"locked":      "mkdir d; i=0; while test $i -lt 64; do dd if=/dev/zero of=d/f$i bs=1M count=1 status=none; i=$((i+1)); done; chmod 0 d; sleep 20",
			"and is over": "dd if=/dev/zero of=f bs=1M count=7 status=none; dd if=/dev/zero of=g bs=1M count=7 status=none",
		} {
			result := filepath.Join(b.Home, "result.json")
			res := b.Run(t, harness.Run{Flags: []string{"--scratch", disk, "--disk", "8M", "--result", result}, Argv: []string{"/bin/sh", "-c", script}})
			text, err := os.ReadFile(result)
			if err != nil || res.Code != 137 || !strings.Contains(string(text), `"outcome":"disk"`) || !strings.Contains(string(res.Stderr), "gobox: error: disk: the command wrote more than 8MiB to the workspace and other scratch") {
				t.Errorf("%s: %v\n%s %v", name, res, text, err)
			}
			if strings.Contains(string(res.Stderr), "--fsize") || !strings.Contains(string(res.Stderr), "--disk SIZE") {
				t.Errorf("%s: no file was too large: %v", name, res)
			}
			empty(t, disk)
		}
		// The limit of a single file is another.
		res := b.Run(t, harness.Run{Flags: []string{"--scratch", disk, "--fsize", "1M"}, Argv: []string{"/bin/sh", "-c", "exec dd if=/dev/zero of=f bs=1M count=7 status=none"}})
		if res.Code != 137 || !strings.Contains(string(res.Stderr), "a file larger than it may") || !strings.Contains(string(res.Stderr), "--fsize") {
			t.Errorf("one file too large: %v", res)
		}
		res = b.Run(t, harness.Run{Flags: []string{"--scratch", disk, "--disk", "8M"}, Argv: []string{"/bin/sh", "-c", "dd if=/dev/zero of=f bs=1M count=7 status=none; truncate -s 4G /tmp/x 2>/dev/null; sleep 0.5"}})
		if res.Code != 0 || !strings.Contains(string(res.Stderr), "1 added") {
			t.Errorf("within the limit: %v", res)
		}
		empty(t, disk)
	})
}

// TestScratchOnDiskOfTheKilled: what a killed gobox leaves is found by gc.
func TestScratchOnDiskOfTheKilled(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		disk := diskFor(t, b)
		cmd := b.Start(t, harness.Run{Flags: []string{"--scratch", disk, "--timeout", "60s"}, Argv: []string{"/bin/sh", "-c", "mkdir d; echo x >d/f; chmod 0 d; echo >ready; sleep 60", b.Marker}})
		waitFor(t, "the command to write", func() bool {
			found, _ := filepath.Glob(disk + "/gobox-scratch-*/upper/ready")
			return len(found) > 0
		})
		time.Sleep(100 * time.Millisecond) // what is on record is on its way
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if got := entriesOf(t, disk); len(got) != 1 {
			t.Errorf("after the kill: %q", got)
		}
		b.NoSurvivors(t)
		cleaned(t, b)
		empty(t, disk)
	})
}

func TestScratchRefused(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		disk := diskFor(t, b)
		b.Mkdir(t, filepath.Join(b.Work, "sub"))
		b.Mkdir(t, filepath.Join(b.Dir, "given/sub"))
		b.File(t, filepath.Join(b.Dir, "file"), "")
		if err := os.Symlink(disk, filepath.Join(b.Work, "link")); err != nil {
			t.Fatal(err)
		}
		for _, tt := range [][]string{
			{"lies in", "--scratch", b.Work},
			{"lies in", "--scratch", "sub"},
			{"lies in", "--scratch", filepath.Join(b.Dir, "given/sub"), "--ro", filepath.Join(b.Dir, "given")},
			{"leads out of", "--scratch", "link"},
			{"passes through /proc", "--scratch", "/proc/self"},
			{"belongs to the system", "--scratch", "/usr/lib"},
			{"not a directory", "--scratch", filepath.Join(b.Dir, "file")},
			{"no such file", "--scratch", filepath.Join(b.Dir, "missing")},
			{"mode rw", "--scratch", disk, "--workspace-mode", "rw"},
			{"mode ro", "--scratch", disk, "--workspace-mode", "ro"},
			{"mode none", "--scratch", disk, "--workspace-mode", "none"},
		} {
			res := b.Run(t, harness.Run{Flags: tt[1:], Argv: []string{"/bin/echo", "ran"}})
			if res.Code != 125 || len(res.Stdout) > 0 || !strings.Contains(string(res.Stderr), tt[0]) || !strings.Contains(string(res.Stderr), "gobox: hint: ") {
				t.Errorf("%q: %v", tt[1:], res)
			}
		}
		empty(t, disk)
		empty(t, filepath.Join(b.Work, "sub"))
	})
}

// TestScratchOnDiskTooManyFiles: the number of files has a limit, and a message, of its own.
func TestScratchOnDiskTooManyFiles(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		disk := diskFor(t, b)
		result := filepath.Join(b.Home, "result.json")
		res := b.Run(t, harness.Run{Flags: []string{"--scratch", disk, "--result", result, "--timeout", "0"}, Timeout: 5 * time.Minute,
			Argv: []string{"/bin/sh", "-c", "mkdir d; cd d; i=0; while test $i -lt 350; do echo x >f$i-0; set --; j=1; while test $j -lt 200; do set -- \"$@\" f$i-$j; j=$((j+1)); done; touch \"$@\"; i=$((i+1)); done; sleep 60"}})
		text, err := os.ReadFile(result)
		if err != nil || res.Code != 137 || !strings.Contains(string(res.Stderr), "disk: the command made more than 66560 files in the workspace") || strings.Contains(string(res.Stderr), "--fsize") {
			t.Errorf("%v %v", res, err)
		}
		if limit := between(string(text), `"name":"inodes"`, "}"); !strings.Contains(limit, `"triggered":true`) || !strings.Contains(limit, "supervisor") {
			t.Errorf("limits: %s", text)
		}
		empty(t, disk)
	})
}

// TestScratchOnDiskWithoutRoom: a file system that fills up otherwise ends the run as well, and is told as what it is.
func TestScratchOnDiskWithoutRoom(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		disk := mounted(t, "ext4")
		place := filepath.Join(disk, "s"+itoa(b.UID))
		b.Mkdir(t, place)
		// What is deleted and still open is in no folder.
		res := b.Run(t, harness.Run{Flags: []string{"--scratch", place, "--disk", "1G"}, Argv: []string{"/bin/sh", "-c", "exec 9>gone; rm gone; dd if=/dev/zero bs=1M count=2000 status=none >&9 2>/dev/null; sleep 30"}})
		if res.Code != 137 || !strings.Contains(string(res.Stderr), "less than a tenth left") || strings.Contains(string(res.Stderr), "--fsize") {
			t.Errorf("%v", res)
		}
		if strings.Contains(string(res.Stderr), "teardown: ") {
			// The kernel was slow to free that file, and the folder was left to gc.
			waitFor(t, "gc to clean up", func() bool {
				sweeping.RLock()
				defer sweeping.RUnlock()
				return b.Run(t, harness.Run{Args: []string{"runs", "gc"}}).Code == 0
			})
		}
		empty(t, place)
	})
}
