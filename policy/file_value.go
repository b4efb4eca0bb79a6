package policy

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// textOf reads a single value. None may be empty: what a template forgot to fill in must not mean "all" or "none".
func textOf(set func(*Policy, string) error) func(*Policy, *node) error {
	return func(p *Policy, n *node) error {
		switch {
		case n.kind == nullNode:
			return at(n.line, "is empty")
		case n.kind != scalarNode:
			return at(n.line, "is %s where a single value belongs", n.kind)
		}
		return value(n, func() error { return set(p, n.text) })
	}
}

func value(n *node, set func() error) error {
	var err error
	switch {
	case n.text == "":
		err = errEmpty
	case strings.IndexByte(n.text, 0) >= 0:
		err = errNUL
	default:
		err = set()
	}
	if err != nil {
		return at(n.line, "%s: %w", strconv.Quote(n.text), err)
	}
	return nil
}

func textsOf(add func(*Policy, string) error) func(*Policy, *node) error {
	return func(p *Policy, n *node) error {
		if n.kind != listNode {
			return at(n.line, "is %s where a list belongs", n.kind)
		}
		for _, item := range n.items {
			if err := textOf(add)(p, item); err != nil {
				return err
			}
		}
		return nil
	}
}

func pairsOf(add func(p *Policy, name, value string) error) func(*Policy, *node) error {
	return func(p *Policy, n *node) error {
		if n.kind != mapNode {
			return at(n.line, "is %s where a mapping belongs", n.kind)
		}
		for _, e := range n.keys {
			switch {
			case e.name == "" || strings.ContainsAny(e.name, "=\x00"):
				return at(e.line, "%q is no name", e.name)
			case e.value.kind != scalarNode:
				return at(e.line, "%s is %s where a single value belongs", e.name, e.value.kind)
			case strings.IndexByte(e.value.text, 0) >= 0:
				return at(e.line, "%s %w", e.name, errNUL)
			}
			if err := add(p, e.name, e.value.text); err != nil {
				return at(e.line, "%s: %w", e.name, err)
			}
		}
		return nil
	}
}

func parseBool(text string) (bool, error) {
	switch text {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, errors.New("is neither true nor false")
}

func oneOf(text string, words []string) error {
	if slices.Contains(words, text) {
		return nil
	}
	return errors.New("is none of " + strings.Join(words, ", "))
}

func appendNew[T comparable](list, more []T) []T {
	list = slices.Clip(list)
	for _, x := range more {
		if !slices.Contains(list, x) {
			list = append(list, x)
		}
	}
	return list
}

// foreign names what of list is not in bound.
func foreign(list, bound []string) string {
	for _, x := range list {
		if !slices.Contains(bound, x) {
			return x + " is not in the list of what is allowed"
		}
	}
	return ""
}

// LabelsOf puts labels into a map; of a name given twice the last counts.
func LabelsOf(list []string) map[string]string {
	labels := make(map[string]string, len(list))
	for _, kv := range list {
		name, value, _ := strings.Cut(kv, "=")
		labels[name] = value
	}
	return labels
}
