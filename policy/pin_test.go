package policy

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"gobox/namespaces"
)

// deep is a workspace with folders in folders.
func deep() fakeFS {
	return debian().file("/home/ann/work/a/b/c/secret", "x", 1000).file("/home/ann/work/a/b/other", "x", 1000).dir("/home/ann/work/.git/hooks", 1000)
}

func TestPins(t *testing.T) {
	const w = "/home/ann/work"
	// Without what gobox protects by itself, which TestProtect is for.
	rw := func(p *Policy) { p.Workspace.Mode, p.AllowPath = ModeReadWrite, []string{"."} }
	for _, tt := range []struct {
		name string
		edit func(*Policy)
		want []string
	}{
		{"nothing protected", rw, nil},
		{"read-only workspace", func(p *Policy) { p.Workspace.Mode, p.Deny = ModeReadOnly, []string{"a/b/c/secret"} }, nil},
		// A mount of the host's folder in it would let the command write to the host.
		{"overlay", func(p *Policy) { p.Workspace.Mode, p.Deny = ModeOverlay, []string{"a/b/c/secret"} }, nil},
		{"denied", func(p *Policy) { rw(p); p.Deny = []string{"a/b/c/secret"} }, []string{w + "/a", w + "/a/b", w + "/a/b/c"}},
		{"read-only", func(p *Policy) { rw(p); p.Grants = []Grant{{Flag: "--ro", Source: ".git/hooks"}} }, []string{w + "/.git"}},
		{"at the top", func(p *Policy) { rw(p); p.Grants = []Grant{{Flag: "--ro", Source: ".git"}} }, nil},
		{"two below one", func(p *Policy) { rw(p); p.Deny = []string{"a/b/c/secret", "a/b/other"} }, []string{w + "/a", w + "/a/b", w + "/a/b/c"}},
		{"writable between", func(p *Policy) {
			rw(p)
			p.Grants = []Grant{{Flag: "--rw", Source: "a/b", Write: true}}
			p.Deny = []string{"a/b/c/secret"}
		}, []string{w + "/a", w + "/a/b/c"}},
		{"writable alone", func(p *Policy) { rw(p); p.Grants = []Grant{{Flag: "--rw", Source: "a/b/c", Write: true}} }, nil},
		{"scratch over a folder", func(p *Policy) { rw(p); p.Tmpfs = []Tmpfs{{Dest: w + "/a/b"}} }, []string{w + "/a"}},
		{"something else there", func(p *Policy) {
			rw(p)
			p.Grants = []Grant{{Flag: "--rw", Source: "/srv", Dest: w + "/a/b", Write: true}}
		}, []string{w + "/a"}},
		{"in a writable grant elsewhere", func(p *Policy) {
			p.Grants = []Grant{{Flag: "--rw", Source: w + "/a", Dest: "/mnt/a", Write: true}}
			p.Deny = []string{"a/b/c/secret"}
		}, []string{"/mnt/a/b", "/mnt/a/b/c"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, uid := range []uint32{0, 1000} {
				p := Default()
				p.Argv = []string{"python3"}
				tt.edit(&p)
				plan := must(t, p, fakeHost(deep(), uid, "/home/ann", w))
				var got []string
				at := map[string]int{}
				for i, s := range plan.Tree.Steps {
					at[s.Target] = i
					if s.Why != whyPin {
						continue
					}
					got = append(got, s.Target)
					if s.Op != namespaces.OpBind || s.Attr&namespaces.ReadOnly != 0 {
						t.Errorf("pin %s is %s %s", s.Target, s.Op, s.Attr)
					}
					if !s.Held || s.Owner != nil {
						t.Errorf("uid %d: pin %s is no mount of what is there: held %v, owner %v", uid, s.Target, s.Held, s.Owner)
					}
					for place, j := range at {
						if below(s.Target, place) && j < i {
							t.Errorf("pin %s covers the earlier %s", s.Target, place)
						}
					}
				}
				if !slices.Equal(got, tt.want) {
					t.Errorf("uid %d: pins %q, want %q", uid, got, tt.want)
				}
			}
		})
	}
}

// A read-only folder that is part of a writable one under another name is not read-only.
func TestAliases(t *testing.T) {
	const w = "/home/ann/work"
	for _, tt := range []struct {
		name   string
		grants []Grant
		want   string
	}{
		{"writable under another name", []Grant{{Flag: "--ro", Source: "a"}, {Flag: "--rw", Source: w, Dest: "/mnt/w", Write: true}}, "--ro " + w + "/a:/mnt/w/a"},
		{"read-only there too", []Grant{{Flag: "--ro", Source: "a"}, {Flag: "--rw", Source: w, Dest: "/mnt/w", Write: true}, {Flag: "--ro", Source: "a", Dest: "/mnt/w/a"}}, ""},
		{"writable at its place, read-only elsewhere", []Grant{{Flag: "--ro", Source: "a", Dest: "/mnt/a"}}, ""},
		{"the usual", []Grant{{Flag: "--ro", Source: "a"}}, ""},
		{"below a read-only one", []Grant{{Flag: "--ro", Source: "a"}, {Flag: "--rw", Source: "a/b", Write: true}, {Flag: "--ro", Source: "a/b/c"}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := Default()
			p.Argv, p.Workspace.Mode, p.Grants = []string{"python3"}, ModeReadWrite, tt.grants
			_, err := Resolve(p, fakeHost(deep(), 1000, "/home/ann", w))
			var refusal *Error
			if tt.want == "" && err != nil || tt.want != "" && (!errors.As(err, &refusal) || !strings.Contains(refusal.Hint, tt.want)) {
				t.Errorf("got %v, want a hint with %q", err, tt.want)
			}
		})
	}
}

// The same for the workspace, which --ro does not name.
func TestAliasOfTheWorkspace(t *testing.T) {
	const w = "/home/ann/work"
	for _, mode := range []Mode{ModeReadOnly, ModeOverlay, ModeReadWrite} {
		p := Default()
		p.Argv, p.Workspace.Mode, p.Grants = []string{"python3"}, mode, []Grant{{Flag: "--rw", Source: "/home/ann", Dest: "/mnt", Write: true}}
		_, err := Resolve(p, fakeHost(deep(), 1000, "/home/ann", w))
		var refusal *Error
		if refused := errors.As(err, &refusal); refused != (mode != ModeReadWrite) || refused && !strings.Contains(refusal.Hint, "--ro "+w+":/mnt/work") {
			t.Errorf("workspace %s and --rw of the folder above: %v", mode, err)
		}
		p.Grants = append(p.Grants, Grant{Flag: "--ro", Source: w, Dest: "/mnt/work"})
		if _, err := Resolve(p, fakeHost(deep(), 1000, "/home/ann", w)); err != nil {
			t.Errorf("workspace %s, read-only there too: %v", mode, err)
		}
	}
}

// A link where the command can put one decides nothing.
func TestPlantedLinks(t *testing.T) {
	files := deep().link("/home/ann/work/out", "../data").link("/home/ann/work/in", "a/b").link("/srv/out", "/home/ann/data").dir("/srv/in", 1000).
		link("/home/ann/ws", "work").link("/home/ann/work/up", "out")
	host := fakeHost(files, 1000, "/home/ann", "/home/ann/ws")
	grant := func(flag, source string) func(*Policy) {
		return func(p *Policy) { p.Grants = append(p.Grants, Grant{Flag: flag, Source: source, Write: flag == "--rw"}) }
	}
	for _, tt := range []struct {
		name  string
		mode  Mode
		edits []func(*Policy)
		want  string // in the refusal; empty: accepted
		hint  string
	}{
		{"out of the workspace", ModeReadOnly, []func(*Policy){grant("--ro", "out")}, "leads out of /home/ann/work to /home/ann/data", "--ro /home/ann/data"},
		{"out by two links", ModeReadOnly, []func(*Policy){grant("--rw", "up")}, "leads out of", "--rw /home/ann/data"},
		{"out and back", ModeReadOnly, []func(*Policy){grant("--ro", "out/../work/a")}, "", ""},
		{"out of a writable grant", ModeNone, []func(*Policy){grant("--ro", "/srv/out"), grant("--rw", "/srv")}, "leads out of /srv", "--ro /home/ann/data"},
		{"out of a readable grant", ModeNone, []func(*Policy){grant("--ro", "/srv/out"), grant("--ro", "/srv")}, "", ""},
		{"inside, readable", ModeReadOnly, []func(*Policy){grant("--ro", "in")}, "", ""},
		{"inside, writable again", ModeReadWrite, []func(*Policy){grant("--rw", "in")}, "", ""},
		{"inside, to be fixed", ModeReadWrite, []func(*Policy){grant("--ro", "in")}, "can replace the link /home/ann/work/in", "--ro /home/ann/work/a/b"},
		{"denied", ModeReadWrite, []func(*Policy){func(p *Policy) { p.Deny = []string{"in/other"} }}, "can replace the link", "--deny /home/ann/work/a/b/other"},
		{"denied, readable", ModeReadOnly, []func(*Policy){func(p *Policy) { p.Deny = []string{"in/other"} }}, "", ""},
		{"the real name", ModeReadOnly, []func(*Policy){grant("--ro", "/home/ann/data")}, "", ""},
		{"workspace by a link", ModeReadWrite, nil, "", ""},
		{"workspace out of a grant", ModeReadOnly, []func(*Policy){grant("--rw", "/srv"), func(p *Policy) { p.Workspace = Workspace{Path: "/srv/out", Mode: ModeReadOnly, Explicit: true} }}, "leads out of /srv", "--workspace /home/ann/data"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := Default()
			p.Argv, p.Workspace.Mode = []string{"python3"}, tt.mode
			for _, edit := range tt.edits {
				edit(&p)
			}
			_, err := Resolve(p, host)
			if tt.want == "" {
				if err != nil {
					t.Fatalf("refused: %v", err)
				}
				return
			}
			var refusal *Error
			if !errors.As(err, &refusal) {
				t.Fatalf("not refused: %v", err)
			}
			if !strings.Contains(err.Error(), tt.want) || !strings.Contains(refusal.Hint, tt.hint) {
				t.Errorf("%v (hint %q) lacks %q or %q", err, refusal.Hint, tt.want, tt.hint)
			}
		})
	}
}
