package selftest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// parseDir gives the files of a folder that belong to the binary.
func parseDir(t *testing.T, dir string) map[string]*ast.File {
	t.Helper()
	files := map[string]*ast.File{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || filepath.Dir(path) != filepath.Clean(dir) {
			return err
		}
		files[path], err = parser.ParseFile(token.NewFileSet(), path, nil, 0)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func literals(n ast.Node, each func(string)) {
	ast.Inspect(n, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				each(text)
			}
		}
		return true
	})
}

// TestOnlyWhatIsUsed: an attempt that no row makes is the probe's (integration/probe) and does not ship.
func TestOnlyWhatIsUsed(t *testing.T) {
	used := map[string]bool{}
	add := func(text string) {
		for _, word := range strings.Fields(text) {
			used[word] = true
		}
	}
	for _, f := range parseDir(t, ".") {
		literals(f, add)
	}
	files := parseDir(t, "attempt")
	literals(files[filepath.Join("attempt", "lists.go")], add)
	offered := 0
	for path, f := range files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !strings.HasSuffix(fn.Name.Name, "Attempt") {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				c, ok := n.(*ast.CaseClause)
				if !ok {
					return true
				}
				for _, e := range c.List {
					literals(e, func(name string) {
						offered++
						if !used[name] {
							t.Errorf("%s: no row makes the attempt %q", path, name)
						}
					})
				}
				return true
			})
		}
	}
	if offered < 50 {
		t.Errorf("only %d attempts found", offered)
	}
}
