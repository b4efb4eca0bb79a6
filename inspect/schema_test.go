package inspect

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

// library judges by a well-kept implementation, which is in the tests only for its cost at start-up.
func library(schema, doc string) (valid bool, err error) {
	var s jsonschema.Schema
	if err := json.Unmarshal([]byte(schema), &s); err != nil {
		return false, err
	}
	r, err := s.Resolve(&jsonschema.ResolveOptions{})
	if err != nil {
		return false, err
	}
	var v any
	if err := json.Unmarshal([]byte(doc), &v); err != nil {
		return false, err
	}
	return r.Validate(v) == nil, nil
}

// TestOfficialSuite runs the JSON-Schema-Test-Suite, a copy of which is in the library's module.
func TestOfficialSuite(t *testing.T) {
	pc := reflect.ValueOf(jsonschema.Equal).Pointer()
	file, _ := runtime.FuncForPC(pc).FileLine(pc)
	for _, draft := range []string{"draft2020-12", "draft7"} {
		files, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "testdata", draft, "*.json"))
		if len(files) < 20 {
			t.Skipf("the module cache with the suite cannot be read: %d files of %s", len(files), draft)
		}
		ran, refused := 0, 0
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Skip(err)
			}
			var groups []struct {
				Description string
				Schema      json.RawMessage
				Tests       []struct {
					Description string
					Data        json.RawMessage
					Valid       bool
				}
			}
			if err := json.Unmarshal(text, &groups); err != nil {
				t.Fatal(err)
			}
			for _, g := range groups {
				schema := g.Schema
				if draft == "draft7" && schema[0] == '{' && !strings.Contains(string(schema), "$schema") {
					schema = append(json.RawMessage(`{"$schema":"http://json-schema.org/draft-07/schema#"`), append(comma(schema[1:]), schema[1:]...)...)
				}
				s, err := Compile(schema)
				if err != nil {
					// Never judged wrongly: what is not known is refused.
					refused++
					continue
				}
				for _, c := range g.Tests {
					ran++
					list, err := s.JSON(strings.NewReader(string(c.Data)))
					if err != nil || (len(list) == 0) != c.Valid {
						t.Errorf("%s/%s: %s: %s: got %v, %v, want valid %v\n%s\n%s", draft, filepath.Base(file), g.Description, c.Description, list, err, c.Valid, schema, c.Data)
					}
				}
			}
		}
		t.Logf("%s: %d cases, %d schemas refused", draft, ran, refused)
		if ran < 500 {
			t.Errorf("%s: only %d cases", draft, ran)
		}
	}
}

// comma is what joins a further member to the rest of an object.
func comma(rest json.RawMessage) json.RawMessage {
	if strings.TrimSpace(string(rest)) == "}" {
		return nil
	}
	return json.RawMessage(",")
}

func TestSchemaRefused(t *testing.T) {
	for name, schema := range map[string]string{
		"no JSON":            `{`,
		"two documents":      `{} {}`,
		"name twice":         `{"type":"string","type":"number"}`,
		"unknown word":       `{"requird":["a"]}`,
		"remote":             `{"$ref":"https://example.com/schema.json"}`,
		"file":               `{"$ref":"file:///etc/passwd"}`,
		"relative":           `{"$ref":"other.json"}`,
		"nowhere":            `{"$ref":"#/$defs/a"}`,
		"no anchor":          `{"$ref":"#a"}`,
		"dynamic":            `{"$dynamicRef":"#a"}`,
		"unevaluated":        `{"unevaluatedProperties":false}`,
		"draft 4":            `{"$schema":"http://json-schema.org/draft-04/schema#"}`,
		"lookahead":          `{"pattern":"(?=a)"}`,
		"no schema":          `[]`,
		"no type":            `{"type":"text"}`,
		"type of a type":     `{"type":3}`,
		"negative":           `{"minLength":-1}`,
		"half":               `{"minLength":0.5}`,
		"zero multiple":      `{"multipleOf":0}`,
		"huge number":        `{"minimum":1e999999999}`,
		"empty alternatives": `{"anyOf":[]}`,
		"inside":             `{"properties":{"a":{"items":{"typ":"string"}}}}`,
	} {
		if _, err := Compile([]byte(schema)); err == nil {
			t.Errorf("%s: %s is taken", name, schema)
		}
	}
	_, err := Compile([]byte(`{"properties":{"a/b":{"items":{"typ":"string"}}}}`))
	if err == nil || !strings.HasPrefix(err.Error(), "at #/properties/a~1b/items/typ: ") {
		t.Errorf("the place: %v", err)
	}
}

// TestSchemaCost: neither a schema that refers to itself nor one that multiplies work takes more than a moment.
func TestSchemaCost(t *testing.T) {
	for name, c := range map[string][2]string{
		"itself":   {`{"$ref":"#"}`, `1`},
		"circle":   {`{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}`, `1`},
		"multiply": {`{"anyOf":[{"items":{"$ref":"#"},"minItems":99},{"items":{"$ref":"#"},"minItems":99},{"items":{"$ref":"#"},"minItems":99}]}`, strings.Repeat("[", 400) + strings.Repeat("]", 400)},
		"long":     {`{"additionalProperties":{"items":{"type":"string"}}}`, `{"` + strings.Repeat("n", 8<<20) + `":[` + strings.Repeat("1,", 300_000) + `1]}`},
	} {
		list, err := readJSON(strings.NewReader(c[1]), []byte(c[0]))
		if err != nil || len(list) == 0 || len(list) > maxAnomalies {
			t.Errorf("%s: %d anomalies, %v", name, len(list), err)
		}
		for _, a := range list {
			if len(a.Detail) > 2*maxDetail {
				t.Errorf("%s: a detail of %d bytes", name, len(a.Detail))
			}
		}
	}
}

// FuzzSchema compares with the library, where that takes the schema too.
func FuzzSchema(f *testing.F) {
	for _, c := range [][2]string{
		{`{"type":"object","required":["a"],"properties":{"a":{"type":"integer","minimum":3}}}`, `{"a":4}`},
		{`{"items":{"oneOf":[{"type":"string"},{"multipleOf":0.01}]},"uniqueItems":true}`, `["a",0.07,1,1.0]`},
		{`{"$defs":{"t":{"type":["null","object"],"additionalProperties":{"$ref":"#/$defs/t"}}},"$ref":"#/$defs/t"}`, `{"a":{"b":null}}`},
		{`{"if":{"minItems":2},"then":{"contains":{"const":null}},"else":false}`, `[null,{}]`},
		{`{"patternProperties":{"^a":{"maxLength":2}},"propertyNames":{"not":{"enum":["b"]}},"dependentRequired":{"a":["c"]}}`, `{"a":"äöü","b":1}`},
	} {
		f.Add(c[0], c[1])
	}
	f.Fuzz(func(t *testing.T, schema, doc string) {
		if len(schema) > 2000 || len(doc) > 2000 || strings.ContainsAny(doc, "eE") {
			return
		}
		s, err := Compile([]byte(schema))
		if err != nil {
			return
		}
		list, err := s.JSON(strings.NewReader(doc))
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range list {
			if a.Kind != "schema" {
				return
			}
		}
		if strings.Contains(schema, "$") || strings.ContainsAny(doc, "123456789") && len(doc) > 300 {
			return // cycles, which the library does not bound; numbers that it rounds
		}
		if want, err := library(schema, doc); err == nil && want != (len(list) == 0) {
			t.Errorf("%s\n%s\nvalid %v for the library, here %v", schema, doc, want, list)
		}
	})
}
