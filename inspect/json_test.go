package inspect

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

func TestJSON(t *testing.T) {
	const schema = `{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}},"additionalProperties":false}`
	for _, c := range []struct {
		name, doc, schema, want string
	}{
		{"object", `{"a":[1,2.5e3,"x",true,false,null,{}]}`, "", ""},
		{"white space around", " \t\r\n{} \n\n", "", ""},
		{"string", `"x"`, "", ""},
		{"number", `-0.5`, "", ""},
		{"nothing", ``, "", "no_document"},
		{"only white space", " \n", "", "no_document"},
		{"two documents", `{}{}`, "", "trailing_data"},
		{"two lines", "{}\n{}\n", "", "trailing_data"},
		{"garbage behind", `{} done`, "", "trailing_data"},
		{"bracket behind", `{}}`, "", "trailing_data"},
		{"comma behind", `1,`, "", "trailing_data"},
		{"NUL behind", "{}\x00", "", "trailing_data"},
		{"garbage before", `ok: {}`, "", "syntax"},
		{"mark before", "\ufeff{}", "", "syntax"},
		{"cut", `{"a":[1,2`, "", "syntax"},
		{"cut string", `"abc`, "", "syntax"},
		{"cut after name", `{"a"`, "", "syntax"},
		{"comma at the end", `[1,]`, "", "syntax"},
		{"comma in an object", `{"a":1,}`, "", "syntax"},
		{"no comma", `[1 2]`, "", "syntax"},
		{"no colon", `{"a" 1}`, "", "syntax"},
		{"wrong bracket", `[1}`, "", "syntax"},
		{"number as a name", `{1:2}`, "", "syntax"},
		{"single quotes", `{'a':1}`, "", "syntax"},
		{"comment", "// x\n{}", "", "syntax"},
		{"NaN", `NaN`, "", "syntax"},
		{"leading zero", `[01]`, "", "syntax"},
		{"control character", "\"a\nb\"", "", "syntax"},
		{"not UTF-8", "\"a\xffb\"", "", "encoding"},
		{"cut UTF-8", "\"a\xc3", "", "encoding"},
		{"UTF-16", "{\x00}\x00", "", "syntax"},
		{"name twice", `{"a":1,"b":{"a":1},"a":2}`, "", "duplicate_name"},
		{"name twice, escaped", `{"a":1,"\u0061":2}`, "", "duplicate_name"},
		{"deepest", strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth), "", ""},
		{"too deep", strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1), "", "too_deep"},
		{"endless depth", strings.Repeat(`{"a":`, 1_000_000), "", "too_deep"},
		{"as the schema says", `{"n":3}`, schema, ""},
		{"number of another spelling", `{"n":3.0}`, schema, ""},
		{"wrong type", `{"n":"3"}`, schema, "schema"},
		{"missing", `{}`, schema, "schema"},
		{"additional", `{"n":1,"m":2}`, schema, "schema"},
		{"huge number", `{"n":1e999999999}`, schema, "schema"},
		{"two, with a schema", `{"n":3}{"n":4}`, schema, "trailing_data"},
		{"many values", "[" + strings.Repeat("1,", maxTreeValues) + "1]", schema, "too_large"},
		{"large, with a schema", `{"n":"` + strings.Repeat("x", maxTreeBytes) + `"}`, schema, "too_large"},
	} {
		var s []byte
		if c.schema != "" {
			s = []byte(c.schema)
		}
		list, err := readJSON(strings.NewReader(c.doc), s)
		got := ""
		if len(list) > 0 {
			got = list[0].Kind
		}
		if err != nil || got != c.want {
			t.Errorf("%s: got %v, %v, want %q", c.name, list, err, c.want)
		}
	}
}

func TestJSONPlaces(t *testing.T) {
	list, err := readJSON(strings.NewReader(`{"a/b":[1,"x"],"c":{"d":-1}}`), []byte(`{"properties":{"a/b":{"items":{"type":"integer"}},"c":{"properties":{"d":{"minimum":0}}}}}`))
	if err != nil || len(list) != 2 || list[0].Detail != "at /a~1b/1: type: is no integer" || list[1].Detail != "at /c/d: minimum: is less than 0" {
		t.Errorf("%v, %v", list, err)
	}
}

func TestJSONReadError(t *testing.T) {
	broken := errors.New("broken")
	_, err := readJSON(io.MultiReader(strings.NewReader(`{"a":`), iotest.ErrReader(broken)), nil)
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// spaces is an endless document in no memory.
type spaces struct{ first string }

func (s *spaces) Read(p []byte) (int, error) {
	n := copy(p, s.first)
	s.first = s.first[n:]
	for i := n; i < len(p); i++ {
		p[i] = ' '
	}
	return len(p), nil
}

func TestJSONEndless(t *testing.T) {
	for _, first := range []string{"", "{", "{}"} {
		before := allocated()
		list, err := readJSON(&spaces{first}, nil)
		if err != nil || len(list) != 1 || list[0].Kind != "too_large" {
			t.Errorf("%q: %v, %v", first, list, err)
		}
		if got := allocated() - before; got > 8*maxDocument {
			t.Errorf("%q: %d bytes allocated", first, got)
		}
	}
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// FuzzJSON: what is taken is one document by encoding/json, and what is not is none, or one with one of the faults that
// encoding/json does not mind.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{`{"a":[1,2]}`, `{}{}`, `[1,]`, `"\ud800"`, ` `, "\"\xff\"", `{"a":1,"a":2}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		list, err := readJSON(iotest.OneByteReader(bytes.NewReader(doc)), nil)
		if err != nil {
			t.Fatal(err)
		}
		if valid := json.Valid(doc); valid != (len(list) == 0) {
			if valid && (list[0].Kind == "duplicate_name" || list[0].Kind == "encoding" || list[0].Kind == "too_deep") {
				return
			}
			t.Errorf("%q: valid %v, %v", doc, valid, list)
		}
	})
}

// readJSON compiles the schema, if it is not nil, and judges data by it.
func readJSON(data io.Reader, schema []byte) ([]Anomaly, error) {
	var s *Schema
	if schema != nil {
		var err error
		if s, err = Compile(schema); err != nil {
			return nil, err
		}
	}
	return s.JSON(data)
}
