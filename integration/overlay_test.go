package integration

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gobox/integration/harness"
)

// tree describes all of a folder: names, kinds, owners, times and contents. A large file's content is not read.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st syscall.Stat_t
		if err := syscall.Lstat(path, &st); err != nil {
			return err
		}
		fmt.Fprintf(&out, "%q %o %d:%d %d %d.%09d", strings.TrimPrefix(path, dir), st.Mode, st.Uid, st.Gid, st.Size, st.Mtim.Sec, st.Mtim.Nsec)
		switch {
		case e.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			fmt.Fprintf(&out, " %q %v", target, err)
		case e.Type().IsRegular() && st.Size < 1<<20:
			data, err := os.ReadFile(path)
			fmt.Fprintf(&out, " %x %v", sha256.Sum256(data), err)
		}
		out.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestOverlayHidden: what is hidden deep in an overlay stays hidden and in its place, and the folders above it are
// the overlay's as well: no way to the host.
func TestOverlayHidden(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		b.Mkdir(t, filepath.Join(b.Work, "a")) // the whole way is the caller's
		b.File(t, filepath.Join(b.Work, "a/b/secret"), "s")
		b.File(t, filepath.Join(b.Work, "a/b/other"), "o")
		before := tree(t, b.Work)
		flags := append(overlayFlags(t, b), "--deny", "a/b/secret")
		rep := b.Inside(t, flags, "open r a/b/secret", "write a/b/other x", "write a/b/new x", "write a/new x", "rename a a2", "rename a/b a/c", "rename a/b/secret s", "unlink a/b/secret", "cat a/b/new")
		rep.Allowed(t, "write a/b/other x", "write a/b/new x", "write a/new x", "cat a/b/new")
		rep.Refused(t, []string{"EACCES", "EBUSY", "EXDEV"}, "open r a/b/secret", "rename a a2", "rename a/b a/c", "rename a/b/secret s", "unlink a/b/secret")
		if after := tree(t, b.Work); after != before {
			t.Errorf("the workspace was\n%sand is\n%s", before, after)
		}
	})
}
