package toolchain

import (
	"path"
	"slices"
	"strings"
)

// mark is an installation recognised by what is in it.
type mark struct {
	kind string // empty: none
	why  string
}

// marked recognises an installation by looking at the folders above a file, nearest first.
func (r *resolver) marked(file string) (prefix string, m mark) {
	below := path.Base(file)
	for dir, up := path.Dir(file), 0; dir != "/" && up < 8; dir, up = path.Dir(dir), up+1 {
		switch below {
		case "bin", "sbin", "condabin", "libexec", "lib", "jre":
			if r.hidden(dir, false) {
				return "", mark{}
			}
			if m := r.markOf(dir); m.kind != "" {
				if !r.visible(dir) && r.exists(dir+"/.git") {
					// A venv made in the root of a project does not make the project one.
					return "", mark{}
				}
				return dir, m
			}
		}
		below = path.Base(dir)
	}
	return "", mark{}
}

func (r *resolver) markOf(dir string) mark {
	if m, ok := r.marks[dir]; ok {
		return m
	}
	has := func(name string) bool { return r.exists(dir + "/" + name) }
	var m mark
	switch name := path.Base(dir); {
	case has("pyvenv.cfg"):
		m = mark{"venv", "python (venv " + name + ")"}
	case r.visible(dir):
		// Only a venv matters there, for what it is based on; and a workspace's lib may be a million files.
	case has("Cellar"):
		m = mark{"homebrew", "homebrew"}
	case has("conda-meta"):
		m = mark{"conda", "conda (" + name + ")"}
	case has("include/node"):
		m = mark{"node", "node (" + name + ")"}
	case has("lib/rustlib"):
		m = mark{"rust", "rust (" + name + ")"}
	case has("lib/modules") && has("release"), has("lib/rt.jar"), has("jre/lib/rt.jar"):
		m = mark{"java", "java (" + name + ")"}
	case has("pkg/tool") && has("VERSION") && has("src/runtime"):
		m = mark{"go", "go (" + name + ")"}
	case has("lib/ruby") && has("bin/ruby"):
		m = mark{"ruby", "ruby (" + name + ")"}
	case has("lib/perl5") && has("bin/perl"):
		m = mark{"perl", "perl (" + name + ")"}
	case r.hasPython(dir):
		m = mark{"python", "python (" + name + ")"}
	}
	if r.marks == nil {
		r.marks = make(map[string]mark)
	}
	r.marks[dir] = m
	return m
}

// hasPython looks for the standard library: lib/python3.11/os.py, or that of PyPy.
func (r *resolver) hasPython(dir string) bool {
	if !r.place(dir + "/lib").isDir() {
		return false
	}
	entries, err := r.FS.ReadDir(dir + "/lib")
	if err != nil || len(entries) > 4096 {
		return false
	}
	for _, e := range entries {
		name := e.Name()
		if (strings.HasPrefix(name, "python") || strings.HasPrefix(name, "pypy")) && r.exists(dir+"/lib/"+name+"/os.py") {
			return true
		}
	}
	return false
}

// homebrew grants the parts of a prefix that programs use: its var and most of its etc belong to services.
func (r *resolver) homebrew(prefix string, by origin) bool {
	if by == byWorkspace && prefix != "/opt/homebrew" && prefix != "/home/linuxbrew/.linuxbrew" {
		return false
	}
	granted := false
	for _, part := range [...]string{"Cellar", "bin", "sbin", "opt", "lib", "libexec", "share", "include",
		"etc/ca-certificates", "etc/openssl@3"} {
		if p := r.place(prefix + "/" + part); p.isDir() && p.real == prefix+"/"+part {
			granted = r.grant(p.real, "homebrew", false) || granted
		}
	}
	return granted
}

// venv makes the Python that a virtual environment is based on visible too. Whoever wrote pyvenv.cfg
// and the links, they lead into a recognised installation or to nothing.
func (r *resolver) venv(prefix string, by origin) {
	if r.untrusted(prefix) {
		by = byWorkspace
	}
	seen := venvSeen{prefix, by}
	if slices.Contains(r.venvs, seen) {
		return
	}
	r.venvs = append(r.venvs, seen)
	cfg, ok := r.small(prefix + "/pyvenv.cfg")
	if !ok {
		return
	}
	r.chain(prefix+"/bin/python", by)
	if home := venvHome(cfg); path.IsAbs(home) && !strings.ContainsRune(home, 0) {
		r.chain(home+"/python3", by)
	}
}

// chain keeps the links on the way to a file, and grants the installations they pass.
func (r *resolver) chain(file string, by origin) {
	p := r.place(file)
	if p.err != nil {
		return
	}
	by = r.chosenBy(p.hops, by)
	r.keep(p.hops, by)
	r.install(p.real, by)
}

// venvHome is the value of "home" in a pyvenv.cfg.
func venvHome(cfg string) string {
	for line := range strings.Lines(cfg) {
		key, value, ok := strings.Cut(line, "=")
		if ok && strings.EqualFold(strings.TrimSpace(key), "home") {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
