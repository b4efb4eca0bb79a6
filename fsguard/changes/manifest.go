package changes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"gobox/fsguard"
)

// SchemaVersion is that of manifest.json. Fields are only ever added.
const SchemaVersion = 1

const (
	changesDir    = "changes"
	blobsDir      = changesDir + "/blobs"
	manifestName  = changesDir + "/manifest.json"
	journalName   = changesDir + "/journal.json"
	appliedName   = changesDir + "/applied.json"
	discardedName = changesDir + "/discarded.json"
	maxManifest   = 1 << 30
)

var (
	// ErrNone is for a run that left no changes.
	ErrNone = errors.New("the run left no changes")
	// ErrDiscarded is for a set that was dropped.
	ErrDiscarded = errors.New("the changes were discarded")
	// ErrNoContent is for a set of which a content is not stored any more.
	ErrNoContent = errors.New("the change set lacks a content")
	// ErrManifest is for a manifest.json that is not what Collect writes.
	ErrManifest = errors.New("the change set is damaged")
)

// name is written as a JSON string, and where it is not UTF-8 as {"base64": "..."}.
type name string

type encodedName struct {
	Base64 []byte `json:"base64"`
}

func (n name) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(n)) {
		return json.Marshal(string(n))
	}
	return json.Marshal(encodedName{[]byte(n)})
}

func (n *name) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		var e encodedName
		err := json.Unmarshal(b, &e)
		*n = name(e.Base64)
		return err
	}
	return json.Unmarshal(b, (*string)(n))
}

type jsonState struct {
	Type   Type   `json:"type"`
	Mode   string `json:"mode,omitempty"` // octal
	Size   int64  `json:"size,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
	Target name   `json:"target,omitempty"`
	Mtime  int64  `json:"mtime_ns,omitempty"`
}

type jsonEntry struct {
	Path        name   `json:"path"`
	Kind        Kind   `json:"kind"`
	Old         *State `json:"old,omitempty"`
	New         *State `json:"new,omitempty"`
	Late        bool   `json:"late,omitempty"`
	Secret      bool   `json:"secret,omitempty"`
	RenamedFrom name   `json:"renamed_from,omitempty"`
	RenamedTo   name   `json:"renamed_to,omitempty"`
}

type jsonNote struct {
	Path name   `json:"path"`
	What string `json:"what"`
}

type jsonSet struct {
	SchemaVersion int     `json:"schema_version"`
	Hash          string  `json:"hash"`
	Workspace     name    `json:"workspace,omitempty"`
	Refused       string  `json:"refused,omitempty"`
	Summary       Summary `json:"summary"`
	Entries       []Entry `json:"entries"`
	Dropped       []Note  `json:"dropped"`
}

// MarshalJSON writes a name that is not UTF-8 as {"base64": "..."}, and modes as octal text.
func (s State) MarshalJSON() ([]byte, error) {
	j := jsonState{Type: s.Type, Size: s.Size, SHA256: s.SHA256, Target: name(s.Target), Mtime: s.Mtime}
	if s.Type == File || s.Type == Folder {
		j.Mode = fmt.Sprintf("%04o", s.Mode)
	}
	return json.Marshal(j)
}

func (s *State) UnmarshalJSON(b []byte) error {
	var j jsonState
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	*s = State{Type: j.Type, Size: j.Size, SHA256: j.SHA256, Target: string(j.Target), Mtime: j.Mtime}
	if j.Mode != "" {
		if _, err := fmt.Sscanf(j.Mode, "%o", &s.Mode); err != nil || fmt.Sprintf("%04o", s.Mode) != j.Mode {
			return fmt.Errorf("mode %q is no octal number", j.Mode)
		}
	}
	return nil
}

func (e Entry) MarshalJSON() ([]byte, error) {
	return json.Marshal(jsonEntry{name(e.Path), e.Kind, e.Old, e.New, e.Late, e.Secret, name(e.RenamedFrom), name(e.RenamedTo)})
}

func (e *Entry) UnmarshalJSON(b []byte) error {
	var j jsonEntry
	err := json.Unmarshal(b, &j)
	*e = Entry{string(j.Path), j.Kind, j.Old, j.New, j.Late, j.Secret, string(j.RenamedFrom), string(j.RenamedTo)}
	return err
}

func (n Note) MarshalJSON() ([]byte, error) { return json.Marshal(jsonNote{name(n.Path), n.What}) }

func (n *Note) UnmarshalJSON(b []byte) error {
	var j jsonNote
	err := json.Unmarshal(b, &j)
	*n = Note{string(j.Path), j.What}
	return err
}

// MarshalJSON writes the content of manifest.json.
func (s *Set) MarshalJSON() ([]byte, error) {
	return json.Marshal(jsonSet{
		SchemaVersion, s.Hash, name(s.Workspace), s.Refused, s.Summary(),
		append([]Entry{}, s.Entries...), append([]Note{}, s.Dropped...),
	})
}

// Decode reads a manifest.json and checks all of it, the hash included. The error is an ErrManifest.
func Decode(b []byte) (*Set, error) {
	damaged := func(err error) (*Set, error) { return nil, fmt.Errorf("%w: %w", ErrManifest, err) }
	var j jsonSet
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(&j); err != nil {
		return damaged(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return damaged(errors.New("something follows it"))
	}
	if j.SchemaVersion < 1 {
		return damaged(errors.New("it has no schema version"))
	}
	s := &Set{Hash: j.Hash, Workspace: string(j.Workspace), Refused: j.Refused, Entries: j.Entries, Dropped: j.Dropped}
	if s.Refused != "" && (len(s.Entries) > 0 || s.Hash != "") {
		return damaged(errors.New("it is refused and has entries"))
	}
	if s.Refused == "" {
		if err := s.check(); err != nil {
			return damaged(err)
		}
		if s.Hash != s.digest() {
			return damaged(errors.New("the hash does not belong to the entries"))
		}
		s.findRenames() // no part of the hash, so never believed
	}
	return s, nil
}

// check refuses a set that Collect cannot have made.
func (s *Set) check() error {
	for i := range s.Entries {
		e := &s.Entries[i]
		if i > 0 && s.Entries[i-1].Path >= e.Path {
			return fmt.Errorf("the path %q is out of order", e.Path)
		}
		if !validPath(e.Path) {
			return fmt.Errorf("%q is no path beneath the workspace", e.Path)
		}
		if err := e.check(); err != nil {
			return fmt.Errorf("%q: %w", e.Path, err)
		}
		for dir := parentOf(e.Path); e.New != nil && dir != "."; dir = parentOf(dir) {
			if above := s.find(dir); above != nil && (above.New == nil || above.New.Type != Folder) {
				return fmt.Errorf("%q is beneath what is no folder", e.Path)
			}
		}
	}
	return nil
}

func validPath(p string) bool {
	if p == "" || strings.IndexByte(p, 0) >= 0 {
		return false
	}
	for part := range strings.SplitSeq(p, "/") {
		if part == "" || part == "." || part == ".." || len(part) > 255 {
			return false
		}
	}
	return true
}

func (e *Entry) check() error {
	for _, s := range e.sides() {
		if s == nil {
			continue
		}
		if s.Mode&^0o777 != 0 || s.Size < 0 {
			return errors.New("a mode or size that no file has")
		}
		switch {
		case s.Type == File && (s.SHA256 != "" || s == e.New) && !isDigest(s.SHA256):
			return errors.New("a content without a SHA-256")
		case s.Type != File && (s.SHA256 != "" || s.Size != 0):
			return errors.New("a content of what is no file")
		case s.Type == Symlink && (s.Target == "" || strings.IndexByte(s.Target, 0) >= 0 || len(s.Target) > 4095):
			return errors.New("a link without a target")
		case s.Type != Symlink && s.Target != "":
			return errors.New("a target of what is no link")
		case s.Type == Special && s == e.New, s.Type != File && s.Type != Folder && s.Type != Symlink && s.Type != Special:
			return fmt.Errorf("the type %q", s.Type)
		}
	}
	if kind := kindOf(e.Old, e.New); kind != e.Kind || kind == "" {
		return fmt.Errorf("the kind %q", e.Kind)
	}
	return nil
}

// kindOf gives the kind that belongs to two sides, or "" where they are alike.
func kindOf(old, new *State) Kind {
	switch {
	case old == nil && new == nil:
		return ""
	case old == nil:
		return Added
	case new == nil:
		return Deleted
	case old.Type != new.Type:
		return TypeChanged
	case old.SHA256 != new.SHA256 || old.Target != new.Target || old.Size != new.Size:
		return Modified
	case old.Mode != new.Mode:
		return ModeChanged
	}
	return ""
}

func isDigest(text string) bool {
	if len(text) != 64 {
		return false
	}
	for i := range len(text) {
		if c := text[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// Load reads the set of the run directory run. ErrNone and ErrDiscarded say that there is none.
func Load(run *fsguard.Root) (*Set, error) {
	b, err := readAll(run, manifestName, maxManifest)
	if errors.Is(err, os.ErrNotExist) {
		if _, gone := run.Lstat(discardedName); gone == nil {
			return nil, ErrDiscarded
		}
		return nil, ErrNone
	}
	if err != nil {
		return nil, fmt.Errorf("read change set: %w", err)
	}
	return Decode(b)
}

func readAll(root *fsguard.Root, name string, limit int64) ([]byte, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = &fsguard.LimitError{What: "bytes of size", Max: limit}
	}
	return b, err
}

// replace writes a file whole or not at all. With sync it is on the disk when replace returns.
func replace(root *fsguard.Root, name string, content []byte, sync bool) error {
	temp, f, err := root.CreateTemp(parentOf(name), ".new-")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil && sync {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = root.Rename(temp, name, 0)
	}
	if err != nil {
		_ = root.Remove(temp)
		return err
	}
	if sync {
		return root.Sync(parentOf(name))
	}
	return nil
}
