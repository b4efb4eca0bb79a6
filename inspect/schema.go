package inspect

import (
	"bytes"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"regexp"
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
