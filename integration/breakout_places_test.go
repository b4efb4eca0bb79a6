package integration

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gobox/integration/harness"
)

// TestBreakoutDeniedInTheNextRun: the command may not see a file, but moves the folder it is in and puts
// another in its place. The same flags then hide the wrong one.
func TestBreakoutDeniedInTheNextRun(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		secret := b.Canary(t, filepath.Join(b.Work, "deep/secret"))
		flags := []string{"--workspace-mode", "rw", "--deny", secret.Path}
		b.Inside(t, flags, "rename "+b.Work+"/deep "+b.Work+"/moved", "mkdir "+b.Work+"/deep", "write "+secret.Path+" decoy")
		moved := filepath.Join(b.Work, "moved/secret")
		b.Inside(t, flags, "open r "+moved).Refused(t, hidden, "open r "+moved)
	})
}

// TestBreakoutReadOnlyIsReplaced: a read-only folder in a writable one keeps its content and not its
// place: the folder above is moved away and made anew, and the host follows the name (git its hooks).
func TestBreakoutReadOnlyIsReplaced(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		hooks := filepath.Join(b.Work, ".git/hooks")
		b.Mkdir(t, hooks)
		hook := filepath.Join(hooks, "pre-commit")
		b.Inside(t, []string{"--workspace-mode", "rw", "--ro", hooks}, "rename "+b.Work+"/.git "+b.Work+"/moved", "mkdir "+b.Work+"/.git", "mkdir "+hooks, "write "+hook+" evil")
		if data, err := os.ReadFile(hook); err == nil {
			t.Errorf("%s on the host now says %q", hook, data)
		}
	})
}

// TestBreakoutPlantedLink: a link that an earlier run left where a grant's path passes must not become
// a grant of what it leads to.
func TestBreakoutPlantedLink(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		secret := b.Canary(t, filepath.Join(b.Home, "private/secret"))
		data := filepath.Join(b.Work, "data")
		b.Mkdir(t, data)
		b.Inside(t, []string{"--workspace-mode", "rw"}, "run /bin/rmdir "+data, "run /bin/ln -s "+filepath.Dir(secret.Path)+" "+data)
		if _, err := os.Readlink(data); err != nil {
			t.Fatal(err)
		}
		for _, flags := range [][]string{{"--ro", data}, {"--rw", data}, {"--ro", data + "/secret"}, {"--workspace-mode", "rw", "--ro", data}} {
			res := b.Run(t, harness.Run{Flags: flags, Argv: []string{"/bin/cat", secret.Path}})
			if res.Code != 125 || !strings.Contains(string(res.Stderr), filepath.Dir(secret.Path)) {
				t.Errorf("%q: %v", flags, res)
			}
		}
		secret.Unchanged(t)
	})
}

// TestBreakoutWorkspaceChoosesAnotherProject: a virtual environment in the root of a project makes the
// whole project an installation, and any link in the workspace leads there.
func TestBreakoutWorkspaceChoosesAnotherProject(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		probe, err := os.ReadFile(b.Probe)
		if err != nil {
			t.Fatal(err)
		}
		project := filepath.Join(b.Home, "project")
		b.File(t, project+"/pyvenv.cfg", "")
		secret := b.Canary(t, project+"/.env")
		tool := b.File(t, project+"/bin/python3", string(probe))
		if err := os.Chmod(tool, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(tool, b.Work+"/tool"); err != nil {
			t.Fatal(err)
		}
		res := b.Run(t, harness.Run{NoGrant: true, Argv: []string{"./tool", "open", "r", secret.Path}})
		if res.Code != 125 || !strings.Contains(string(res.Stderr), "the workspace leads to "+tool) {
			t.Errorf("%v", res)
		}
		secret.Unchanged(t)
	})
}

// TestBreakoutKernelFileSystemsBelowAGrant: a folder into which someone has mounted a procfs, as a chroot, shows
// the host's processes.
func TestBreakoutKernelFileSystemsBelowAGrant(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can mount one")
	}
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		if b.UID != 0 {
			return
		}
		b.Mkdir(t, b.Work+"/proc")
		try := "open r " + b.Work + "/proc/" + itoa(os.Getpid()) + "/cmdline"
		run := strings.Join(batch(b, try), " ")
		res := b.Run(t, harness.Run{Bin: "/bin/sh", Attr: &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS},
			Args: []string{"-c", "mount -t proc proc " + b.Work + "/proc && exec " + b.Gobox + " run --rox " + filepath.Dir(b.Probe) + " -- " + run}})
		if res.Code != 125 || !strings.Contains(string(res.Stderr), "--deny "+b.Work+"/proc") {
			t.Errorf("%v", res)
		}
		res = b.Run(t, harness.Run{Bin: "/bin/sh", Attr: &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS},
			Args: []string{"-c", "mount -t proc proc " + b.Work + "/proc && exec " + b.Gobox + " run --deny " + b.Work + "/proc --rox " + filepath.Dir(b.Probe) + " -- " + run}})
		harness.Parse(t, res.Stdout).Refused(t, hidden, try)
	})
}
