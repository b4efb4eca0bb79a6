package fsguard

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const mountedTree = "FSGUARD_TEST_MOUNTED_TREE"

// TestMounts repeats itself in a mount namespace of its own, where it may mount.
func TestMounts(t *testing.T) {
	if os.Getenv(mountedTree) != "" {
		inMountNamespace(t)
		return
	}
	cmd := exec.Command("/proc/self/exe", "-test.run", "^TestMounts$", "-test.v")
	cmd.Env = append(os.Environ(), mountedTree+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	out, err := cmd.CombinedOutput()
	if len(out) == 0 && (errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EACCES)) {
		t.Skip("this host lets no user namespace be made:", err)
	}
	if err != nil || !strings.Contains(string(out), "PASS: TestMounts") {
		t.Errorf("in the namespace: %v\n%s", err, out)
	}
}

func inMountNamespace(t *testing.T) {
	must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	p := newPlace(t, Options{})
	p.write(t, "in/file", "inside")
	p.write(t, "bound", "under the mount")
	must(t, p.Mkdir("mnt", 0o755))
	must(t, p.Mkdir("outside", 0o755))
	must(t, unix.Mount("tmpfs", filepath.Join(p.dir, "mnt"), "tmpfs", 0, ""))
	must(t, os.WriteFile(filepath.Join(p.dir, "mnt/file"), []byte("mounted"), 0o644))
	must(t, unix.Mount(p.outside, filepath.Join(p.dir, "outside"), "", unix.MS_BIND, ""))
	must(t, unix.Mount(filepath.Join(p.outside, "secret"), filepath.Join(p.dir, "bound"), "", unix.MS_BIND, ""))

	for _, name := range []string{"mnt/file", "outside/secret", "bound"} {
		for _, op := range operations() {
			if err := op.do(p.Root, name); !errors.Is(err, ErrMount) || !errors.Is(err, unix.EXDEV) {
				t.Errorf("%s %s: %v, want ErrMount", op.name, name, err)
			}
		}
		if err := p.Rename("in/file", name, 0); err == nil {
			t.Errorf("rename to %s went through", name)
		}
		if err := p.Link("in/file", name+"2"); err == nil && name != "bound" {
			t.Errorf("link to %s went through", name)
		}
	}
	for _, name := range []string{"mnt", "outside", "bound"} {
		if err := p.RemoveAll(t.Context(), name); !errors.Is(err, unix.EBUSY) && !errors.Is(err, ErrMount) {
			t.Errorf("remove %s: %v", name, err)
		}
	}
	met := map[string]bool{}
	must(t, p.Walk(t.Context(), ".", WalkLimits{}, func(e *Entry, err error) error {
		met[e.Path] = e.MountPoint
		if _, openErr := e.Open(); e.MountPoint && openErr == nil {
			t.Errorf("the walk opened %s", e.Path)
		}
		return err
	}))
	want := map[string]bool{".": false, "in": false, "in/file": false, "mnt": true, "outside": true, "bound": true, "bound2": false}
	if fmt.Sprint(met) != fmt.Sprint(want) {
		t.Errorf("the walk met %v, want %v", met, want)
	}
	across, err := NewRoot(p.Fd(), Options{CrossMounts: true})
	must(t, err)
	if f, err := across.Open("mnt/file"); err != nil {
		t.Error(err)
	} else {
		f.Close()
	}
	if got := list(t, across, "."); !strings.Contains(strings.Join(got, " "), "mnt/file") {
		t.Errorf("the walk across mounts met %q", got)
	}
	if err := across.Rename("in/file", "mnt/moved", 0); !errors.Is(err, ErrMount) {
		t.Errorf("rename to another file system: %v", err)
	}
	must(t, across.Close())
	// A root that is a mount itself is none to cross.
	mnt, err := OpenRoot(filepath.Join(p.dir, "mnt"), Options{})
	must(t, err)
	if got := list(t, mnt, "."); len(got) != 2 {
		t.Errorf("the walk of a mounted root met %q", got)
	}
	must(t, mnt.RemoveAll(t.Context(), "."))
	must(t, mnt.Close())
	for _, name := range []string{"mnt", "outside", "bound"} {
		must(t, unix.Unmount(filepath.Join(p.dir, name), 0))
	}
	if _, err := p.Stat("bound"); err != nil || errors.Is(err, fs.ErrNotExist) {
		t.Error("the file under the mount is gone")
	}
}
