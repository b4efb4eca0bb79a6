package policy

import (
	"embed"
	"errors"
	"slices"
	"strings"
)

// The built-in policies are files like everyone's, with their reasons as comments, and are parsed when asked for. The
// default one is in Default too, so that a plain run parses nothing; a test holds the two together.
//
//go:embed builtin/*.yaml
var builtinFiles embed.FS

// BuiltinNames lists the built-in policies.
func BuiltinNames() []string { return []string{"default", "agent", "build", "strict"} }

func isBuiltin(name string) bool { return slices.Contains(BuiltinNames(), name) }

// Builtin is the text of a built-in policy.
func Builtin(name string) ([]byte, error) {
	if !isBuiltin(name) {
		return nil, &Error{Step: "policy", Object: name, Err: errors.New("there is no such policy"),
			Hint: "the built-in ones are " + strings.Join(BuiltinNames(), ", ") + "; a file is named with a slash or .yaml: ./" + name}
	}
	return builtinFiles.ReadFile("builtin/" + name + ".yaml")
}

func builtinDocument(name string) (*Document, error) {
	text, err := Builtin(name)
	if err != nil {
		return nil, err
	}
	d, err := ParseDocument(whyBuiltin+name, text)
	if err != nil {
		return nil, err
	}
	d.Name = name
	d.policy.Workspace.OrReadOnly = name == "default"
	return d, nil
}
