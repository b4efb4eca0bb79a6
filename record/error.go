package record

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Reason is why a record could not be written or read; callers tell them apart with [ReasonOf].
type Reason string

const (
	Full      Reason = "full"      // no space, quota or file size left
	ReadOnly  Reason = "read-only" // the file system is
	Forbidden Reason = "forbidden" // permissions
	Removed   Reason = "removed"   // somebody took the directory or a file away
	Untrusted Reason = "untrusted" // another user could have put it there
	Exists    Reason = "exists"    // the run id is taken
	Busy      Reason = "busy"      // another process holds it
	Invalid   Reason = "invalid"   // the value or the content is not what it must be
	Conflict  Reason = "conflict"  // the idempotency key was used for another request
	Crashed   Reason = "crashed"   // gobox was killed before the run had a result
	Failed    Reason = "failed"    // anything else
)

// Error is a failure of this package.
type Error struct {
	Op     string // verb and kind: "write record"
	Path   string
	Reason Reason
	Err    error
}

func (e *Error) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("%s: %v", e.Op, e.Err)
	}
	return fmt.Sprintf("%s %s: %v", e.Op, e.Path, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// ReasonOf gives the reason of the *Error in err's chain, and Failed for any other error.
func ReasonOf(err error) Reason {
	var e *Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return Failed
}

// failure wraps err with the reason that its errno tells.
func failure(op, path string, err error) error {
	if err == nil {
		return nil
	}
	reason := Failed
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT), errors.Is(err, unix.EFBIG):
		reason = Full
	case errors.Is(err, unix.EROFS):
		reason = ReadOnly
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		reason = Forbidden
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ESTALE):
		reason = Removed
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR):
		reason = Untrusted
	case errors.Is(err, unix.EEXIST):
		reason = Exists
	case errors.Is(err, unix.EWOULDBLOCK):
		reason = Busy
	}
	return &Error{Op: op, Path: path, Reason: reason, Err: err}
}

func invalid(op, path, cause string) error {
	return &Error{Op: op, Path: path, Reason: Invalid, Err: errors.New(cause)}
}

func untrusted(op, path, cause string) error {
	return &Error{Op: op, Path: path, Reason: Untrusted, Err: errors.New(cause)}
}
