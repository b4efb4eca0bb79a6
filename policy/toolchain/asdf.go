package toolchain

import (
	"path"
	"slices"
	"strings"
)

// asdfPlugins reads the plugins that provide a shim: its lines `# asdf-plugin: nodejs 20.11.0`.
func asdfPlugins(head string) []string {
	var plugins []string
	for line := range strings.Lines(head) {
		if rest, ok := strings.CutPrefix(line, "# asdf-plugin: "); ok {
			if f := strings.Fields(rest); len(f) > 0 && versionOK(f[0]) && !slices.Contains(plugins, f[0]) {
				plugins = append(plugins, f[0])
			}
		}
	}
	return plugins
}

// pick is the versions that were chosen for a tool, in order of preference, and where.
type pick struct {
	tool     string
	versions []string
	origin   string
}

// toolVersions reads a .tool-versions file: lines `nodejs 20.11.0 system`.
func toolVersions(data, origin string) []pick {
	var picks []pick
	for line := range strings.Lines(data) {
		line, _, _ = strings.Cut(line, "#")
		if f := strings.Fields(line); len(f) > 1 && len(picks) < 256 {
			picks = append(picks, pick{f[0], f[1:], origin})
		}
	}
	return picks
}

// merge adds what is not chosen yet.
func merge(picks, more []pick) []pick {
	for _, p := range more {
		if !slices.ContainsFunc(picks, func(q pick) bool { return q.tool == p.tool }) {
			picks = append(picks, p)
		}
	}
	return picks
}

// asdfSelected is every tool's versions: the nearest .tool-versions that names it, last the one in HOME.
func (r *resolver) asdfSelected() []pick {
	var picks []pick
	read := func(file string) {
		if data, ok := r.small(file); ok {
			picks = merge(picks, toolVersions(data, file))
		}
	}
	name := ".tool-versions"
	if v := r.Env("ASDF_DEFAULT_TOOL_VERSIONS_FILENAME"); versionOK(v) {
		name = v
	}
	upward(r.Dir, func(dir string) bool { read(path.Join(dir, name)); return false })
	if r.Home != "" {
		read(path.Join(r.Home, name))
	}
	return picks
}

// environmentPick is what PREFIX_TOOL_VERSION chooses, as in ASDF_NODEJS_VERSION.
func (r *resolver) environmentPick(prefix, tool string) (pick, bool) {
	name := prefix + strings.ToUpper(strings.ReplaceAll(tool, "-", "_")) + "_VERSION"
	v := strings.Fields(r.Env(name))
	return pick{tool, v, name}, len(v) > 0
}

// asdf is the program that a shim below home stands for.
func (r *resolver) asdf(home, tool string, plugins []string) (string, error) {
	r.addRoot(home, "asdf")
	picks := r.asdfSelected()
	var miss *Error
	for _, plugin := range plugins {
		p, ok := r.environmentPick("ASDF_", plugin)
		if !ok {
			i := slices.IndexFunc(picks, func(p pick) bool { return p.tool == plugin })
			if i < 0 {
				continue
			}
			p = picks[i]
		}
		for _, v := range p.versions {
			if v == "system" {
				return "", errPass
			}
			if !versionOK(strings.TrimPrefix(v, "ref:")) {
				return "", hostile(tool, "asdf", v, p.origin)
			}
			v = strings.Replace(v, "ref:", "ref-", 1)
			dir := path.Join(home, "installs", plugin, v)
			if !r.place(dir).isDir() {
				miss = notInstalled(tool, "asdf", plugin+" "+v, p.origin, "asdf install "+plugin+" "+show(v))
				continue
			}
			for _, bin := range installBins(dir) {
				if file := path.Join(bin, tool); r.runnable(file) {
					r.vouch(dir, home, plugin+" (asdf "+v+")")
					return file, nil
				}
			}
			if miss == nil {
				miss = lacks(tool, "asdf", plugin+" "+v, p.origin)
			}
		}
	}
	if miss != nil {
		return "", miss
	}
	return "", &Error{Kind: NotInstalled, Object: tool, Err: errorString("asdf: no version of " + plugins[0] + " is selected"),
		Hint: "asdf set " + plugins[0] + " latest"}
}

// installBins are the places in an installation where plugins put programs.
func installBins(dir string) []string {
	return []string{dir + "/bin", dir + "/go/bin", dir + "/packages/bin", dir}
}

func (r *resolver) asdfBins(home string) []string {
	r.addRoot(home, "asdf")
	picks := r.asdfSelected()
	var bins []string
	for _, p := range picks {
		if e, ok := r.environmentPick("ASDF_", p.tool); ok {
			p = e
		}
		for _, v := range p.versions {
			if !versionOK(p.tool) || !versionOK(strings.TrimPrefix(v, "ref:")) || v == "system" {
				continue
			}
			dir := path.Join(home, "installs", p.tool, strings.Replace(v, "ref:", "ref-", 1))
			bins = append(bins, r.binsOf(dir)...)
		}
	}
	return bins
}

// binsOf are the program directories that an installation has.
func (r *resolver) binsOf(dir string) []string {
	var bins []string
	for _, bin := range installBins(dir) {
		if r.place(bin).isDir() && (bin != dir || len(bins) == 0) {
			bins = append(bins, bin)
		}
	}
	return bins
}
