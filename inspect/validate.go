package inspect

import (
	"encoding/json"
	"math/big"
	"slices"
	"strconv"
	"unicode/utf8"
)

// maxSteps bounds the work of one validation: schemas applied to values, members and items looked at. Alternatives that
// refer to each other can multiply it.
const maxSteps = 20_000_000

// maxNesting bounds schemas applied inside each other, which a reference to itself would do without end.
const maxNesting = 4 * maxDepth

// validation is one document against one schema.
type validation struct {
	steps int
	deep  int
	over  bool
	found []Anomaly
	quiet int // inside an alternative, whose failure is none yet
}

func (s *Schema) validate(tree any) []Anomaly {
	v := &validation{}
	v.check(s.root, tree, "")
	if v.over {
		return []Anomaly{{"schema_cost", "the document takes too long to judge by this schema"}}
	}
	return v.found
}

// below is the place of a member or item. The command chose the names on the way, and how long they are.
func below(at, name string) string {
	if len(at) > maxDetail/2 {
		return at
	}
	return at + "/" + escapePointer(short(name))
}

func quoted(name string) string { return strconv.Quote(short(name)) }

// fails notes what is wrong with the value at a place.
func (v *validation) fails(at, word, detail string) bool {
	if v.quiet == 0 && len(v.found) < maxAnomalies {
		if at == "" {
			at = "the top"
		}
		v.found = append(v.found, Anomaly{"schema", short("at " + at + ": " + word + ": " + detail)})
	}
	return false
}

// holds is check without noting anything.
func (v *validation) holds(n *node, value any, at string) bool {
	v.quiet++
	ok := v.check(n, value, at)
	v.quiet--
	return ok
}

func (v *validation) step() bool {
	v.steps++
	v.over = v.over || v.steps > maxSteps
	return !v.over
}

// key is the canonical text of a value, and counts as work.
func (v *validation) key(value any) string {
	if v.over {
		return ""
	}
	b := canonical(nil, value)
	v.steps += len(b) / 16
	return string(b)
}

// check says whether value, which stands at the JSON pointer at, is as n asks.
func (v *validation) check(n *node, value any, at string) bool {
	if n == nil {
		return true
	}
	if v.deep++; v.deep > maxNesting {
		v.over = true
	}
	defer func() { v.deep-- }()
	if !v.step() {
		return false
	}
	if n.never {
		return v.fails(at, "false", "nothing may be here")
	}
	ok := n.ref == nil || v.check(n.ref, value, at)
	if n.types != nil && !slices.ContainsFunc(n.types, func(t string) bool { return isType(value, t) }) {
		ok = v.fails(at, "type", "is no "+n.types[0])
	}
	if n.enum != nil && !n.enum[v.key(value)] {
		ok = v.fails(at, "enum", "is none of the values that are allowed")
	}
	switch x := value.(type) {
	case json.Number:
		ok = v.number(n, x, at) && ok
	case string:
		ok = v.text(n, x, at) && ok
	case []any:
		ok = v.array(n, x, at) && ok
	case map[string]any:
		ok = v.object(n, x, at) && ok
	}
	return v.joined(n, value, at) && ok
}

func isType(value any, t string) bool {
	switch x := value.(type) {
	case nil:
		return t == "null"
	case bool:
		return t == "boolean"
	case string:
		return t == "string"
	case []any:
		return t == "array"
	case map[string]any:
		return t == "object"
	case json.Number:
		if t == "number" {
			return true
		}
		r, ok := exact(x)
		return t == "integer" && ok && r.IsInt()
	}
	return false
}

func (v *validation) number(n *node, x json.Number, at string) bool {
	if n.minimum == nil && n.maximum == nil && n.aboveMin == nil && n.belowMax == nil && n.multipleOf == nil {
		return true
	}
	r, ok := exact(x)
	if !ok {
		return v.fails(at, "number", "is too large or too long to judge")
	}
	if n.minimum != nil && r.Cmp(n.minimum) < 0 {
		ok = v.fails(at, "minimum", "is less than "+n.minimum.RatString())
	}
	if n.maximum != nil && r.Cmp(n.maximum) > 0 {
		ok = v.fails(at, "maximum", "is more than "+n.maximum.RatString())
	}
	if n.aboveMin != nil && r.Cmp(n.aboveMin) <= 0 {
		ok = v.fails(at, "exclusiveMinimum", "is not more than "+n.aboveMin.RatString())
	}
	if n.belowMax != nil && r.Cmp(n.belowMax) >= 0 {
		ok = v.fails(at, "exclusiveMaximum", "is not less than "+n.belowMax.RatString())
	}
	if n.multipleOf != nil && !new(big.Rat).Quo(r, n.multipleOf).IsInt() {
		ok = v.fails(at, "multipleOf", "is no multiple of "+n.multipleOf.RatString())
	}
	return ok
}

func (v *validation) text(n *node, x string, at string) bool {
	ok := true
	if n.minLength != nil || n.maxLength != nil {
		length := utf8.RuneCountInString(x)
		ok = v.within(length, n.minLength, n.maxLength, at, "Length", "characters")
	}
	if n.pattern != nil && !n.pattern.MatchString(x) {
		ok = v.fails(at, "pattern", "does not match "+n.pattern.String())
	}
	return ok
}

// within checks a count against bounds, of which either may be missing.
func (v *validation) within(n int, least, most *int, at, word, things string) bool {
	ok := true
	if least != nil && n < *least {
		ok = v.fails(at, "min"+word, "has "+strconv.Itoa(n)+" "+things+", fewer than "+strconv.Itoa(*least))
	}
	if most != nil && n > *most {
		ok = v.fails(at, "max"+word, "has "+strconv.Itoa(n)+" "+things+", more than "+strconv.Itoa(*most))
	}
	return ok
}

func (v *validation) array(n *node, x []any, at string) bool {
	ok := v.within(len(x), n.minItems, n.maxItems, at, "Items", "items")
	for i, e := range x {
		var is *node
		if i < len(n.prefix) {
			is = n.prefix[i]
		} else if is = n.rest; is == nil {
			break
		}
		if !v.step() {
			return false
		}
		ok = v.check(is, e, below(at, strconv.Itoa(i))) && ok
	}
	if n.unique {
		seen := make(map[string]bool, len(x))
		for _, e := range x {
			key := v.key(e)
			if seen[key] {
				ok = v.fails(at, "uniqueItems", "has an item twice")
				break
			}
			seen[key] = true
		}
	}
	if n.contains != nil {
		held := 0
		for i, e := range x {
			if v.holds(n.contains, e, below(at, strconv.Itoa(i))) {
				held++
			}
		}
		least := 1
		if n.minContains != nil {
			least = *n.minContains
		}
		ok = v.within(held, &least, n.maxContains, at, "Contains", "items of the kind") && ok
	}
	return ok
}

func (v *validation) object(n *node, x map[string]any, at string) bool {
	ok := v.within(len(x), n.minProps, n.maxProps, at, "Properties", "members")
	for _, name := range n.required {
		if _, there := x[name]; !there {
			ok = v.fails(at, "required", "has no "+quoted(name))
		}
	}
	if n.properties == nil && n.patterns == nil && n.additional == nil && n.names == nil && n.needs == nil {
		return ok
	}
	for _, name := range sortedNames(x) {
		if !v.step() {
			return false
		}
		here := below(at, name)
		is, known := n.properties[name]
		ok = v.check(is, x[name], here) && ok
		for _, p := range n.patterns {
			if v.step() && p.re.MatchString(name) {
				known = true
				ok = v.check(p.is, x[name], here) && ok
			}
		}
		if !known && n.additional != nil {
			if n.additional.never {
				ok = v.fails(at, "additionalProperties", "has "+quoted(name))
			} else {
				ok = v.check(n.additional, x[name], here) && ok
			}
		}
		if n.names != nil && !v.holds(n.names, name, here) {
			ok = v.fails(at, "propertyNames", "has "+quoted(name))
		}
		for _, other := range n.needs[name] {
			if _, there := x[other]; !there {
				ok = v.fails(at, "dependentRequired", "has "+quoted(name)+" without "+quoted(other))
			}
		}
		ok = v.check(n.implies[name], x, at) && ok
	}
	return ok
}

func (v *validation) joined(n *node, value any, at string) bool {
	ok := true
	for _, s := range n.allOf {
		ok = v.check(s, value, at) && ok
	}
	if n.anyOf != nil && !slices.ContainsFunc(n.anyOf, func(s *node) bool { return v.holds(s, value, at) }) {
		ok = v.fails(at, "anyOf", "is as none of the alternatives asks")
	}
	if n.oneOf != nil {
		held := 0
		for _, s := range n.oneOf {
			if v.holds(s, value, at) {
				held++
			}
		}
		if held != 1 {
			ok = v.fails(at, "oneOf", "is as "+strconv.Itoa(held)+" of the alternatives ask, and not as one")
		}
	}
	if n.not != nil && v.holds(n.not, value, at) {
		ok = v.fails(at, "not", "is as it may not be")
	}
	if n.when != nil {
		if v.holds(n.when, value, at) {
			ok = v.check(n.then, value, at) && ok
		} else {
			ok = v.check(n.otherwise, value, at) && ok
		}
	}
	return ok
}
