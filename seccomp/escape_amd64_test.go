package seccomp

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"gobox/seccomp/sysnum"
)

// TestEscapesDocumented holds the table in docs/syscalls.md to Escape, both ways.
func TestEscapesDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/syscalls.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\n## What counts as an attempt to escape\n")
	section, _, _ := strings.Cut(rest, "\n## ")
	_, table, _ := strings.Cut(section, "|---|---|\n")
	if !found || table == "" {
		t.Fatal("docs/syscalls.md has no table")
	}
	told := map[string]bool{}
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		if len(cells) > 1 {
			for _, m := range regexp.MustCompile("`([a-z_0-9]+)`").FindAllStringSubmatch(cells[1], -1) {
				told[m[1]] = true
			}
		}
	}
	byArgument := map[string]bool{"ioctl": true, "prctl": true, "clone": true} // no attempt without arguments
	for name, nr := range sysnum.All("amd64") {
		escape := Refusal{NR: nr}.Escape() || byArgument[name]
		if escape != told[name] {
			t.Errorf("%s: an attempt is %v, and docs/syscalls.md says %v", name, escape, told[name])
		}
		delete(told, name)
	}
	for name := range told {
		t.Errorf("docs/syscalls.md names %s, which is no system call", name)
	}
}
