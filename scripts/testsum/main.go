// Command testsum runs every test of the module and closes with one line of counts. Started by root it
// runs the unit tests a second time as an ordinary user; the integration tests switch users themselves.
// It fails when a test or a build fails and when no test ran. A few tests that failed are tried once more, see tryAgain.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// asUser is the first argument when testsum serves as the -exec program of go test.
const asUser = "as-user"

// integration is the part of the module that does both identities within one run.
const integration = "gobox/integration"

func main() {
	if len(os.Args) > 2 && os.Args[1] == asUser {
		os.Exit(runAsUser(os.Args[2:]))
	}
	os.Exit(run())
}

func run() int {
	pattern := flag.String("run", "", "only the tests that match, as in go test -run")
	timeout := flag.String("timeout", "40m", "for one package, as in go test -timeout")
	verbose := flag.Bool("v", false, "print every test's output")
	flag.Parse()
	packages := flag.Args()
	if len(packages) == 0 {
		packages = []string{"./..."}
	}
	// What the host has, kernel and programs, is not part of what go's cache of results knows.
	args := []string{"-count=1", "-timeout", *timeout}
	if *pattern != "" {
		args = append(args, "-run", *pattern)
	}

	sum := &summary{verbose: *verbose, out: os.Stdout}
	if os.Geteuid() != 0 {
		sum.pass("", args, packages...)
		if *pattern == "" {
			sum.tryAgain(sum.alone)
		}
		return sum.close()
	}
	sum.pass("root", args, packages...)
	units, err := unitPackages(packages)
	if err != nil {
		fmt.Fprintf(os.Stderr, "testsum: error: list packages: %v\n", err)
		return 1
	}
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintf(os.Stderr, "testsum: error: find own executable: %v\n", err)
		return 1
	}
	if len(units) > 0 {
		// The unit tests read their testdata where it is.
		if info, err := os.Stat("go.mod"); err == nil && info.Mode()&0o004 == 0 {
			fmt.Fprintf(os.Stderr, "testsum: error: the source tree is not readable for uid %d\ntestsum: hint: chmod -R a+rX .\n", ordinaryUID)
			sum.broken = true
			return sum.close()
		}
		args = append(args, "-exec", self+" "+asUser)
		sum.pass(fmt.Sprintf("uid %d", ordinaryUID), args, units...)
	}
	if *pattern == "" {
		sum.tryAgain(sum.alone)
	}
	return sum.close()
}

func unitPackages(patterns []string) ([]string, error) {
	out, err := exec.Command("go", append([]string{"list"}, patterns...)...).Output()
	if err != nil {
		return nil, err
	}
	var units []string
	for _, p := range strings.Fields(string(out)) {
		if p != integration && !strings.HasPrefix(p, integration+"/") {
			units = append(units, p)
		}
	}
	return units, nil
}

// event is one line of go test -json (go doc test2json).
type event struct {
	Action  string
	Package string
	Test    string
	Elapsed float64
	Output  string
	// ImportPath is the package of a build-output or build-fail event.
	ImportPath string
}

type summary struct {
	verbose                 bool
	out                     io.Writer
	passed, failed, skipped int
	failures                []string // named once more at the end
	broken                  bool     // a pass ended badly without a test to blame

	passes   []pass
	tops     []failure
	unsteady []string // failed, and passed by themselves
}

// pass runs go test once. Test names are counted with their subtests, as go test -v prints them.
func (s *summary) pass(who string, args []string, packages ...string) {
	s.passes = append(s.passes, pass{who, slices.Clone(args)})
	if who != "" {
		fmt.Fprintf(s.out, "# as %s\n", who)
	}
	s.goTest(append(slices.Clone(args), packages...))
}

// alone runs what has failed in p once more.
func (s *summary) alone(p pass, packages ...string) {
	fmt.Fprintf(s.out, "# again, alone, as %s: %s\n", cmp.Or(p.who, "this user"), p.args[len(p.args)-1])
	s.goTest(append(slices.Clone(p.args), packages...))
}

func (s *summary) goTest(args []string) {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "testsum: error: run go test: %v\n", err)
		s.broken = true
		return
	}
	before := s.failed
	s.read(stdout)
	if err := cmd.Wait(); err != nil && s.failed == before {
		s.broken = true
	}
}

func (s *summary) read(r io.Reader) {
	// Output is kept until its test has ended: only that of failures and the reason of skips is shown.
	kept := map[string][]string{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Fprintln(s.out, lines.Text())
			continue
		}
		key := e.Package + " " + e.Test
		switch e.Action {
		case "output":
			if s.verbose {
				fmt.Fprint(s.out, e.Output)
			}
			kept[key] = append(kept[key], e.Output)
			continue
		case "build-output":
			fmt.Fprint(s.out, e.Output)
			continue
		case "pass", "fail", "skip":
		default:
			continue
		}
		if e.Test == "" {
			s.packageDone(e, kept[key])
			s.unended(e, kept)
		} else {
			s.testDone(e, kept[key])
		}
		delete(kept, key)
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintf(os.Stderr, "testsum: error: read go test: %v\n", err)
		s.broken = true
		// A full pipe would keep go test from ending.
		_, _ = io.Copy(io.Discard, r)
	}
}

func (s *summary) testDone(e event, output []string) {
	switch e.Action {
	case "pass":
		s.passed++
	case "fail":
		s.failed++
		s.failures = append(s.failures, e.Package+" "+e.Test)
		s.note(e)
		s.show(output)
	case "skip":
		s.skipped++
		if !s.verbose {
			fmt.Fprintf(s.out, "skip\t%s\t%s: %s\n", e.Package, e.Test, reason(output))
		}
	}
}

func (s *summary) packageDone(e event, output []string) {
	switch e.Action {
	case "pass":
		fmt.Fprintf(s.out, "ok  \t%s\t%.3fs\n", e.Package, e.Elapsed)
	case "skip":
		// A package without test files.
	case "fail":
		// A panic or the end of the time names no test that failed, or leaves others without a word.
		if !slices.ContainsFunc(s.tops, func(f failure) bool { return f.pkg == e.Package }) || cutShort(output) {
			s.broken = true
		}
		s.show(output)
	}
}

// unended shows what tests have said that were running when their package failed: a panic is the output of one of them, and none of them ends.
func (s *summary) unended(e event, kept map[string][]string) {
	for _, key := range slices.Sorted(maps.Keys(kept)) {
		pkg, test, _ := strings.Cut(key, " ")
		if pkg != e.Package || test == "" {
			continue
		}
		if e.Action == "fail" {
			s.broken = true
			fmt.Fprintf(s.out, "not ended: %s %s\n", pkg, test)
			s.show(kept[key])
		}
		delete(kept, key)
	}
}

// cutShort tells a package whose tests did not all run.
func cutShort(output []string) bool {
	return slices.ContainsFunc(output, func(l string) bool {
		return strings.HasPrefix(l, "panic: ") || strings.HasPrefix(l, "fatal error: ") || strings.HasPrefix(l, "exit status 2")
	})
}

// show prints the output of a failure, without the lines that say when a test was started and paused.
func (s *summary) show(output []string) {
	for _, l := range output {
		if !s.verbose && !strings.HasPrefix(l, "=== ") {
			fmt.Fprint(s.out, l)
		}
	}
}

// reason is what a test said before it skipped itself.
func reason(output []string) string {
	var said []string
	for _, l := range output {
		l = strings.TrimSpace(l)
		if l == "" || strings.HasPrefix(l, "=== ") || strings.HasPrefix(l, "--- ") {
			continue
		}
		said = append(said, l)
	}
	if len(said) == 0 {
		return "no reason given"
	}
	return strings.Join(said, " ")
}

func (s *summary) close() int {
	status := 0
	for _, u := range s.unsteady {
		fmt.Fprintln(s.out, "unsteady: it failed beside the others and passed alone:", u)
	}
	switch {
	case s.failed > 0 || s.broken:
		for _, f := range s.failures {
			fmt.Fprintln(s.out, "failed:", f)
		}
		fmt.Fprintln(s.out, "FAIL")
		status = 1
	case s.passed == 0:
		fmt.Fprintln(s.out, "FAIL: no test ran")
		status = 1
	default:
		fmt.Fprintln(s.out, "PASS")
	}
	fmt.Fprintf(s.out, "%d passed, %d failed, %d skipped\n", s.passed, s.failed, s.skipped)
	return status
}
