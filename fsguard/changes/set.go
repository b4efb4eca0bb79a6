package changes

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Kind says what became of a path.
type Kind string

const (
	Added       Kind = "added"
	Modified    Kind = "modified" // other content or target, and perhaps mode
	Deleted     Kind = "deleted"
	TypeChanged Kind = "type" // a file became a link, a folder a file...
	ModeChanged Kind = "mode" // and nothing else
)

// Type is that of one side of a change.
type Type string

const (
	File    Type = "file"
	Folder  Type = "folder"
	Symlink Type = "symlink"
	Special Type = "special" // a device, FIFO or socket: only ever the old side
)

// State is one side of a change.
type State struct {
	Type   Type
	Mode   uint32 // permission bits, at most 0o777; 0 for a symlink
	Size   int64  // of a file, in bytes
	SHA256 string // of a file's content, hexadecimal
	Target string // of a symlink, any bytes
	// Mtime, in nanoseconds since 1970, stands for the content of an old file that the collector may not
	// read, or that is beyond [Limits].Hashed.
	Mtime int64
}

// Entry is one changed path.
type Entry struct {
	Path string // beneath the workspace, any bytes but NUL
	Kind Kind
	Old  *State // in the workspace when the set was collected; nil when added
	New  *State // nil when deleted
	// Late tells that the workspace's side was changed after the command had started, so that nobody knows
	// whether the command saw it.
	Late        bool
	Secret      bool   // Options.Secret found something in what is new
	RenamedFrom string // for Added: the deleted file with the same content
	RenamedTo   string // for Deleted
}

// Note is about something in the upper directory that did not become a change.
type Note struct {
	Path string
	What string
}

// Summary counts the entries of a set. Folders count as well; a rename is one addition and one deletion.
type Summary struct {
	Added    uint64 `json:"added"`
	Modified uint64 `json:"modified"` // also of type or mode
	Deleted  uint64 `json:"deleted"`
	Renamed  uint64 `json:"renamed"`
	Bytes    uint64 `json:"bytes"` // of the contents to be written
}

// Set is what one run changed.
type Set struct {
	Hash      string // see the package's documentation
	Workspace string // path on the host, when the collector was told
	Entries   []Entry
	Dropped   []Note
	// Refused says why there is no set: a limit was hit or something could not be read. Then there are no entries and
	// no hash.
	Refused string
}

// Empty reports whether there is nothing to tell.
func (s *Set) Empty() bool {
	return len(s.Entries) == 0 && len(s.Dropped) == 0 && s.Refused == ""
}

// Summary counts.
func (s *Set) Summary() Summary {
	var sum Summary
	for i := range s.Entries {
		e := &s.Entries[i]
		switch e.Kind {
		case Added:
			sum.Added++
		case Deleted:
			sum.Deleted++
		default:
			sum.Modified++
		}
		if e.RenamedFrom != "" {
			sum.Renamed++
		}
		if e.New != nil && e.Kind != ModeChanged {
			sum.Bytes += uint64(e.New.Size)
		}
	}
	return sum
}

// find gives the entry of a path.
func (s *Set) find(path string) *Entry {
	i, ok := slices.BinarySearchFunc(s.Entries, path, func(e Entry, p string) int { return cmp.Compare(e.Path, p) })
	if !ok {
		return nil
	}
	return &s.Entries[i]
}

// seal sorts the entries, finds the renames and sets the hash.
func (s *Set) seal() {
	slices.SortFunc(s.Entries, func(a, b Entry) int { return cmp.Compare(a.Path, b.Path) })
	s.findRenames()
	s.Hash = s.digest()
}

func (s *Set) digest() string {
	h := sha256.New()
	field := func(text string) {
		io.WriteString(h, text) //nolint:errcheck // a hash takes everything
		h.Write([]byte{0})
	}
	field("gobox changes 1")
	for i := range s.Entries {
		e := &s.Entries[i]
		field(e.Path)
		for _, side := range e.sides() {
			for _, text := range side.fields() {
				field(text)
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (e *Entry) sides() [2]*State { return [2]*State{e.Old, e.New} }

func (s *State) fields() (f [5]string) {
	if s == nil {
		return f
	}
	f[0] = string(s.Type)
	switch s.Type {
	case File:
		f[1], f[2], f[3] = strconv.FormatUint(uint64(s.Mode), 8), strconv.FormatInt(s.Size, 10), s.SHA256
		if s.SHA256 == "" {
			f[3] = "mtime:" + strconv.FormatInt(s.Mtime, 10)
		}
	case Folder:
		f[1] = strconv.FormatUint(uint64(s.Mode), 8)
	case Symlink:
		f[4] = s.Target
	}
	return f
}

// findRenames pairs added files with deleted ones of the same content: first those that keep their base name, then in
// the order of paths. Empty files are all alike and are never paired.
func (s *Set) findRenames() {
	type sides struct{ added, deleted []*Entry }
	byContent := map[string]*sides{}
	var order []*sides
	for i := range s.Entries {
		e := &s.Entries[i]
		state := e.New
		if e.Kind == Deleted {
			state = e.Old
		}
		e.RenamedFrom, e.RenamedTo = "", ""
		if e.Kind != Added && e.Kind != Deleted || state.Type != File || state.Size == 0 || state.SHA256 == "" {
			continue
		}
		c := byContent[state.SHA256]
		if c == nil {
			c = &sides{}
			byContent[state.SHA256] = c
			order = append(order, c)
		}
		if e.Kind == Added {
			c.added = append(c.added, e)
		} else {
			c.deleted = append(c.deleted, e)
		}
	}
	for _, c := range order {
		byBase := map[string][]*Entry{}
		for _, d := range c.deleted {
			base := path.Base(d.Path)
			byBase[base] = append(byBase[base], d)
		}
		for _, a := range c.added {
			base := path.Base(a.Path)
			if same := byBase[base]; len(same) > 0 {
				a.RenamedFrom, same[0].RenamedTo = same[0].Path, a.Path
				byBase[base] = same[1:]
			}
		}
		rest := slices.DeleteFunc(c.deleted, func(d *Entry) bool { return d.RenamedTo != "" })
		for _, a := range c.added {
			if a.RenamedFrom == "" && len(rest) > 0 {
				a.RenamedFrom, rest[0].RenamedTo = rest[0].Path, a.Path
				rest = rest[1:]
			}
		}
	}
}

// beneath reports whether p is dir or below it.
func beneath(p, dir string) bool {
	return p == dir || dir == "." || strings.HasPrefix(p, dir) && p[len(dir)] == '/'
}

// parentOf is the folder that holds p, "." for the top.
func parentOf(p string) string {
	if i := strings.LastIndexByte(p, '/'); i >= 0 {
		return p[:i]
	}
	return "."
}
