package toolchain

import (
	"path"
	"slices"
	"strings"
)

// innerPath is the caller's PATH with shims replaced by what they stand for, and without what is not
// visible inside.
func (r *resolver) innerPath() string {
	var inner []string
	add := func(dir string) {
		if dir != "" && !strings.Contains(dir, ":") && !slices.Contains(inner, dir) {
			inner = append(inner, dir)
		}
	}
	seen := make([]string, 0, 32)
	for dir := range strings.SplitSeq(r.Path, ":") {
		if slices.Contains(seen, dir) || len(seen) > 256 {
			continue
		}
		seen = append(seen, dir)
		if !path.IsAbs(dir) {
			if dir == "" {
				dir = "."
			}
			add(dir)
			continue
		}
		for _, d := range r.entry(path.Clean(dir)) {
			add(d)
		}
	}
	for _, dir := range r.dirs {
		if !slices.Contains(inner, dir) {
			inner = slices.Insert(inner, 0, dir)
		}
	}
	return strings.Join(inner, ":")
}

// entry is what one directory of PATH becomes.
func (r *resolver) entry(dir string) []string {
	p := r.place(dir)
	if !p.isDir() {
		return nil
	}
	var bins []string
	switch home := path.Dir(p.real); {
	case path.Base(p.real) == "shims":
		bins = r.shimBins(home)
	case system(p.real) && system(dir):
		// Debian's rustup package has its proxies in /usr/bin.
		if p.real == "/usr/bin" && r.exists("/usr/bin/rustup") {
			if cargo, err := r.rustup("cargo"); err == nil {
				return append(r.visibleDir(path.Dir(cargo)), dir)
			}
		}
		r.systemDir(p.real)
		return []string{dir}
	case r.exists(p.real + "/rustup"):
		if cargo, err := r.rustup("cargo"); err == nil {
			bins = []string{path.Dir(cargo)}
		}
	case r.exists(p.real + "/volta-shim"):
		bins = r.voltaBins()
	default:
		return r.visibleDir(dir)
	}
	var dirs []string
	for _, bin := range bins {
		if r.place(bin).isDir() {
			dirs = append(dirs, r.visibleDir(bin)...)
		}
	}
	if r.visible(p.real) && !system(p.real) {
		dirs = append(dirs, dir) // the caller granted it
	}
	return dirs
}

// interpreters are the names that a shell, make or an npm script most often looks up on PATH.
var interpreters = [...]string{"python3", "python", "node", "ruby", "java", "go", "cargo"}

// systemDir grants what the administrator's links and venvs in the system folders lead to: the folder is
// visible, but a link in it may point into a home directory.
func (r *resolver) systemDir(dir string) {
	switch home := path.Dir(dir); {
	case dir == "/usr/local/bin":
		for _, tool := range interpreters {
			r.chain(dir+"/"+tool, byCaller)
		}
	case home != "/" && home != "/usr" && home != "/usr/local":
		r.venv(home, byCaller)
	}
}

func (r *resolver) shimBins(home string) []string {
	for i := range envManagers {
		m := &envManagers[i]
		if path.Base(home) == "."+m.name || slices.Contains(r.roots, root{home, m.name}) ||
			r.exists(home+"/versions") && r.exists(home+"/libexec/"+m.name) {
			return r.envBins(m, home)
		}
	}
	if !r.exists(home + "/installs") {
		return nil
	}
	if base := path.Base(home); base == "mise" || base == "rtx" || slices.Contains(r.roots, root{home, "mise"}) {
		return r.miseBins()
	}
	return r.asdfBins(home)
}

// visibleDir grants the installation that a directory of programs is in. A directory that mixes programs
// of all kinds stays hidden, and is replaced by where its interpreters lead.
func (r *resolver) visibleDir(dir string) []string {
	name, p := r.stable(dir, r.place(dir), byCaller)
	if !p.isDir() {
		return nil
	}
	by := r.chosenBy(p.hops, byCaller)
	if r.install(p.real+"/x", by) || r.visible(p.real) || systemAlias(p.hops) {
		r.keep(p.hops, by)
		return []string{name}
	}
	if slices.ContainsFunc(r.roots, func(known root) bool { return known.path == path.Dir(p.real) }) {
		return nil // the manager's own commands
	}
	var dirs []string
	for _, tool := range interpreters {
		t := r.place(p.real + "/" + tool)
		if !t.isRegular() || len(t.hops) == 0 {
			continue
		}
		if real, ok, err := r.shim(p.real+"/"+tool, t); ok {
			if err != nil {
				continue
			}
			t = r.place(real)
		}
		if bin := path.Dir(t.real); t.isRegular() && !system(t.real) && r.install(t.real, r.chosenBy(t.hops, by)) && !slices.Contains(dirs, bin) {
			dirs = append(dirs, bin)
		}
	}
	return dirs
}

// systemAlias says whether the way went through /usr/local or /opt as a link.
func systemAlias(hops []Link) bool {
	return slices.ContainsFunc(hops, func(l Link) bool { return l.Path == "/usr/local" || l.Path == "/opt" })
}
