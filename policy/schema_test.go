package policy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

func schemaText(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	if err := WriteSchema(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestSchemaGolden(t *testing.T) {
	file, got := filepath.Join("testdata", "schema.json"), schemaText(t)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		t.Errorf("schema differs from %s (go test ./policy -update writes it):\n%s", file, difference(string(want), got))
	}
}

// The schema and the parser agree on these texts, which are JSON and so YAML too.
func TestSchemaAgreesWithParser(t *testing.T) {
	var schema any
	if err := json.Unmarshal([]byte(schemaText(t)), &schema); err != nil {
		t.Fatal(err)
	}
	values := map[fieldKind][2][]string{
		fieldText:     {{`"x"`}, {`""`, `[]`, `{}`, `null`}},
		fieldTexts:    {{`[]`, `["read"]`}, {`"read"`, `{}`, `[""]`, `null`, `[[]]`}},
		fieldPairs:    {{`{}`, `{"A": "1", "B": 2, "C": true, "D": ""}`}, {`[]`, `"A=1"`, `{"A": []}`, `null`}},
		fieldLists:    {{`{}`, `{"a": []}`, `{"a": ["b.org"]}`}, {`[]`, `{"a": "b.org"}`, `{"a": null}`, `null`}},
		fieldSize:     {{`0`, `4096`, `"64k"`, `"512MiB"`, `"1G"`, `"7"`}, {`-1`, `1.5`, `"1MB "`, `"k"`, `"1X"`, `""`, `[]`, `null`}},
		fieldCount:    {{`0`, `7`, `"7"`}, {`-1`, `1.5`, `"7k"`, `""`, `{}`, `null`}},
		fieldDecimal:  {{`0`, `0.5`, `2`, `"1.5"`}, {`-1`, `"x"`, `""`, `[]`, `70000`}},
		fieldDuration: {{`0`, `30`, `"30s"`, `"1m30s"`, `"2"`, `"7d"`}, {`-1`, `"1.5d"`, `"d"`, `"1d2h"`, `"soon"`, `""`, `"-1s"`, `[]`}},
		fieldBool:     {{`true`, `false`}, {`"yes"`, `1`, `null`, `[]`}},
	}
	check := func(text string, want bool) {
		t.Helper()
		var doc any
		if err := json.Unmarshal([]byte(text), &doc); err != nil {
			t.Fatal(err)
		}
		_, err := ParseDocument("p.yaml", []byte(text))
		if parsed, valid := err == nil, satisfies(doc, schema.(map[string]any)); parsed != want || valid != want {
			t.Errorf("%s: the parser takes it: %v (%v), the schema takes it: %v; want %v", text, parsed, err, valid, want)
		}
	}
	for _, f := range fields() {
		list := values[f.kind]
		if f.kind == fieldWord {
			list = [2][]string{{`"` + f.words[0] + `"`, `"` + f.words[len(f.words)-1] + `"`}, {`"other"`, `""`, `[]`}}
		}
		if f.kind == fieldWords {
			list = [2][]string{{`[]`, `["` + f.words[0] + `"]`}, {`["other"]`, `"` + f.words[0] + `"`}}
		}
		if f.path == "limits.cpu_time" {
			list[0] = []string{`0`, `30`, `"30s"`}
		}
		for i, texts := range list {
			for _, value := range texts {
				if section := f.section(); section != "" {
					value = `{"` + f.key() + `": ` + value + `}`
					check(`{"version": 1, "`+section+`": `+value+`}`, i == 0)
				} else {
					check(`{"version": 1, "`+f.path+`": `+value+`}`, i == 0)
				}
			}
		}
	}
	check(`{"version": 1}`, true)
	check(`{}`, false)
	check(`{"version": 2}`, false)
	check(`{"version": 1, "other": 1}`, false)
	check(`{"version": 1, "limits": {"other": 1}}`, false)
	check(`{"version": 1, "name": "a-b.c_1", "extends": "agent"}`, true)
	check(`{"version": 1, "name": "a b"}`, false)
	check(`{"version": 1, "extends": ""}`, false)
	check(`{"version": 1, "network": {"allow": []}}`, true)
	check(`{"version": 1, "network": null}`, true)
	check(`{"version": 1, "network": {"allow": ["a.org:443", "@group"]}}`, true)
	check(`{"version": 1, "network": {"other": ["a"]}}`, false)
	check(`{"version": 1, "network": []}`, false)
	check(`{"version": 1, "network": "host"}`, false)
}

// satisfies is as much of JSON Schema as WriteSchema uses. It panics on what it does not know.
func satisfies(v any, schema map[string]any) bool {
	for key, want := range schema {
		ok := true
		switch key {
		case "$schema", "title", "description":
		case "const":
			ok = reflect.DeepEqual(v, want)
		case "enum":
			ok = false
			for _, w := range want.([]any) {
				ok = ok || reflect.DeepEqual(v, w)
			}
		case "anyOf":
			ok = false
			for _, s := range want.([]any) {
				ok = ok || satisfies(v, s.(map[string]any))
			}
		case "type":
			types, isList := want.([]any)
			if !isList {
				types = []any{want}
			}
			ok = false
			for _, name := range types {
				ok = ok || hasType(v, name.(string))
			}
		case "minLength":
			s, is := v.(string)
			ok = !is || len(s) >= int(want.(float64))
		case "pattern":
			s, is := v.(string)
			ok = !is || regexp.MustCompile(want.(string)).MatchString(s)
		case "minimum":
			n, is := v.(float64)
			ok = !is || n >= want.(float64)
		case "maximum":
			n, is := v.(float64)
			ok = !is || n <= want.(float64)
		case "maxItems":
			l, is := v.([]any)
			ok = !is || len(l) <= int(want.(float64))
		case "items":
			if l, is := v.([]any); is {
				for _, item := range l {
					ok = ok && satisfies(item, want.(map[string]any))
				}
			}
		case "required":
			if m, is := v.(map[string]any); is {
				for _, name := range want.([]any) {
					_, has := m[name.(string)]
					ok = ok && has
				}
			}
		case "properties", "additionalProperties":
			if m, is := v.(map[string]any); is {
				known, _ := schema["properties"].(map[string]any)
				for name, value := range m {
					s, has := known[name].(map[string]any)
					switch {
					case has && key == "properties":
						ok = ok && satisfies(value, s)
					case !has && key == "additionalProperties" && want == false:
						ok = false
					case !has && key == "additionalProperties":
						ok = ok && satisfies(value, want.(map[string]any))
					}
				}
			}
		default:
			panic("the test does not know " + key)
		}
		if !ok {
			return false
		}
	}
	return true
}

func hasType(v any, name string) bool {
	switch v := v.(type) {
	case nil:
		return name == "null"
	case bool:
		return name == "boolean"
	case string:
		return name == "string"
	case float64:
		return name == "number" || name == "integer" && v == float64(int64(v))
	case []any:
		return name == "array"
	}
	return name == "object"
}
