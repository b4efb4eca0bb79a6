package inspect

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// spellings gives the forms in which programs print a value: as it is, base64 at each of the three places in a group of
// three bytes, hexadecimal, percent-encoded and as a JSON string; folded base64 and the lines of a value that has several.
// The first is the value itself.
func spellings(v []byte) [][]byte {
	list := [][]byte{v}
	add := func(s string) {
		if len(s) >= LeastSecret {
			list = append(list, []byte(s))
		}
	}
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for skip := range 3 {
			add(inner(enc, v, skip))
		}
		// base64(1) and MIME fold at 76 columns, PEM at 64.
		whole := enc.EncodeToString(v)
		add(whole) // with the last digit, which inner has to leave
		add(enc.WithPadding(base64.StdPadding).EncodeToString(v))
		for _, width := range []int{76, 64} {
			if len(whole) <= width {
				continue
			}
			for line := range slices.Chunk([]byte(whole), width) {
				if len(line) >= leastLine {
					add(string(line))
				}
			}
		}
	}
	add(hex.EncodeToString(v))
	add(strings.ToUpper(hex.EncodeToString(v)))
	for _, s := range []string{url.QueryEscape(string(v)), url.PathEscape(string(v)), percent(v)} {
		add(s)
		add(lowerEscapes(s))
	}
	// The quotes are not the value's.
	if b, err := json.Marshal(string(v)); err == nil {
		add(string(b[1 : len(b)-1]))
	}
	var plain bytes.Buffer
	enc := json.NewEncoder(&plain)
	enc.SetEscapeHTML(false)
	if enc.Encode(string(v)) == nil {
		if s := strings.TrimSpace(plain.String()); len(s) > 2 {
			add(s[1 : len(s)-1])
		}
	}
	if bytes.IndexByte(v, '\n') >= 0 {
		for line := range bytes.Lines(v) {
			// What begins with dashes is the frame of a key, and no secret.
			if line = bytes.TrimSpace(line); len(line) >= leastLine && !bytes.HasPrefix(line, []byte("-----")) {
				add(string(line))
			}
		}
	}
	return list
}

// leastLine is the shortest part of a secret that is one itself, in bytes.
const leastLine = 16

// inner is the base64 of v where skip bytes of something else stand before it in its group, without the digits that have
// bits of a neighbour.
func inner(enc *base64.Encoding, v []byte, skip int) string {
	s := enc.EncodeToString(append(make([]byte, skip), v...))
	first := (skip*8 + 5) / 6
	last := (skip + len(v)) * 8 / 6
	return s[first:last]
}

// percent escapes everything that RFC 3986 does not call unreserved.
func percent(v []byte) string {
	var b strings.Builder
	for _, c := range v {
		if isAlnum(c) || strings.IndexByte("-._~", c) >= 0 {
			b.WriteByte(c)
		} else {
			b.WriteString("%" + strings.ToUpper(hex.EncodeToString([]byte{c})))
		}
	}
	return b.String()
}

// lowerEscapes writes the digits of percent escapes in lower case.
func lowerEscapes(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:i+3], bytes.ToLower(b[i+1:i+3]))
		}
	}
	return string(b)
}

func sortedKeys(m map[string][]byte) []string { return slices.Sorted(maps.Keys(m)) }
