package fsguard

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// swapping exchanges root/d, a directory, with root/l, a link to the outside, and root/f with root/lf likewise for a file, as
// fast as it can until the test ends.
func swapping(t *testing.T, p *place) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Join(p.dir, "d"), 0o755))
	p.write(t, "d/secret", "inside")
	p.write(t, "f", "inside")
	must(t, os.Symlink("../outside", filepath.Join(p.dir, "l")))
	must(t, os.Symlink("../outside/secret", filepath.Join(p.dir, "lf")))
	fd, err := unix.Open(p.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	if err := unix.Renameat2(fd, "d", fd, "l", unix.RENAME_EXCHANGE); err != nil {
		t.Skip("the file system of the temporary directory cannot exchange names:", err)
	}
	stop := make(chan struct{})
	var swapper sync.WaitGroup
	swapper.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			// What an operation has removed is not made again: these may fail.
			_ = unix.Renameat2(fd, "d", fd, "l", unix.RENAME_EXCHANGE)
			_ = unix.Renameat2(fd, "f", fd, "lf", unix.RENAME_EXCHANGE)
		}
	})
	t.Cleanup(func() {
		close(stop)
		swapper.Wait()
		unix.Close(fd)
	})
}

// TestSwap does every operation again and again while a directory and a link change places under it. What it
// is about is the canary: newPlace looks after it at the end.
func TestSwap(t *testing.T) {
	const rounds = 400
	ctx := context.Background()
	ops := operations()
	for i := range ops {
		do := ops[i].do
		ops[i].do = func(r *Root, name string) error {
			err := do(r, name)
			if err != nil && strings.Contains(err.Error(), "canary") {
				t.Error(err)
			}
			return err
		}
	}
	more := func(name string, do func(r *Root) error) {
		ops = append(ops, operation{name, func(r *Root, _ string) error { return do(r) }})
	}
	more("mkdir", func(r *Root) error { return errors.Join(r.Mkdir("d/new", 0o755), r.Remove("d/new")) })
	more("mkdirall", func(r *Root) error { return errors.Join(r.MkdirAll("d/new/x/y", 0o755), r.RemoveAll(ctx, "d/new")) })
	more("symlink", func(r *Root) error { return errors.Join(r.Symlink("x", "d/sl"), r.Remove("d/sl")) })
	more("link", func(r *Root) error { return errors.Join(r.Link("d/secret", "h"), r.Remove("h")) })
	more("link file", func(r *Root) error { return errors.Join(r.Link("f", "h"), r.Remove("h")) })
	more("rename", func(r *Root) error {
		return errors.Join(r.Rename("d/secret", "moved", NoReplace), r.Rename("moved", "d/secret", NoReplace))
	})
	more("remove", func(r *Root) error { return r.Remove("d/none") })
	more("readlink", func(r *Root) error { _, err := r.Readlink("d/secret"); return err })
	more("lstat", func(r *Root) error { _, err := r.Lstat("d/secret"); return err })
	more("xattr", func(r *Root) error { _, err := r.Xattr("d/secret", "user.none"); return err })
	more("chown", func(r *Root) error { return r.Lchown("d/secret", -1, -1) })
	more("sync", func(r *Root) error { return r.Sync("d") })
	more("createtemp", func(r *Root) error {
		name, f, err := r.CreateTemp("d", "t")
		if err != nil {
			return err
		}
		f.Close()
		return r.Remove(name)
	})
	more("openroot", func(r *Root) error {
		sub, err := r.OpenRoot("d")
		if err != nil {
			return err
		}
		defer sub.Close()
		f, err := sub.Create("by-sub")
		if err != nil {
			return err
		}
		f.Close()
		return sub.Remove("by-sub")
	})
	more("walk", func(r *Root) error {
		return r.Walk(ctx, ".", WalkLimits{}, func(e *Entry, err error) error {
			if err != nil || !e.Mode.IsRegular() {
				return nil
			}
			if e.Size == int64(len(secret)) {
				t.Errorf("the walk met the canary as %s", e.Path)
			}
			if f, err := e.Open(); err == nil {
				defer f.Close()
				if info, err := f.Stat(); err == nil && info.Size() == int64(len(secret)) {
					t.Errorf("the walk opened the canary as %s", e.Path)
				}
			}
			return nil
		})
	})
	for _, op := range ops {
		t.Run(strings.ReplaceAll(op.name, " ", "-"), func(t *testing.T) {
			p := newPlace(t, Options{})
			swapping(t, p)
			// The race is only worth something when the name was met in both its states.
			refused, passed := 0, 0
			for round := 0; round < rounds || refused*passed == 0 && round < 100*rounds; round++ {
				for _, name := range []string{"d/secret", "f"} {
					switch err := op.do(p.Root, name); {
					case errors.Is(err, ErrSymlink), errors.Is(err, ErrNotRegular):
						refused++
					default:
						passed++
					}
				}
				if t.Failed() || op.name == "walk" && round > rounds {
					break
				}
			}
			t.Logf("%d refused, %d not", refused, passed)
			if refused*passed == 0 && op.name != "walk" {
				t.Error("the names never changed places in time")
			}
		})
	}
}

// TestSwapRemoveAll removes trees in which directories and links change places, and which are refilled.
func TestSwapRemoveAll(t *testing.T) {
	const rounds = 60
	p := newPlace(t, Options{})
	fd, err := unix.Open(p.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	stop := make(chan struct{})
	var swapper sync.WaitGroup
	swapper.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(fd, "t/a/d", fd, "t/a/l", unix.RENAME_EXCHANGE)
				_ = unix.Renameat2(fd, "t/a", fd, "t/l", unix.RENAME_EXCHANGE)
				_ = unix.Renameat2(fd, "t", fd, "l", unix.RENAME_EXCHANGE)
			}
		}
	})
	for range rounds {
		// Under the swapper's hands a step of this may fail; the next round makes it anew.
		_ = p.Mkdir("t", 0o755)
		_ = p.Symlink("../outside", "l")
		_ = p.Symlink("../../outside", "t/l")
		_ = p.Mkdir("t/a", 0o755)
		_ = p.Symlink("../../../outside", "t/a/l")
		_ = p.Mkdir("t/a/d", 0o755)
		for _, name := range []string{"t", "l"} {
			if err := p.RemoveAll(t.Context(), name); err != nil && !errors.Is(err, ErrChanged) {
				t.Errorf("remove %s: %v", name, err)
			}
		}
	}
	close(stop)
	swapper.Wait()
	must(t, p.RemoveAll(t.Context(), "t"))
	must(t, p.RemoveAll(t.Context(), "l"))
	if _, err := p.Lstat("t"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left: %v", err)
	}
}

// TestRefilled removes a directory that somebody keeps filling: an end comes, by success or by ErrChanged.
func TestRefilled(t *testing.T) {
	p := newPlace(t, Options{})
	must(t, p.MkdirAll("t/a", 0o755))
	stop := make(chan struct{})
	var filler sync.WaitGroup
	filler.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = p.MkdirAll("t/a/x", 0o755)
				_ = p.Symlink("../outside", "t/a/s")
			}
		}
	})
	err := p.RemoveAll(t.Context(), "t")
	if err != nil && !errors.Is(err, ErrChanged) {
		t.Errorf("removal: %v", err)
	}
	close(stop)
	filler.Wait()
}
