package record

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDocumented holds the table of fields in docs/records.md to Result, both ways.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/records.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\n## The fields of `result.json`\n")
	if !found {
		t.Fatal("docs/records.md has no table of fields")
	}
	table, _, _ := strings.Cut(rest, "\n## ")
	var have []string
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		if len(cells) < 3 {
			continue
		}
		for _, m := range regexp.MustCompile("`([a-z_0-9.\\[\\]]+)`(\\*?)").FindAllStringSubmatch(cells[1], -1) {
			have = append(have, m[1]+m[2])
		}
	}
	want := fieldsOf(reflect.TypeFor[Result](), "", false)
	for _, f := range want {
		if !slices.Contains(have, f) {
			t.Errorf("docs/records.md lacks %s", f)
		}
	}
	for _, f := range have {
		if !slices.Contains(want, f) {
			t.Errorf("docs/records.md tells of %s, which is not there", f)
		}
	}
}

// TestAnomaliesDocumented holds the table of anomalies to the constants, both ways.
func TestAnomaliesDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/records.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("result.go")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n## The kinds of anomalies\n")
	table, _, _ := strings.Cut(rest, "\n## ")
	kinds := func(pattern, in string) (list []string) {
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(in, -1) {
			list = append(list, m[1])
		}
		slices.Sort(list)
		return list
	}
	have, want := kinds("(?m)^\\| `([a-z_]+)`", table), kinds(`(?m)^\t[A-Z][A-Za-z]+ += "([a-z]+_[a-z_]+)"`, string(source))
	if len(want) < 10 || !slices.Contains(want, NotKept) || !slices.Equal(have, want) {
		t.Errorf("docs/records.md has %q, and result.go %q", have, want)
	}
}

// fieldsOf gives the fields of a structure by their names in JSON, with a star for one that may be left out.
func fieldsOf(t reflect.Type, prefix string, optional bool) []string {
	var names []string
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		leaves := optional || options == "omitempty"
		name = prefix + name
		of := f.Type
		if of.Kind() == reflect.Slice {
			if of = of.Elem(); of.Kind() == reflect.Struct {
				name += "[]"
			}
		}
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		switch {
		case of.Kind() == reflect.Struct:
			names = append(names, fieldsOf(of, name+".", leaves)...)
		case leaves:
			names = append(names, name+"*")
		default:
			names = append(names, name)
		}
	}
	return names
}
