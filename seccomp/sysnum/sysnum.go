// Package sysnum knows the numbers of the system calls, by name and without libseccomp.
package sysnum

import (
	"fmt"
	"iter"
	"sort"
)

// entry is one system call and its number on each architecture, -1 for none.
type entry struct {
	name         string
	amd64, arm64 int16
}

func (s entry) on(arch string) int {
	switch arch {
	case "amd64":
		return int(s.amd64)
	case "arm64":
		return int(s.arm64)
	}
	return -1
}

// UnknownError says that a name is no system call of the architecture.
type UnknownError struct {
	Name, Arch string
	Suggestion string // the nearest name, empty when none is near
	Elsewhere  bool   // the other architecture has it
}

func (e *UnknownError) Error() string {
	switch {
	case e.Elsewhere:
		return fmt.Sprintf("%q is no system call of %s", e.Name, e.Arch)
	case e.Suggestion != "":
		return fmt.Sprintf("%q is no system call known here; did you mean %s", e.Name, e.Suggestion)
	}
	return fmt.Sprintf("%q is no system call known here", e.Name)
}

// Number is the number of the named call on arch ("amd64" or "arm64"); the error is an *UnknownError.
func Number(name, arch string) (int, error) {
	i := sort.Search(len(table), func(i int) bool { return table[i].name >= name })
	if i == len(table) || table[i].name != name {
		return -1, &UnknownError{Name: name, Arch: arch, Suggestion: nearest(name, arch)}
	}
	if nr := table[i].on(arch); nr >= 0 {
		return nr, nil
	}
	return -1, &UnknownError{Name: name, Arch: arch, Elsewhere: true}
}

// Name is the call with a number on arch, "" for none.
func Name(nr int, arch string) string {
	for name, n := range All(arch) {
		if n == nr {
			return name
		}
	}
	return ""
}

// All gives the names and numbers of the calls of arch, sorted by name.
func All(arch string) iter.Seq2[string, int] {
	return func(yield func(string, int) bool) {
		for i := range table {
			if nr := table[i].on(arch); nr >= 0 && !yield(table[i].name, nr) {
				return
			}
		}
	}
}

// nearest is the call whose name takes the fewest edits to reach, if these are few for its length.
func nearest(name, arch string) string {
	if len(name) > 64 {
		return ""
	}
	best, limit := "", max(1, len(name)/3)
	for _, s := range table {
		if s.on(arch) < 0 {
			continue
		}
		if d := distance(name, s.name); d <= limit {
			best, limit = s.name, d-1
		}
	}
	return best
}

// distance is Levenshtein's.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
