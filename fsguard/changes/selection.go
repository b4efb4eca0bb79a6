package changes

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// ErrNothing is for a selection that is empty.
var ErrNothing = errors.New("nothing is left of the changes")

// PathError is a path of a selection that means nothing.
type PathError struct {
	Path string
	Why  string
}

func (e *PathError) Error() string { return fmt.Sprintf("%q %s", e.Path, e.Why) }

// selection is the part of a set that is to be applied.
type selection struct {
	set     *Set
	entries []*Entry // in the order of paths
	byPath  map[string]*Entry
}

func (s *selection) find(p string) *Entry { return s.byPath[p] }

// Select gives the entries of the set that are at or beneath one of only, all when there is none, and not at
// or beneath one of skip. A folder comes with what is selected in it; one that is deleted stays when something
// beneath is to stay. Renames are taken apart: each side is a path of its own. A path that selects nothing is a *PathError.
func (s *Set) Select(only, skip []string) ([]Entry, error) {
	sel, err := s.choose(only, skip)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, len(sel.entries))
	for i, e := range sel.entries {
		entries[i] = *e
	}
	return entries, nil
}

func (s *Set) choose(only, skip []string) (*selection, error) {
	only, err := s.paths(only)
	if err != nil {
		return nil, err
	}
	if skip, err = s.paths(skip); err != nil {
		return nil, err
	}
	keep := make(map[string]bool, len(s.Entries))
	for i := range s.Entries {
		p := s.Entries[i].Path
		if (len(only) == 0 || coveredBy(p, only)) && !coveredBy(p, skip) {
			keep[p] = true
		}
	}
	for i := range s.Entries {
		if len(keep) == len(s.Entries) {
			break // all of them are taken, as most often
		}
		e := &s.Entries[i]
		for dir := parentOf(e.Path); dir != "."; dir = parentOf(dir) {
			above := s.find(dir)
			switch {
			case above == nil:
			case keep[e.Path] && e.New != nil && (above.Old == nil || above.Old.Type != Folder):
				keep[dir] = true
			case !keep[e.Path] && e.New == nil && keep[dir] && above.New == nil:
				delete(keep, dir)
			case !keep[e.Path] && e.New == nil && keep[dir] && above.New.Type != Folder:
				return nil, &PathError{e.Path, fmt.Sprintf("cannot stay: %q becomes a %s", dir, above.New.Type)}
			}
		}
	}
	sel := &selection{set: s, byPath: make(map[string]*Entry, len(keep))}
	for i := range s.Entries {
		if e := &s.Entries[i]; keep[e.Path] {
			sel.entries = append(sel.entries, e)
			sel.byPath[e.Path] = e
		}
	}
	if len(sel.entries) == 0 {
		return nil, ErrNothing
	}
	return sel, nil
}

// paths cleans the paths of a flag, each of which must mean something.
func (s *Set) paths(list []string) ([]string, error) {
	out := make([]string, 0, len(list))
	for _, given := range list {
		p := path.Clean(given)
		if strings.HasPrefix(given, "/") && s.Workspace != "" && s.Workspace != "/" && beneath(p, s.Workspace) {
			p = strings.TrimPrefix(p[len(s.Workspace):], "/")
		}
		if given == "" || !validPath(p) {
			return nil, &PathError{given, "is no path beneath the workspace"}
		}
		if !s.touches(p) {
			return nil, &PathError{given, "has not changed, nor has anything beneath"}
		}
		out = append(out, p)
	}
	return out, nil
}

// touches reports whether an entry is at or beneath p.
func (s *Set) touches(p string) bool {
	for i := range s.Entries {
		if beneath(s.Entries[i].Path, p) {
			return true
		}
	}
	return false
}

func coveredBy(p string, list []string) bool {
	for _, dir := range list {
		if beneath(p, dir) {
			return true
		}
	}
	return false
}
