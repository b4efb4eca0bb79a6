package changes

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite testdata/*.golden")

// The table of protected paths is a promise row by row, and few of its rows have a test of their own: one that goes is seen here.
func TestProtectedTable(t *testing.T) {
	const file = "testdata/protected.golden"
	var b strings.Builder
	for _, p := range Protected() {
		leaf := ""
		if p.Leaf {
			leaf = " (no folder)"
		}
		fmt.Fprintf(&b, "%s%s: %s\n", p.Path, leaf, p.Why)
	}
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if !strings.Contains("\n"+string(want), "\n"+line) {
			t.Errorf("new: %s", strings.TrimSpace(line))
		}
	}
	for line := range strings.Lines(string(want)) {
		if !strings.Contains("\n"+b.String(), "\n"+line) {
			t.Errorf("no longer protected: %s", strings.TrimSpace(line))
		}
	}
	if t.Failed() {
		t.Log("if it is meant: go test ./fsguard/changes -run TestProtectedTable -update")
	}
}
