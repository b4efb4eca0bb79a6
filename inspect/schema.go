package inspect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Schema is a compiled JSON Schema: draft 2020-12, 2019-09 or 7, of which it has everything but dynamic references and
// unevaluatedItems and unevaluatedProperties. Formats are annotations, as the drafts have it by default.
//
// No library: the ones that are well kept initialise meta-schemas and tables in every start of gobox, of which there are two
// per run (docs/dependencies.md has the figures). The tests compare this one with such a library and with the official suite.
type Schema struct {
	root *node
}

// node is one (sub)schema. A nil pointer or empty field asks for nothing.
type node struct {
	never bool // the schema false
	path  string

	ref         *node
	types       []string
	enum        map[string]bool // canonical texts
	minimum     *big.Rat
	maximum     *big.Rat
	aboveMin    *big.Rat // exclusiveMinimum
	belowMax    *big.Rat
	multipleOf  *big.Rat
	minLength   *int
	maxLength   *int
	pattern     *regexp.Regexp
	prefix      []*node // of array items
	rest        *node   // further items
	contains    *node
	minContains *int
	maxContains *int
	minItems    *int
	maxItems    *int
	unique      bool
	properties  map[string]*node
	patterns    []patternNode
	additional  *node
	names       *node
	required    []string
	minProps    *int
	maxProps    *int
	needs       map[string][]string // dependentRequired
	implies     map[string]*node    // dependentSchemas
	allOf       []*node
	anyOf       []*node
	oneOf       []*node
	not         *node
	when        *node // if
	then        *node
	otherwise   *node
}

type patternNode struct {
	re *regexp.Regexp
	is *node
}

// compiler turns a schema document into nodes; each is made once, so that references may form cycles.
type compiler struct {
	root   any
	base   string // $id of the root
	draft7 bool
	nodes  map[string]*node // by JSON pointer
	anchor map[string]string
}

// Compile reads a JSON Schema. What it cannot honour in it, an unknown word included, is an error: a schema that asks for
// less than its author thinks is worse than none. References lead within the document only; nothing is ever loaded.
func Compile(schema []byte) (*Schema, error) {
	d := newDocument(bytes.NewReader(schema), maxTreeBytes, true)
	tree := d.read()
	if len(d.found) > 0 {
		return nil, fmt.Errorf("the schema is not one JSON document: %s", d.found[0].Detail)
	}
	c := &compiler{root: tree, nodes: map[string]*node{}, anchor: map[string]string{}}
	if m, ok := tree.(map[string]any); ok {
		if err := c.dialect(m); err != nil {
			return nil, err
		}
	}
	c.collect(tree, "")
	n, err := c.compile(tree, "")
	if err != nil {
		return nil, err
	}
	return &Schema{n}, nil
}

func (c *compiler) dialect(m map[string]any) error {
	if id, ok := m["$id"].(string); ok {
		c.base = strings.TrimSuffix(id, "#")
	}
	switch s, ok := m["$schema"].(string); {
	case !ok && m["$schema"] == nil:
	case strings.TrimSuffix(s, "#") == "http://json-schema.org/draft-07/schema" || strings.TrimSuffix(s, "#") == "https://json-schema.org/draft-07/schema":
		c.draft7 = true
	case s == "https://json-schema.org/draft/2020-12/schema", s == "https://json-schema.org/draft/2019-09/schema":
	default:
		return fmt.Errorf("$schema: %v is not supported; use draft 2020-12, 2019-09 or 7", m["$schema"])
	}
	return nil
}

// collect finds the anchors.
func (c *compiler) collect(v any, at string) {
	switch v := v.(type) {
	case map[string]any:
		if a, ok := v["$anchor"].(string); ok {
			c.anchor[a] = at
		}
		// In draft 7 an anchor is an $id that is only a fragment.
		if id, ok := v["$id"].(string); ok && c.draft7 && len(id) > 1 && id[0] == '#' {
			c.anchor[id[1:]] = at
		}
		for name, e := range v {
			if name != "enum" && name != "const" {
				c.collect(e, at+"/"+escapePointer(name))
			}
		}
	case []any:
		for i, e := range v {
			c.collect(e, at+"/"+strconv.Itoa(i))
		}
	}
}

func escapePointer(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "~", "~0"), "/", "~1")
}

// compile gives the node for the schema v, which stands at the JSON pointer at.
func (c *compiler) compile(v any, at string) (*node, error) {
	if n, ok := c.nodes[at]; ok {
		return n, nil
	}
	n := &node{path: at}
	c.nodes[at] = n
	switch v := v.(type) {
	case bool:
		n.never = !v
		return n, nil
	case map[string]any:
		r := &reader{c: c, n: n, from: v, at: at}
		for _, word := range sortedNames(v) {
			if c.draft7 && v["$ref"] != nil && word != "$ref" && word != "definitions" {
				continue // draft 7: what stands beside a $ref is ignored
			}
			if err := r.word(word, v[word]); err != nil {
				return nil, placed(err, at+"/"+escapePointer(word))
			}
		}
		return n, nil
	}
	return nil, placed(errors.New("a schema is an object, true or false"), at)
}

// placeError says where in the schema something is wrong.
type placeError struct {
	at  string
	err error
}

func (e *placeError) Error() string { return "at #" + e.at + ": " + e.err.Error() }
func (e *placeError) Unwrap() error { return e.err }

// placed keeps the innermost place.
func placed(err error, at string) error {
	if e := (*placeError)(nil); errors.As(err, &e) {
		return err
	}
	return &placeError{at, err}
}

// resolve gives the node a $ref leads to.
func (c *compiler) resolve(ref string) (*node, error) {
	base, fragment, _ := strings.Cut(ref, "#")
	if base != "" && base != c.base {
		return nil, fmt.Errorf("%q leads out of the document, and nothing is loaded", ref)
	}
	fragment, err := url.PathUnescape(fragment)
	if err != nil {
		return nil, fmt.Errorf("%q is no reference", ref)
	}
	if fragment != "" && fragment[0] != '/' {
		at, ok := c.anchor[fragment]
		if !ok {
			return nil, fmt.Errorf("%q leads nowhere", ref)
		}
		fragment = at
	}
	v := c.root
	if fragment != "" {
		for _, name := range strings.Split(fragment[1:], "/") {
			name = strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")
			ok := false
			switch at := v.(type) {
			case map[string]any:
				v, ok = at[name]
			case []any:
				i, err := strconv.Atoi(name)
				if ok = err == nil && i >= 0 && i < len(at); ok {
					v = at[i]
				}
			}
			if !ok {
				return nil, fmt.Errorf("%q leads nowhere", ref)
			}
		}
	}
	return c.compile(v, fragment)
}

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
