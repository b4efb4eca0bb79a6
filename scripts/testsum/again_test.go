package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// told is what go test -json says of tests by name, with a package that fails if one does.
func told(pkg string, tests map[string]string) string {
	var b strings.Builder
	end := "pass"
	for name, action := range tests {
		fmt.Fprintf(&b, "{\"Action\":%q,\"Package\":%q,\"Test\":%q}\n", action, pkg, name)
		if action == "fail" {
			end = "fail"
		}
	}
	fmt.Fprintf(&b, "{\"Action\":%q,\"Package\":%q}\n", end, pkg)
	return b.String()
}

func TestTryAgain(t *testing.T) {
	first := map[string]string{"TestA": "pass", "TestB": "fail", "TestB/root": "fail", "TestC": "pass"}
	for name, c := range map[string]struct {
		second map[string]string
		status int
		says   []string
	}{
		"passes alone": {map[string]string{"TestB": "pass", "TestB/root": "pass"}, 0, []string{"unsteady: it failed beside the others and passed alone: p TestB", "4 passed, 0 failed, 0 skipped"}},
		"fails again":  {map[string]string{"TestB": "fail", "TestB/root": "fail"}, 1, []string{"failed again: p TestB", "failed: p TestB/root", "2 passed, 2 failed, 0 skipped"}},
		"is skipped":   {map[string]string{"TestB": "skip"}, 1, []string{"2 passed, 2 failed, 0 skipped"}},
		"is gone":      {nil, 1, []string{"2 passed, 2 failed, 0 skipped"}},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			s := &summary{out: &out, passes: []pass{{who: "root"}}}
			s.read(strings.NewReader(told("p", first)))
			runs := 0
			s.tryAgain(func(p pass, packages ...string) {
				runs++
				if got := fmt.Sprint(p.args, packages); got != "[-run ^TestB$] [p]" {
					t.Errorf("ran %s", got)
				}
				s.read(strings.NewReader(told("p", c.second)))
			})
			if status := s.close(); status != c.status || runs != 1 {
				t.Errorf("status %d after %d runs", status, runs)
			}
			for _, line := range c.says {
				if !strings.Contains(out.String(), line+"\n") {
					t.Errorf("does not say %q:\n%s", line, out.String())
				}
			}
		})
	}
}

// What is not an accident of few is not tried again.
func TestNotTriedAgain(t *testing.T) {
	many := map[string]string{}
	for i := range mostAgain + 1 {
		many[fmt.Sprint("Test", i)] = "fail"
	}
	for name, text := range map[string]string{
		"many":    told("p", many),
		"a panic": "{\"Action\":\"output\",\"Package\":\"p\",\"Output\":\"panic: oh\\n\"}\n" + told("p", map[string]string{"TestA": "fail"}),
		"a build": "{\"Action\":\"fail\",\"Package\":\"p\"}\n",
	} {
		s := &summary{out: &bytes.Buffer{}, passes: []pass{{}}}
		s.read(strings.NewReader(text))
		s.tryAgain(func(pass, ...string) { t.Errorf("%s: tried again", name) })
		if s.close() == 0 {
			t.Errorf("%s: passes", name)
		}
	}
}

// A panic is the output of whichever test was running, and that test has no end; it is what has to be seen.
func TestPanicIsShown(t *testing.T) {
	const events = `{"Action":"output","Package":"p","Test":"TestDone","Output":"quiet\n"}
{"Action":"pass","Package":"p","Test":"TestDone"}
{"Action":"output","Package":"p","Test":"TestB","Output":"panic: oh\n"}
{"Action":"output","Package":"q","Test":"TestC","Output":"of another\n"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.015s\n"}
{"Action":"fail","Package":"p"}
`
	var out strings.Builder
	s := summary{out: &out}
	s.read(strings.NewReader(events))
	if got, want := out.String(), "FAIL\tp\t0.015s\nnot ended: p TestB\npanic: oh\n"; got != want || !s.broken {
		t.Errorf("%q, broken %v; want %q", got, s.broken, want)
	}
}
