// Package catalogue holds docs/catalogue.md to the tests: each attempt is tested, or its row says why it is not.
package catalogue

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the names of tests into docs/catalogue.md")

const root = "../.."

// sections are the catalogue's letters and how many attempts each has.
func sections() []struct {
	letter string
	rows   int
} {
	return []struct {
		letter string
		rows   int
	}{{"F", 42}, {"P", 20}, {"K", 23}, {"N", 20}, {"R", 16}, {"E", 10}, {"A", 10}}
}

// allTests finds every test function of the module, and for each id of the catalogue those whose names begin with it.
func allTests(t *testing.T) (known map[string]bool, byID map[string][]string) {
	t.Helper()
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(\w+ \*testing\.T\)`)
	ids := regexp.MustCompile(`^Test((?:[FPKNREA]\d\d)+)`)
	known, byID = map[string]bool{}, map[string][]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == ".git" || d.Name() == "bin"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range function.FindAllSubmatch(data, -1) {
			name := string(m[1])
			known[name] = true
			if m := ids.FindStringSubmatch(name); m != nil {
				for i := 0; i < len(m[1]); i += 3 {
					byID[m[1][i:i+3]] = append(byID[m[1][i:i+3]], name)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return known, byID
}

// row is a line of the catalogue: | id | attempt | stopped by | tests and remarks |
type row struct {
	cells [4]string
	tests []string // at the beginning of the last cell
	rest  string   // of the last cell
}

func parseRow(line string) (row, bool) {
	cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|"), "|")
	if len(cells) != 4 || !regexp.MustCompile(`^[A-Z]\d\d$`).MatchString(strings.TrimSpace(cells[0])) {
		return row{}, false
	}
	var r row
	for i, c := range cells {
		r.cells[i] = strings.TrimSpace(c)
	}
	r.rest = r.cells[3]
	for first := regexp.MustCompile("^`(Test\\w+)`(, |)"); ; {
		m := first.FindStringSubmatch(r.rest)
		if m == nil {
			break
		}
		r.tests = append(r.tests, m[1])
		r.rest = r.rest[len(m[0]):]
	}
	return r, true
}

// withTests is the row with the tests that have its id put first.
func (r row) withTests(named []string, known map[string]bool) string {
	list := slices.Sorted(slices.Values(named))
	for _, name := range r.tests {
		if known[name] && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	last := r.rest
	if len(list) > 0 {
		last = "`" + strings.Join(list, "`, `") + "`" + r.rest
		if r.rest != "" && !strings.HasPrefix(r.rest, ":") && !strings.HasPrefix(r.rest, ".") {
			last = "`" + strings.Join(list, "`, `") + "`. " + r.rest
		}
	}
	return strings.TrimRight(fmt.Sprintf("| %s | %s | %s | %s", r.cells[0], r.cells[1], r.cells[2], last), " ") + " |"
}

func TestCatalogue(t *testing.T) {
	known, byID := allTests(t)
	if len(known) < 100 || len(byID) < 50 {
		t.Fatalf("only %d tests and %d ids found in %s", len(known), len(byID), root)
	}
	path := filepath.Join(root, "docs/catalogue.md")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	var ids []string
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		r, ok := parseRow(line)
		if !ok {
			out = append(out, line)
			continue
		}
		id := r.cells[0]
		ids = append(ids, id)
		out = append(out, r.withTests(byID[id], known))
		if len(byID[id]) == 0 && strings.Trim(r.cells[3], " .-") == "" {
			t.Errorf("%s: no test has its id in the name, and the row says nothing", id)
		}
		if r.cells[1] == "" || r.cells[2] == "" {
			t.Errorf("%s: an empty cell", id)
		}
	}
	var want []string
	for _, s := range sections() {
		for n := 1; n <= s.rows; n++ {
			want = append(want, fmt.Sprintf("%s%02d", s.letter, n))
		}
	}
	if !slices.Equal(ids, want) {
		t.Errorf("rows %v, want %v", ids, want)
	}
	for id, names := range byID {
		if !slices.Contains(want, id) {
			t.Errorf("%v: the catalogue has no %s", names, id)
		}
	}
	if *update && !t.Failed() {
		if err := os.WriteFile(path, []byte(strings.Join(out, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNamedTestsExist looks at every page that appeals to tests.
func TestNamedTestsExist(t *testing.T) {
	known, _ := allTests(t)
	name := regexp.MustCompile("`((?:Test|Fuzz)\\w+)`")
	pages, err := filepath.Glob(filepath.Join(root, "docs/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, page := range append(pages, filepath.Join(root, "SECURITY.md")) {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range name.FindAllStringSubmatch(string(data), -1) {
			found++
			if strings.HasPrefix(m[1], "Test") && !known[m[1]] {
				t.Errorf("%s names %s, which does not exist", filepath.Base(page), m[1])
			}
		}
	}
	if found < 100 {
		t.Errorf("only %d tests are named in docs", found)
	}
}
