package toolchain

import (
	"encoding/json"
	"path"
)

// voltaPins are the versions that a project, or the user, chose; empty for none.
type voltaPins struct {
	Node    string `json:"node"`
	NPM     string `json:"npm"`
	Yarn    string `json:"yarn"`
	PNPM    string `json:"pnpm"`
	Extends string `json:"extends"`
	origin  string
}

func (r *resolver) voltaHome() string {
	if home := r.Env("VOLTA_HOME"); path.IsAbs(home) {
		return home
	}
	if r.Home == "" {
		return ""
	}
	return path.Join(r.Home, ".volta")
}

// voltaSelected merges the nearest package.json that pins a node, what it extends, and the user's default.
func (r *resolver) voltaSelected() voltaPins {
	var pins voltaPins
	upward(r.Dir, func(dir string) bool {
		file := path.Join(dir, "package.json")
		p, ok := r.voltaProject(file)
		if !ok {
			return false
		}
		pins = p
		pins.origin = file
		// A chain of workspaces may go round.
		for range maxDepth {
			if p.Extends == "" {
				break
			}
			if file = p.Extends; !path.IsAbs(file) {
				file = path.Join(dir, file)
			}
			dir = path.Dir(file)
			if p, ok = r.voltaProject(file); !ok {
				break
			}
			pins.fill(p)
		}
		return true
	})
	var user struct {
		Node struct {
			Runtime string `json:"runtime"`
			NPM     string `json:"npm"`
		} `json:"node"`
		Yarn string `json:"yarn"`
		PNPM string `json:"pnpm"`
	}
	file := r.voltaHome() + "/tools/user/platform.json"
	if data, ok := r.small(file); ok && json.Unmarshal([]byte(data), &user) == nil {
		if pins.Node == "" {
			pins.origin = file
			pins.fill(voltaPins{Node: user.Node.Runtime, NPM: user.Node.NPM})
		}
		pins.fill(voltaPins{Yarn: user.Yarn, PNPM: user.PNPM})
	}
	return pins
}

func (p *voltaPins) fill(from voltaPins) {
	for _, f := range [...]struct{ to, from *string }{
		{&p.Node, &from.Node}, {&p.NPM, &from.NPM}, {&p.Yarn, &from.Yarn}, {&p.PNPM, &from.PNPM}} {
		if *f.to == "" {
			*f.to = *f.from
		}
	}
}

func (r *resolver) voltaProject(file string) (voltaPins, bool) {
	var project struct {
		Volta *voltaPins `json:"volta"`
	}
	data, ok := r.small(file)
	if !ok || json.Unmarshal([]byte(data), &project) != nil || project.Volta == nil {
		return voltaPins{}, false
	}
	return *project.Volta, true
}

// volta is the program that a shim stands for.
func (r *resolver) volta(tool string) (string, error) {
	home := r.voltaHome()
	r.addRoot(home, "volta")
	pins := r.voltaSelected()
	image, kind, version := home+"/tools/image/", "node", pins.Node
	switch tool {
	case "node":
	case "npm", "npx":
		if pins.NPM != "" {
			kind, version = "npm", pins.NPM
		}
	case "yarn", "yarnpkg":
		kind, version = "yarn", pins.Yarn
	case "pnpm", "pnpx":
		kind, version = "pnpm", pins.PNPM
	default:
		return r.voltaPackage(home, tool)
	}
	if version == "" {
		return "", &Error{Kind: NotInstalled, Object: tool, Err: errorString("volta: no version of " + kind + " is selected"),
			Hint: "volta install " + kind}
	}
	if !versionOK(version) {
		return "", hostile(tool, "volta", version, pins.origin)
	}
	dir := image + kind + "/" + version
	if !r.place(dir).isDir() {
		return "", notInstalled(tool, "volta", kind+" "+version, pins.origin, "volta fetch "+kind+"@"+show(version))
	}
	file := dir + "/bin/" + tool
	if !r.runnable(file) {
		return "", lacks(tool, "volta", kind+" "+version, pins.origin)
	}
	for _, bin := range r.voltaBins() {
		r.need(bin)
	}
	return file, nil
}

// voltaPackage finds a tool installed with `volta install`: tools/user/bins/TOOL.json names its package.
func (r *resolver) voltaPackage(home, tool string) (string, error) {
	var bin struct {
		Package string `json:"package"`
	}
	file := home + "/tools/user/bins/" + tool + ".json"
	data, ok := r.small(file)
	if !ok || json.Unmarshal([]byte(data), &bin) != nil {
		return "", &Error{Kind: NotInstalled, Object: tool, Err: errorString("volta: no package provides it"),
			Hint: "volta install " + show(tool)}
	}
	scope, name := path.Split(bin.Package)
	if !versionOK(name) || scope != "" && (!versionOK(path.Clean(scope)) || scope[0] != '@') {
		return "", hostile(tool, "volta", bin.Package, file)
	}
	return path.Join(home, "tools/image/packages", bin.Package, "bin", tool), nil
}

// voltaBins are the program directories of the selected versions: yarn and npm before node, which brings
// an npm of its own.
func (r *resolver) voltaBins() []string {
	home := r.voltaHome()
	r.addRoot(home, "volta")
	pins := r.voltaSelected()
	var bins []string
	for _, t := range [...]struct{ kind, version string }{
		{"yarn", pins.Yarn}, {"pnpm", pins.PNPM}, {"npm", pins.NPM}, {"node", pins.Node}} {
		if dir := home + "/tools/image/" + t.kind + "/" + t.version + "/bin"; versionOK(t.version) && r.place(dir).isDir() {
			bins = append(bins, dir)
		}
	}
	return bins
}
