package changes

import "strings"

// configValue is one variable of a git config, with its section and key in lower case.
type configValue struct{ section, key, text string }

// configValues reads the variables of a git config (git-config(1), Syntax). What it cannot make sense of it passes over, as
// git refuses such a file as a whole.
func configValues(text string) []configValue {
	var values []configValue
	section := ""
	text = strings.ReplaceAll(text, "\r\n", "\n")
	for text != "" {
		text = strings.TrimLeft(text, " \t\n")
		if strings.HasPrefix(text, "[") {
			section, text = configSection(text[1:])
			continue
		}
		end := strings.IndexAny(text, "=\n#;")
		if end < 0 || text[end] != '=' {
			_, text, _ = strings.Cut(text, "\n") // a comment, or a key that is true
			continue
		}
		key := strings.ToLower(strings.TrimSpace(text[:end]))
		var value string
		value, text = configText(text[end+1:])
		values = append(values, configValue{section, key, value})
	}
	return values
}

// configSection reads what is behind the bracket: a name, and perhaps a subsection in quotes, which is left out.
func configSection(text string) (name, rest string) {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\n':
			return "", text[i:]
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == ']' && !quoted:
			name, _, _ = strings.Cut(text[:i], "\"")
			return strings.ToLower(strings.TrimSpace(name)), text[i+1:]
		}
	}
	return "", ""
}

// configText reads a value to the end of its line: quotes and escapes are resolved, a comment outside quotes and the space
// around are cut, and a backslash at the end of the line joins the next one.
func configText(text string) (value, rest string) {
	var b strings.Builder
	kept := 0 // bytes up to the last that is no space outside quotes
	quoted := false
	i := 0
loop:
	for ; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\n':
			break loop
		case (c == '#' || c == ';') && !quoted:
			_, rest, _ = strings.Cut(text[i:], "\n")
			return b.String()[:kept], rest
		case c == '"':
			quoted = !quoted
			kept = b.Len()
			continue
		case c == '\\' && i+1 < len(text):
			i++
			switch c = text[i]; c {
			case '\n':
				continue
			case 'n':
				c = '\n'
			case 't':
				c = '\t'
			case 'b':
				c = '\b'
			}
			b.WriteByte(c)
			kept = b.Len()
			continue
		case (c == ' ' || c == '\t') && !quoted:
			if b.Len() > 0 {
				b.WriteByte(c)
			}
			continue
		}
		b.WriteByte(c)
		kept = b.Len()
	}
	return b.String()[:kept], text[i:]
}
