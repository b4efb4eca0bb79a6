package changes

import (
	"io"
	"io/fs"
	"path"
	"strings"
)

// maxConfig is how much of a repository's config is read, in bytes.
const maxConfig = 1 << 20

// readConfigs notes what the configs of the workspace's repositories name: of every one in whose working tree something changes, of
// submodules and linked worktrees as well.
func (g *guard) readConfigs() {
	names := NewNames(g.path)
	seen := map[string]bool{}
	look := func(dir string) {
		for ; !seen[dir]; dir = parentOf(dir) {
			seen[dir] = true
			g.repositoryAt(names, dir)
		}
	}
	look(".")
	for _, e := range g.sel.entries {
		look(parentOf(e.Path))
	}
}

// repositoryAt reads the configs of the repository whose working tree has its top at dir, if there is one. Without one that can be
// read git has none to obey.
func (g *guard) repositoryAt(names *Names, dir string) {
	at := join(dir, ".git")
	info, err := g.workspace.Lstat(at)
	switch {
	case err != nil:
		if _, err := g.workspace.Lstat(join(dir, "HEAD")); err == nil {
			g.config(names, dir, dir, join(dir, "config")) // a bare one, for all we know
		}
		return
	case info.Mode&fs.ModeType == 0:
		// It names a folder elsewhere (gitrepository-layout(5)).
		place, ok := strings.CutPrefix(g.line(at), "gitdir: ")
		if !ok {
			return
		}
		if at = g.beneath(dir, place); at == "" {
			return
		}
		if common := g.line(join(at, "commondir")); common != "" {
			if common = g.beneath(at, common); common != "" {
				g.config(names, dir, common, join(common, "config"))
			}
		}
	}
	g.config(names, dir, at, join(at, "config"))
	g.config(names, dir, at, join(at, "config.worktree"))
}

func (g *guard) config(names *Names, top, dir, file string) {
	g.named = append(g.named, names.Config(g.path, top, dir, g.text(file))...)
}

// text is that of a file in the workspace, empty where it cannot be read.
func (g *guard) text(name string) string {
	f, err := g.workspace.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, maxConfig))
	return string(text)
}

func (g *guard) line(name string) string { return strings.TrimRight(g.text(name), "\r\n") }

// beneath gives the place in the workspace that a path of git's names, from the folder dir; "" where it is elsewhere.
func (g *guard) beneath(dir, p string) string {
	if !path.IsAbs(p) {
		p = path.Join(dir, p)
	} else if rest, ok := strings.CutPrefix(path.Clean(p), strings.TrimSuffix(g.path, "/")+"/"); ok && g.path != "" {
		p = rest
	} else {
		return ""
	}
	if !validPath(p) {
		return ""
	}
	return p
}
