package policy

import (
	"errors"
	"fmt"
)

// Exit statuses of gobox's own, see docs/cli.md.
const (
	ExitTimeout       = 124 // wall clock or CPU time over
	ExitFailed        = 125 // gobox itself failed or refused; the command never ran
	ExitNotExecutable = 126
	ExitNotFound      = 127
	ExitData          = 65  // EX_DATAERR of <sysexits.h>: the command ran, and its output is not what --strict-output asks for
	ExitOutput        = 74  // EX_IOERR of <sysexits.h>: the command ran, and its output could not be passed on or kept, or its input could not be read
	ExitLimit         = 137 // killed for a limit on what it may use: memory, disk or output
)

// Error is a refusal or failure as the user sees it: which step, on what, why, and what to do next.
type Error struct {
	Step   string // "workspace", "mount", "landlock", "exec"...
	Object string // the path, flag or name it was about; may be empty
	Err    error  // the cause
	Hint   string // one sentence with the exact flag or command; may be empty
	Code   int    // exit status; 0 means ExitFailed
}

// Error gives "step object: cause", lower case and without a final stop.
func (e *Error) Error() string {
	if e.Object == "" {
		return fmt.Sprintf("%s: %v", e.Step, e.Err)
	}
	return fmt.Sprintf("%s %s: %v", e.Step, e.Object, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// ExitCode is the exit status for err: that of the *Error in its chain, else ExitFailed.
func ExitCode(err error) int {
	var e *Error
	if errors.As(err, &e) && e.Code != 0 {
		return e.Code
	}
	return ExitFailed
}
