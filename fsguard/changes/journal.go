package changes

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"gobox/fsguard"
)

// verb is one kind of step in an apply.
type verb string

const (
	take  verb = "take"  // move what is at the path into its slot
	rmdir verb = "rmdir" // remove an empty folder
	mkdir verb = "mkdir" // give the staged folder, which can be written to, its path
	put   verb = "put"   // give the staged file in the slot its path, where nothing is
	swap  verb = "swap"  // exchange it with what is at the path
	chmod verb = "chmod"
)

// stages reports whether the step has something staged in its slot.
func (v verb) stages() bool { return v == put || v == swap || v == mkdir }

// step is one change of the workspace that the kernel does whole or not at all. Whether it was done can be seen from the
// workspace, so that the journal is written once before the first and once after the last.
type step struct {
	Verb verb   `json:"verb"`
	Path name   `json:"path"`
	Slot string `json:"slot,omitempty"` // in the staging folder
	// The staged file or folder, which a rename leaves as it is; of a chmod what is to get the mode, if not 0.
	Ino   uint64 `json:"ino,omitempty"`
	Mtime int64  `json:"mtime_ns,omitempty"`
	// Modes with setuid, setgid and sticky bits, and the owner, of a folder.
	OldMode uint32 `json:"old_mode,omitempty"`
	NewMode uint32 `json:"new_mode,omitempty"`
	UID     int    `json:"uid,omitempty"`
	GID     int    `json:"gid,omitempty"`

	before *fsguard.Info // what is to be taken or swapped out, as it was checked
	entry  *Entry
}

// phase says how far an apply came.
type phase string

const (
	staging phase = "staging" // the workspace is as it was, but for the staging folder
	moving  phase = "moving"  // steps are being done
	done    phase = "done"    // all are done, and on the disk
)

// journal is written before an apply touches anything.
type journal struct {
	SchemaVersion int    `json:"schema_version"`
	Hash          string `json:"hash"`
	Phase         phase  `json:"phase"`
	Staging       string `json:"staging"` // folder at the top of the workspace
	Steps         []step `json:"steps"`
	Entries       int    `json:"entries"`
}

func (j *journal) write(run *fsguard.Root) error {
	b, err := json.Marshal(j)
	if err == nil {
		err = replace(run, journalName, append(b, '\n'), true)
	}
	if err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	return nil
}

// readJournal gives nil where there is none.
func readJournal(run *fsguard.Root) (*journal, error) {
	b, err := readAll(run, journalName, maxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	j := &journal{}
	if err == nil {
		err = json.Unmarshal(b, j)
	}
	if err == nil {
		err = j.check()
	}
	if err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	return j, nil
}

// ErrUnfinished is for a run whose record alone tells how to undo what was begun in the workspace.
var ErrUnfinished = errors.New("an apply of its changes was cut short")

// Finished gives [ErrUnfinished] for the run directory of an apply that is under way or was cut short, and any other error
// of finding out.
func Finished(run string) error {
	_, err := os.Lstat(filepath.Join(run, journalName))
	switch {
	case err == nil:
		return ErrUnfinished
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return err
}

const stagingPrefix = ".gobox-apply-"

func (j *journal) check() error {
	if j.SchemaVersion < 1 || !validPath(j.Staging) || parentOf(j.Staging) != "." || len(j.Staging) <= len(stagingPrefix) || j.Staging[:len(stagingPrefix)] != stagingPrefix {
		return ErrManifest
	}
	switch j.Phase {
	case staging, moving, done:
	default:
		return ErrManifest
	}
	for _, s := range j.Steps {
		if !validPath(string(s.Path)) || s.Slot != "" && (!validPath(s.Slot) || parentOf(s.Slot) != ".") {
			return ErrManifest
		}
		if (s.Verb == take || s.Verb.stages()) != (s.Slot != "") {
			return ErrManifest
		}
	}
	return nil
}
