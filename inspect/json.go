package inspect

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Anomaly is one way in which a document is not what it was to be.
type Anomaly struct {
	Kind   string // no_document, syntax, encoding, duplicate_name, trailing_data, too_large, too_deep, schema, schema_cost
	Detail string // for a person; at most a few hundred bytes, some of which the command has chosen
}

// Bounds of a document.
const (
	maxDocument = 64 << 20 // bytes
	maxDepth    = 512      // nested arrays and objects
	// With a schema the document is held as a tree, which can take fifty times its size.
	maxTreeBytes  = 16 << 20
	maxTreeValues = 1 << 20
	maxAnomalies  = 20
	maxDetail     = 300 // bytes
)

// JSON reads data to its end and says in what it is not exactly one JSON document (RFC 8259), of the schema if s is not nil.
// The error is that of reading.
func (s *Schema) JSON(data io.Reader) ([]Anomaly, error) {
	limit := int64(maxDocument)
	if s != nil {
		limit = maxTreeBytes
	}
	d := newDocument(data, limit, s != nil)
	tree := d.read()
	if d.err != nil {
		return nil, fmt.Errorf("read JSON: %w", d.err)
	}
	if len(d.found) == 0 && s != nil {
		d.found = s.validate(tree)
	}
	return d.found, nil
}

// document reads one JSON text, byte by byte: encoding/json takes time quadratic in the white space before a token, lets bytes
// through that are not UTF-8, and knows nothing of names that come twice.
type document struct {
	r      *bufio.Reader
	at     int64 // bytes read
	limit  int64
	keep   bool // the tree
	values int
	found  []Anomaly
	err    error // of reading
}

func newDocument(data io.Reader, limit int64, keep bool) *document {
	return &document{r: bufio.NewReaderSize(data, 64<<10), limit: limit, keep: keep}
}

// errStop ends the reading of a document, of which is noted already what is wrong.
var errStop = errors.New("stop")

func (d *document) stop(kind, format string, args ...any) error {
	d.found = append(d.found, Anomaly{kind, short(fmt.Sprintf(format, args...))})
	return errStop
}

func short(s string) string {
	if len(s) > maxDetail {
		s = strings.ToValidUTF8(s[:maxDetail], "") + "..."
	}
	return s
}

// read gives the tree, if it is kept, or leaves an anomaly.
func (d *document) read() any {
	b, err := d.skip()
	if errors.Is(err, io.EOF) {
		_ = d.stop("no_document", "there is no document")
		return nil
	}
	var tree any
	if err == nil {
		tree, err = d.value(b, 0)
	}
	if err == nil {
		end := d.at
		if _, err = d.skip(); err == nil {
			_ = d.stop("trailing_data", "more follows the document, which ends before byte %d", end)
			return nil
		}
		if errors.Is(err, io.EOF) {
			return tree
		}
	}
	if errors.Is(err, io.EOF) {
		_ = d.stop("syntax", "the document is not complete at byte %d", d.at)
	}
	return nil
}

// next gives one byte. Its error is io.EOF at the end, and errStop otherwise.
func (d *document) next() (byte, error) {
	b, err := d.r.ReadByte()
	if err == nil && d.at < d.limit {
		d.at++
		return b, nil
	}
	switch {
	case err == nil:
		return 0, d.stop("too_large", "the document has more than %d bytes", d.limit)
	case errors.Is(err, io.EOF):
		return 0, io.EOF
	}
	d.err = err
	return 0, errStop
}

// back gives the last byte back.
func (d *document) back() {
	_ = d.r.UnreadByte()
	d.at--
}

// skip gives the next byte that is no white space.
func (d *document) skip() (byte, error) {
	for {
		b, err := d.next()
		if err != nil || b != ' ' && b != '\t' && b != '\n' && b != '\r' {
			return b, err
		}
	}
}

func (d *document) unexpected(b byte, where string) error {
	return d.stop("syntax", "byte %d is %q, %s", d.at-1, b, where)
}

// value reads the value that begins with b.
func (d *document) value(b byte, depth int) (any, error) {
	if d.values++; d.keep && d.values > maxTreeValues {
		return nil, d.stop("too_large", "the document has more than %d values", maxTreeValues)
	}
	switch {
	case b == '[' || b == '{':
		if depth >= maxDepth {
			return nil, d.stop("too_deep", "more than %d arrays and objects are nested", maxDepth)
		}
		if b == '[' {
			return d.array(depth + 1)
		}
		return d.object(depth + 1)
	case b == '"':
		return d.text(d.keep)
	case b == 't':
		return true, d.word("rue")
	case b == 'f':
		return false, d.word("alse")
	case b == 'n':
		return nil, d.word("ull")
	case b == '-' || isDigit(b):
		return d.number(b)
	}
	return nil, d.unexpected(b, "where a value should begin")
}

func (d *document) word(rest string) error {
	for i := range len(rest) {
		b, err := d.next()
		if err != nil {
			return err
		}
		if b != rest[i] {
			return d.unexpected(b, "and not part of true, false or null")
		}
	}
	return nil
}

func (d *document) array(depth int) (any, error) {
	list := []any{}
	b, err := d.skip()
	if err != nil || b == ']' {
		return list, err
	}
	for {
		v, err := d.value(b, depth)
		if err != nil {
			return nil, err
		}
		if d.keep {
			list = append(list, v)
		}
		if b, err = d.skip(); err != nil || b == ']' {
			return list, err
		}
		if b != ',' {
			return nil, d.unexpected(b, "where an array goes on or ends")
		}
		if b, err = d.skip(); err != nil {
			return nil, err
		}
	}
}

func (d *document) object(depth int) (any, error) {
	// Readers differ in which of two equal names they take, so that the document means nothing certain.
	members := map[string]any{}
	b, err := d.skip()
	if err != nil || b == '}' {
		return members, err
	}
	for {
		if b != '"' {
			return nil, d.unexpected(b, "where a name should begin")
		}
		name, err := d.text(true)
		if err != nil {
			return nil, err
		}
		if _, twice := members[name]; twice {
			return nil, d.stop("duplicate_name", "an object has the name %s twice, before byte %d", quoted(name), d.at)
		}
		if b, err = d.skip(); err != nil {
			return nil, err
		}
		if b != ':' {
			return nil, d.unexpected(b, "where a colon should be")
		}
		if b, err = d.skip(); err != nil {
			return nil, err
		}
		v, err := d.value(b, depth)
		if err != nil {
			return nil, err
		}
		if !d.keep {
			v = nil
		}
		members[name] = v
		if b, err = d.skip(); err != nil || b == '}' {
			return members, err
		}
		if b != ',' {
			return nil, d.unexpected(b, "where an object goes on or ends")
		}
		if b, err = d.skip(); err != nil {
			return nil, err
		}
	}
}

// text reads a string behind its first quote, and gives it if it is wanted.
func (d *document) text(wanted bool) (string, error) {
	raw := []byte{'"'}
	take := func(b ...byte) {
		if wanted {
			raw = append(raw, b...)
		}
	}
	escaped := false
	for {
		b, err := d.next()
		if err != nil {
			return "", err
		}
		switch {
		case b == '"':
			if !wanted || !escaped {
				return string(raw[1:]), nil
			}
			var s string
			err := json.Unmarshal(append(raw, '"'), &s)
			return s, err
		case b == '\\':
			escaped = true
			if b, err = d.next(); err != nil {
				return "", err
			}
			if strings.IndexByte(`"\/bfnrtu`, b) < 0 {
				return "", d.unexpected(b, "behind a backslash")
			}
			take('\\', b)
			for i := 0; b == 'u' && i < 4; i++ {
				digit, err := d.next()
				if err != nil {
					return "", err
				}
				if !isDigit(digit) && (digit|0x20 < 'a' || digit|0x20 > 'f') {
					return "", d.unexpected(digit, "where a hexadecimal digit should be")
				}
				take(digit)
			}
		case b < 0x20:
			return "", d.unexpected(b, "a control character in a string")
		case b < utf8.RuneSelf:
			take(b)
		default:
			d.back()
			r, size, err := d.r.ReadRune()
			if err != nil || r == utf8.RuneError && size == 1 {
				return "", d.stop("encoding", "byte %d is not UTF-8", d.at)
			}
			if d.at += int64(size); d.at > d.limit {
				return "", d.stop("too_large", "the document has more than %d bytes", d.limit)
			}
			if wanted {
				raw = utf8.AppendRune(raw, r)
			}
		}
	}
}

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

// number reads what begins with b.
func (d *document) number(b byte) (any, error) {
	raw := []byte{b}
	var end error
	// more gives the next byte to b if that may be part of a number.
	more := func() bool {
		if b, end = d.next(); end != nil {
			return false
		}
		if !isDigit(b) && strings.IndexByte("+-.eE", b) < 0 {
			d.back()
			return false
		}
		if d.keep {
			raw = append(raw, b)
		}
		return true
	}
	digits := func() bool {
		n := 0
		for ; isDigit(b); n++ {
			if !more() {
				b = 0
			}
		}
		return n > 0
	}
	ok := true
	if b == '-' && !more() {
		b = 0
	}
	if b == '0' {
		if !more() {
			b = 0
		}
		ok = !isDigit(b)
	} else {
		ok = digits()
	}
	if ok && b == '.' {
		ok = more() && digits()
	}
	if ok && (b == 'e' || b == 'E') {
		if ok = more(); ok && (b == '+' || b == '-') {
			ok = more()
		}
		ok = ok && digits()
	}
	switch {
	case errors.Is(end, errStop):
		return nil, end
	case !ok && end != nil:
		return nil, end
	case !ok || b != 0:
		return nil, d.stop("syntax", "byte %d ends no number", d.at)
	}
	return json.Number(raw), nil
}
