package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gobox/record"
)

// TestSetAsideElsewhere: a folder whose path is a link by now is told once, and neither looked through nor kept on the list.
func TestSetAsideElsewhere(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"here", "moved/below"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, ".envrc"), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("moved", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	var list []heldGuard
	for _, name := range []string{"here", "link", "link/below", "gone"} {
		list = append(list, heldGuard{Path: []byte(filepath.Join(dir, name))})
	}
	text, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	renamed, doubts, err := setAside(record.Left{RunID: "r", Guards: text, Started: time.Now().Add(-time.Minute), Alive: time.Now()})
	if err != nil || len(renamed) != 1 || renamed[0].Path != filepath.Join(dir, "here/.envrc") {
		t.Errorf("%+v, %v", renamed, err)
	}
	if len(doubts) != 2 || !strings.Contains(doubts[1].Error(), filepath.Join(dir, "moved/below")) {
		t.Errorf("%v", doubts)
	}
	if _, err := os.Stat(filepath.Join(dir, "moved/below/.envrc")); err != nil {
		t.Error(err)
	}
}
