package changes

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestProtectedPaths(t *testing.T) {
	file := "mkdir -p $(dirname $P); echo x >$P"
	tests := []struct {
		path, script string
		refused      bool
	}{
		{".git/hooks/pre-commit", file, true},
		{".git/config", file, true},
		{"sub/module/.git/config", file, true},
		{".GIT/Hooks/x", file, true},
		{".git/modules/a/b/hooks/post-checkout", file, true},
		{".git/modules/a/config", file, true},
		{".git/objects/info/alternates", file, true},
		{".git", "echo gitdir: x >.git", true},
		{".git", "mkdir real; ln -s real .git", true},
		{".git/hooks", "mkdir -p .git real; ln -s ../real .git/hooks", true},
		{".git/modules", "mkdir -p .git real; ln -s ../real .git/modules", true},
		{".git/worktrees/w/modules/s/config", file, true},
		{".git/worktrees/w/modules/s/hooks/post-checkout", file, true},
		{".git/modules/s/info/attributes", file, true},
		{".git/modules/objects/pack/hooks/x", file, true},
		{".git/rebase-merge/git-rebase-todo", file, true},
		{".git/remotes/origin", file, true},
		{".git/refs/heads/hooks/fix", file, false},
		{".g\u200cit/hooks/x", file, true},
		{".ba\u017fhrc", file, true},
		{".gitcon\ufb01g", file, true},
		{"git~1/config", file, true},
		{".git./config", file, true},
		{".git::$INDEX_ALLOCATION/config", file, true},
		{"...", file, false},
		{".git/objects/ab/cdef", file, false},
		{".git/refs/heads/main", file, false},
		{".git/index", file, false},
		{".git/logs/HEAD", file, false},
		{".gitmodules", file, true},
		{".gitattributes", file, false},
		{".gitignore", file, false},
		{".github/workflows/ci.yml", file, false},
		{".bashrc", file, true},
		{"home/.profile", file, true},
		{".envrc", file, true},
		{".vscode/tasks.json", file, true},
		{"a.code-workspace", file, true},
		{"code-workspace", file, false},
		{".mcp.json", file, true},
		{".npmrc", file, true},
		{"vscode/x", file, false},
		{"Makefile", file, false},
		{"package.json", file, false},
		{".config", file, false}, // that of a kernel
		{".config/fish/config.fish", file, true},
		{".config", "mkdir real; ln -s real .config", true},
		{".ssh/authorized_keys", file, true},
		{"victim", "rm -r .git", true},
	}
	for _, test := range tests {
		t.Run(test.path, func(t *testing.T) {
			t.Parallel()
			before := "echo old >old"
			if test.path == "victim" {
				before = "mkdir -p .git/hooks; echo x >.git/hooks/x"
			}
			f := changed(t, before, "P='"+test.path+"'; "+test.script)
			_, err := f.apply(Request{DryRun: true})
			var refused *RefusedError
			if errors.As(err, &refused) != test.refused || err != nil && !test.refused {
				t.Errorf("%v", err)
			}
			if test.refused && test.path != "victim" {
				if _, err := f.apply(Request{DryRun: true, Allow: []string{test.path}}); err != nil {
					t.Errorf("allowed: %v", err)
				}
				if _, err := f.apply(Request{DryRun: true, Skip: []string{test.path}}); err != nil && !errors.Is(err, ErrNothing) {
					t.Errorf("skipped: %v", err)
				}
			}
		})
	}
}

// TestBareRepositories: whatever it is called, and also when the command only adds to what is there.
func TestBareRepositories(t *testing.T) {
	for script, path := range map[string]string{
		"echo x >repo/hooks/pre-receive":                                      "repo/hooks/pre-receive",
		"echo x >>repo/config":                                                "repo/config",
		"mkdir repo/info; echo x >repo/info/attributes":                       "repo/info/attributes",
		"mkdir -p repo/worktrees/w; echo x >repo/worktrees/w/config.worktree": "repo/worktrees/w/config.worktree",
		"mkdir -p repo/modules/s/hooks; echo x >repo/modules/s/hooks/x":       "repo/modules/s/hooks/x",
		"echo x >repo/refs/heads":                                             "",
		"echo x >repo/objects/data":                                           "",
		"mkdir -p plain/hooks; echo x >plain/hooks/x; echo x >plain/config":   "",
	} {
		f := changed(t, "mkdir -p repo/hooks repo/objects repo/refs; echo x >repo/HEAD; echo x >repo/config", script)
		_, err := f.apply(Request{DryRun: true})
		var refused *RefusedError
		if errors.As(err, &refused) != (path != "") || err != nil && path == "" {
			t.Errorf("%s: %v", script, err)
		} else if path != "" && (len(refused.Entries) != 1 || refused.Entries[0].Path != path) {
			t.Errorf("%s: %+v", script, refused.Entries)
		}
	}
}

// TestProtectedByTheWorkspacesPlace: names count by the whole path, but what the user has named as the workspace is given.
func TestProtectedByTheWorkspacesPlace(t *testing.T) {
	for _, tt := range []struct {
		place, path string
		refused     bool
	}{
		{"/home/u/.config", "autostart/x.desktop", true},
		{"/home/u/.config", "app/settings", false},
		{"/home/u/.local", "bin/ls", true},
		{"/home/u/project/.git", "hooks/x", true},
		{"/home/u/project/.git", "info/attributes", true},
		{"/home/u/project/.git", "objects/ab/x", false},
		{"/home/u/project/.git/modules/s", "config", true},
		{"/home/u/.vscode", "tasks.json", false},
		{"/home/u/.vscode", "sub/.envrc", true},
		{"/home/u/autostart", "x", false},
	} {
		f := changed(t, "", "mkdir -p $(dirname "+tt.path+"); echo x >"+tt.path)
		sel := &selection{set: f.set, byPath: map[string]*Entry{}}
		for i := range f.set.Entries {
			sel.entries = append(sel.entries, &f.set.Entries[i])
			sel.byPath[f.set.Entries[i].Path] = &f.set.Entries[i]
		}
		err := newGuard(sel, openRoot(t, f.workspace), &Request{Path: tt.place}).check(t.Context(), nil)
		var refused *RefusedError
		if errors.As(err, &refused) != tt.refused || err != nil && !tt.refused {
			t.Errorf("%s in %s: %v", tt.path, tt.place, err)
		}
		// From the top down it is the same.
		names, got := NewNames(tt.place), ""
		for i := 0; i <= len(tt.path) && got == ""; i++ {
			if i == len(tt.path) || tt.path[i] == '/' {
				got = names.Protects(tt.path[:i], i < len(tt.path))
			}
		}
		if (got != "") != tt.refused {
			t.Errorf("%s in %s, from the top down: %q", tt.path, tt.place, got)
		}
	}
}

func TestLinksThatLeave(t *testing.T) {
	tests := []struct {
		script  string
		refused string
	}{
		{"ln -s a l", ""},
		{"ln -s d/e l; ln -s ../a d/l; ln -s e/../.. d/m", ""},
		{"ln -s . l; ln -s .. d/m", ""},
		{"ln -s nothere/x l", ""},
		{"ln -s .. l", "l"},
		{"ln -s ../.. d/l", "d/l"},
		{"ln -s ../../a d/l", "d/l"},
		{"ln -s /etc/passwd l", "l"},
		{"ln -s / l", "l"},
		{`ln -s "$W/a" l`, ""},
		{`ln -s "$W/../a" l`, "l"},
		{`ln -s "${W}x" l`, "l"},
		{"ln -s d/e l; ln -s l/../../.. m", "m"},         // d, the workspace, above
		{"ln -s d/e l; ln -s l/../.. m", ""},             // d, the workspace
		{"ln -s d l; ln -s l/../.. m", "m"},              // by text it stays
		{"ln -s deep/x/../../.. m", ""},                  // deep is a link of the workspace to d/e
		{"ln -s deep/.. m", ""},                          //
		{"ln -s deep/../../.. m", "m"},                   //
		{"ln -s l l", "l"},                               // never ends
		{"ln -s m l; ln -s l m", "l m"},                  //
		{"rm deep; mkdir deep; ln -s deep/../a m", ""},   // as it will be, not as it is
		{"rm deep; mkdir deep; ln -s deep/../.. m", "m"}, //
		{"ln -s nothere/../.. m", "m"},
	}
	for _, test := range tests {
		t.Run(test.script, func(t *testing.T) {
			t.Parallel()
			f := &fixture{t: t, workspace: tempDir(t), run: tempDir(t)}
			shell(t, f.workspace, "mkdir -p d/e; echo a >a; ln -s d/e deep")
			f.set = collectCopy(t, f.workspace, f.run, "W='"+f.workspace+"'; "+test.script)
			_, err := f.apply(Request{DryRun: true})
			var got []string
			var refused *RefusedError
			if errors.As(err, &refused) {
				for _, e := range refused.Entries {
					got = append(got, e.Path)
				}
			} else if err != nil {
				t.Fatal(err)
			}
			if text := strings.Join(got, " "); text != test.refused {
				t.Errorf("refused %q, want %q", text, test.refused)
			}
		})
	}
}

func TestBareRepository(t *testing.T) {
	const bare = "mkdir -p $D/objects $D/refs; echo ref: x >$D/HEAD; echo '[core]' >$D/config"
	for name, test := range map[string]struct {
		before, script string
		refused        bool
	}{
		"made":             {"echo a >a", "D=b; " + bare, true},
		"completed":        {"D=b; " + bare + "; rm b/HEAD", "echo ref: x >b/HEAD", true},
		"configured":       {"D=b; " + bare, "echo evil >b/config", true},
		"its refs":         {"D=b; " + bare, "echo x >b/refs/main; echo ref: y >b/HEAD", false},
		"a config of none": {"echo a >a", "mkdir b; echo x >b/config; echo y >b/HEAD", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := changed(t, test.before, test.script)
			_, err := f.apply(Request{DryRun: true})
			var refused *RefusedError
			if errors.As(err, &refused) != test.refused || err != nil && !test.refused {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestProtectedTableIsWellFormed(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range Protected() {
		if !validPath(p.Path) || p.Why == "" || seen[p.Path] || strings.HasPrefix(p.Path, "*/") || strings.HasPrefix(p.Path, "**") {
			t.Errorf("%+v", p)
		}
		seen[p.Path] = true
		if strings.ContainsAny(p.Path, `?[\`) {
			t.Errorf("%q: only * and ** are promised", p.Path)
		}
	}
}

func TestRecordsAreProtected(t *testing.T) {
	f := changed(t, "echo a >a", "mkdir -p state/gobox/runs statement; echo forged >state/gobox/runs/x; echo s >statement/s")
	_, err := Apply(t.Context(), openRoot(t, f.run), openRoot(t, f.workspace), Request{
		Hash: f.set.Hash, Path: f.workspace, Records: f.workspace + "/state/gobox",
	})
	var refused *RefusedError
	if !errors.As(err, &refused) || refused.Entries[len(refused.Entries)-1].Path != "state/gobox/runs/x" {
		t.Errorf("error %v, %+v", err, refused)
	}
	for _, o := range refused.Entries {
		if o.Path == "state" || o.Path == "statement/s" {
			t.Errorf("%s is refused as well", o.Path)
		}
	}
}

// TestConfigsOfEveryRepository: what a config names is protected for nested repositories, submodules, linked worktrees and bare ones as well.
func TestConfigsOfEveryRepository(t *testing.T) {
	const hooks = "printf '[core]\\n\\thooksPath = my\\n'"
	for name, test := range map[string]struct{ before, script, refused string }{
		"nested":      {"mkdir -p n/.git n/my; " + hooks + " >n/.git/config", "echo x >n/my/pre-commit", "n/my/pre-commit"},
		"deeper":      {"mkdir -p n/.git n/my; " + hooks + " >n/.git/config", "mkdir -p n/my/a/b; echo x >n/my/a/b/c", "n/my/a/b/c"},
		"of one tree": {"mkdir -p .git my; " + hooks + " >.git/config.worktree", "echo x >my/pre-commit", "my/pre-commit"},
		"submodule": {"mkdir -p .git/modules/s s/my; " + hooks + " >.git/modules/s/config; echo 'gitdir: ../.git/modules/s' >s/.git",
			"echo x >s/my/pre-commit", "s/my/pre-commit"},
		"worktree": {"mkdir -p .git/worktrees/t t/my; " + hooks + " >.git/config; echo ../.. >.git/worktrees/t/commondir; echo 'gitdir: ../.git/worktrees/t' >t/.git",
			"echo x >t/my/pre-commit", "t/my/pre-commit"},
		"bare":      {"mkdir -p b/objects b/refs b/my; echo ref: x >b/HEAD; " + hooks + " >b/config", "echo x >b/my/pre-commit", "b/my/pre-commit"},
		"elsewhere": {"mkdir -p n/.git my; " + hooks + " >n/.git/config; echo 'gitdir: /etc' >.git", "echo x >my/pre-commit", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := changed(t, test.before, test.script)
			_, err := f.apply(Request{DryRun: true})
			var refused *RefusedError
			switch errors.As(err, &refused); {
			case test.refused == "" && err != nil:
				t.Error(err)
			case test.refused != "" && (refused == nil || refused.Entries[len(refused.Entries)-1].Path != test.refused):
				t.Errorf("%v: %+v", err, refused)
			}
		})
	}
}

// TestDeepPathsAreCheckedInTime: the command chooses how deep its files lie and how many they are, and the check of an apply or of an output
// folder is not to take hours over them.
func TestDeepPathsAreCheckedInTime(t *testing.T) {
	dir := strings.Repeat("a/", 998)
	sel := &selection{set: &Set{}, byPath: map[string]*Entry{}}
	for i := range 2000 {
		e := &Entry{Path: dir + strconv.Itoa(i), Kind: Added, New: &State{Type: File}}
		sel.entries = append(sel.entries, e)
		sel.byPath[e.Path] = e
	}
	last := &Entry{Path: dir + ".git/hooks/x", Kind: Added, New: &State{Type: File}}
	sel.entries, sel.byPath[last.Path] = append(sel.entries, last), last
	// It took a second for each.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var refused *RefusedError
	if err := newGuard(sel, openRoot(t, tempDir(t)), &Request{}).check(ctx, nil); !errors.As(err, &refused) || len(refused.Entries) != 1 || refused.Entries[0].Path != last.Path {
		t.Errorf("%v", err)
	}
	cancel()
	if err := newGuard(sel, openRoot(t, tempDir(t)), &Request{}).check(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	names := NewNames("")
	begun := time.Now()
	for range 2000 {
		if names.Leads(dir + "link") {
			t.Fatal("leads somewhere")
		}
	}
	if took := time.Since(begun); took > time.Minute {
		t.Errorf("%v for 2000 links", took)
	}
}
