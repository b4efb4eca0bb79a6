package archive

import (
	"io/fs"
	"time"
)

// Limits bounds what an archive may unpack to. Zero is no limit.
type Limits struct {
	Entries int64 // entries of the archive, and folders that are only implied by names
	Size    int64 // bytes of all files together, holes counted
	File    int64 // bytes of one file, holes counted
	Ratio   int64 // bytes unpacked for each byte of the archive, beyond the first 16 MiB
	Depth   int   // components of a name
}

// DefaultLimits is what gobox extract uses: room for a large source tree.
func DefaultLimits() Limits {
	return Limits{Entries: 200_000, Size: 4 << 30, File: 2 << 30, Ratio: 200, Depth: 100}
}

const (
	ratioFree = 16 << 20 // a short archive of blanks is no attack
	namesMax  = 64 << 20 // bytes of names and link targets held in memory
	targetMax = 4095     // PATH_MAX of linux/limits.h without the NUL
)

// Options is how to unpack. The zero value has no limits.
type Options struct {
	Limits
	Umask fs.FileMode // taken off every mode, as umask(2)
	// Skip leaves out the entries of these names and what is beneath them; they are compared with names as
	// the archive has them and with their clean form.
	Skip           []string
	AllowBackslash bool // take a backslash in a tar name for the plain character it is on Linux
	AllowFold      bool // take names that differ in upper and lower case only
}

// Report is what was unpacked.
type Report struct {
	Format    string        `json:"format"` // "tar", "tar.gz", "tar.zst", "tar.xz", "tar.bz2", "zip"
	Archive   int64         `json:"archive_bytes"`
	Bytes     int64         `json:"bytes"` // of all files, holes counted
	Entries   int64         `json:"entries"`
	Files     int64         `json:"files"`
	Folders   int64         `json:"folders"` // with those only implied by names
	Symlinks  int64         `json:"symlinks"`
	Hardlinks int64         `json:"hardlinks"`
	Changed   int64         `json:"changed"` // entries made harmless, left out or skipped
	Notes     []Note        `json:"notes"`   // about the first 1000 of them
	Elapsed   time.Duration `json:"elapsed_ns"`
}

// Note says what became of an entry that is not unpacked as the archive has it.
type Note struct {
	Index int    `json:"index"`
	Name  string `json:"name"` // any bytes
	What  string `json:"what"`
}

const notesMax = 1000

func (r *Report) note(index int, name, what string) {
	r.Changed++
	if len(r.Notes) < notesMax {
		r.Notes = append(r.Notes, Note{index, name, what})
	}
}
