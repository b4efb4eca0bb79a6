package toolchain

import (
	"path"
	"strings"
)

// envManager is one of the family of pyenv and rbenv.
type envManager struct {
	name   string // "pyenv"
	file   string // version file in a project
	env    string // variable that overrides it
	strip  string // prefix that a version may have in the file and not on disk
	prefix bool   // "3.11" stands for the newest 3.11.x
}

var envManagers = [...]envManager{
	{"pyenv", ".python-version", "PYENV_VERSION", "python-", true},
	{"rbenv", ".ruby-version", "RBENV_VERSION", "ruby-", false},
	{"nodenv", ".node-version", "NODENV_VERSION", "node-", false},
	{"goenv", ".go-version", "GOENV_VERSION", "go-", true},
	{"jenv", ".java-version", "JENV_VERSION", "java-", false},
	{"plenv", ".perl-version", "PLENV_VERSION", "perl-", false},
	{"phpenv", ".php-version", "PHPENV_VERSION", "php-", false},
}

// envByShim recognises a shim's last line: exec ".../libexec/pyenv" exec "$program" "$@".
func envByShim(head string) *envManager {
	for line := range strings.Lines(head) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), "exec ")
		if !ok {
			continue
		}
		program, after, _ := strings.Cut(strings.TrimSpace(rest), " ")
		if !strings.HasPrefix(after, "exec ") {
			continue
		}
		if m := envByName(path.Base(strings.Trim(program, `"'`))); m != nil {
			return m
		}
	}
	return nil
}

func envByName(name string) *envManager {
	for i := range envManagers {
		if envManagers[i].name == name {
			return &envManagers[i]
		}
	}
	return nil
}

// envSelected is what a manager's user chose, and where.
func (r *resolver) envSelected(m *envManager, home string) (versions []string, origin string) {
	if v := r.Env(m.env); v != "" {
		return strings.Split(v, ":"), m.env
	}
	upward(r.Dir, func(dir string) bool {
		file := path.Join(dir, m.file)
		if data, ok := r.small(file); ok {
			versions, origin = firstWords(data), file
		}
		return len(versions) > 0
	})
	if len(versions) == 0 {
		origin = path.Join(home, "version")
		if data, ok := r.small(origin); ok {
			versions = firstWords(data)
		}
	}
	if len(versions) == 0 {
		versions = []string{"system"}
	}
	return versions, origin
}

// envInstalled is the directory of a version below home/versions, "" if it is not there. A virtualenv of
// pyenv-virtualenv has the name X/envs/Y.
func (r *resolver) envInstalled(m *envManager, home, version string) (dir string, ok bool) {
	outer, inner, isEnv := strings.Cut(version, "/envs/")
	if !versionOK(outer) || isEnv && !versionOK(inner) {
		return "", false
	}
	all := path.Join(home, "versions")
	bare := strings.TrimPrefix(version, m.strip)
	if m.name == "nodenv" {
		bare = strings.TrimPrefix(bare, "v")
	}
	for _, v := range [...]string{version, bare} {
		if dir := path.Join(all, v); r.place(dir).isDir() {
			return dir, true
		}
	}
	if m.prefix && !isEnv {
		for _, v := range [...]string{version, bare} {
			if found := r.latest(all, v); found != "" {
				return path.Join(all, found), true
			}
		}
	}
	return "", true
}

// envTarget is the program that a shim of home stands for.
func (r *resolver) envTarget(m *envManager, home, tool string) (string, error) {
	r.addRoot(home, m.name)
	versions, origin := r.envSelected(m, home)
	var missing, without string
	for _, v := range versions {
		if v == "system" {
			return "", errPass
		}
		dir, ok := r.envInstalled(m, home, v)
		switch file := dir + "/bin/" + tool; {
		case !ok:
			return "", hostile(tool, m.name, v, origin)
		case dir == "":
			missing = v
		case r.runnable(file):
			r.vouch(dir, home, m.name+" "+v)
			return file, nil
		default:
			without = v
		}
	}
	if missing != "" {
		return "", notInstalled(tool, m.name, missing, origin, m.name+" install "+show(missing)+
			", or choose another version with "+m.env)
	}
	return "", lacks(tool, m.name, without, origin)
}

// vouch grants a version that is a link to an installation elsewhere: the manager's owner put it there.
// The workspace may only have chosen it by name, so that of what is not recognised no more than the usual parts show.
func (r *resolver) vouch(dir, home, why string) {
	p, base := r.place(dir), r.place(home)
	if !p.isDir() || base.err != nil || under(p.real, base.real) {
		return
	}
	by := r.chosenBy(p.hops, byCaller)
	if !r.install(p.real+"/bin/x", by) && by != byWorkspace {
		r.parts(p.real, why, "")
	}
}

// envBins are the program directories of the selected versions.
func (r *resolver) envBins(m *envManager, home string) []string {
	r.addRoot(home, m.name)
	versions, _ := r.envSelected(m, home)
	var bins []string
	for _, v := range versions {
		if v == "system" {
			continue
		}
		if dir, ok := r.envInstalled(m, home, v); ok && dir != "" {
			r.vouch(dir, home, m.name+" "+v)
			bins = append(bins, dir+"/bin")
		}
	}
	return bins
}
