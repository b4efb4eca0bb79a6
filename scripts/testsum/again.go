package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// mostAgain is how many tests may fail beside the others and be tried again. More of them are no accident.
const mostAgain = 6

// failure is a test that failed, by its top-level name, in one pass.
type failure struct {
	pass      int
	pkg, test string
	failed    int // with its subtests
}

// pass is one run of go test.
type pass struct {
	who  string
	args []string // before the packages
}

// note takes down a failed test or subtest.
func (s *summary) note(e event) {
	top, _, _ := strings.Cut(e.Test, "/")
	same := func(f failure) bool { return f.pass == len(s.passes)-1 && f.pkg == e.Package && f.test == top }
	i := slices.IndexFunc(s.tops, same)
	if i < 0 {
		i = len(s.tops)
		s.tops = append(s.tops, failure{pass: len(s.passes) - 1, pkg: e.Package, test: top})
	}
	s.tops[i].failed++
}

// tryAgain runs tests that failed beside hundreds of others once more, each by itself: the suite keeps a machine busier than anything
// that it is about, and time runs out that a user would have had. What passes then is told apart from what passed at
// once, and is a fault of the test or of gobox that somebody has to look into; what fails again has failed.
func (s *summary) tryAgain(run func(p pass, pkgs ...string)) {
	if len(s.tops) == 0 || len(s.tops) > mostAgain || s.broken {
		return
	}
	tops, passed, failed, skipped, failures := s.tops, s.passed, s.failed, s.skipped, s.failures
	for _, f := range tops {
		p := s.passes[f.pass]
		p.args = append(slices.Clone(p.args), "-run", "^"+regexp.QuoteMeta(f.test)+"$")
		s.passed, s.failed, s.failures, s.tops = 0, 0, nil, nil
		run(p, f.pkg)
		if s.failed > 0 || s.passed == 0 || s.broken {
			// The counts of the first time stand.
			fmt.Fprintf(s.out, "failed again: %s %s\n", f.pkg, f.test)
			continue
		}
		s.unsteady = append(s.unsteady, f.pkg+" "+f.test)
		failed -= f.failed
		passed += f.failed
		failures = slices.DeleteFunc(failures, func(name string) bool {
			return name == f.pkg+" "+f.test || strings.HasPrefix(name, f.pkg+" "+f.test+"/")
		})
	}
	s.passed, s.failed, s.skipped, s.failures = passed, failed, skipped, failures
}
