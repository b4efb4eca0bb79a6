package changes

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func digestOf(c byte) string { return strings.Repeat(string(c), 64) }

func sample() *Set {
	s := &Set{Workspace: "/w", Entries: []Entry{
		{Path: "b", Kind: Deleted, Old: &State{Type: File, Mode: 0o644, Size: 3, SHA256: digestOf('a')}},
		{Path: "a\xff\n", Kind: Added, New: &State{Type: File, Mode: 0o755, Size: 3, SHA256: digestOf('a')}},
		{Path: "c", Kind: TypeChanged, Old: &State{Type: Folder, Mode: 0o755}, New: &State{Type: Symlink, Target: "x\xfe"}},
		{Path: "c/d", Kind: Deleted, Old: &State{Type: File, Mode: 0o600, Size: 9, Mtime: 12345}},
		{Path: "e", Kind: ModeChanged, Old: &State{Type: File, Mode: 0o644, SHA256: digestOf('b')}, New: &State{Type: File, Mode: 0o600, SHA256: digestOf('b')}, Late: true},
		{Path: "f", Kind: Deleted, Old: &State{Type: Special}},
	}, Dropped: []Note{{"q\xff", "a device, FIFO or socket"}}}
	s.seal()
	return s
}

// TestHashIsStable holds the documented form: a hash that somebody wrote down must stay right.
func TestHashIsStable(t *testing.T) {
	const want = "c28eed2c4fbc3794a921d518a4c40e7374ad2fe182d41610cd3f46df8fff559f"
	if got := sample().Hash; got != want {
		t.Errorf("hash %s, want %s", got, want)
	}
	if got := (&Set{}).digest(); got != "7166487a1858c58fd9792aa8cffbcf468073308cccd64d48b77e6c51a9df6fac" {
		t.Errorf("hash of nothing %s", got)
	}
}

func TestHashTellsEveryFieldApart(t *testing.T) {
	seen := map[string]string{sample().Hash: "the sample"}
	for name, change := range map[string]func(s *Set){
		"path":       func(s *Set) { s.Entries[1].Path = "bb" },
		"mode":       func(s *Set) { s.Entries[4].New.Mode = 0o700 },
		"old mode":   func(s *Set) { s.Entries[4].Old.Mode = 0o700 },
		"content":    func(s *Set) { s.Entries[0].New.SHA256 = digestOf('c') },
		"old":        func(s *Set) { s.Entries[1].Old.SHA256 = digestOf('c') },
		"target":     func(s *Set) { s.Entries[2].New.Target = "y" },
		"time":       func(s *Set) { s.Entries[3].Old.Mtime++ },
		"type":       func(s *Set) { s.Entries[5].Old = &State{Type: Folder} },
		"left out":   func(s *Set) { s.Entries = s.Entries[:5] },
		"other side": func(s *Set) { s.Entries[5].Old, s.Entries[5].New = nil, s.Entries[5].Old },
	} {
		s := sample()
		change(s)
		if before, twice := seen[s.digest()]; twice {
			t.Errorf("%s: the same hash as %s", name, before)
		}
		seen[s.digest()] = name
	}
}

func TestManifestKeepsAll(t *testing.T) {
	s := sample()
	if s.Entries[0].RenamedFrom != "b" || s.Entries[1].RenamedTo != "a\xff\n" {
		t.Errorf("no rename: %+v", s.Entries[:2])
	}
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, s) {
		t.Errorf("got %+v, want %+v", got, s)
	}
	if text := string(b); !strings.Contains(text, `{"base64":"Yf8K"}`) || !strings.Contains(text, `"mode":"0755"`) {
		t.Errorf("manifest %s", text)
	}
}

func TestManifestIsChecked(t *testing.T) {
	good, err := json.Marshal(sample())
	if err != nil {
		t.Fatal(err)
	}
	// Sets whose hash is right and whose entries are not.
	for name, change := range map[string]func(s *Set){
		"up":         func(s *Set) { s.Entries[5].Path = "../f" },
		"absolute":   func(s *Set) { s.Entries[5].Path = "/f" },
		"empty path": func(s *Set) { s.Entries[5].Path = "" },
		"dot":        func(s *Set) { s.Entries[5].Path = "f/." },
		"NUL":        func(s *Set) { s.Entries[5].Path = "f\x00" },
		"twice":      func(s *Set) { s.Entries[5].Path = "e" },
		"order":      func(s *Set) { s.Entries[5].Path = "a" },
		"setuid":     func(s *Set) { s.Entries[4].New.Mode = 0o4755 },
		"size":       func(s *Set) { s.Entries[0].New.Size = -1 },
		"blob name":  func(s *Set) { s.Entries[0].New.SHA256 = "../../../etc/passwd" },
		"no blob":    func(s *Set) { s.Entries[0].New.SHA256 = "" },
		"new special": func(s *Set) {
			s.Entries[5].Old, s.Entries[5].New, s.Entries[5].Kind = nil, &State{Type: Special}, Added
		},
		"type":           func(s *Set) { s.Entries[5].Old.Type = "socket" },
		"kind":           func(s *Set) { s.Entries[5].Kind = Modified },
		"no sides":       func(s *Set) { s.Entries[5].Old = nil },
		"no target":      func(s *Set) { s.Entries[2].New.Target = "" },
		"beneath a link": func(s *Set) { s.Entries[3] = Entry{Path: "c/d", Kind: Added, New: &State{Type: Folder}} },
	} {
		s := sample()
		change(s)
		s.Hash = s.digest()
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(b); !errors.Is(err, ErrManifest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, b := range map[string]string{
		"cut":       string(good[:len(good)-1]),
		"more":      string(good) + "{}",
		"none":      "",
		"null":      "null",
		"hash":      strings.Replace(string(good), `"hash":"`, `"hash":"0`, 1),
		"an entry":  strings.Replace(string(good), `"0755"`, `"0777"`, 1),
		"odd mode":  strings.Replace(string(good), `"0755"`, `"755"`, 1),
		"no schema": strings.Replace(string(good), `"schema_version":1`, `"schema_version":0`, 1),
	} {
		if _, err := Decode([]byte(b)); !errors.Is(err, ErrManifest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if later := strings.Replace(string(good), `{"schema_version":1`, `{"later":{},"schema_version":2`, 1); later != string(good) {
		if _, err := Decode([]byte(later)); err != nil {
			t.Errorf("a later version with more fields: %v", err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	b, _ := json.Marshal(sample())
	f.Add(b)
	f.Add([]byte(`{"schema_version":1,"refused":"more than 2 entries"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Decode(b)
		if err != nil {
			return
		}
		for _, e := range s.Entries {
			if !validPath(e.Path) || e.New != nil && e.New.Mode&^0o777 != 0 {
				t.Errorf("entry %+v", e)
			}
		}
		again, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if s2, err := Decode(again); err != nil || s2.Hash != s.Hash {
			t.Errorf("read again: %v", err)
		}
	})
}

func TestRenamesAreTheSameEachTime(t *testing.T) {
	del := func(p string) Entry {
		return Entry{Path: p, Kind: Deleted, Old: &State{Type: File, Size: 1, SHA256: digestOf('a')}}
	}
	add := func(p string) Entry {
		return Entry{Path: p, Kind: Added, New: &State{Type: File, Size: 1, SHA256: digestOf('a')}}
	}
	s := &Set{Entries: []Entry{del("old/a"), del("old/b"), del("old/c"), add("new/c"), add("new/x"), add("new/b"), add("new/y")}}
	s.seal()
	got := map[string]string{}
	for _, e := range s.Entries {
		if e.Kind == Added {
			got[e.Path] = e.RenamedFrom
		}
	}
	want := map[string]string{"new/b": "old/b", "new/c": "old/c", "new/x": "old/a", "new/y": ""}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestSelect(t *testing.T) {
	f := changed(t, "mkdir -p d/e keep; echo a >d/a; echo b >d/e/b; echo k >keep/k; mkdir t; echo t >t/t", "rm -r d t; echo t >t; mkdir -p n/m; echo x >n/m/x; echo y >n/y; echo K >keep/k")
	tests := []struct{ only, skip, want string }{
		{"", "", "d d/a d/e d/e/b keep/k n n/m n/m/x n/y t t/t"},
		{"n/m/x", "", "n n/m n/m/x"},
		{"n", "n/m", "n n/y"},
		{"n/", "./n/m", "n n/y"},
		{"", "d/e", "d/a keep/k n n/m n/m/x n/y t t/t"},
		{"d", "d/e/b", "d/a"},
		{"keep n/y", "", "keep/k n n/y"},
		{"t", "", "t t/t"},
		{"", "t/t", `"t/t" cannot stay: "t" becomes a file`},
		{"keep/k", "keep", "nothing is left of the changes"},
		{"nothere", "", `"nothere" has not changed, nor has anything beneath`},
		{"../w", "", `"../w" is no path beneath the workspace`},
		{"/etc", "", `"/etc" is no path beneath the workspace`},
		{f.workspace + "/keep", "", "keep/k"},
	}
	for _, test := range tests {
		entries, err := f.set.Select(strings.Fields(test.only), strings.Fields(test.skip))
		var got []string
		for _, e := range entries {
			got = append(got, e.Path)
		}
		text := strings.Join(got, " ")
		if err != nil {
			text = err.Error()
		}
		if text != test.want {
			t.Errorf("only %q skip %q: %s, want %s", test.only, test.skip, text, test.want)
		}
	}
}
