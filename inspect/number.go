package inspect

import (
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
)

// maxExponent and maxDigits bound the numbers that are judged exactly: 1e999999999 is ten bytes, and as an integer would
// fill the memory.
const (
	maxExponent = 400
	maxDigits   = 1000
)

// exact gives n as a fraction, or false for one that is too large or too small for it.
func exact(n json.Number) (*big.Rat, bool) {
	s := string(n)
	if len(s) > maxDigits {
		return nil, false
	}
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		e, err := strconv.Atoi(s[i+1:])
		if err != nil || e > maxExponent || e < -maxExponent {
			return nil, false
		}
	}
	return new(big.Rat).SetString(s)
}

// canonical appends a text that two values have in common if and only if JSON Schema takes them for equal: 1 and 1.0, and
// objects whatever the order of their members.
func canonical(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case bool:
		return strconv.AppendBool(b, v)
	case string:
		return strconv.AppendQuote(b, v)
	case json.Number:
		if r, ok := exact(v); ok {
			return append(b, r.RatString()...)
		}
		return append(b, v...)
	case []any:
		b = append(b, '[')
		for _, e := range v {
			b = append(canonical(b, e), ',')
		}
		return append(b, ']')
	case map[string]any:
		b = append(b, '{')
		for _, name := range sortedNames(v) {
			b = append(strconv.AppendQuote(b, name), ':')
			b = append(canonical(b, v[name]), ',')
		}
		return append(b, '}')
	}
	return b
}
