package policy

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"gobox/namespaces"
)

// lockedFS is a host with folders that cannot be listed.
type lockedFS struct {
	fakeFS
	locked string
}

func (l lockedFS) ReadDir(name string) ([]fs.DirEntry, error) {
	if name == l.locked {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return l.fakeFS.ReadDir(name)
}

func TestProtect(t *testing.T) {
	const w = "/home/ann/work"
	base := func() fakeFS {
		return debian().file(w+"/.git/config", "[core]\n\thooksPath = hooks.d\n", 1000).dir(w+"/.git/hooks", 1000).file(w+"/.git/HEAD", "x", 1000).
			dir(w+"/.git/objects/ab", 1000).file(w+"/hooks.d/pre-commit", "x", 1000).file(w+"/src/sub/.envrc", "x", 1000).file(w+"/src/sub/main.c", "x", 1000)
	}
	grant := func(source string, write bool) Grant {
		g := Grant{Flag: "--ro", Source: source, Write: write}
		if write {
			g.Flag = "--rw"
		}
		return g
	}
	for _, tt := range []struct {
		name string
		edit func(*Policy)
		fs   func(fakeFS) FS
		held []string
		pins []string
	}{
		{name: "all", held: []string{".git/config", ".git/hooks", "hooks.d", "src/sub/.envrc"}, pins: []string{".git", "src", "src/sub"}},
		{name: "allowed", edit: func(p *Policy) { p.AllowPath = []string{".git", "src/sub/.envrc", w + "/hooks.d"} }},
		{name: "allowed as a whole", edit: func(p *Policy) { p.AllowPath = []string{w} }},
		{name: "read-only workspace", edit: func(p *Policy) { p.Workspace.Mode = ModeReadOnly }},
		{name: "overlay", edit: func(p *Policy) { p.Workspace.Mode = ModeOverlay }},
		{name: "a grant in a read-only workspace", edit: func(p *Policy) {
			p.Workspace.Mode, p.Grants = ModeReadOnly, []Grant{grant("src", true)}
		}, held: []string{"src/sub/.envrc"}, pins: []string{"src/sub"}},
		{name: "granted by name", edit: func(p *Policy) { p.Grants = []Grant{grant(".git/hooks", true), grant("src/sub/.envrc", true)} },
			held: []string{".git/config", "hooks.d"}, pins: []string{".git"}},
		{name: "hidden", edit: func(p *Policy) { p.Deny = []string{".git"} }, held: []string{"src/sub/.envrc"}, pins: []string{"src", "src/sub"}},
		{name: "covered", edit: func(p *Policy) { p.Tmpfs = []Tmpfs{{Dest: w + "/src/sub"}} }, held: []string{".git/config", ".git/hooks", "hooks.d"}, pins: []string{".git", "src"}},
		{name: "links", edit: func(p *Policy) { p.AllowPath = []string{".git", "hooks.d", "src/sub/.envrc"} }, fs: func(f fakeFS) FS {
			return f.link(w+"/.bashrc", "src/rc").link(w+"/src/rc", "../real/rc").file(w+"/real/rc", "x", 1000).link(w+"/.config", "conf").file(w+"/conf/git/config", "x", 1000).
				link(w+"/.profile", "/etc/profile").link(w+"/plain", "src")
		}, held: []string{".bashrc", ".config", ".profile", "conf/git", "real/rc", "src/rc"}, pins: []string{"conf", "real", "src"}},
		{name: "a bare repository", edit: func(p *Policy) { p.AllowPath = []string{".git", "hooks.d", "src/sub/.envrc"} }, fs: func(f fakeFS) FS {
			return f.file(w+"/b/HEAD", "x", 1000).dir(w+"/b/objects", 1000).dir(w+"/b/refs", 1000).file(w+"/b/config", "x", 1000).file(w+"/c/config", "x", 1000)
		}, held: []string{"b/config"}, pins: []string{"b"}},
		{name: "a submodule", edit: func(p *Policy) { p.AllowPath = []string{".git/config", ".git/hooks", "hooks.d", "src/sub/.envrc"} }, fs: func(f fakeFS) FS {
			m := w + "/.git/modules/lib"
			return f.file(m+"/HEAD", "x", 1000).dir(m+"/objects", 1000).dir(m+"/refs", 1000).file(m+"/config", "[core]\nhooksPath = my\nworktree = ../../../lib\n", 1000).
				file(w+"/lib/.git", "gitdir: ../.git/modules/lib", 1000).file(w+"/lib/my/pre-commit", "x", 1000).file(w+"/lib/hooks.d/x", "x", 1000)
		}, held: []string{".git/modules/lib/config", "lib/.git", "lib/my"}, pins: []string{".git", ".git/modules", ".git/modules/lib", "lib"}},
		{name: "a linked worktree", edit: func(p *Policy) { p.AllowPath = []string{".git/config", ".git/hooks", "hooks.d", "src/sub/.envrc"} }, fs: func(f fakeFS) FS {
			m := w + "/.git/worktrees/tree"
			return f.file(m+"/HEAD", "x", 1000).file(m+"/commondir", "../..\n", 1000).file(m+"/gitdir", w+"/tree/.git\n", 1000).file(m+"/config.worktree", "[core]\nhooksPath = my\n", 1000).
				file(w+"/tree/.git", "gitdir: "+m, 1000).file(w+"/tree/hooks.d/pre-commit", "x", 1000).file(w+"/tree/my/pre-commit", "x", 1000)
		}, held: []string{".git/worktrees/tree/commondir", ".git/worktrees/tree/config.worktree", ".git/worktrees/tree/gitdir", "tree/.git", "tree/hooks.d", "tree/my"},
			pins: []string{".git", ".git/worktrees", ".git/worktrees/tree", "tree"}},
		{name: "what cannot be looked into", edit: func(p *Policy) { p.AllowPath = []string{".git", "hooks.d"} }, fs: func(f fakeFS) FS { return lockedFS{f, w + "/src/sub"} },
			held: []string{"src/sub"}, pins: []string{"src"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, uid := range []uint32{0, 1000} {
				p := Default()
				p.Argv, p.Workspace.Mode = []string{"python3"}, ModeReadWrite
				if tt.edit != nil {
					tt.edit(&p)
				}
				var host FS = base()
				if tt.fs != nil {
					host = tt.fs(base())
				}
				h := fakeHost(base(), uid, "/home/ann", w)
				h.FS = host
				plan := must(t, p, h)
				var held, pins []string
				for _, s := range plan.Tree.Steps {
					switch {
					case strings.HasPrefix(s.Why, whyProtected):
						held = append(held, strings.TrimPrefix(s.Target, w+"/"))
						if s.Op != namespaces.OpBind || !s.Held || s.Attr&namespaces.ReadOnly == 0 || s.Owner != nil {
							t.Errorf("%+v", s)
						}
					case s.Why == whyPin:
						pins = append(pins, strings.TrimPrefix(s.Target, w+"/"))
					}
				}
				slices.Sort(held)
				slices.Sort(pins)
				if !slices.Equal(held, tt.held) || !slices.Equal(pins, tt.pins) {
					t.Errorf("uid %d: held %q, pins %q\nwant held %q, pins %q", uid, held, pins, tt.held, tt.pins)
				}
				if writable := p.Workspace.Mode == ModeReadWrite && !slices.Contains(p.AllowPath, w) || len(p.Grants) > 0; writable != (len(plan.Guards) > 0) {
					t.Errorf("guards %+v", plan.Guards)
				}
			}
		})
	}
}

func TestProtectRefuses(t *testing.T) {
	const w = "/home/ann/work"
	many := debian()
	for i := range protectMounts + 1 {
		many = many.file(w+"/d"+strings.Repeat("x", i%200)+string(rune('a'+i/200))+"/.envrc", "x", 1000)
	}
	for _, tt := range []struct {
		name string
		fs   FS
		edit func(*Policy)
		want string
	}{
		{"allow nothing", debian().dir(w, 1000), func(p *Policy) { p.Workspace.Mode = ModeReadOnly; p.AllowPath = []string{".git"} }, "nothing there is the command's to change"},
		{"allow in an overlay", debian().dir(w, 1000), func(p *Policy) { p.Workspace.Mode = ModeOverlay; p.AllowPath = []string{".git"} }, "gobox apply takes --allow-path"},
		{"allow outside", debian().dir(w, 1000), func(p *Policy) { p.Workspace.Mode = ModeReadWrite; p.AllowPath = []string{"/srv"} }, "nothing there is the command's to change"},
		{"too many", many, func(p *Policy) { p.Workspace.Mode = ModeReadWrite }, "more than 1000"},
		{"locked", lockedFS{debian().dir(w, 1000), w}, func(p *Policy) { p.Workspace.Mode = ModeReadWrite }, "--allow-path ."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := Default()
			p.Argv = []string{"python3"}
			tt.edit(&p)
			h := fakeHost(debian(), 1000, "/home/ann", w)
			h.FS = tt.fs
			_, err := Resolve(p, h)
			var refusal *Error
			if err == nil || !errors.As(err, &refusal) || !strings.Contains(refusal.Error()+refusal.Hint, tt.want) {
				t.Errorf("%v; want %q", err, tt.want)
			}
		})
	}
}
