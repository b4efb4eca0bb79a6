package fsguard

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// What a guarded operation refuses. Each comes wrapped in an *fs.PathError with the operation and the name;
// errors.Is also finds the kernel's errno where there was one.
var (
	ErrName       = errors.New("not a name beneath the root")          // empty, absolute, "..", NUL or a component over NAME_MAX
	ErrSymlink    = errors.New("a symbolic link is in the way")        // ELOOP
	ErrMount      = errors.New("another mount is in the way")          // EXDEV
	ErrEscape     = errors.New("the path leaves the root")             // EXDEV, with links followed
	ErrNotRegular = errors.New("not a regular file")                   // directory, link, FIFO, socket or device
	ErrChanged    = errors.New("it was changed by somebody meanwhile") // the race was lost too often, or noticed
	ErrMode       = errors.New("mode bits beyond 0777")
	ErrLimit      = errors.New("over the limit") // see LimitError
)

// LimitError tells which bound an operation ran into. It unwraps to [ErrLimit].
type LimitError struct {
	What string // "entries", "depth", "size", "allocated size"
	Max  int64  // in the unit of What: a number, or bytes
}

func (e *LimitError) Error() string { return fmt.Sprintf("more than %d %s", e.Max, e.What) }

// Unwrap makes errors.Is(err, ErrLimit) true.
func (e *LimitError) Unwrap() error { return ErrLimit }

// refusal is the kernel's refusal and what it means here.
type refusal struct {
	kind  error
	errno unix.Errno
}

func (e *refusal) Error() string   { return e.kind.Error() }
func (e *refusal) Unwrap() []error { return []error{e.kind, e.errno} }

func (r *Root) fail(op, name string, err error) error {
	if err == nil {
		return nil
	}
	var done *fs.PathError
	if errors.As(err, &done) {
		return err
	}
	var errno unix.Errno
	if errors.As(err, &errno) {
		switch {
		case errno == unix.ELOOP:
			err = &refusal{ErrSymlink, errno}
		case errno == unix.EXDEV && r.options.FollowLinks && !isTwoNames(op):
			err = &refusal{ErrEscape, errno}
		case errno == unix.EXDEV:
			err = &refusal{ErrMount, errno}
		}
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// isTwoNames is for the calls whose own EXDEV means two mounts, whatever the resolution allows.
func isTwoNames(op string) bool { return op == "rename" || op == "link" }
