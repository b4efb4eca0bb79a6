package toolchain

import "strings"

// setting is one `key = value` of a TOML file. Values has the strings of a string or an array of
// strings; it is empty for anything else, which the caller has to refuse if it needs the key.
type setting struct {
	section string
	key     string
	values  []string
}

// settings reads the part of TOML that version files use, line by line: tables, plain and quoted keys,
// one-line strings, one-line arrays of strings, and the `version` of an inline table. Everything else
// becomes a setting without values. It never fails, so that a file's other tables do not matter.
func settings(data string) []setting {
	var list []setting
	section, open := "", ""
	for line := range strings.Lines(data) {
		line = strings.TrimSpace(line)
		if open != "" {
			// Inside a multi-line string nothing is a table or a key.
			if strings.Contains(line, open) {
				open = ""
			}
			continue
		}
		if line == "" || line[0] == '#' || len(list) >= 1024 {
			continue
		}
		if line[0] == '[' {
			section = tableName(line)
			continue
		}
		key, rest, ok := tomlKey(line)
		if !ok {
			continue
		}
		for _, quote := range [...]string{`"""`, "'''"} {
			if after, ok := strings.CutPrefix(rest, quote); ok && !strings.Contains(after, quote) {
				open = quote
			}
		}
		list = append(list, setting{section, key, tomlValues(rest)})
	}
	return list
}

// tableName is the name in [name]; for arrays of tables and what is not understood, a name nobody asks for.
func tableName(line string) string {
	name, rest, ok := strings.Cut(line[1:], "]")
	if rest = strings.TrimSpace(rest); !ok || rest != "" && rest[0] != '#' || strings.HasPrefix(name, "[") {
		return "\x00"
	}
	return strings.TrimSpace(name)
}

// tomlKey splits `key = value`.
func tomlKey(line string) (key, rest string, ok bool) {
	if line[0] == '"' || line[0] == '\'' {
		key, rest, ok = tomlString(line)
		rest = strings.TrimSpace(rest)
		if !ok || !strings.HasPrefix(rest, "=") {
			return "", "", false
		}
		return key, strings.TrimSpace(rest[1:]), true
	}
	key, rest, ok = strings.Cut(line, "=")
	return strings.TrimSpace(key), strings.TrimSpace(rest), ok
}

// tomlString reads a one-line string. Of the escapes it knows `\"` and `\\`; a version needs no other.
func tomlString(s string) (value, rest string, ok bool) {
	if s == "" || s[0] != '"' && s[0] != '\'' || strings.HasPrefix(s, `"""`) || strings.HasPrefix(s, "'''") {
		return "", "", false
	}
	quote := s[0]
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == quote:
			return b.String(), s[i+1:], true
		case c == '\\' && quote == '"':
			i++
			if i == len(s) || s[i] != '"' && s[i] != '\\' {
				return "", "", false
			}
			b.WriteByte(s[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", "", false
}

func tomlValues(s string) []string {
	if s == "" {
		return nil
	}
	switch s[0] {
	case '"', '\'':
		if v, rest, ok := tomlString(s); ok && lineEnds(rest) {
			return []string{v}
		}
	case '[':
		return tomlArray(strings.TrimSpace(s[1:]))
	case '{':
		// node = { version = "20", postinstall = "..." }
		for rest := strings.TrimSpace(s[1:]); rest != ""; {
			key, value, ok := tomlKey(rest)
			if !ok {
				return nil
			}
			v, after, ok := tomlString(value)
			if !ok {
				return nil
			}
			if key == "version" {
				return []string{v}
			}
			rest = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(after), ","))
		}
	}
	return nil
}

func tomlArray(s string) []string {
	var list []string
	for {
		if rest, ok := strings.CutPrefix(s, "]"); ok {
			if !lineEnds(rest) {
				return nil
			}
			return list
		}
		v, rest, ok := tomlString(s)
		if !ok {
			return nil
		}
		list = append(list, v)
		s = strings.TrimSpace(rest)
		if after, ok := strings.CutPrefix(s, ","); ok {
			s = strings.TrimSpace(after)
		} else if !strings.HasPrefix(s, "]") {
			return nil
		}
	}
}

func lineEnds(s string) bool {
	s = strings.TrimSpace(s)
	return s == "" || s[0] == '#'
}
