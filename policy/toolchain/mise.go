package toolchain

import (
	"path"
	"slices"
	"strings"
)

func (r *resolver) miseHome() string {
	for _, env := range [...]string{"MISE_DATA_DIR", "RTX_DATA_DIR"} {
		if dir := r.Env(env); path.IsAbs(dir) {
			return dir
		}
	}
	data := r.Env("XDG_DATA_HOME")
	if !path.IsAbs(data) {
		data = path.Join(r.Home, ".local/share")
	}
	return path.Join(data, "mise")
}

// miseSelected is every tool's versions: the nearest file that names it, last the user's own.
func (r *resolver) miseSelected() []pick {
	var picks []pick
	read := func(file string) {
		data, ok := r.small(file)
		switch {
		case !ok:
		case strings.HasSuffix(file, ".toml"):
			picks = merge(picks, misePicks(data, file))
		default:
			more := toolVersions(data, file)
			for i := range more {
				more[i].tool = miseTool(more[i].tool)
			}
			picks = merge(picks, more)
		}
	}
	upward(r.Dir, func(dir string) bool {
		for _, name := range [...]string{"mise.local.toml", ".mise.local.toml", "mise.toml", ".mise.toml",
			"mise/config.toml", ".mise/config.toml", ".config/mise.toml", ".config/mise/config.toml", ".tool-versions"} {
			read(path.Join(dir, name))
		}
		return false
	})
	global := r.Env("MISE_GLOBAL_CONFIG_FILE")
	if !path.IsAbs(global) {
		config := r.Env("XDG_CONFIG_HOME")
		if !path.IsAbs(config) {
			config = path.Join(r.Home, ".config")
		}
		global = path.Join(config, "mise/config.toml")
	}
	read(global)
	read("/etc/mise/config.toml")
	for i, p := range picks {
		if e, ok := r.environmentPick("MISE_", p.tool); ok {
			picks[i] = e
		}
	}
	return picks
}

// misePicks reads [tools] and [tools.NAME]. A tool whose value is not understood is kept, without
// versions: choosing another one for it would be wrong.
func misePicks(data, origin string) []pick {
	var picks []pick
	for _, s := range settings(data) {
		tool := s.key
		if name, ok := strings.CutPrefix(s.section, "tools."); ok && s.key == "version" {
			tool = strings.Trim(name, `"' `)
		} else if s.section != "tools" {
			continue
		}
		picks = append(picks, pick{miseTool(tool), s.values, origin})
	}
	return picks
}

// miseTool is a tool's directory below installs: mise's own alias for a few, else letters and dashes.
func miseTool(tool string) string {
	tool = strings.TrimPrefix(tool, "core:")
	tool, _, _ = strings.Cut(tool, "[")
	switch tool {
	case "nodejs":
		return "node"
	case "golang":
		return "go"
	}
	return strings.Trim(strings.Map(func(c rune) rune {
		switch c {
		case ':', '/', '@', '.', '_':
			return '-'
		}
		return c
	}, tool), "-")
}

// miseDir is where a version is installed below home; "" if it is not. ok is false for what is no version.
func (r *resolver) miseDir(home, tool, version string) (dir string, ok bool) {
	all := path.Join(home, "installs", tool)
	prefix, byPrefix := strings.CutPrefix(version, "prefix:")
	if ref, isRef := strings.CutPrefix(version, "ref:"); isRef {
		prefix = "ref-" + ref
	}
	if !versionOK(tool) || !versionOK(prefix) {
		return "", false
	}
	if dir := path.Join(all, prefix); !byPrefix && r.place(dir).isDir() {
		return dir, true
	}
	if prefix == "latest" || prefix == "lts" {
		prefix = ""
	}
	if v := r.latest(all, strings.TrimPrefix(prefix, "v")); v != "" {
		return path.Join(all, v), true
	}
	return "", true
}

// mise is the program that a shim stands for: the first selected tool that has it.
func (r *resolver) mise(tool string) (string, error) {
	home := r.miseHome()
	r.addRoot(home, "mise")
	var miss *Error
	for _, p := range r.miseSelected() {
		for _, v := range p.versions {
			if v == "system" {
				continue
			}
			dir, ok := r.miseDir(home, p.tool, v)
			switch {
			case !ok && strings.HasPrefix(v, "path:"):
				miss = refuse(tool, "put its directory on PATH, or grant it with --rox",
					"mise: %s names %s by path", show(p.origin), show(p.tool))
				continue
			case !ok:
				return "", hostile(tool, "mise", v, p.origin)
			case dir == "":
				miss = notInstalled(tool, "mise", p.tool+" "+v, p.origin, "mise install "+show(p.tool+"@"+v))
				continue
			}
			for _, bin := range installBins(dir) {
				if file := path.Join(bin, tool); r.runnable(file) {
					r.vouch(dir, home, p.tool+" (mise "+v+")")
					return file, nil
				}
			}
		}
		if len(p.versions) == 0 && p.tool == tool {
			return "", refuse(tool, "name one version in quotes", "mise: the version of %s in %s is not understood",
				show(p.tool), show(p.origin))
		}
	}
	if miss != nil {
		return "", miss
	}
	return "", errPass
}

func (r *resolver) miseBins() []string {
	home := r.miseHome()
	r.addRoot(home, "mise")
	var bins []string
	for _, p := range r.miseSelected() {
		for _, v := range p.versions {
			if dir, ok := r.miseDir(home, p.tool, v); ok && dir != "" && v != "system" {
				bins = append(bins, r.binsOf(dir)...)
			}
		}
	}
	return slices.Compact(bins)
}
