package changes

import (
	"iter"
	"path"
	"strings"
)

// Names finds protected paths ([Protected]) in a tree that is gone through from the top down, by their names alone. It is
// for trees of any size: it looks only at patterns that end like the path.
type Names struct {
	table    []Pattern
	patterns [][]string
	byLast   map[string][]int // patterns by their last component
	wild     []int            // those whose last component is no plain name
	starts   starts
	named    map[string]bool // what a repository's config names
	at       []string        // components of the tree's own path, folded
}

// NewNames makes ready for one tree, which lies at the path root of the host, or "" for unknown: a name counts by its whole path, so that
// of a tree at ~/.config what is in systemd is protected.
func NewNames(root string) *Names {
	n := &Names{table: Protected(), byLast: map[string][]int{}, named: map[string]bool{}, at: placeParts(root)}
	for i, p := range n.table {
		parts := strings.Split(fold(p.Path), "/")
		n.patterns = append(n.patterns, parts)
		if last := parts[len(parts)-1]; strings.ContainsAny(last, "*?[") {
			n.wild = append(n.wild, i)
		} else {
			n.byLast[last] = append(n.byLast[last], i)
		}
	}
	n.starts = startsOf(n.patterns)
	return n
}

// starts has patterns by their first component, so that a path of a thousand folders need not be compared with each of them from
// each folder on.
type starts struct {
	plain map[string][]int
	wild  []int
}

func startsOf(patterns [][]string) starts {
	s := starts{plain: map[string][]int{}}
	for i, parts := range patterns {
		if strings.ContainsAny(parts[0], "*?[") {
			s.wild = append(s.wild, i)
		} else {
			s.plain[parts[0]] = append(s.plain[parts[0]], i)
		}
	}
	return s
}

// of gives the patterns that may begin with a component, which is folded.
func (s starts) of(part string) iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, list := range [...][]int{s.plain[part], s.wild} {
			for _, i := range list {
				if !yield(i) {
					return
				}
			}
		}
	}
}

// Protects says why the path is protected with all beneath it, or nothing. Folders above it that are protected
// themselves are the caller's to know.
func (n *Names) Protects(p string, folder bool) string {
	if n.named[p] {
		return whyNamed
	}
	last := fold(path.Base(p))
	parts := []string(nil)
	for _, list := range [...][]int{n.byLast[last], n.wild} {
		for _, i := range list {
			if n.table[i].Leaf && folder {
				continue
			}
			if parts == nil {
				parts = n.parts(p)
			}
			if matchEnd(parts, n.patterns[i]) {
				return n.table[i].Why
			}
		}
	}
	return ""
}

// Leads tells whether protected paths may lie beneath p by their names, so that a symbolic link there is as good as they.
func (n *Names) Leads(p string) bool {
	parts := n.parts(p)
	for from := range parts {
		for i := range n.starts.of(parts[from]) {
			if _, part := matchParts(parts[from:], n.patterns[i]); part {
				return true
			}
		}
	}
	return false
}

// parts are the components of p's whole path.
func (n *Names) parts(p string) []string {
	return append(n.at[:len(n.at):len(n.at)], strings.Split(fold(p), "/")...)
}

// placeParts are the components of a tree's own path.
func placeParts(root string) []string {
	if root = strings.Trim(root, "/"); root == "" {
		return nil
	}
	return strings.Split(fold(root), "/")
}

// Data tells of a folder that holds git's objects and nothing that git obeys, however much it is. Those of submodules are not
// among them: a submodule may have any name, objects/pack as well.
func (n *Names) Data(p string) bool {
	dir, base := path.Split(p)
	if base != "pack" && (len(base) != 2 || strings.Trim(base, "0123456789abcdef") != "") {
		return false
	}
	return strings.HasSuffix("/"+strings.Join(n.at, "/")+"/"+dir, "/.git/objects/")
}

// BareParts are what git obeys in a bare repository, which has any name.
func BareParts() []string { return []string{"config", "hooks", "commondir"} }

// IsBare tells whether a folder is one that git takes for a bare repository; has tells of its entries.
func IsBare(has func(name string) bool) bool {
	return has("HEAD") && (has("objects") && has("refs") || has("commondir"))
}

const whyNamed = "the repository's config names it, for hooks or for more config"

// Config notes what else git obeys: text is that of the config of the repository in the folder dir, with its working tree at top, both
// beneath the tree, or above it where they begin with "..". root is the tree's own path on the host, to tell values that lead into it;
// "" for unknown. It gives the paths.
func (n *Names) Config(root, top, dir, text string) []string {
	var found []string
	note := func(from, text string) {
		for _, p := range placesOf(root, from, text) {
			if validPath(p) && !n.named[p] {
				n.named[p] = true
				found = append(found, p)
			}
		}
	}
	values := configValues(text)
	tops := []string{top}
	for _, v := range values {
		if v.section == "core" && v.key == "worktree" {
			tops = append(tops, placesOf(root, dir, v.text)...) // as of a submodule
		}
	}
	for _, v := range values {
		switch {
		case v.section == "core" && v.key == "hookspath":
			for _, from := range tops {
				note(from, v.text)
			}
		case (v.section == "include" || v.section == "includeif") && v.key == "path":
			note(dir, v.text) // relative to the file (git-config(1))
		}
	}
	return found
}

// placesOf gives the paths beneath root that a value of a config may mean, relative to from unless it says otherwise. Which home
// "~" stands for is not known here, so it is every folder above root.
func placesOf(root, from, value string) []string {
	switch {
	case value == "" || strings.IndexByte(value, 0) >= 0:
		return nil
	case value[0] == '/':
		if rel, ok := strings.CutPrefix(path.Clean(value), strings.TrimSuffix(root, "/")+"/"); ok && root != "" {
			return []string{rel}
		}
		return nil
	case value[0] == '~':
		_, rest, _ := strings.Cut(value, "/")
		rest = path.Clean(rest)
		places := []string{rest} // the home is root
		for i := range len(rest) {
			if rest[i] == '/' && strings.HasSuffix(root, "/"+rest[:i]) {
				places = append(places, rest[i+1:])
			}
		}
		return places
	}
	if place := path.Join(from, value); root == "" || validPath(place) {
		return []string{place}
	}
	if rel, ok := strings.CutPrefix(path.Join(root, from, value), strings.TrimSuffix(root, "/")+"/"); ok {
		return []string{rel}
	}
	return nil
}

// matchEnd reports whether the pattern matches the end of parts.
func matchEnd(parts, pattern []string) bool {
	if len(pattern) == 0 {
		return true
	}
	last := pattern[len(pattern)-1]
	if last == "**" {
		for n := range len(parts) + 1 {
			if matchEnd(parts[:len(parts)-n], pattern[:len(pattern)-1]) {
				return true
			}
		}
		return false
	}
	if len(parts) == 0 {
		return false
	}
	// The patterns are our own and well formed.
	if ok, _ := path.Match(last, parts[len(parts)-1]); !ok {
		return false
	}
	return matchEnd(parts[:len(parts)-1], pattern[:len(pattern)-1])
}
