package changes

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gobox/fsguard"
)

// delivering is a folder that a command has left and one that it goes to.
type delivering struct {
	from, above string
	o           DeliverOptions
}

func newDelivering(t *testing.T) *delivering {
	t.Helper()
	d := &delivering{from: t.TempDir(), above: t.TempDir(), o: DeliverOptions{UID: -1, GID: -1}}
	d.o.Path = filepath.Join(d.above, "out")
	if err := os.Mkdir(d.o.Path, 0o750); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *delivering) deliver(t *testing.T, ctx context.Context) (*Delivered, error) {
	t.Helper()
	from, err := fsguard.OpenRoot(d.from, fsguard.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	parent, err := fsguard.OpenRoot(d.above, fsguard.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer parent.Close()
	return Deliver(ctx, from, parent, "out", d.o)
}

// nothing came out, and nothing is left beside it.
func (d *delivering) nothing(t *testing.T) {
	t.Helper()
	if list := listing(t, d.above); !slices.Equal(list, []string{"out"}) {
		t.Errorf("something came out: %q", list)
	}
}

func listing(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	err := filepath.Walk(dir, func(path string, _ os.FileInfo, err error) error {
		if rel, _ := filepath.Rel(dir, path); err == nil && rel != "." {
			list = append(list, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestDeliver(t *testing.T) {
	d := newDelivering(t)
	write(t, d.from, "a/b/file", "a.txt", "secret", "locked/file", "listed/file", "odd\nname\xff")
	for link, to := range map[string]string{"link": "a/b/file", "a/up": "../a.txt", "own": d.o.Path + "/a.txt", "dangling": "not/there"} {
		if err := os.Symlink(to, filepath.Join(d.from, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(d.from, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(d.from, "a.txt"), 0o4711|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(d.from, "a.txt"), filepath.Join(d.from, "hard")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"secret", "locked"} {
		if err := os.Chmod(filepath.Join(d.from, name), 0); err != nil {
			t.Fatal(err)
		}
	}
	// One that can be listed and not searched.
	if err := os.Chmod(filepath.Join(d.from, "listed"), 0o400); err != nil {
		t.Fatal(err)
	}
	got, err := d.deliver(t, t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got.Entries != 15 || len(got.Dropped) != 3 {
		t.Errorf("%+v", got)
	}
	for name, mode := range map[string]os.FileMode{"": os.ModeDir | 0o750, "a.txt": 0o711, "hard": 0o711, "secret": 0, "locked": os.ModeDir, "listed": os.ModeDir | 0o400, "link": os.ModeSymlink | 0o777, "odd\nname\xff": 0o644} {
		if info, err := os.Lstat(filepath.Join(d.o.Path, name)); err != nil || info.Mode() != mode {
			t.Errorf("%q: %v %v, want %v", name, info.Mode(), err, mode)
		}
	}
	for _, name := range []string{"locked", "listed"} {
		if err := os.Chmod(filepath.Join(d.o.Path, name), 0o700); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"a/b/file", "a.txt", "locked/file", "listed/file"} {
		if data, err := os.ReadFile(filepath.Join(d.o.Path, name)); err != nil || string(data) != name {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
	var one, other syscall.Stat_t
	if syscall.Stat(d.o.Path+"/a.txt", &one) != nil || syscall.Stat(d.o.Path+"/hard", &other) != nil || one.Ino == other.Ino {
		t.Error("two names of one file came out as one file")
	}
	if list := listing(t, d.above); slices.ContainsFunc(list, func(p string) bool { return strings.HasPrefix(p, ".gobox") }) {
		t.Errorf("left: %q", list)
	}
}

func TestDeliverRefuses(t *testing.T) {
	for _, tt := range []struct {
		name  string
		lay   func(t *testing.T, d *delivering)
		paths []string // refused, or
		err   error
	}{
		{name: "protected", lay: func(t *testing.T, d *delivering) { write(t, d.from, "fine", ".envrc", "x/.git/hooks/h") }, paths: []string{".envrc", "x/.git/hooks/h"}},
		{name: "links", lay: func(t *testing.T, d *delivering) {
			write(t, d.from, "fine")
			for link, to := range map[string]string{"a": "/etc/passwd", "b": "../x", "c": d.o.Path + "/../x", "d": "e/../..", "e": "f", ".vscode": "fine"} {
				if err := os.Symlink(to, filepath.Join(d.from, link)); err != nil {
					t.Fatal(err)
				}
			}
		}, paths: []string{".vscode", "a", "b", "c", "d"}},
		{name: "a repository", lay: func(t *testing.T, d *delivering) {
			write(t, d.from, "r/HEAD", "r/config", "r/objects/x", "r/refs/x")
		}, paths: []string{"r/HEAD", "r/config"}},
		{name: "size", lay: func(t *testing.T, d *delivering) {
			d.o.Limits.Size = 1 << 30
			write(t, d.from, "hole", "more")
			if err := os.Truncate(filepath.Join(d.from, "hole"), 1<<30); err != nil {
				t.Fatal(err)
			}
		}, err: fsguard.ErrLimit},
		{name: "number", lay: func(t *testing.T, d *delivering) { d.o.Limits.Entries = 3; write(t, d.from, "1", "2", "3", "4") }, err: fsguard.ErrLimit},
		{name: "number in locked folders", lay: func(t *testing.T, d *delivering) {
			d.o.Limits.Entries = 6
			write(t, d.from, "1/2", "1/3", "4/5", "4/6", "4/7")
			for _, name := range []string{"1", "4"} {
				if err := os.Chmod(filepath.Join(d.from, name), 0); err != nil {
					t.Fatal(err)
				}
			}
		}, err: fsguard.ErrLimit},
		{name: "depth", lay: func(t *testing.T, d *delivering) { d.o.Limits.Depth = 3; write(t, d.from, "1/2/3/4") }, err: fsguard.ErrLimit},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDelivering(t)
			tt.lay(t, d)
			_, err := d.deliver(t, t.Context())
			var refused *RefusedError
			switch {
			case tt.err != nil:
				if !errors.Is(err, tt.err) {
					t.Errorf("%v, want %v", err, tt.err)
				}
			case !errors.As(err, &refused):
				t.Errorf("%v", err)
			default:
				var got []string
				for _, e := range refused.Entries {
					got = append(got, e.Path)
				}
				if len(got) < len(tt.paths) || slices.ContainsFunc(tt.paths, func(p string) bool { return !slices.Contains(got, p) }) || slices.Contains(got, "fine") {
					t.Errorf("refused %q, want %q", got, tt.paths)
				}
				d.nothing(t)
				d.o.Allow = []string{"."}
				if _, err := d.deliver(t, t.Context()); err != nil {
					t.Errorf("allowed: %v", err)
				}
				return
			}
			d.nothing(t)
		})
	}
}

// Whatever goes wrong, the folder is as it was.
func TestDeliverAllOrNothing(t *testing.T) {
	d := newDelivering(t)
	write(t, d.from, "a", "b/c")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.deliver(t, ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	d.nothing(t)

	write(t, d.above, "out/somebody")
	if _, err := d.deliver(t, t.Context()); err == nil {
		t.Error("what somebody has put there meanwhile was replaced")
	}
	if list := listing(t, d.above); !slices.Equal(list, []string{"out", "out/somebody"}) {
		t.Errorf("%q", list)
	}
	if err := os.RemoveAll(d.o.Path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/", d.o.Path); err != nil {
		t.Fatal(err)
	}
	if _, err := d.deliver(t, t.Context()); err == nil {
		t.Error("a link in the place of the folder was replaced")
	}
	if target, err := os.Readlink(d.o.Path); err != nil || target != "/" {
		t.Errorf("%q %v", target, err)
	}
}

// TestF39DeliverWhileSwapped: a cooperating program of the host swaps the folder that the copy goes to with a link, and
// folders of what is copied too. Nothing is ever written or read outside.
func TestF39DeliverWhileSwapped(t *testing.T) {
	d := newDelivering(t)
	outside := t.TempDir()
	write(t, outside, "secret/file")
	write(t, d.from, "x/secret/file")
	if err := os.WriteFile(filepath.Join(d.from, "x/secret/file"), []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(outside, "secret"), filepath.Join(d.from, "trap")); err != nil {
		t.Fatal(err)
	}
	d.o.Allow = []string{"."} // the trap itself is not what is tested
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_ = os.Rename(filepath.Join(d.from, "x/secret"), filepath.Join(d.from, "aside"))
			_ = os.Rename(filepath.Join(d.from, "trap"), filepath.Join(d.from, "x/secret"))
			_ = os.Rename(filepath.Join(d.from, "x/secret"), filepath.Join(d.from, "trap"))
			_ = os.Rename(filepath.Join(d.from, "aside"), filepath.Join(d.from, "x/secret"))
		}
	}()
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		_, err := d.deliver(t, t.Context())
		if err == nil {
			_ = filepath.Walk(d.o.Path, func(path string, info os.FileInfo, _ error) error {
				if info != nil && info.Mode().IsRegular() {
					if data, _ := os.ReadFile(path); string(data) != "mine" {
						t.Errorf("%s came from outside: %q", path, data)
					}
				}
				return nil
			})
		}
		if err := os.RemoveAll(d.o.Path); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(d.o.Path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	<-done
	if list := listing(t, outside); !slices.Equal(list, []string{"secret", "secret/file"}) {
		t.Errorf("outside: %q", list)
	}
}

// What is not for everybody keeps all inside, wherever it stands and however it is locked, unless it is named.
func TestDeliverSecret(t *testing.T) {
	for _, where := range []string{"content", "name", "link"} {
		d := newDelivering(t)
		switch where {
		case "content":
			write(t, d.from, "a/hunter2")
			if err := os.Rename(filepath.Join(d.from, "a/hunter2"), filepath.Join(d.from, "x")); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(filepath.Join(d.from, "x"), 0); err != nil {
				t.Fatal(err)
			}
		case "name":
			write(t, d.from, "x/hunter2")
		case "link":
			if err := os.Symlink("hunter2", filepath.Join(d.from, "x")); err != nil {
				t.Fatal(err)
			}
		}
		d.o.Secret = func(r io.Reader) (bool, error) {
			data, err := io.ReadAll(r)
			return strings.Contains(string(data), "hunter2"), err
		}
		var refused *RefusedError
		if _, err := d.deliver(t, t.Context()); !errors.As(err, &refused) || len(refused.Entries) != 1 {
			t.Errorf("%s: %v", where, err)
		}
		d.o.Allow = []string{"x"}
		if got, err := d.deliver(t, t.Context()); err != nil || got.Entries == 0 {
			t.Errorf("%s, allowed: %+v, %v", where, got, err)
		}
	}
}
