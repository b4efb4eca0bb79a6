package changes

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gobox/fsguard"
)

// Names, from the top down, finds what the guard of an apply finds.
func TestNamesAgreeWithTheGuard(t *testing.T) {
	paths := []string{
		"a", "src/main.go", ".git", ".git/HEAD", ".git/hooks/pre-commit", "sub/.git/hooks/x/y", ".git/config", ".GIT/Config", ".git/config.lock",
		".git/info/exclude", ".git/info/attributes", ".git/objects/ab/cdef", ".git/objects/info/alternates", ".git/modules/a/config",
		".git/modules/a/b/hooks/x", ".git/modules/config", ".git/worktrees/w/gitdir", ".git/worktrees/w/HEAD", "deep/er/.vscode/tasks.json", ".VSCODE/x", "vscode/x",
		"x.code-workspace", "a/X.Code-Workspace", "code-workspace", ".config/git/config", ".config/other", "a/.config/fish/x", ".local/bin/ls", ".local/lib", "mise.toml",
		".envrc", "envrc", ".cargo/config", ".cargo/config.toml", ".cargo/registry/x", ".husky/_/h", ".gobox.yaml", "sub/.gobox.yaml",
	}
	for _, p := range Protected() {
		for _, in := range []string{"", "x/", "x/y/"} {
			at := in + strings.ReplaceAll(strings.ReplaceAll(p.Path, "**", "q/r"), "*", "star")
			paths = append(paths, at, at+"/below", strings.ToUpper(at), at+"x", strings.TrimPrefix(at, "."))
		}
	}
	empty, err := fsguard.OpenRoot(t.TempDir(), fsguard.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Close()
	found := 0
	for _, p := range paths {
		e := &Entry{Path: p, Kind: Added, New: &State{Type: File}}
		sel := &selection{set: &Set{}, entries: []*Entry{e}, byPath: map[string]*Entry{p: e}}
		why, err := newGuard(sel, empty, &Request{}).objection(e)
		if err != nil {
			t.Fatal(err)
		}
		names, got := NewNames(""), ""
		for i := 0; i <= len(p) && got == ""; i++ {
			if i == len(p) || p[i] == '/' {
				got = names.Protects(p[:i], i < len(p))
			}
		}
		if got != why {
			t.Errorf("%q: from the top down %q, by the guard %q", p, got, why)
		}
		if got != "" {
			found++
		}
	}
	if found < len(Protected()) || found == len(paths) {
		t.Errorf("%d of %d paths are protected: the test does not tell", found, len(paths))
	}
}

func TestNamesConfig(t *testing.T) {
	text := "# hooksPath = no\n[core]\n\tbare = false\n\thooksPath = .githooks\n[Include]\n  path = \"../shared config\" ; x\n[includeIf \"gitdir:x\"] path = more\n" +
		"[core]\nhooksPath=/abs/olute\nhookspath = ../../out\n[user]\n\tpath = no\n\thooksPath = no\n[remote \"hooksPath\"]\n url = x\n" +
		"[core]\nhooksPath = .commented # by hand\nhooksPath = /srv/tree/absolute/../here ; x\nhooksPath = /srv/treelike\nhooksPath = ~/tree/home\n" +
		"hooksPath = \"in\\\"side\" \nhooksPath = con\\\ntinued\n[includeIf \"gitdir:a]b\"] path = /srv/tree/x y\n"
	if got := NewNames("/srv/tree/.git").Config("/srv/tree/.git", "..", ".", "[core]\nhooksPath = .git/mine\nhooksPath = .githooks\n[include]\npath = more\npath = ../out\n"); !slices.Equal(got, []string{"mine", "more"}) {
		t.Errorf("a gitdir by itself: %q", got)
	}
	of := func(dir, text string) []string { return NewNames("").Config("/srv/tree", dir, dir, text) }
	if got := of(".git/modules/a", "[core]\nhooksPath = h\nworktree = ../../../sub/a\n"); !slices.Equal(got, []string{".git/modules/a/h", "sub/a/h"}) {
		t.Errorf("a submodule: %q", got)
	}
	n := NewNames("")
	got := n.Config("/srv/tree", "sub", "sub/.git", text)
	slices.Sort(got)
	want := []string{"here", "home", "sub/.commented", "sub/.git/more", "sub/.githooks", "sub/continued", `sub/in"side`, "sub/shared config", "tree/home", "x y"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if n.Protects("sub/.githooks", true) == "" || n.Protects(".githooks", true) != "" {
		t.Error("what the config names is not protected, or something else is")
	}
	for range 3 {
		if more := n.Config("/srv/tree", "sub", "sub/.git", text); len(more) != 0 {
			t.Errorf("named again: %q", more)
		}
	}
}

func FuzzNamesConfig(f *testing.F) {
	f.Add("[core]\nhooksPath = a\n")
	f.Add("[include]path=\"\x00")
	f.Fuzz(func(t *testing.T, text string) {
		for _, p := range NewNames("").Config("/srv/tree", "top", "top/.git", text) {
			if !validPath(p) {
				t.Errorf("%q", p)
			}
		}
	})
}

func write(t *testing.T, dir string, files ...string) {
	t.Helper()
	for _, name := range files {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSweep(t *testing.T) {
	dir := t.TempDir()
	outside := t.TempDir()
	write(t, outside, ".envrc")
	write(t, dir, "known/.vscode/tasks.json", "new/.vscode/tasks.json", ".envrc", "ok/file", "allowed/.npmrc", "allowed/deep/.idea/x", ".git/HEAD", ".git/objects/ab/.envrc",
		".git/hooks/post-checkout", "bare/HEAD", "bare/objects/x", "bare/refs/x", "bare/config", "bare/info/attributes", "bare/objects/info/alternates", "bare/modules/m/hooks/x", "notbare/config", "notbare/info/attributes", "listed/.npmrc", "locked/in/.bashrc", "readonly/.zshrc", "hooks.d/x", "dot/git/config",
		strings.Repeat("n", 240)+".code-workspace")
	for link, to := range map[string]string{"out": outside, ".claude": "ok", ".hg": outside, ".config": "dot"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"listed", "locked/in", "locked", "readonly"} {
		mode := map[string]os.FileMode{"readonly": 0o555, "listed": 0o444}[name]
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Chmod(filepath.Join(dir, name), 0o755) })
	}
	root, err := fsguard.OpenRoot(dir, fsguard.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	o := SweepOptions{Known: []string{"known/.vscode", ".config"}, Allow: []string{"allowed"}, Named: []string{"hooks.d"}, Aliases: map[string]string{"dot": ".config", "gone": ".cargo"}, Suffix: ".aside"}
	list, err := Sweep(context.Background(), root, o)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range list {
		if a.Err != nil || a.To == "" || a.Why == "" {
			t.Errorf("%+v", a)
		}
		got = append(got, a.Path)
	}
	slices.Sort(got)
	want := []string{".claude", ".envrc", ".git/hooks", ".hg", "bare/config", "bare/info/attributes", "bare/modules/m/hooks", "bare/objects/info/alternates", "dot/git", "hooks.d", "listed/.npmrc", "locked/in/.bashrc", "new/.vscode", strings.Repeat("n", 240) + ".code-workspace", "readonly/.zshrc"}
	if !slices.Equal(got, want) {
		t.Errorf("set aside %q\nwant      %q", got, want)
	}
	for name, mode := range map[string]os.FileMode{"listed": 0o444, "locked": 0, "readonly": 0o555} {
		if info, err := os.Lstat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v %v", name, info.Mode(), err)
		}
	}
	os.Chmod(filepath.Join(dir, "locked"), 0o700)
	for _, name := range []string{"known/.vscode/tasks.json", "allowed/.npmrc", ".git/HEAD", "new/.vscode.aside/tasks.json", ".envrc.aside", "gobox.aside"} {
		if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || len(data) == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(outside, ".envrc")); err != nil {
		t.Error("a link was followed out of the root")
	}
	// A second time there is nothing to do, and the bounds hold.
	if list, err := Sweep(context.Background(), root, o); err != nil || len(list) != 0 {
		t.Errorf("again: %v, %v", list, err)
	}
	o.Entries = 5
	if _, err := Sweep(context.Background(), root, o); !errors.Is(err, fsguard.ErrLimit) {
		t.Errorf("over the limit: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Sweep(ctx, root, SweepOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
