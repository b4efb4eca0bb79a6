package integration

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gobox/integration/harness"
)

// TestOutputDir brings out what a command leaves, and nothing else, in every mode of the workspace.
func TestOutputDir(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		input := b.Canary(t, filepath.Join(b.Work, "input"))
		for _, mode := range []string{"ro", "rw", "overlay", "none"} {
			for _, where := range []string{filepath.Join(b.Work, "out-"+mode), filepath.Join(b.Dir, "elsewhere-"+mode, "out"), filepath.Join(b.Home, "out-"+mode)} {
				for _, there := range []bool{false, true} {
					b.Mkdir(t, filepath.Dir(where))
					if err := os.RemoveAll(where); err != nil {
						t.Fatal(err)
					}
					if there {
						b.Mkdir(t, where)
					}
					line := "mkdir O/sub && echo made > O/sub/file && ln -s sub/file O/link && echo $(ls -A O | wc -l) && exit 5"
					res := b.Run(t, harness.Run{
						Flags: []string{"--workspace-mode", mode, "--output-dir", where}, NoGrant: mode == "none",
						Argv: []string{"/bin/sh", "-c", strings.ReplaceAll(line, "O", where)},
					})
					name := fmt.Sprintf("mode %s, %s, there %v", mode, where, there)
					if res.Code != 5 || strings.TrimSpace(string(res.Stdout)) != "2" {
						t.Errorf("%s: %v", name, res)
						continue
					}
					if got := names(t, where); got != "link sub" {
						t.Errorf("%s: %q came out", name, got)
					}
					data, err := os.ReadFile(filepath.Join(where, "link"))
					if err != nil || string(data) != "made\n" {
						t.Errorf("%s: %q %v", name, data, err)
					}
					var st syscall.Stat_t
					if err := syscall.Stat(filepath.Join(where, "sub/file"), &st); err != nil || int(st.Uid) != b.UID {
						t.Errorf("%s: belongs to %d: %v", name, st.Uid, err)
					}
				}
			}
		}
		input.Unchanged(t)
		for _, dir := range []string{b.Work, b.Home, b.Dir} {
			if left, _ := filepath.Glob(filepath.Join(dir, ".gobox-*")); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		}
	})
}

// TestOutputDirRefusals: nothing runs when nothing could come out.
func TestOutputDirRefusals(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		b.File(t, filepath.Join(b.Work, "full/file"), "x")
		b.File(t, filepath.Join(b.Work, "file"), "x")
		b.Mkdir(t, filepath.Join(b.Dir, "outside"))
		b.Mkdir(t, filepath.Join(b.Work, "sub"))
		for link, to := range map[string]string{"link": "../outside", "dangling": "../outside/new"} {
			if err := os.Symlink(to, filepath.Join(b.Work, link)); err != nil {
				t.Fatal(err)
			}
		}
		closed := filepath.Join(b.Dir, "closed")
		if err := os.Mkdir(closed, 0o555); err != nil {
			t.Fatal(err)
		}
		dirs := []string{"full", "file", "link", "link/new", "dangling", ".", "sub/../full", "no/such/folder", "/", "/usr", "/usr/out", "/etc", "/proc/out", "/dev/shm/../out", "/tmp", b.Home, "file/x"}
		if b.UID != 0 {
			dirs = append(dirs, filepath.Join(closed, "out"))
		}
		for _, dir := range dirs {
			for _, mode := range []string{"ro", "rw"} {
				res := b.Run(t, harness.Run{Flags: []string{"--workspace-mode", mode, "--output-dir", dir}, Argv: []string{"/bin/sh", "-c", "echo ran"}})
				if res.Code != 125 || len(res.Stdout) != 0 || !bytes.Contains(res.Stderr, []byte("output-dir")) || !bytes.Contains(res.Stderr, []byte("hint: ")) {
					t.Errorf("%s, %s: %v", dir, mode, res)
				}
			}
		}
		if res := b.Run(t, harness.Run{Flags: []string{"--output-dir", "new", "--idempotency-key", "k"}, Argv: []string{"/bin/sh", "-c", "echo ran"}, Stdin: strings.NewReader("")}); res.Code != 125 || len(res.Stdout) != 0 {
			t.Errorf("with a key: %v", res)
		}
		// What was made for a run that never was is gone again.
		if res := b.Run(t, harness.Run{Flags: []string{"--output-dir", "new"}, Argv: []string{"/bin/sh/none"}}); res.Code < 125 || res.Code > 127 {
			t.Errorf("no command: %v", res)
		}
		for _, path := range []string{filepath.Join(b.Work, "new"), filepath.Join(b.Dir, "outside/new")} {
			if _, err := os.Lstat(path); err == nil {
				t.Errorf("left: %s", path)
			}
		}
	})
}

// TestF39OutputDirIsChecked, and rows F31 and F40 for what comes out: links, FIFOs, sockets, protected names, and more than the limits.
func TestF39OutputDirIsChecked(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		secret := b.Canary(t, filepath.Join(b.Dir, "secret/file"))
		out := filepath.Join(b.Work, "out")
		run := func(line string, flags ...string) harness.Result {
			return b.Run(t, harness.Run{Flags: append([]string{"--output-dir", out}, flags...), Argv: []string{"/bin/sh", "-c", "cd " + out + " && " + line}})
		}
		for name, line := range map[string]string{
			"link to a file":     "ln -s " + secret.Path + " l",
			"link to a folder":   "ln -s " + filepath.Dir(secret.Path) + " l; echo x > fine",
			"link up":            "mkdir a; ln -s ../../x a/l",
			"link by a link":     "ln -s . a; ln -s a/../../x l",
			"replaced by a link": "mkdir d; echo x > d/f; rm -r d; ln -s " + filepath.Dir(secret.Path) + " d",
			"start-up file":      "echo x > .bashrc",
			"hooks":              "mkdir -p repo/.git/hooks; echo x > repo/.git/hooks/post-checkout",
			"locked hooks":       "mkdir -p repo/.git/hooks; echo x > repo/.git/hooks/post-checkout; chmod 0 repo/.git/hooks repo/.git repo",
			"too deep":           "mkdir -p " + strings.Repeat("d/", 1100),
		} {
			res := run(line)
			if res.Code != 74 || !bytes.Contains(res.Stderr, []byte("nothing comes out")) {
				t.Errorf("%s: %v", name, res)
			}
			if _, err := os.Lstat(out); err == nil {
				t.Errorf("%s: something came out", name)
				os.RemoveAll(out)
			}
		}
		for _, ended := range [][]string{{"kill -SEGV $$"}, {"sleep 30", "--timeout", "1s"}, {"yes", "--output", "64k"}, {"head -c 20000000 /dev/zero > big; echo not reached", "--fsize", "1M"}} {
			res := run("echo x > file; exec 2>/dev/null; "+ended[0]+"; kill -9 $$", ended[1:]...)
			if res.Code < 124 {
				t.Errorf("%q: %v", ended, res)
			}
			if _, err := os.Lstat(out); err == nil {
				t.Errorf("%q: something came out of a command that did not exit", ended)
				os.RemoveAll(out)
			}
		}
		res := run("mkfifo fifo; echo x > file; touch 'new\nline' \"$(printf 'bad\\377')\"; chmod 0 file; mkdir locked; echo y > locked/in; chmod 0 locked")
		if res.Code != 0 || !bytes.Contains(res.Stderr, []byte("fifo")) {
			t.Errorf("%v", res)
		}
		if got := names(t, out); got != "bad\xff file locked new\nline" {
			t.Errorf("came out: %q", got)
		}
		secret.Unchanged(t)
	})
}

// TestOutputDirStaysApart: the command has no hand in the host's folder, and an aside program that takes its place gets nothing.
func TestOutputDirStaysApart(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		out := filepath.Join(b.Work, "out")
		b.Mkdir(t, out)
		res := b.Run(t, harness.Run{
			Flags: []string{"--workspace-mode", "rw", "--output-dir", out},
			Argv:  []string{"/bin/sh", "-c", "echo x > out/file; mv out other; rmdir out; rm -rf out/file; echo kept > out/kept; cp -r out copy; ls copy"},
		})
		if res.Code != 0 || string(res.Stdout) != "kept\n" {
			t.Errorf("%v", res)
		}
		if got := names(t, b.Work); got != "copy out" {
			t.Errorf("the workspace has %q", got)
		}
		if got := names(t, out); got != "kept" {
			t.Errorf("came out: %q", got)
		}

		// Somebody fills it while the command runs.
		if err := os.RemoveAll(out); err != nil {
			t.Fatal(err)
		}
		b.Mkdir(t, out)
		cmd := b.Start(t, harness.Run{Flags: []string{"--workspace-mode", "rw", "--output-dir", out}, Argv: []string{"/bin/sh", "-c", "touch runs; while [ ! -e go ]; do sleep 0.05; done; echo x > out/file"}})
		waitFor(t, "the command to run", func() bool { _, err := os.Lstat(filepath.Join(b.Work, "runs")); return err == nil })
		b.File(t, filepath.Join(out, "somebody"), "x")
		b.File(t, filepath.Join(b.Work, "go"), "")
		if err := cmd.Wait(); err == nil || harness.ExitCode(cmd.ProcessState) != 74 {
			t.Errorf("%v", err)
		}
		if got := names(t, out); got != "somebody" {
			t.Errorf("the folder that was filled has %q", got)
		}
	})
}

// TestInput is read-only under every name.
func TestInput(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		data := b.Canary(t, filepath.Join(b.Dir, "given/data"))
		inside := b.Canary(t, filepath.Join(b.Work, "sub/data"))
		tries := []string{"open w " + data.Path, "open w /mnt/in", "open w " + inside.Path, "unlink " + inside.Path, "rename " + filepath.Dir(inside.Path) + " " + b.Work + "/other"}
		reads := []string{"open r " + data.Path, "open r /mnt/in", "open r " + inside.Path}
		rep := b.Inside(t, []string{"--workspace-mode", "rw", "--input", data.Path, "--input", data.Path + ":/mnt/in", "--input", inside.Path}, append(tries, reads...)...)
		rep.Allowed(t, reads...)
		for _, try := range tries {
			if o := rep.Of(t, try); o.Errno == "" {
				t.Errorf("%s: allowed", try)
			}
		}
		data.Unchanged(t)
		inside.Unchanged(t)
		for _, flags := range [][]string{
			{"--workspace-mode", "rw", "--input", inside.Path + ":/mnt/in"},
			{"--rw", filepath.Dir(data.Path) + ":/mnt/w", "--input", data.Path},
			{"--input", b.Dir + "/missing"},
		} {
			if res := b.Run(t, harness.Run{Flags: flags, Argv: []string{"/bin/sh", "-c", "echo ran"}}); res.Code != 125 || len(res.Stdout) > 0 {
				t.Errorf("%q: %v", flags, res)
			}
		}
	})
}
