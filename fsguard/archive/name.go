package archive

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// cleanName gives the path of an entry beneath the folder, "." for the folder itself. It refuses what any
// system would take for a place elsewhere, also where Linux would not.
func cleanName(name string, allowBackslash bool) (path string, err error) {
	refuse := func(why string) (string, error) { return "", fmt.Errorf("%w: %s", ErrName, why) }
	switch {
	case name == "":
		return refuse("it is empty")
	case strings.IndexByte(name, 0) >= 0:
		return refuse("it has a NUL")
	case len(name) > targetMax:
		return refuse("it is longer than 4095 bytes")
	}
	if strings.IndexByte(name, '\\') >= 0 {
		if !allowBackslash {
			return "", ErrBackslash
		}
		if _, err := cleanName(strings.ReplaceAll(name, `\`, "/"), false); err != nil {
			return "", err
		}
	}
	if name[0] == '/' {
		return refuse("it is absolute")
	}
	if len(name) >= 2 && name[1] == ':' && unicode.IsLetter(rune(name[0])) && !strings.HasPrefix(name[2:], ":") {
		return refuse("it begins with a drive letter")
	}
	var parts []string
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "" || part == ".":
		case part == "..":
			return refuse("it has ..")
		case len(part) > 255:
			return refuse("a component is longer than 255 bytes")
		default:
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return ".", nil
	}
	return strings.Join(parts, "/"), nil
}

// fold gives names that a system without case would take for one the same key. Characters composed in
// different ways stay different.
func fold(name string) string {
	var b strings.Builder
	b.Grow(len(name))
	for len(name) > 0 {
		if c := name[0]; c < utf8.RuneSelf && c != 'k' && c != 'K' && c != 's' && c != 'S' {
			if 'A' <= c && c <= 'Z' {
				c += 'a' - 'A'
			}
			b.WriteByte(c)
			name = name[1:]
			continue
		}
		// k and s have a third form each: the Kelvin sign and the long s.
		r, size := utf8.DecodeRuneInString(name)
		if r == utf8.RuneError && size == 1 {
			b.WriteByte(name[0])
		} else {
			least := r
			for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
				least = min(least, next)
			}
			b.WriteRune(least)
		}
		name = name[size:]
	}
	return b.String()
}

// parents calls fn for each directory above path, the highest first.
func parents(path string, fn func(dir string) error) error {
	for i := range len(path) {
		if path[i] == '/' {
			if err := fn(path[:i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func depthOf(path string) int { return strings.Count(path, "/") + 1 }
