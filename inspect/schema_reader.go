package inspect

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// reader takes in the words of one schema object.
type reader struct {
	c    *compiler
	n    *node
	from map[string]any
	at   string
}

var errKind = errors.New("has a value of the wrong type")

func (r *reader) word(word string, v any) (err error) {
	n := r.n
	at := r.at + "/" + escapePointer(word)
	switch word {
	case "$schema", "$id":
		if r.at == "" || word == "$id" && r.c.draft7 && strings.HasPrefix(fmt.Sprint(v), "#") {
			return nil
		}
		return errors.New("a schema of another name inside this one is not supported")
	case "$anchor", "$comment", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly",
		"format", "contentEncoding", "contentMediaType", "contentSchema":
		return nil
	case "$defs", "definitions":
		_, err = r.schemaMap(v, at)
		return err
	case "$ref":
		s, ok := v.(string)
		if !ok {
			return errKind
		}
		n.ref, err = r.c.resolve(s)
		return err
	case "type":
		return r.types(v)
	case "enum":
		list, ok := v.([]any)
		if !ok {
			return errKind
		}
		return r.values(list)
	case "const":
		if r.from["enum"] != nil {
			one := &node{path: at}
			n.allOf = append(n.allOf, one)
			n = one
		}
		n.enum = map[string]bool{string(canonical(nil, v)): true}
		return nil
	case "minimum":
		return number(v, &n.minimum)
	case "maximum":
		return number(v, &n.maximum)
	case "exclusiveMinimum":
		return number(v, &n.aboveMin)
	case "exclusiveMaximum":
		return number(v, &n.belowMax)
	case "multipleOf":
		if err := number(v, &n.multipleOf); err != nil {
			return err
		}
		if n.multipleOf.Sign() <= 0 {
			return errors.New("must be above 0")
		}
		return nil
	case "minLength":
		return count(v, &n.minLength)
	case "maxLength":
		return count(v, &n.maxLength)
	case "pattern":
		n.pattern, err = expression(v)
		return err
	}
	if done, err := r.structure(word, v, at); done || err != nil {
		return err
	}
	if strings.HasPrefix(word, "x-") {
		return nil
	}
	return errors.New("is not supported; words of your own begin with x-")
}

// structure takes in the words for arrays and objects, and those that join schemas.
func (r *reader) structure(word string, v any, at string) (done bool, err error) {
	n := r.n
	one := func(to **node) (bool, error) {
		*to, err = r.c.compile(v, at)
		return true, err
	}
	many := func(to *[]*node) (bool, error) {
		list, ok := v.([]any)
		if !ok || len(list) == 0 {
			return true, errKind
		}
		for i, e := range list {
			s, err := r.c.compile(e, at+"/"+strconv.Itoa(i))
			if err != nil {
				return true, err
			}
			*to = append(*to, s)
		}
		return true, nil
	}
	switch word {
	case "items":
		if list, ok := v.([]any); ok {
			if len(list) == 0 {
				return true, nil
			}
			return many(&n.prefix) // before draft 2020-12
		}
		return one(&n.rest)
	case "additionalItems":
		if _, ok := r.from["items"].([]any); !ok {
			return true, nil // means nothing then
		}
		return one(&n.rest)
	case "prefixItems":
		return many(&n.prefix)
	case "contains":
		return one(&n.contains)
	case "minContains":
		return true, count(v, &n.minContains)
	case "maxContains":
		return true, count(v, &n.maxContains)
	case "minItems":
		return true, count(v, &n.minItems)
	case "maxItems":
		return true, count(v, &n.maxItems)
	case "uniqueItems":
		b, ok := v.(bool)
		if !ok {
			return true, errKind
		}
		n.unique = b
		return true, nil
	case "properties":
		n.properties, err = r.schemaMap(v, at)
		return true, err
	case "patternProperties":
		m, err := r.schemaMap(v, at)
		for _, text := range slices.Sorted(maps.Keys(m)) {
			re, err := expression(text)
			if err != nil {
				return true, err
			}
			n.patterns = append(n.patterns, patternNode{re, m[text]})
		}
		return true, err
	case "additionalProperties":
		return one(&n.additional)
	case "propertyNames":
		return one(&n.names)
	case "required":
		n.required, err = texts(v)
		return true, err
	case "minProperties":
		return true, count(v, &n.minProps)
	case "maxProperties":
		return true, count(v, &n.maxProps)
	case "dependentRequired", "dependentSchemas", "dependencies":
		return true, r.dependent(v, at)
	case "allOf":
		return many(&n.allOf)
	case "anyOf":
		return many(&n.anyOf)
	case "oneOf":
		return many(&n.oneOf)
	case "not":
		return one(&n.not)
	case "if":
		return one(&n.when)
	case "then":
		return one(&n.then)
	case "else":
		return one(&n.otherwise)
	}
	return false, nil
}

func (r *reader) types(v any) error {
	list, err := texts(v)
	if s, ok := v.(string); ok {
		list, err = []string{s}, nil
	}
	for _, t := range list {
		if !slices.Contains([]string{"null", "boolean", "object", "array", "number", "integer", "string"}, t) {
			return fmt.Errorf("%q is no type", t)
		}
	}
	r.n.types = list
	return err
}

func (r *reader) values(list []any) error {
	r.n.enum = map[string]bool{}
	for _, v := range list {
		r.n.enum[string(canonical(nil, v))] = true
	}
	return nil
}

func (r *reader) schemaMap(v any, at string) (map[string]*node, error) {
	m, ok := v.(map[string]any)
	if !ok {
		return nil, errKind
	}
	out := make(map[string]*node, len(m))
	for _, name := range sortedNames(m) {
		n, err := r.c.compile(m[name], at+"/"+escapePointer(name))
		if err != nil {
			return nil, err
		}
		out[name] = n
	}
	return out, nil
}

// dependent takes in lists of names and schemas alike, as "dependencies" of draft 7 has both.
func (r *reader) dependent(v any, at string) error {
	m, ok := v.(map[string]any)
	if !ok {
		return errKind
	}
	if r.n.needs == nil {
		r.n.needs, r.n.implies = map[string][]string{}, map[string]*node{}
	}
	for _, name := range sortedNames(m) {
		if _, ok := m[name].([]any); ok {
			list, err := texts(m[name])
			if err != nil {
				return err
			}
			r.n.needs[name] = append(r.n.needs[name], list...)
			continue
		}
		s, err := r.c.compile(m[name], at+"/"+escapePointer(name))
		if err != nil {
			return err
		}
		r.n.implies[name] = s
	}
	return nil
}

func number(v any, to **big.Rat) error {
	n, ok := v.(json.Number)
	if !ok {
		return errKind
	}
	if *to, ok = exact(n); !ok {
		return errors.New("is too large a number")
	}
	return nil
}

// count takes a number of things, which may be written 2.0.
func count(v any, to **int) error {
	var r *big.Rat
	if err := number(v, &r); err != nil {
		return err
	}
	if !r.IsInt() || r.Sign() < 0 || !r.Num().IsInt64() {
		return errKind
	}
	n := int(r.Num().Int64())
	*to = &n
	return nil
}

func texts(v any) ([]string, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, errKind
	}
	out := make([]string, 0, len(list))
	for _, e := range list {
		s, ok := e.(string)
		if !ok {
			return nil, errKind
		}
		out = append(out, s)
	}
	return out, nil
}

// expression takes RE2 (docs of regexp/syntax), which is linear in the text, for the ECMA-262 that the drafts name.
func expression(v any) (*regexp.Regexp, error) {
	s, ok := v.(string)
	if !ok {
		return nil, errKind
	}
	re, err := regexp.Compile(s)
	if err != nil {
		return nil, fmt.Errorf("%q is no expression that can be used here: %w", short(s), err)
	}
	return re, nil
}

func sortedNames(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
