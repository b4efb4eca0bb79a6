package integration

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gobox/integration/harness"
)

// writes proves that a workspace works: the command sees what is there and the host what it made.
func writes(t *testing.T, b *harness.Box, dir string) {
	t.Helper()
	b.File(t, filepath.Join(dir, "input"), "from outside")
	res := b.Run(t, harness.Run{Dir: dir, Flags: []string{"--workspace-mode", "rw"}, Argv: []string{"/bin/sh", "-c", `cat input; printf inside >output; mkdir a b; mv output a/moved; mv a/moved b/; pwd >&2`}})
	if res.Code != 0 || string(res.Stdout) != "from outside" || strings.TrimSuffix(string(res.Stderr), "\n") != dir {
		t.Errorf("workspace %q: %v", dir, res)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "b/moved")); err != nil || string(data) != "inside" {
		t.Errorf("workspace %q: the host sees %q, %v", dir, data, err)
	}
	res = b.Run(t, harness.Run{Dir: dir, Flags: []string{"--workspace-mode", "ro"}, Argv: []string{"/bin/sh", "-c", "cat input; echo x >input || echo x >new || rm input"}})
	if string(res.Stdout) != "from outside" || res.Code == 0 {
		t.Errorf("read-only workspace %q: %v", dir, res)
	}
	before := tree(t, dir)
	res = b.Run(t, harness.Run{Dir: dir, Argv: []string{"/bin/sh", "-c", "cat input; echo x >new && rm input && mkdir input && echo y >b/moved && rm -r b && mkdir b"}})
	if string(res.Stdout) != "from outside" || res.Code != 0 || !strings.Contains(string(res.Stderr), "1 added, 1 modified, 1 deleted: gobox diff ") {
		t.Errorf("default workspace %q: %v", dir, res)
	}
	if after := tree(t, dir); after != before {
		t.Errorf("default workspace %q was\n%sand is\n%s", dir, before, after)
	}
}

func TestWorkspaceNames(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for _, name := range []string{"with space", "new\nline", "co:lon", "ünï", `quo"te'`, "-dash", "$(id)", `back\slash`, "bad\xff\xfeutf8", "...", strings.Repeat("x", 255)} {
			writes(t, b, filepath.Join(b.Dir, name))
		}
	})
}

// TestWorkspaceBelowVarTmp: the sandbox has a /tmp of its own, and /var/tmp leads there.
func TestWorkspaceBelowVarTmp(t *testing.T) {
	suite.EachAside(t, func(t *testing.T, b *harness.Box) { writes(t, b, b.Work) })
}

func TestWorkspaceBelowHome(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		secret := b.Canary(t, filepath.Join(b.Home, ".netrc"))
		dir := filepath.Join(b.Home, "projects/this")
		other := b.Canary(t, filepath.Join(b.Home, "projects/other/file"))
		writes(t, b, dir)
		tries := []string{"open r " + secret.Path, "open r " + other.Path, "walkup . " + secret.Path}
		b.InsideRun(t, harness.Run{Dir: dir, Flags: []string{"--workspace-mode", "rw"}}, tries...).Refused(t, []string{"ENOENT"}, tries...)
	})
}

// TestWorkspaceOfHome: what holds the keys is no workspace by accident.
func TestWorkspaceOfHome(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		b.Canary(t, filepath.Join(b.Home, ".ssh/id_ed25519"))
		for _, dir := range []string{b.Home, b.Dir, "/"} {
			if res := b.Run(t, harness.Run{Dir: dir, Argv: []string{"/bin/cat", b.Home + "/.ssh/id_ed25519"}}); len(res.Stdout) != 0 || res.Code == 0 {
				t.Errorf("in %s: %v", dir, res)
			}
		}
	})
}

func TestWorkspaceThroughSymlink(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		link := filepath.Join(b.Dir, "link")
		if err := os.Symlink(b.Work, link); err != nil {
			t.Fatal(err)
		}
		b.File(t, filepath.Join(b.Work, "input"), "x")
		res := b.Run(t, harness.Run{Dir: link, Env: []string{"PWD=" + link}, Argv: []string{"/bin/cat", "input"}})
		if string(res.Stdout) != "x" {
			t.Errorf("started in a symbolic link: %v", res)
		}
		res = b.Run(t, harness.Run{Flags: []string{"--workspace", link}, Argv: []string{"/bin/cat", "input"}})
		if string(res.Stdout) != "x" {
			t.Errorf("--workspace of a symbolic link: %v", res)
		}
	})
}

// TestWorkspaceOwner: started by root, the command is nobody on the host, can use what the workspace's
// owner can, and leaves files of that owner.
func TestWorkspaceOwner(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to give files away")
	}
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		if b.UID != 0 {
			return
		}
		for _, owner := range []int{0, 1234} {
			dir := filepath.Join(b.Dir, "owned"+itoa(owner))
			mine, foreign := b.File(t, dir+"/mine", "mine"), b.File(t, dir+"/foreign", "foreign")
			for path, uid := range map[string]int{dir: owner, mine: owner, foreign: 4321} {
				if err := os.Chown(path, uid, uid); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(path, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			canary := harness.Watch(t, foreign)
			rep := b.InsideRun(t, harness.Run{Dir: dir, Flags: []string{"--workspace-mode", "rw"}}, "cat mine", "open rw mine", "open rw foreign", "open r foreign", "write made x", "chmod foreign", "chown mine", "mkdir sub")
			rep.Allowed(t, "cat mine", "open rw mine", "write made x", "mkdir sub")
			rep.Refused(t, []string{"EACCES", "EPERM", "EOVERFLOW"}, "open rw foreign", "open r foreign", "chmod foreign")
			canary.Unchanged(t)
			for _, name := range []string{"made", "sub", "mine"} {
				var st syscall.Stat_t
				if err := syscall.Stat(filepath.Join(dir, name), &st); err != nil || int(st.Uid) != owner || int(st.Gid) != owner {
					t.Errorf("%s in a workspace of %d belongs to %d:%d, %v", name, owner, st.Uid, st.Gid, err)
				}
			}
		}
	})
}

// TestCommandIsNotRootOnTheHost looks at the process from outside.
func TestCommandIsNotRootOnTheHost(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		cmd := b.Start(t, harness.Run{Argv: []string{b.Probe, "sleep", "30s", b.Marker}})
		var ids []string
		waitFor(t, "the command to start", func() bool {
			for _, line := range harness.Processes(b.Marker) {
				pid, rest, _ := strings.Cut(line, " ")
				if !strings.HasPrefix(rest, b.Probe) {
					continue
				}
				data, _ := os.ReadFile("/proc/" + pid + "/status")
				for l := range strings.Lines(string(data)) {
					if strings.HasPrefix(l, "Uid:") || strings.HasPrefix(l, "Gid:") {
						ids = append(ids, strings.Fields(l)[1:]...)
					}
				}
				return len(ids) == 8
			}
			return false
		})
		if slices.Contains(ids, "0") {
			t.Errorf("ids on the host: %v", ids)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		b.NoSurvivors(t)
	})
}

// TestF01GroupsOfTheCaller: root's supplementary groups, as disk or docker, would open to the command what its own user may not
// read. An ordinary user cannot have groups given up in a user namespace, and the command keeps them.
func TestF01GroupsOfTheCaller(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to be in a group")
	}
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		const group = 54321
		secret := b.File(t, filepath.Join(b.Dir, "given/secret"), "x")
		if err := errors.Join(os.Chown(secret, 4321, group), os.Chmod(secret, 0o640)); err != nil {
			t.Fatal(err)
		}
		try := "open r " + secret
		attr := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: harness.NobodyUID, Gid: harness.NobodyUID, Groups: []uint32{group}}}
		control := exec.Command(b.Probe, strings.Fields(try)...)
		control.SysProcAttr = attr
		out, err := control.CombinedOutput()
		if err != nil {
			t.Fatalf("control: %v: %s", err, out)
		}
		harness.Parse(t, out).Allowed(t, try)

		flags := []string{"--ro", filepath.Dir(secret)}
		rep := b.InsideRun(t, harness.Run{Flags: flags, Groups: []uint32{group}}, try, "cat /proc/self/status")
		if b.UID != 0 {
			rep.Allowed(t, try) // as docs/threat-model.md says
			return
		}
		rep.Refused(t, []string{"EACCES"}, try)
		for line := range strings.Lines(rep.Of(t, "cat /proc/self/status").Detail) {
			if rest, ok := strings.CutPrefix(line, "Groups:"); ok && strings.TrimSpace(rest) != "" {
				t.Errorf("the command has the groups %s", rest)
			}
		}
	})
}

// TestNoSetuidFilesAreLeft: a file with the set-user-ID bit of the workspace's owner would give whoever
// runs it on the host what the command never had; of root, when root started gobox. The set-group-ID bit
// is not judged: directories have good uses for it, and chmod(2) does not say what it is for.
func TestNoSetuidFilesAreLeft(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		var tries []string
		for i, call := range []string{"chmod-mode", "fchmod-mode", "fchmodat-mode", "fchmodat2-mode", "open-mode", "openat-mode", "openat2-mode", "creat-mode", "mknod-mode", "mknodat-mode", "tmpfile-mode"} {
			for _, mode := range []string{"04755", "06711"} {
				tries = append(tries, call+" "+b.Work+"/f"+itoa(i)+mode+" "+mode)
			}
		}
		b.Inside(t, []string{"--workspace-mode", "rw"}, tries...)
		entries, err := os.ReadDir(b.Work)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if info, err := e.Info(); err == nil && info.Mode()&os.ModeSetuid != 0 {
				t.Errorf("left on the host: %v %s", info.Mode(), e.Name())
			}
		}
	})
}
