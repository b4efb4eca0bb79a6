package seccomp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// SyntaxError is a fault in a profile file, with its place.
type SyntaxError struct {
	File         string
	Line, Column int // from 1, the column in bytes
	Msg          string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Msg)
}

// maxProfileSize and maxDepth bound what a profile file may take; Docker's own has 20 KiB and a depth of 5.
const (
	maxProfileSize = 1 << 20
	maxDepth       = 16
)

// node is a JSON value that remembers where it stood.
type node struct {
	offset int
	value  any // nil, bool, string, json.Number, []node or []member
}

type member struct {
	key string
	node
	keyOffset int
}

// document is the text of a profile.
type document struct {
	file string
	data []byte
}

// errorAt gives the place of offset in lines and columns.
func (d *document) errorAt(offset int, format string, args ...any) error {
	offset = max(0, min(offset, len(d.data)))
	before := d.data[:offset]
	return &SyntaxError{
		File:   d.file,
		Line:   1 + bytes.Count(before, []byte("\n")),
		Column: offset - bytes.LastIndexByte(before, '\n'),
		Msg:    fmt.Sprintf(format, args...),
	}
}

// parse reads one JSON value and nothing after it. A key given twice is an error: which of the two counts would be
// guesswork.
func (d *document) parse() (node, error) {
	if len(d.data) > maxProfileSize {
		return node{}, d.errorAt(0, "profile is larger than %d bytes", maxProfileSize)
	}
	decoder := json.NewDecoder(bytes.NewReader(d.data))
	decoder.UseNumber()
	root, err := d.parseValue(decoder, 0)
	if err != nil {
		return node{}, err
	}
	at := d.next(decoder)
	if _, err := decoder.Token(); err != io.EOF {
		return node{}, d.errorAt(at, "text after the profile's end")
	}
	return root, nil
}

func (d *document) parseValue(decoder *json.Decoder, depth int) (node, error) {
	if depth > maxDepth {
		return node{}, d.errorAt(d.next(decoder), "nested too deeply")
	}
	at := d.next(decoder)
	token, err := decoder.Token()
	if err != nil {
		return node{}, d.jsonError(at, err)
	}
	n := node{offset: at}
	switch t := token.(type) {
	case json.Delim:
		if t == '[' {
			n.value, err = d.parseArray(decoder, depth)
		} else {
			n.value, err = d.parseObject(decoder, depth)
		}
		if err != nil {
			return node{}, err
		}
		if _, err := decoder.Token(); err != nil { // the closing bracket
			return node{}, d.jsonError(d.next(decoder), err)
		}
	default:
		n.value = t
	}
	return n, nil
}

func (d *document) parseArray(decoder *json.Decoder, depth int) ([]node, error) {
	list := []node{}
	for decoder.More() {
		item, err := d.parseValue(decoder, depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	return list, nil
}

func (d *document) parseObject(decoder *json.Decoder, depth int) ([]member, error) {
	members := []member{}
	seen := map[string]bool{}
	for decoder.More() {
		at := d.next(decoder)
		token, err := decoder.Token()
		if err != nil {
			return nil, d.jsonError(at, err)
		}
		key, ok := token.(string)
		if !ok {
			return nil, d.errorAt(at, "key expected")
		}
		if seen[key] {
			return nil, d.errorAt(at, "%q is given twice", key)
		}
		seen[key] = true
		value, err := d.parseValue(decoder, depth+1)
		if err != nil {
			return nil, err
		}
		members = append(members, member{key: key, node: value, keyOffset: at})
	}
	return members, nil
}

// next is where the coming token starts.
func (d *document) next(decoder *json.Decoder) int {
	at := int(decoder.InputOffset())
	for at < len(d.data) && bytes.IndexByte([]byte(" \t\r\n,:"), d.data[at]) >= 0 {
		at++
	}
	return at
}

func (d *document) jsonError(at int, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return d.errorAt(len(d.data), "unexpected end of file")
	}
	return d.errorAt(at, "%v", err)
}

// object, list, text and number give the node's value if it is of that kind. null counts as an empty list or object,
// as Docker writes it.

func (d *document) object(n node, what string) ([]member, error) {
	if n.value == nil {
		return nil, nil
	}
	if members, ok := n.value.([]member); ok {
		return members, nil
	}
	return nil, d.errorAt(n.offset, "%s must be an object", what)
}

func (d *document) list(n node, what string) ([]node, error) {
	if n.value == nil {
		return nil, nil
	}
	if items, ok := n.value.([]node); ok {
		return items, nil
	}
	return nil, d.errorAt(n.offset, "%s must be a list", what)
}

func (d *document) text(n node, what string) (string, error) {
	if s, ok := n.value.(string); ok {
		return s, nil
	}
	return "", d.errorAt(n.offset, "%s must be a string", what)
}

func (d *document) texts(n node, what string) ([]node, []string, error) {
	items, err := d.list(n, what)
	if err != nil {
		return nil, nil, err
	}
	values := make([]string, len(items))
	for i, item := range items {
		if values[i], err = d.text(item, "an entry of "+what); err != nil {
			return nil, nil, err
		}
	}
	return items, values, nil
}

func (d *document) number(n node, what string, largest uint64) (uint64, error) {
	if s, ok := n.value.(json.Number); ok {
		if v, err := strconv.ParseUint(s.String(), 10, 64); err == nil && v <= largest {
			return v, nil
		}
	}
	return 0, d.errorAt(n.offset, "%s must be a whole number from 0 to %d", what, largest)
}
