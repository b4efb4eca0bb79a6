package changes

import (
	"strings"
	"unicode"
)

// fold gives the form of a path in which names are compared with the table: that of the most forgiving file system by
// which the folder may be read. Such take case as equal, and, as ext4 with casefold, characters that mean nothing, ligatures and the
// long s; Windows and what it shares drop dots and spaces at the end and what follows a colon, and have short names. git itself holds the
// same names for .git (core.protectHFS, core.protectNTFS in git-config(1)).
func fold(p string) string {
	plain := true
	for i := 0; i < len(p) && plain; i++ {
		switch c := p[i]; {
		case c >= 0x80, c == ' ', c == ':', c == '~':
			plain = false
		case c == '.' && i > 0 && (i+1 == len(p) || p[i+1] == '/') && p[i-1] != '/':
			plain = false
		}
	}
	if plain {
		return strings.ToLower(p)
	}
	parts := strings.Split(p, "/")
	for i, part := range parts {
		if short := foldName(part); short != "" {
			parts[i] = short
		}
	}
	return strings.Join(parts, "/")
}

func foldName(name string) string {
	var b strings.Builder
	for _, r := range name {
		if r < 0x80 || !meansNothing(r) {
			if wide, ok := ligatures[r]; ok {
				b.WriteString(wide)
			} else {
				b.WriteRune(unicode.ToLower(unicode.ToUpper(r)))
			}
		}
	}
	name, _, _ = strings.Cut(b.String(), ":")
	name = strings.TrimRight(name, " .")
	switch name {
	case "git~1":
		return ".git"
	case "gitmod~1":
		return ".gitmodules"
	}
	return name
}

// ligatures are those whose full case folding is ASCII (CaseFolding.txt of Unicode).
var ligatures = map[rune]string{'ﬀ': "ff", 'ﬁ': "fi", 'ﬂ': "fl", 'ﬃ': "ffi", 'ﬄ': "ffl", 'ﬅ': "st", 'ﬆ': "st", 'ß': "ss", 'ẞ': "ss"}

// meansNothing tells of the property Default_Ignorable_Code_Point (DerivedCoreProperties.txt of Unicode).
func meansNothing(r rune) bool {
	switch {
	case r == 0xad, r == 0x34f, r == 0x61c, r == 0x115f, r == 0x1160, r == 0x17b4, r == 0x17b5, r == 0x3164, r == 0xfeff, r == 0xffa0,
		r >= 0x180b && r <= 0x180f, r >= 0x200b && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2060 && r <= 0x206f,
		r >= 0xfe00 && r <= 0xfe0f, r >= 0xfff0 && r <= 0xfff8, r >= 0x1bca0 && r <= 0x1bca3, r >= 0x1d173 && r <= 0x1d17a,
		r >= 0xe0000 && r <= 0xe0fff:
		return true
	}
	return false
}
