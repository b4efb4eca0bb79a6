package policy

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Only the parser of go-yaml is linked: its decoder, and every other YAML library, costs more of package
// initialisation, which a run pays twice, and a tree with line numbers is what a strict reader wants anyway.

const (
	// maxPolicyFile is the size of a policy file at most, in bytes. The one of a workspace is a
	// stranger's, and the parser takes time in the square of a block of text.
	maxPolicyFile = 32 << 10
	// maxBrackets bounds the nesting that the parser's recursion can meet.
	maxBrackets = 4096
)

type nodeKind int

const (
	scalarNode nodeKind = iota
	listNode
	mapNode
	nullNode
)

func (k nodeKind) String() string {
	return [...]string{"a single value", "a list", "a mapping", "nothing"}[k]
}

// node is what a policy file needs of YAML.
type node struct {
	kind  nodeKind
	line  int    // from 1
	text  string // of a scalar, as written: 1.10 stays 1.10
	items []*node
	keys  []entry
}

type entry struct {
	name  string
	line  int
	value *node
}

// lineError is an error at a line of a policy file.
type lineError struct {
	line int
	err  error
	hint string
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %v", e.line, e.err) }
func (e *lineError) Unwrap() error { return e.err }

func at(line int, format string, args ...any) *lineError {
	return &lineError{line: line, err: fmt.Errorf(format, args...)}
}

// readYAML reads one document of plain YAML: no anchors, aliases, tags or merges, whose meaning depends on
// the reader, and no key twice.
func readYAML(data []byte) (root *node, err error) {
	if len(data) > maxPolicyFile {
		return nil, at(1, "is larger than %s", Size(maxPolicyFile))
	}
	if line := bracketsAt(data); line > 0 {
		return nil, at(line, "has more than %d brackets and dashes", maxBrackets)
	}
	defer func() {
		// The text may be a stranger's, and a fault of the parser's is no reason to end otherwise than by refusal.
		if fault := recover(); fault != nil {
			root, err = nil, at(1, "is no YAML that can be read")
		}
	}()
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, syntaxError(err)
	}
	var body ast.Node
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.CommentType {
			continue
		}
		if body != nil {
			return nil, at(lineOf(doc.Body), "a second document")
		}
		body = doc.Body
	}
	if body == nil {
		return nil, at(1, "is empty")
	}
	return convert(body)
}

// bracketsAt gives the line at which there are too many characters that can open a level.
func bracketsAt(data []byte) int {
	line, open := 1, 0
	for i, c := range data {
		switch c {
		case '\n':
			line++
		case '[', '{', '?':
			open++
		case '-':
			if i+1 < len(data) && (data[i+1] == ' ' || data[i+1] == '\t') {
				open++
			}
		}
		if open > maxBrackets {
			return line
		}
	}
	return 0
}

func syntaxError(err error) error {
	var detail interface {
		GetToken() *token.Token
		GetMessage() string
	}
	if !errors.As(err, &detail) {
		return at(1, "is no YAML")
	}
	line := 1
	if tk := detail.GetToken(); tk != nil && tk.Position != nil {
		line = tk.Position.Line
	}
	return at(line, "is no YAML: %s", detail.GetMessage())
}

func lineOf(n ast.Node) int {
	if tk := n.GetToken(); tk != nil && tk.Position != nil {
		return tk.Position.Line
	}
	return 1
}

func convert(n ast.Node) (*node, error) {
	out := &node{line: lineOf(n)}
	switch n := n.(type) {
	case *ast.MappingNode:
		out.kind = mapNode
		return out, out.addKeys(n.Values)
	case *ast.MappingValueNode:
		out.kind, out.line = mapNode, lineOf(n.Key)
		return out, out.addKeys([]*ast.MappingValueNode{n})
	case *ast.SequenceNode:
		out.kind = listNode
		for _, item := range n.Values {
			inner, err := convert(item)
			if err != nil {
				return nil, err
			}
			out.items = append(out.items, inner)
		}
		return out, nil
	case *ast.StringNode:
		out.text = n.Value
		return out, nil
	case *ast.LiteralNode:
		out.text = n.Value.Value
		return out, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		out.text = n.GetToken().Value
		return out, nil
	case *ast.NullNode:
		out.kind = nullNode
		return out, nil
	}
	return nil, at(out.line, "a policy file has no anchors, aliases, tags and merges")
}

func (n *node) addKeys(pairs []*ast.MappingValueNode) error {
	seen := make(map[string]int, len(pairs))
	for _, pair := range pairs {
		line := lineOf(pair.Key)
		key, ok := pair.Key.(*ast.StringNode)
		if !ok {
			// A number or boolean is a name too: environment: {set: {1: x}} is refused later for what it is.
			switch pair.Key.(type) {
			case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
				key = &ast.StringNode{Value: pair.Key.GetToken().Value}
			default:
				return at(line, "a policy file has no anchors, aliases, tags and merges")
			}
		}
		if first, twice := seen[key.Value]; twice {
			return at(line, "%s is given twice, first in line %d", key.Value, first)
		}
		seen[key.Value] = line
		value, err := convert(pair.Value)
		if err != nil {
			return err
		}
		n.keys = append(n.keys, entry{name: key.Value, line: line, value: value})
	}
	return nil
}
