// Package httphead reads the head of an HTTP/1 message, strictly by RFC 9112: what two readers could understand in two
// ways (a bare line feed, folded lines, a space before the colon, two lengths) is an error and never repaired.
package httphead

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Bounds of a head.
const (
	MaxHead   = 64 << 10
	maxFields = 200
)

// ErrMore says that the head is not complete yet.
var ErrMore = errors.New("the head is not complete")

// Field is one header field, its value without the space around it.
type Field struct {
	Name, Value string
}

// Head is a request's or response's start line and fields.
type Head struct {
	Method, Target string // of a request
	Status         int    // of a response
	Phrase         string
	Minor          int // of HTTP/1.Minor, 0 or 1
	Fields         []Field
}

// Request reads a request's head at the beginning of b and says how long it is. It is ErrMore while b can still become one.
func Request(b []byte) (*Head, int, error) {
	if len(b) > 0 && !isToken(b[0]) {
		return nil, 0, errors.New("this is no HTTP")
	}
	lines, n, err := cut(b)
	if err != nil {
		return nil, 0, err
	}
	parts := strings.Split(lines[0], " ")
	if len(parts) != 3 || !Token(parts[0]) || parts[1] == "" {
		return nil, 0, errors.New("malformed request line")
	}
	h := &Head{Method: parts[0], Target: parts[1]}
	for i := range len(h.Target) {
		if c := h.Target[i]; c <= ' ' || c >= 0x7f {
			return nil, 0, errors.New("a character in the request's target that must be escaped there")
		}
	}
	if h.Minor, err = version(parts[2]); err != nil {
		return nil, 0, err
	}
	h.Fields, err = fields(lines[1:])
	return h, n, err
}

// Response reads a response's head.
func Response(b []byte) (*Head, int, error) {
	lines, n, err := cut(b)
	if err != nil {
		return nil, 0, err
	}
	v, rest, _ := strings.Cut(lines[0], " ")
	code, phrase, _ := strings.Cut(rest, " ")
	h := &Head{Phrase: phrase}
	if h.Minor, err = version(v); err != nil {
		return nil, 0, err
	}
	h.Status, err = strconv.Atoi(code)
	if err != nil || len(code) != 3 || h.Status < 100 {
		return nil, 0, errors.New("malformed status line")
	}
	h.Fields, err = fields(lines[1:])
	return h, n, err
}

// cut gives the lines of a head, the end of which is an empty line.
func cut(b []byte) ([]string, int, error) {
	end := bytes.Index(b, []byte("\r\n\r\n"))
	part := b
	if end >= 0 {
		part = b[:end+2]
	}
	if len(part) > MaxHead {
		return nil, 0, fmt.Errorf("the head is longer than %d bytes", MaxHead)
	}
	lines := 0
	for i, c := range part {
		if c == '\n' {
			lines++
		}
		switch {
		case lines > maxFields+1:
			return nil, 0, errFields()
		case c == '\n' && (i == 0 || part[i-1] != '\r'), c == '\r' && i+1 < len(part) && part[i+1] != '\n':
			return nil, 0, errors.New("a line does not end in CR LF")
		case c < ' ' && c != '\t' && c != '\r' && c != '\n', c == 0x7f:
			return nil, 0, errors.New("a control character in the head")
		}
	}
	if end < 0 {
		return nil, 0, ErrMore
	}
	return strings.Split(string(b[:end]), "\r\n"), end + 4, nil
}

func errFields() error { return fmt.Errorf("more than %d header fields", maxFields) }

// Decides tells whether a head that was not complete can be complete, or wrong, now that more of it has come; more begins
// with the last byte that was there before. So whoever reads on looks at all of it once for each line and not for each byte,
// which a sender of single bytes could have a process do whose time is in no limit.
func Decides(more []byte) bool {
	for _, c := range more {
		if c < ' ' && c != '\t' || c == 0x7f {
			return true
		}
	}
	return false
}

func version(s string) (int, error) {
	switch s {
	case "HTTP/1.1":
		return 1, nil
	case "HTTP/1.0":
		return 0, nil
	}
	return 0, errors.New("not HTTP/1.0 or HTTP/1.1")
}

func fields(lines []string) ([]Field, error) {
	if len(lines) > maxFields {
		return nil, errFields()
	}
	var out []Field
	for _, l := range lines {
		name, value, ok := strings.Cut(l, ":")
		if !ok || !Token(name) {
			return nil, errors.New("malformed header field")
		}
		out = append(out, Field{name, strings.Trim(value, " \t")})
	}
	return out, nil
}

// Get gives the values of the fields of that name.
func (h *Head) Get(name string) []string {
	var all []string
	for _, f := range h.Fields {
		if strings.EqualFold(f.Name, name) {
			all = append(all, f.Value)
		}
	}
	return all
}

// Del drops the fields of that name.
func (h *Head) Del(name string) {
	kept := h.Fields[:0]
	for _, f := range h.Fields {
		if !strings.EqualFold(f.Name, name) {
			kept = append(kept, f)
		}
	}
	h.Fields = kept
}

// Add appends a field.
func (h *Head) Add(name, value string) { h.Fields = append(h.Fields, Field{name, value}) }

// Append writes the head, with the empty line at its end.
func (h *Head) Append(b []byte) []byte {
	if h.Method != "" {
		b = fmt.Appendf(b, "%s %s HTTP/1.1\r\n", h.Method, h.Target)
	} else {
		b = fmt.Appendf(b, "HTTP/1.%d %03d %s\r\n", h.Minor, h.Status, h.Phrase)
	}
	for _, f := range h.Fields {
		b = fmt.Appendf(b, "%s: %s\r\n", f.Name, f.Value)
	}
	return append(b, "\r\n"...)
}

// Chunked and None stand for a length that is no number of bytes.
const (
	None    = 0
	Chunked = -1
)

// RequestBody gives the length of a request's body (RFC 9112, 6.3): bytes, or Chunked. Two lengths are an error, also if
// they are the same, and so is any coding besides chunked: that is what request smuggling is made of.
func (h *Head) RequestBody() (int64, error) {
	te, cl := h.Get("Transfer-Encoding"), h.Get("Content-Length")
	switch {
	case len(te) > 0 && len(cl) > 0:
		return 0, errors.New("both Transfer-Encoding and Content-Length")
	case len(te) > 0:
		if len(te) != 1 || !strings.EqualFold(te[0], "chunked") {
			return 0, errors.New("a Transfer-Encoding other than chunked")
		}
		if h.Minor == 0 {
			return 0, errors.New("Transfer-Encoding in HTTP/1.0")
		}
		return Chunked, nil
	case len(cl) > 1:
		return 0, errors.New("more than one Content-Length")
	case len(cl) == 0:
		return None, nil
	}
	for i := range len(cl[0]) {
		if cl[0][i] < '0' || cl[0][i] > '9' {
			return 0, errors.New("malformed Content-Length")
		}
	}
	n, err := strconv.ParseInt(cl[0], 10, 64)
	if err != nil {
		return 0, errors.New("malformed Content-Length")
	}
	return n, nil
}

// DropHopByHop takes out what ends at this hop (RFC 9110, 7.6.1): Connection, the fields it names, and the older ones that
// clients send to a proxy. Naming a field there that the message cannot do without is an error.
func (h *Head) DropHopByHop() error {
	for _, v := range h.Get("Connection") {
		for name := range strings.SplitSeq(v, ",") {
			name = strings.Trim(name, " \t")
			switch strings.ToLower(name) {
			case "", "close", "keep-alive":
				continue
			case "host", "content-length", "transfer-encoding", "authorization", "cookie":
				return fmt.Errorf("the Connection header names %s", name)
			}
			if !Token(name) {
				return errors.New("malformed Connection header")
			}
			h.Del(name)
		}
	}
	for _, name := range []string{"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authorization", "Proxy-Authenticate", "TE", "Trailer", "Upgrade"} {
		h.Del(name)
	}
	return nil
}

// Token says whether s is a token of RFC 9110, 5.6.2.
func Token(s string) bool {
	for i := range len(s) {
		if !isToken(s[i]) {
			return false
		}
	}
	return s != ""
}

func isToken(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}
