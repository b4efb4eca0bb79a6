package changes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"gobox/fsguard"
)

// Objection is a path that keeps a set from being applied, and why.
type Objection struct {
	Path string
	Why  string
}

// RefusedError lists the entries that are applied only when they are named.
type RefusedError struct{ Entries []Objection }

func (e *RefusedError) Error() string {
	if len(e.Entries) == 1 {
		return "it has a change that needs your word"
	}
	return fmt.Sprintf("it has %d changes that need your word", len(e.Entries))
}

// guard finds the entries of a selection that need the user's word.
type guard struct {
	sel       *selection
	workspace *fsguard.Root
	path      string // of the workspace on the host, for absolute links into it
	records   string // gobox's own, on the host
	patterns  [][]string
	table     []Pattern
	named     []string // by the config of the workspace's repository
	at        []string // components of the workspace's own path, folded
	starts    starts
	bare      map[string]bool
	above     map[string][]int // see bareAbove
}

func newGuard(sel *selection, workspace *fsguard.Root, r *Request) *guard {
	g := &guard{sel: sel, workspace: workspace, path: r.Path, records: r.Records, table: Protected(), at: placeParts(r.Path), bare: map[string]bool{}, above: map[string][]int{}}
	for _, p := range g.table {
		g.patterns = append(g.patterns, strings.Split(fold(p.Path), "/"))
	}
	g.starts = startsOf(g.patterns)
	g.readConfigs()
	return g
}

// check gives a *RefusedError unless allow covers every entry that needs it.
func (g *guard) check(ctx context.Context, allow []string) error {
	var refused RefusedError
	for _, e := range g.sel.entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if coveredBy(e.Path, allow) {
			continue
		}
		why, err := g.objection(e)
		if err != nil {
			return err
		}
		if why != "" {
			refused.Entries = append(refused.Entries, Objection{e.Path, why})
		}
	}
	if len(refused.Entries) > 0 {
		return &refused
	}
	return nil
}

func (g *guard) objection(e *Entry) (string, error) {
	if e.Secret {
		return "it has a secret in it that the command was given", nil
	}
	parts := strings.Split(fold(e.Path), "/")
	if why := g.protects(e, parts); why != "" {
		return why, nil
	}
	// In a bare repository, which has any name, the same holds as in one called .git.
	above, err := g.bareAbove(parentOf(e.Path))
	if err != nil {
		return "", err
	}
	for _, i := range above {
		if why := g.inRepository(e, parts[i:]); why != "" {
			return why, nil
		}
	}
	if coveredBy(e.Path, g.named) {
		return whyNamed, nil
	}
	if g.records != "" && g.path != "" && beneath(path.Join(g.path, e.Path), g.records) {
		return "gobox keeps its records there", nil
	}
	if bare, err := g.bareRepository(e); bare || err != nil {
		return "it makes or changes a repository, whose config git obeys", err
	}
	if e.New != nil && e.New.Type == Symlink {
		leaves, err := g.leaves(e)
		if leaves || err != nil {
			return fmt.Sprintf("the link leads out of the workspace, to %q", e.New.Target), err
		}
	}
	return "", nil
}

// protects tries the patterns from each folder of the path on, parts. A folder alone does nothing, what is in it counts. A link in the
// place of one of a pattern's folders is as good as what is beneath. A pattern that the workspace's own path fulfils says nothing: the
// user has named that.
func (g *guard) protects(e *Entry, parts []string) string {
	if onlyFolder(e) {
		return ""
	}
	all := append(g.at[:len(g.at):len(g.at)], parts...)
	first := len(g.table)
	for from := range all {
		for i := range g.starts.of(all[from]) {
			if i >= first {
				continue
			}
			if from < len(g.at) {
				if named, _ := matchParts(g.at[from:], g.patterns[i]); named {
					continue
				}
			}
			if g.matches(e, all[from:], i) {
				first = i
			}
		}
	}
	if first == len(g.table) {
		return ""
	}
	return g.table[first].Why
}

// inRepository is protects for a path in a folder that is as good as a .git.
func (g *guard) inRepository(e *Entry, parts []string) string {
	if onlyFolder(e) {
		return ""
	}
	all := append([]string{".git"}, parts...)
	for i := range g.patterns {
		if strings.HasPrefix(g.table[i].Path, ".git/") && g.matches(e, all, i) {
			return g.table[i].Why
		}
	}
	return ""
}

func onlyFolder(e *Entry) bool {
	return (e.New == nil || e.New.Type == Folder) && (e.Old == nil || e.Old.Type == Folder)
}

func (g *guard) matches(e *Entry, parts []string, i int) bool {
	whole, part := matchParts(parts, g.patterns[i])
	if g.table[i].Leaf && len(parts) > len(g.patterns[i]) {
		whole = false
	}
	return whole || part && e.New != nil && e.New.Type == Symlink
}

// bareAbove gives those folders from dir up that will be bare repositories, as the number of their components.
func (g *guard) bareAbove(dir string) ([]int, error) {
	if list, known := g.above[dir]; known {
		return list, nil
	}
	var list []int
	depth := 0
	if dir != "." {
		var err error
		if list, err = g.bareAbove(parentOf(dir)); err != nil {
			return nil, err
		}
		depth = strings.Count(dir, "/") + 1
	}
	bare, err := g.isBare(dir)
	if err != nil {
		return nil, err
	}
	if bare {
		list = append(list[:len(list):len(list)], depth)
	}
	g.above[dir] = list
	return list, nil
}

// isBare tells whether a folder will be what git takes for a bare repository.
func (g *guard) isBare(dir string) (bool, error) {
	if bare, known := g.bare[dir]; known {
		return bare, nil
	}
	var failed error
	bare := IsBare(func(name string) bool {
		st, err := g.final(join(dir, name))
		if err != nil {
			failed = err
		}
		return st != nil
	})
	if failed == nil {
		g.bare[dir] = bare
	}
	return bare, failed
}

// matchParts reports whether the pattern matches the beginning of parts, and whether parts match the beginning of
// the pattern.
func matchParts(parts, pattern []string) (whole, part bool) {
	if len(pattern) == 0 {
		return true, false
	}
	if len(parts) == 0 {
		return false, true
	}
	if pattern[0] == "**" {
		for n := 0; n <= len(parts); n++ {
			w, p := matchParts(parts[n:], pattern[1:])
			whole, part = whole || w, part || p
		}
		return whole, part
	}
	// The patterns are our own and well formed.
	if ok, _ := path.Match(pattern[0], parts[0]); !ok {
		return false, false
	}
	return matchParts(parts[1:], pattern[1:])
}

// bareRepository reports whether e turns its folder into what git takes for a repository, or configures one.
func (g *guard) bareRepository(e *Entry) (bool, error) {
	dir, base := parentOf(e.Path), path.Base(e.Path)
	if fold(path.Base(dir)) == ".git" || e.New == nil {
		return false, nil
	}
	switch base {
	case "config", "hooks":
	case "HEAD", "objects", "refs", "commondir":
		if e.Kind != Added {
			return false, nil
		}
	default:
		return false, nil
	}
	return g.isBare(dir)
}

// final is what a path will be once the selection is applied; nil for nothing.
func (g *guard) final(p string) (*State, error) {
	if e := g.sel.find(p); e != nil {
		return e.New, nil
	}
	info, err := g.workspace.Lstat(p)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR), errors.Is(err, fsguard.ErrSymlink):
		return nil, nil
	case errors.Is(err, fsguard.ErrMount):
		return &State{Type: Folder}, nil
	case err != nil:
		return nil, err
	}
	switch {
	case info.Mode.IsDir():
		return &State{Type: Folder}, nil
	case info.Mode&fs.ModeType == fs.ModeSymlink:
		target, err := g.workspace.Readlink(p)
		return &State{Type: Symlink, Target: target}, err
	}
	return &State{Type: File}, nil
}

// maxLinks is the kernel's bound on links in one resolution (path_resolution(7)).
const maxLinks = 40

// leaves reports whether the link e would lead out of the workspace, followed as the kernel would after the selection
// was applied. What is not there yet is taken for a folder.
func (g *guard) leaves(e *Entry) (bool, error) {
	at := parentOf(e.Path)
	rest, ok := g.inside(e.New.Target, &at)
	for links := 1; ok && len(rest) > 0; {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			if at == "." {
				return true, nil
			}
			at = parentOf(at)
			continue
		}
		next := join(at, part)
		if len(next) > 1<<16 || len(part) > 255 {
			return true, nil
		}
		st, err := g.final(next)
		if err != nil {
			return false, err
		}
		if st == nil || st.Type != Symlink {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return true, nil
		}
		var more []string
		more, ok = g.inside(st.Target, &at)
		rest = append(more, rest...)
	}
	return !ok, nil
}

// inside parts the target of a link in the folder at. An absolute one is fine only below the workspace's own path.
func (g *guard) inside(target string, at *string) ([]string, bool) {
	if !strings.HasPrefix(target, "/") {
		return strings.Split(target, "/"), true
	}
	*at = "."
	if g.path == "" || g.path == "/" || !beneath(target, g.path) {
		return nil, g.path == "/"
	}
	return strings.Split(target[len(g.path):], "/"), true
}

// join is the inverse of parentOf and path.Base.
func join(dir, base string) string {
	if dir == "." {
		return base
	}
	return dir + "/" + base
}
