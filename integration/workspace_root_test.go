package integration

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gobox/integration/harness"
)

// container runs what follows it as a user in a root of its own, as a container engine makes one: KIND BASE UID DIR ARGV.... BASE
// is an empty folder below /tmp. /app there is the user's, with a file in it.
const container = `set -e
PATH=$PATH:/usr/sbin:/sbin
kind=$1 base=$2 uid=$3 dir=$4; shift 4
mount -t tmpfs -o mode=755 none $base
mkdir $base/upper $base/work $base/root
case $kind in
overlay) mount -t overlay -o lowerdir=/,upperdir=$base/upper,workdir=$base/work none $base/root ;;
tmpfs) mount -t tmpfs -o mode=755 none $base/root
	for d in usr bin sbin lib lib32 lib64 libx32 opt etc; do
		if test -L /$d; then cp -P /$d $base/root; elif test -d /$d; then mkdir $base/root/$d; mount --bind /$d $base/root/$d; fi
	done ;;
esac
for d in proc dev sys tmp; do mkdir -p $base/root/$d; mount --rbind /$d $base/root/$d; done
mkdir -p $base/root/app $base/root/old
echo old >$base/root/app/file
chown -R $uid:$uid $base/root/app
cd $base/root
pivot_root . old
umount -l /old
cd $dir
exec setpriv --reuid $uid --regid $uid --clear-groups -- "$@"
`

// inContainer runs gobox there.
func inContainer(t *testing.T, b *harness.Box, kind, dir string, args ...string) harness.Result {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("a root of its own takes root")
	}
	base, err := os.MkdirTemp(b.Dir, "container")
	if err != nil {
		t.Fatal(err)
	}
	argv := append([]string{"--mount", "--propagation", "private", "sh", "-c", container, "container", kind, base, itoa(b.UID), dir, b.Gobox}, args...)
	cmd := exec.Command("unshare", argv...)
	cmd.Env = b.Environ()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatal("unshare(1) does not run")
	}
	return harness.Result{Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), Code: harness.ExitCode(cmd.ProcessState)}
}

// TestWorkspaceAtRoot: / is no workspace, by name or by accident, on the host and in a container, and the refusal says what is.
func TestWorkspaceAtRoot(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		link := filepath.Join(b.Dir, "link")
		if err := os.Symlink("/", link); err != nil {
			t.Fatal(err)
		}
		refused := func(how string, res harness.Result) {
			t.Helper()
			if res.Code != 125 || len(res.Stdout) > 0 || !strings.Contains(string(res.Stderr), "error: workspace /: ") {
				t.Errorf("%s: %v", how, res)
			}
			for _, flag := range []string{"--workspace DIR", "--ro P", "--workspace-mode none", "--rootfs DIR"} {
				if !strings.Contains(string(res.Stderr), flag) {
					t.Errorf("%s: no word of %s: %v", how, flag, res)
				}
			}
		}
		tries := [][]string{nil, {"--workspace", "/"}, {"--workspace", link}, {"--workspace", "/tmp/.."}, {"--workspace", "/", "--workspace-mode", "ro"},
			{"--workspace", "/", "--workspace-mode", "rw"}, {"--workspace", "/", "--workspace-mode", "overlay"}}
		for _, flags := range tries {
			refused(strings.Join(flags, " "), b.Run(t, harness.Run{Dir: "/", Flags: flags, Argv: []string{"/bin/echo", "ran"}}))
		}
		if res := b.Run(t, harness.Run{Dir: "/", Flags: []string{"--workspace-mode", "none"}, Argv: []string{"/bin/echo", "ran"}}); string(res.Stdout) != "ran\n" || res.Code != 0 {
			t.Errorf("without a workspace: %v", res)
		}
		file := b.File(t, filepath.Join(b.Dir, "root.yaml"), "version: 1\nworkspace:\n  path: /\n  mode: overlay\n")
		refused("a policy file", b.Run(t, harness.Run{Dir: "/", Flags: []string{"--policy", file}, Argv: []string{"/bin/echo", "ran"}}))
		// What the hint names works from there.
		seen := b.File(t, filepath.Join(b.Work, "sub/seen"), "seen\n")
		more := filepath.Dir(seen)
		for _, flags := range [][]string{{"--workspace", more}, {"--workspace-mode", "none", "--ro", more}, {"--workspace-mode", "none", "--rox", seen}, {"--workspace-mode", "none", "--rw", more}} {
			if res := b.Run(t, harness.Run{Dir: "/", Flags: flags, Argv: []string{"/bin/cat", seen}}); res.Code != 0 || string(res.Stdout) != "seen\n" {
				t.Errorf("%q: %v", flags, res)
			}
		}
		for _, kind := range []string{"overlay", "tmpfs"} {
			for _, flags := range [][]string{nil, {"--workspace", "/"}} {
				refused("in a container of "+kind, inContainer(t, b, kind, "/", append(append([]string{"run"}, flags...), "--", "/bin/echo", "ran")...))
			}
		}
	})
}

// TestWorkspaceBelowRoot: a folder at the top of a container's root, as images have them, is an ordinary one.
func TestWorkspaceBelowRoot(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		line := "cat file; echo new >made; echo more >>file; ls -d /old /app 2>&1; ls -A /"
		// A container's root is an overlay itself, and such a folder of root's can be read and not written to. Then it is
		// read-only and why is said, or it is refused with the mode that can.
		res := inContainer(t, b, "overlay", "/app", "run", "--", "/bin/sh", "-c", line)
		if b.UID == 0 {
			if !strings.HasPrefix(string(res.Stdout), "old\n") || !strings.Contains(string(res.Stderr), "Read-only file system") || !strings.Contains(string(res.Stderr), "gobox: hint: the workspace") {
				t.Errorf("overlay: %v", res)
			}
			for _, mode := range []string{"overlay", "rw"} {
				res = inContainer(t, b, "overlay", "/app", "run", "--workspace-mode", mode, "--", "/bin/sh", "-c", line)
				if res.Code != 125 || len(res.Stdout) > 0 || !strings.Contains(string(res.Stderr), "--workspace-mode ro") || !strings.Contains(string(res.Stderr), "idmapped") {
					t.Errorf("%s, by name: %v", mode, res)
				}
			}
		} else {
			if res.Code != 0 || !strings.HasPrefix(string(res.Stdout), "old\n") || !strings.Contains(string(res.Stderr), "1 added, 1 modified, 0 deleted: gobox diff") {
				t.Errorf("overlay: %v", res)
			}
			res = inContainer(t, b, "overlay", "/app", "run", "--workspace-mode", "rw", "--", "/bin/sh", "-c", "echo new >made && cat made file")
			if res.Code != 0 || string(res.Stdout) != "new\nold\n" {
				t.Errorf("rw: %v", res)
			}
		}
		for _, flags := range [][]string{{"--"}, {"--workspace", "/app", "--"}} {
			res = inContainer(t, b, "tmpfs", "/app", append(append([]string{"run"}, flags...), "/bin/sh", "-c", line)...)
			if res.Code != 0 || !strings.HasPrefix(string(res.Stdout), "old\n") || !strings.Contains(string(res.Stderr), "1 added, 1 modified, 0 deleted: gobox diff") {
				t.Errorf("tmpfs: %v", res)
			}
			if strings.Contains(string(res.Stdout), "\n/old\n") {
				t.Errorf("tmpfs: what is beside it shows: %v", res)
			}
		}
		res = inContainer(t, b, "tmpfs", "/app", "run", "--workspace-mode", "rw", "--", "/bin/sh", "-c", "echo new >made && cat made file")
		if res.Code != 0 || string(res.Stdout) != "new\nold\n" {
			t.Errorf("rw: %v", res)
		}
	})
}
