package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestQuantile(t *testing.T) {
	times := []time.Duration{5, 1, 4, 2, 3, 10, 9, 8, 7, 6}
	if got := quantile(times, 0.5); got != 6 {
		t.Errorf("median = %d, want 6", got)
	}
	if got := quantile(times, 0.9); got != 10 {
		t.Errorf("p90 = %d, want 10", got)
	}
	if got := quantile([]time.Duration{7}, 0.9); got != 7 {
		t.Errorf("p90 of one = %d, want 7", got)
	}
}

func TestParseInit(t *testing.T) {
	c, ok := parseInit("init os @0.31 ms, 0.025 ms clock, 616 bytes, 4 allocs\n")
	if want := (initCost{"os", 25 * time.Microsecond, 616, 4}); !ok || c != want {
		t.Errorf("parsed %v %v, want %v", c, ok, want)
	}
	for _, line := range []string{"gobox 1.0", "init os @0.31 ms, x ms clock, 616 bytes, 4 allocs", ""} {
		if _, ok := parseInit(line); ok {
			t.Errorf("%q was taken for a line of the trace", line)
		}
	}
}

func TestTableGivesRatiosToBaseline(t *testing.T) {
	s := section{Results: []result{
		{baseline, 4 * time.Millisecond, 8 * time.Millisecond},
		{"gobox", 6 * time.Millisecond, 10 * time.Millisecond},
	}, Absent: []string{"runc: not installed"}}
	got := s.table()
	for _, want := range []string{"median 4.00 ms", "| gobox | 1.50 | 1.25 |", "Not measured: runc: not installed."} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	s.Results = s.Results[1:]
	if got := s.table(); !strings.Contains(got, "| gobox | 6.00 | 10.00 |") {
		t.Errorf("no milliseconds without a baseline:\n%s", got)
	}
}

func TestReplaceFiguresKeepsProse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "performance.md")
	if err := os.WriteFile(path, []byte("before\n"+beginMark+"\nold\n"+endMark+"\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := replaceFigures(path, "new\n"); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := "before\n" + beginMark + "\nnew\n" + endMark + "\nafter\n"; string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := os.WriteFile(path, []byte("no marks"), 0o600); err != nil {
		t.Fatal(err)
	}
	if replaceFigures(path, "new\n") == nil {
		t.Error("a file without the marks was taken")
	}
}
