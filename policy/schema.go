package policy

import (
	"encoding/json"
	"io"
)

// WriteSchema writes the JSON Schema (draft 2020-12) of policy files, for editors. It comes from the table that
// the parser goes by; what only the parser can know, such as whether a path is there, is left to it.
func WriteSchema(w io.Writer) error {
	properties := map[string]any{
		"version": map[string]any{"const": 1},
		"name":    map[string]any{"type": "string", "pattern": "^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$", "description": "what records and the gate call the runs; by default the file's name"},
		"extends": map[string]any{"type": "string", "minLength": 1, "description": "a built-in policy, or a file relative to this one"},
	}
	for _, f := range fields() {
		if f.section() == "" {
			properties[f.path] = f.schema()
			continue
		}
		section, _ := properties[f.section()].(map[string]any)
		if section == nil {
			section = map[string]any{"type": "object", "additionalProperties": false, "properties": map[string]any{}}
			if f.section() == "network" {
				section["type"] = []string{"object", "null"}
			}
			properties[f.section()] = section
		}
		section["properties"].(map[string]any)[f.key()] = f.schema()
	}
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	return out.Encode(map[string]any{
		"$schema":              "https://json-schema.org/draft/2020-12/schema",
		"title":                "gobox policy file",
		"type":                 "object",
		"required":             []string{"version"},
		"additionalProperties": false,
		"properties":           properties,
	})
}

func (f *field) schema() map[string]any {
	text := map[string]any{"type": "string", "minLength": 1}
	// The whole number and the text mean the same.
	number := map[string]any{"type": "integer", "minimum": 0}
	either := func(pattern string) map[string]any {
		return map[string]any{"anyOf": []any{number, map[string]any{"type": "string", "pattern": pattern}}}
	}
	var s map[string]any
	switch f.kind {
	case fieldText:
		s = text
	case fieldWord:
		s = map[string]any{"enum": f.words}
	case fieldWords:
		s = map[string]any{"type": "array", "items": map[string]any{"enum": f.words}}
	case fieldTexts:
		s = map[string]any{"type": "array", "items": text}
	case fieldPairs:
		s = map[string]any{"type": "object", "additionalProperties": map[string]any{"type": []string{"string", "number", "boolean"}}}
	case fieldLists:
		s = map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "array", "items": text}}
	case fieldSize:
		s = either("^[0-9]+([bB]|[kKmMgGtT]([iI][bB])?)?$")
	case fieldCount:
		s = either("^[0-9]+$")
	case fieldDecimal:
		s = map[string]any{"anyOf": []any{map[string]any{"type": "number", "minimum": 0, "maximum": 1 << 16}, map[string]any{"type": "string", "pattern": `^[0-9.]+$`}}}
	case fieldDuration:
		s = map[string]any{"anyOf": []any{map[string]any{"type": "number", "minimum": 0}, map[string]any{"type": "string", "pattern": `^([0-9.]+(ns|us|µs|ms|s|m|h))+$|^[0-9.]+$|^[0-9]+d$`}}}
	case fieldBool:
		s = map[string]any{"type": "boolean"}
	}
	s["description"] = f.about
	return s
}
