package toolchain

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Kind says what a caller should do with an Error.
type Kind uint8

const (
	NotFound      Kind = iota + 1 // no such command: exit status 127
	NotExecutable                 // there, but not a program the caller may execute: 126
	NotInstalled                  // a version manager selects a version that is not there
	Refused                       // it would make visible what must stay hidden, or is not understood
)

// Error is why a command cannot be resolved.
type Error struct {
	Kind   Kind
	Object string // the command or file it is about
	Err    error
	Hint   string // one sentence with the command or flag that helps; may be empty
}

func (e *Error) Error() string { return show(e.Object) + ": " + e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// show makes a name that came from a file safe to print, and short: the file may be no version file at all.
func show(name string) string {
	const limit = 200
	if len(name) > limit {
		name = name[:limit] + "..."
	}
	for _, c := range name {
		if c == utf8.RuneError || !strconv.IsPrint(c) {
			return strconv.Quote(name)
		}
	}
	return name
}

func refuse(object, hint, format string, args ...any) *Error {
	return &Error{Kind: Refused, Object: object, Err: fmt.Errorf(format, args...), Hint: hint}
}
