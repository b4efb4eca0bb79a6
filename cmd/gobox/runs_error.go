package main

import (
	"errors"
	"strings"

	"gobox/policy"
	"gobox/record"
)

// findState is the step that fails for want of a HOME.
const findState = "find state directory"

// recordError gives an error of the record the form of all others, with the way out that belongs to its reason.
func recordError(err error) error {
	var e *record.Error
	if !errors.As(err, &e) {
		return err
	}
	return &policy.Error{Step: e.Op, Object: e.Path, Err: e.Err, Hint: recordHint(e)}
}

func recordHint(e *record.Error) string {
	if strings.HasSuffix(e.Op, "result file") {
		return "--result FILE names a file in a folder that is there and that you may write to, or a pipe that somebody reads"
	}
	hint := ""
	switch e.Reason {
	case record.Full:
		hint = "gobox runs gc --older-than 30d makes room, and --audit DIR uses another folder"
	case record.ReadOnly, record.Forbidden, record.Failed:
		hint = "--audit DIR uses another folder"
	case record.Untrusted:
		hint = "records need a folder of your own that nobody else can write to: chmod go-w DIR, or another one with --audit DIR"
	case record.Removed:
		hint = "gobox runs list shows what is there"
		switch e.Op {
		case findState: // which is what list says, too
			hint = invalidHint(e.Op)
		case "open state directory":
			hint = "--audit DIR uses another folder"
		}
	case record.Exists:
		hint = "each run needs an id of its own; without --run-id gobox makes one"
	case record.Busy:
		hint = "try again when the other gobox has ended"
	case record.Conflict:
		hint = "use another key, or forget this one with gobox runs gc --key KEY"
	case record.Crashed:
		hint = "the command may have run in part; gobox runs gc --key KEY forgets the key so that it can run again"
	case record.Invalid:
		hint = invalidHint(e.Op)
	}
	return hint
}

// invalidHint tells what may stand in the place of a value, or of a file that was changed.
func invalidHint(op string) string {
	switch op {
	case findState:
		return "--audit DIR says where records are"
	case "find run":
		return "more of the run id makes it the only one; gobox runs list shows all"
	case "read gates":
		return "gobox runs gate --clear writes it anew and opens all gates"
	case "identify stdin":
		return "with --idempotency-key stdin is a file or /dev/null: gobox run ... </dev/null"
	case "use run id":
		return "--run-id ID, or none for one that gobox makes"
	case "use status descriptor":
		return "--status-fd 3 3>FILE"
	}
	return "somebody changed the record; gobox runs list shows which ones can be read"
}
