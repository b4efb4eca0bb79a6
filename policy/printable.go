package policy

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Printable gives s with everything escaped that could move a terminal's cursor, reorder or hide text:
// control and format characters, separators other than the space, and bytes that are no UTF-8.
func Printable(s string) string {
	clean := true
	for _, r := range s {
		if r == utf8.RuneError || !strconv.IsPrint(r) {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var out strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		if r != utf8.RuneError && strconv.IsPrint(r) {
			out.WriteString(s[:size])
		} else {
			quoted := strconv.Quote(s[:size])
			out.WriteString(quoted[1 : len(quoted)-1])
		}
		s = s[size:]
	}
	return out.String()
}
