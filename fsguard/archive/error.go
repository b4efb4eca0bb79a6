package archive

import (
	"errors"
	"fmt"
)

// Why an archive is refused. Each comes in a *RefusedError where it is about one entry.
var (
	ErrFormat    = errors.New("is no archive gobox knows: tar, tar.gz, tar.zst, tar.xz, tar.bz2 or zip")
	ErrBroken    = errors.New("the archive is damaged")
	ErrAmbiguous = errors.New("the archive can be read in two ways")
	ErrEncrypted = errors.New("the entry is encrypted")
	ErrMethod    = errors.New("compressed in a way gobox does not read")
	ErrType      = errors.New("an entry of an unknown type")
	ErrName      = errors.New("the name could lead out of the folder")
	ErrBackslash = errors.New("the name has a backslash")
	ErrLink      = errors.New("the link could lead out of the folder")
	ErrThrough   = errors.New("the name goes through a symbolic link of the archive")
	ErrTwice     = errors.New("the name is taken by an earlier entry")
	ErrFold      = errors.New("the name differs from an earlier one in upper and lower case only")
	ErrTarget    = errors.New("the target folder") // see Extract
	ErrLimit     = errors.New("over the limit")    // see LimitError
)

// RefusedError is a refusal and the entry it is about.
type RefusedError struct {
	Index int    // of the entry, from 1 in the order of the archive
	Name  string // as the archive has it: any bytes
	Err   error
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("entry %d, %q: %v", e.Index, e.Name, e.Err)
}

func (e *RefusedError) Unwrap() error { return e.Err }

// LimitError tells which limit was passed. It unwraps to [ErrLimit].
type LimitError struct {
	What string // the field of Limits in lower case: "entries", "size", "file", "ratio", "depth"; or "names"
	Max  int64
}

func (e *LimitError) Error() string {
	switch e.What {
	case "entries":
		return fmt.Sprintf("more than %d entries", e.Max)
	case "size":
		return fmt.Sprintf("more than %d bytes in all", e.Max)
	case "file":
		return fmt.Sprintf("a file of more than %d bytes", e.Max)
	case "ratio":
		return fmt.Sprintf("unpacks to more than %d times its size", e.Max)
	case "depth":
		return fmt.Sprintf("a name of more than %d components", e.Max)
	}
	return fmt.Sprintf("more than %d bytes of %s", e.Max, e.What)
}

// Unwrap makes errors.Is(err, ErrLimit) true.
func (e *LimitError) Unwrap() error { return ErrLimit }

// broken keeps a decoder's own words.
func broken(err error) error { return fmt.Errorf("%w: %w", ErrBroken, err) }

func ambiguous(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrAmbiguous, fmt.Sprintf(format, args...))
}
