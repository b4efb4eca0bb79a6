package fsguard

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// A directory of a long chain that was closed meanwhile and is opened anew must be the one that it was.
func TestChainOfAnotherFolder(t *testing.T) {
	dir := t.TempDir()
	const depth = chainKeep + 20
	name := func(i int) string { return fmt.Sprint("d", i) }
	deep := dir
	for i := range depth {
		deep = filepath.Join(deep, name(i))
	}
	must(t, os.MkdirAll(deep, 0o755))
	root, err := OpenRoot(dir, Options{})
	must(t, err)
	defer root.Close()

	const at = 5 // neither among the lowest nor an anchor
	for _, swapped := range []bool{false, true} {
		c := chain{root: root}
		for i := range depth {
			if _, err := c.push(name(i)); err != nil {
				t.Fatal(err)
			}
		}
		if swapped {
			place := dir
			for i := range at {
				place = filepath.Join(place, name(i))
			}
			must(t, os.Rename(filepath.Join(place, name(at)), filepath.Join(dir, "aside")))
			must(t, os.Mkdir(filepath.Join(place, name(at)), 0o755))
		}
		for c.depth() > at+1 {
			c.pop()
		}
		if c.top().fd >= 0 {
			t.Fatal("it was never closed, and nothing is proven")
		}
		_, err := c.fd()
		if swapped != errors.Is(err, ErrChanged) || !swapped && err != nil {
			t.Errorf("swapped %v: %v", swapped, err)
		}
		c.close()
	}
}

// Walk and RemoveAll go into no link, also where names may lead through one.
func TestTreesFollowNoLinks(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "d/sub"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "d/sub/file"), nil, 0o644))
	must(t, os.Symlink("d", filepath.Join(dir, "link")))
	root, err := OpenRoot(dir, Options{FollowLinks: true})
	must(t, err)
	defer root.Close()
	if _, err := root.Stat("link/sub/file"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"link", "link/sub"} {
		err := root.Walk(t.Context(), name, WalkLimits{}, func(e *Entry, err error) error {
			if e.Path == "link/sub/file" {
				t.Errorf("walk of %s met %s", name, e.Path)
			}
			return err
		})
		if leads := name != "link"; (err != nil) != leads {
			t.Errorf("walk of %s: %v", name, err)
		}
	}
	must(t, root.RemoveAll(t.Context(), "link"))
	if _, err := os.Lstat(filepath.Join(dir, "link")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the link itself: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "d/sub/file")); err != nil {
		t.Error(err)
	}
}
