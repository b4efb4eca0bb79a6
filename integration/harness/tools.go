package harness

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Missing skips with the reason on a person's machine; in CI make setup has installed everything.
func Missing(t *testing.T, tool string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("%s is missing for this identity", tool)
	}
	t.Skipf("%s is missing for this identity: make setup installs it", tool)
}

// OnPath says whether a list of folders has a program.
func OnPath(path, tool string) bool {
	for _, dir := range filepath.SplitList(path) {
		info, err := os.Stat(filepath.Join(dir, tool))
		if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return true
		}
	}
	return false
}

// openToAll says whether every user can enter path.
func openToAll(path string) bool {
	for ; ; path = filepath.Dir(path) {
		info, err := os.Stat(path)
		if err != nil || info.Mode()&0o005 != 0o005 {
			return false
		}
		if path == "/" {
			return true
		}
	}
}

// GoDir is the folder of a go command that the ordinary user can run.
func (b *Box) GoDir(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		Missing(t, "go")
	}
	root := strings.TrimSpace(string(out))
	if !openToAll(root) {
		to := filepath.Join(b.Home, "sdk/go")
		LinkTree(t, root, to)
		root = to
	}
	return filepath.Join(root, "bin")
}

// LinkTree makes the tree at from again at to, with hard links where the file system is the same: a
// toolchain is large. The links stay root's, so the ordinary user cannot change them.
func LinkTree(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case d.IsDir():
			return os.MkdirAll(target, 0o755)
		case d.Type()&fs.ModeSymlink != 0:
			text, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(text, target)
		}
		err = unix.Link(path, target)
		if err == nil {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, data, info.Mode().Perm())
	})
	if err != nil {
		t.Fatal(err)
	}
}
