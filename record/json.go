package record

import (
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// encoder writes compact JSON (RFC 8259). encoding/json needs 200 microseconds to get to know a Result, in
// every run; this needs two. A test holds both to the same text.
type encoder struct {
	out  []byte
	more bool // something precedes in this object or list
}

func (e *encoder) next() {
	if e.more {
		e.out = append(e.out, ',')
	}
	e.more = true
}

func (e *encoder) nest(open, end byte, body func()) {
	e.out = append(e.out, open)
	e.more = false
	body()
	e.out = append(e.out, end)
	e.more = true
}

func (e *encoder) key(name string) {
	e.next()
	e.quote(name)
	e.out = append(e.out, ':')
}

func (e *encoder) object(name string, body func()) {
	e.key(name)
	e.nest('{', '}', body)
}

// list writes n elements, each of which is an object that element fills.
func (e *encoder) list(name string, n int, element func(i int)) {
	e.key(name)
	e.nest('[', ']', func() {
		for i := range n {
			e.next()
			e.nest('{', '}', func() { element(i) })
		}
	})
}

func (e *encoder) texts(name string, l []string) {
	e.key(name)
	e.nest('[', ']', func() {
		for _, s := range l {
			e.next()
			e.quote(s)
		}
	})
}

func (e *encoder) text(name, s string) {
	e.key(name)
	e.quote(s)
}

// textIf leaves an empty text out.
func (e *encoder) textIf(name, s string) {
	if s != "" {
		e.text(name, s)
	}
}

func (e *encoder) signed(name string, n int64) {
	e.key(name)
	e.out = strconv.AppendInt(e.out, n, 10)
}

func (e *encoder) count(name string, n uint64) {
	e.key(name)
	e.out = strconv.AppendUint(e.out, n, 10)
}

func (e *encoder) countIf(name string, n uint64) {
	if n != 0 {
		e.count(name, n)
	}
}

func (e *encoder) flag(name string, b bool) {
	e.key(name)
	e.out = strconv.AppendBool(e.out, b)
}

// millis writes milliseconds to the microsecond.
func (e *encoder) millis(name string, ms float64) {
	e.key(name)
	if math.IsNaN(ms) || math.IsInf(ms, 0) {
		ms = 0
	}
	e.out = strconv.AppendFloat(e.out, math.Round(ms*1000)/1000, 'f', -1, 64)
}

func (e *encoder) labels(name string, m map[string]string) {
	names := make([]string, 0, len(m))
	for k := range m {
		names = append(names, k)
	}
	slices.Sort(names)
	e.object(name, func() {
		for _, k := range names {
			e.text(k, m[k])
		}
	})
}

// quote escapes what JSON must have escaped, and what would act on a terminal or in a script that the text
// is pasted into: control characters, the line separators of JavaScript, and bidirectional controls.
func (e *encoder) quote(s string) {
	const hex = "0123456789abcdef"
	e.out = append(e.out, '"')
	start := 0
	for i := 0; i < len(s); {
		if c := s[i]; c >= ' ' && c < 0x7f && c != '"' && c != '\\' {
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r >= 0xa0 && !unsafeRune(r) && (r != utf8.RuneError || size > 1) {
			i += size
			continue
		}
		e.out = append(e.out, s[start:i]...)
		switch {
		case r == '"' || r == '\\':
			e.out = append(e.out, '\\', byte(r))
		case r == '\n':
			e.out = append(e.out, '\\', 'n')
		case r == '\t':
			e.out = append(e.out, '\\', 't')
		case r == '\r':
			e.out = append(e.out, '\\', 'r')
		default: // all of them are below U+10000
			e.out = append(e.out, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
		}
		i += size
		start = i
	}
	e.out = append(e.out, s[start:]...)
	e.out = append(e.out, '"')
}

// unsafeRune reports the format characters that reorder or break lines.
func unsafeRune(r rune) bool {
	return r >= 0x200b && r <= 0x200f || r >= 0x2028 && r <= 0x202e || r >= 0x2060 && r <= 0x206f || r == 0xfeff || r == 0x061c
}
