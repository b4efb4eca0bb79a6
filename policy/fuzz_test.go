package policy

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"testing"

	"gobox/namespaces"
)

var rounds = flag.Int("rounds", 3000, "random policies for TestRandomResolve")

const annWork = "/home/ann/work"

// places are what FuzzResolve names: folders in each other, links of the user's and of root's, files, and what must not be
// granted at all.
func places() (fakeFS, []string) {
	f := debian()
	f.dir("/srv/a", 0).dir("/srv/a/b", 0).dir("/srv/a/b/c", 0).file("/srv/a/b/c/deep", "x", 0).file("/srv/a/top", "x", 0)
	f.link("/srv/root", "a/b").link("/srv/abs", "/srv/a").link("/home/ann/data/out", "/srv/a").link(annWork+"/up", "../data").link(annWork+"/etc", "/etc")
	f.dir(annWork+"/sub", 1000).dir(annWork+"/sub/in", 1000).file(annWork+"/sub/in/file", "x", 1000).file("/home/ann/data/file", "x", 1000)
	return f, []string{
		"/home/ann/work", ".", "sub", "sub/in", "./sub/../sub/in/file", ".env", "up", "up/file", "etc/passwd", "/home/ann/data", "/home/ann/data/file", "/home/ann/data/out", "/home/ann/data/out/b",
		"/srv/a", "/srv/a/b", "/srv/a/b/c", "/srv/a/b/c/deep", "/srv/a/top", "/srv/root", "/srv/root/c", "/srv/abs", "/srv/abs/b/c", "/home/ann", "/home/ann/.ssh", "/home/ann/.ssh/id_ed25519",
		"/tmp", "/mnt", "/mnt/x", "/mnt/x/y", annWork + "/sub/new", "/usr/lib", "/usr", "/opt", "/", "/etc", "/etc/shadow", "/proc", "/sys/kernel", "/dev/sda", "/dev/null", "/run", "/missing",
	}
}

// shown is what a plan makes of the host: the mounts of its tree, in order.
type shown []namespaces.Step

// at is the mount that a path inside leads to: the last one made on the path or above it.
func (s shown) at(inside string) (namespaces.Step, bool) {
	for i := len(s) - 1; i >= 0; i-- {
		switch s[i].Op {
		case namespaces.OpDir, namespaces.OpSymlink, namespaces.OpPivot:
			continue // nothing is mounted
		}
		if lies(inside, s[i].Target) {
			return s[i], true
		}
	}
	return namespaces.Step{}, false
}

func lies(name, dir string) bool {
	return name == dir || dir == "/" || strings.HasPrefix(name, dir+"/")
}

// names are the paths inside by which a file of the host can be reached, and whether it can be written by one.
func (s shown) names(file string) (inside []string, writable bool) {
	for _, m := range s {
		if m.Op != namespaces.OpBind && m.Op != namespaces.OpOverlay && m.Op != namespaces.OpDevice || !lies(file, m.Source) {
			continue
		}
		p := path.Join(m.Target, strings.TrimPrefix(file, m.Source))
		if top, ok := s.at(p); ok && top.Op == m.Op && top.Source == m.Source && top.Target == m.Target {
			inside = append(inside, p)
			writable = writable || m.Op == namespaces.OpBind && top.Attr&namespaces.ReadOnly == 0
		}
	}
	return inside, writable
}

// FuzzResolve asks for grants in every combination and looks at what the plan would show of the host: nothing that was not
// asked for, nothing writable that was not granted for writing, nothing writable by another name that is to be read-only,
// and nothing that is denied.
func FuzzResolve(f *testing.F) {
	f.Add([]byte{0})
	f.Add([]byte{1, 0, 2, 0, 4, 5, 0})
	f.Add([]byte{3, 0, 13, 0, 2, 14, 26, 4, 15, 0})
	f.Add([]byte{1, 2, 18, 27, 0, 13, 0, 5, 26, 0})
	f.Add([]byte{0, 0, 9, 0, 4, 10, 0, 2, 11, 26})
	f.Fuzz(func(t *testing.T, b []byte) { tryResolve(t, b) })
}

// tryResolve tells whether there is a plan for what b asks for, and judges it.
func tryResolve(t *testing.T, b []byte) bool {
	if len(b) == 0 || len(b) > 40 {
		t.Skip()
	}
	files, list := places()
	uid, home, dir := uint32(1000), "/home/ann", "/home/ann/work"
	if b[0]&0x80 != 0 {
		uid = 0
	}
	p := Default()
	p.Argv = []string{"/bin/cat"}
	p.Workspace.Mode = []Mode{ModeReadOnly, ModeReadWrite, ModeOverlay, ModeNone}[b[0]&3]
	var asked strings.Builder
	fmt.Fprintf(&asked, "uid %d, workspace %s", uid, p.Workspace.Mode)
	for b = b[1:]; len(b) >= 3; b = b[3:] {
		source, dest := list[int(b[1])%len(list)], ""
		if b[2] != 0 {
			dest = list[int(b[2])%len(list)]
		}
		switch b[0] % 6 {
		case 4:
			p.Deny = append(p.Deny, source)
			fmt.Fprintf(&asked, " --deny %s", source)
		case 5:
			p.Tmpfs = append(p.Tmpfs, Tmpfs{Dest: source})
			fmt.Fprintf(&asked, " --tmpfs %s", source)
		default:
			g := Grant{Flag: []string{"--ro", "--rox", "--rw", "--rwx"}[b[0]%4], Source: source, Dest: dest, Write: b[0]%4 >= 2, Exec: b[0]%2 == 1}
			p.Grants = append(p.Grants, g)
			fmt.Fprintf(&asked, " %s %s:%s", g.Flag, source, dest)
		}
	}
	plan, err := Resolve(p, fakeHost(files, uid, home, dir))
	if err != nil {
		var refusal *Error
		if !errors.As(err, &refusal) || refusal.Step == "" || refusal.Err == nil {
			t.Fatalf("%s: %v is no refusal", asked.String(), err)
		}
		return false
	}
	judge(t, files, p, dir, shown(plan.Tree.Steps), asked.String())
	return true
}

// TestRandomResolve is the same by chance, as go test runs no fuzzer.
func TestRandomResolve(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 20261129))
	accepted := 0
	for range *rounds {
		b := make([]byte, 1+3*(1+r.IntN(5)))
		for i := range b {
			b[i] = byte(r.Uint32())
			if i%3 == 0 && i > 0 && r.IntN(2) == 0 {
				b[i] = 0 // a grant under its own name
			}
		}
		if tryResolve(t, b) {
			accepted++
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d of %d have a plan", accepted, *rounds)
	if accepted < *rounds/20 {
		t.Error("hardly any has a plan, so little is proven")
	}
}

// want is what was asked for about a file.
type want struct{ read, write, denied bool }

// wanted goes by the deepest folders above the file: the one granted for writing, by whatever name, must not lie above one
// that is to be read-only at its own place. That something is shown read-only at another place protects nothing.
func wanted(files fakeFS, p Policy, dir, file string) want {
	var w want
	// A link in a folder that the command may have written to must not decide what else is granted.
	var soft []string
	if p.Workspace.Mode != ModeNone {
		soft = append(soft, dir)
	}
	for _, g := range p.Grants {
		if real, err := resolvePath(files, "", absolute(dir, g.Source)); err == nil && g.Write {
			soft = append(soft, real.Path)
		}
	}
	fixed, open := -1, -1
	consider := func(name string, write, own bool) {
		real, err := resolvePath(files, "", absolute(dir, name))
		for _, hop := range real.Hops {
			for _, folder := range soft {
				if lies(hop.Path, folder) && hop.Path != folder && !lies(real.Path, folder) {
					return
				}
			}
		}
		if err != nil || !lies(file, real.Path) {
			return
		}
		w.read = true
		switch {
		case write:
			open = max(open, len(real.Path))
		case own:
			fixed = max(fixed, len(real.Path))
		}
	}
	if p.Workspace.Mode != ModeNone {
		consider(dir, p.Workspace.Mode == ModeReadWrite, true)
	}
	for _, g := range p.Grants {
		consider(g.Source, g.Write, g.Dest == "")
	}
	w.write = open >= 0 && open >= fixed
	for _, d := range p.Deny {
		if real, err := resolvePath(files, "", absolute(dir, d)); err == nil && lies(file, real.Path) {
			w.denied = true
		}
	}
	return w
}

func absolute(dir, name string) string {
	if path.IsAbs(name) {
		return name
	}
	return dir + "/" + name
}

func judge(t *testing.T, files fakeFS, p Policy, dir string, tree shown, asked string) {
	t.Helper()
	for file, node := range files {
		if node.mode.IsDir() || file == "/dev/null" {
			continue
		}
		names, writable := tree.names(file)
		w := wanted(files, p, dir, file)
		system := false
		for _, s := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt", "/etc", "/dev", "/proc"} {
			system = system || lies(file, s)
		}
		private := file == "/etc/shadow" || lies(file, "/etc/ssl/private") || file == "/dev/sda"
		if len(names) > 0 && !w.read && (!system || private) {
			t.Errorf("%s: %s is shown as %v, which nobody asked for", asked, file, names)
		}
		if writable && !w.write && !lies(file, "/dev") {
			t.Errorf("%s: %s can be written, by one of %v", asked, file, names)
		}
		if len(names) > 0 && w.denied {
			t.Errorf("%s: %s is denied, and shown as %v", asked, file, names)
		}
	}
	if t.Failed() {
		for _, s := range tree {
			if s.Why == "system" || s.Why == "synthetic" || s.Why == "devices" {
				continue
			}
			t.Logf("%s %s -> %s %s (%s)", s.Op, s.Source, s.Target, s.Attr, s.Why)
		}
	}
}
