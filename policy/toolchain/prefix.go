package toolchain

import (
	"path"
	"slices"
	"strings"
)

// root is the home of a version manager.
type root struct {
	path string // real
	name string // "pyenv"
}

// addRoot remembers where a manager lives, so that installations beneath it are recognised by place.
func (r *resolver) addRoot(dir, name string) {
	if p := r.place(dir); p.isDir() && !slices.Contains(r.roots, root{p.real, name}) {
		r.roots = append(r.roots, root{p.real, name})
	}
}

// install recognises the installation that contains a file, by real path, and grants it, or of one that
// is known by its marks alone those parts that programs use. It is false when there is none, when it would make visible what
// must stay hidden, or when the workspace chose the file and no package manager owns the place: what looks like
// an installation may be another project of the user's.
func (r *resolver) install(file string, by origin) bool {
	if system(file) {
		return true
	}
	if store := r.store(file); store != "" {
		return r.grant(store, strings.TrimPrefix(path.Dir(store), "/"), false)
	}
	// Homebrew first: what is in its Cellar needs libraries from the rest of the prefix.
	if i := strings.Index(file, "/Cellar/"); i > 0 {
		return r.homebrew(file[:i], by)
	}
	prefix, why := r.managed(file)
	owned, kind := prefix != "", ""
	if !owned {
		var m mark
		prefix, m = r.marked(file)
		kind, why, owned = m.kind, m.why, m.kind == "conda"
	} else if r.exists(prefix + "/pyvenv.cfg") {
		kind = "venv"
	}
	switch {
	case prefix == "":
		return false
	case kind == "homebrew":
		return r.homebrew(prefix, by)
	case owned && kind != "venv":
		return r.grant(prefix, why, false)
	case !owned && by == byWorkspace && !r.visible(prefix):
		return false
	}
	if !r.parts(prefix, why, kind) {
		return false
	}
	if kind == "venv" {
		r.venv(prefix, by)
	}
	return r.visible(file) || r.granted(file)
}

// parts grants the folders of an installation that its programs use. The prefix may be a project's root,
// with whatever else is in it.
func (r *resolver) parts(prefix, why, kind string) bool {
	if r.visible(prefix) {
		return true
	}
	if r.hidden(prefix, false) {
		return false
	}
	var names string
	switch kind {
	case "venv":
		names = "bin lib lib64 include share pyvenv.cfg"
	case "java":
		names = "bin conf include jmods jre legal lib release"
	case "go":
		names = "VERSION api bin go.env lib misc pkg src"
	default:
		names = "bin include lib lib64 libexec sbin share"
	}
	granted := false
	for name := range strings.SplitSeq(names, " ") {
		part := prefix + "/" + name
		p := r.place(part)
		switch {
		case p.err != nil:
		case p.real != part:
			// As lib64, a link to lib.
			for _, hop := range p.hops {
				r.link(hop)
			}
		default:
			granted = r.grant(part, why, p.isRegular()) || granted
		}
	}
	return granted
}

// store is the package store of Nix or Guix: everything in it refers to the rest of it by hash.
func (r *resolver) store(file string) string {
	for _, dir := range [...]string{"/nix/store", "/gnu/store"} {
		if under(file, dir) {
			return dir
		}
	}
	return ""
}

// layout says where a version manager keeps its installations.
type layout struct {
	name  string // of the manager
	tool  string // what it installs; empty: the first part of the installation's place
	base  string // last name of its usual root
	env   string // variable that moves the root
	dir   string // below the root
	depth int    // path parts of one installation below dir
}

// layouts is an array of constants, and so costs nothing at start-up.
var layouts = [...]layout{
	{"pyenv", "python", ".pyenv", "PYENV_ROOT", "versions", 1},
	{"rbenv", "ruby", ".rbenv", "RBENV_ROOT", "versions", 1},
	{"nodenv", "node", ".nodenv", "NODENV_ROOT", "versions", 1},
	{"goenv", "go", ".goenv", "GOENV_ROOT", "versions", 1},
	{"jenv", "java", ".jenv", "JENV_ROOT", "versions", 1},
	{"plenv", "perl", ".plenv", "PLENV_ROOT", "versions", 1},
	{"phpenv", "php", ".phpenv", "PHPENV_ROOT", "versions", 1},
	{"nvm", "node", ".nvm", "NVM_DIR", "versions/node", 1},
	{"nvm", "node", "nvm", "", "versions/node", 1},
	{"fnm", "node", "fnm", "FNM_DIR", "node-versions", 1},
	{"fnm", "node", ".fnm", "", "node-versions", 1},
	{"volta", "node", ".volta", "VOLTA_HOME", "tools/image/node", 1},
	{"volta", "npm", ".volta", "VOLTA_HOME", "tools/image/npm", 1},
	{"volta", "yarn", ".volta", "VOLTA_HOME", "tools/image/yarn", 1},
	{"volta", "pnpm", ".volta", "VOLTA_HOME", "tools/image/pnpm", 1},
	{"volta", "package", ".volta", "VOLTA_HOME", "tools/image/packages", 1},
	{"asdf", "", ".asdf", "ASDF_DATA_DIR", "installs", 2},
	{"mise", "", "mise", "MISE_DATA_DIR", "installs", 2},
	{"mise", "", "rtx", "RTX_DATA_DIR", "installs", 2},
	{"sdkman", "", ".sdkman", "SDKMAN_DIR", "candidates", 2},
	{"rustup", "rust", ".rustup", "RUSTUP_HOME", "toolchains", 1},
	{"uv", "python", "uv", "", "python", 1},
	{"uv", "tool", "uv", "", "tools", 1},
	{"pipx", "tool", "pipx", "PIPX_HOME", "venvs", 1},
	{"ghcup", "ghc", ".ghcup", "", "ghc", 1},
}

// managed recognises an installation by its place below a version manager's root: no look at the disk.
func (r *resolver) managed(file string) (prefix, why string) {
	if i := strings.Index(file, "/golang.org/toolchain@"); i > 0 {
		if prefix := head(file, file[:i]+"/golang.org", 1); prefix != "" {
			return prefix, "go (" + path.Base(prefix) + ")"
		}
	}
	for i := range layouts {
		l := &layouts[i]
		home := r.managedRoot(l, file)
		if home == "" {
			continue
		}
		dir := home + "/" + l.dir
		prefix := head(file, dir, l.depth)
		if prefix == "" {
			continue
		}
		tool, version := l.tool, prefix[len(dir)+1:]
		if tool == "" {
			tool, version, _ = strings.Cut(version, "/")
		}
		return prefix, tool + " (" + l.name + " " + version + ")"
	}
	return "", ""
}

// managedRoot is the root of l's manager that file is beneath.
func (r *resolver) managedRoot(l *layout, file string) string {
	if i := strings.Index(file, "/"+l.base+"/"); i > 0 {
		// A plain name such as uv is the manager's only where data folders are.
		parent := path.Base(file[:i])
		if l.base[0] == '.' || parent == "share" || parent == ".config" {
			return file[:i+1+len(l.base)]
		}
	}
	for _, known := range r.roots {
		if known.name == l.name && under(file, known.path) {
			return known.path
		}
	}
	return ""
}

// environmentRoots learns where the caller's environment says that managers live.
func (r *resolver) environmentRoots() {
	for i := range layouts {
		if env := layouts[i].env; env != "" {
			if dir := r.Env(env); path.IsAbs(dir) {
				r.addRoot(dir, layouts[i].name)
			}
		}
	}
}

// head is the first depth parts of file below dir, if file is further down than that.
func head(file, dir string, depth int) string {
	rest, ok := strings.CutPrefix(file, dir+"/")
	if !ok {
		return ""
	}
	end := len(dir)
	for range depth {
		part, after, more := strings.Cut(rest, "/")
		if !more || part == "" {
			return ""
		}
		end += 1 + len(part)
		rest = after
	}
	return file[:end]
}
