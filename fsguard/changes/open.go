package changes

import (
	"os"

	"gobox/fsguard"
)

// OpenNew opens the content that e would put in place, from the run directory that the set was collected in. e must be of a
// file that is new or has other content. The file is the caller's.
func OpenNew(run *fsguard.Root, e *Entry) (*os.File, error) { return run.Open(blobName(e.New.SHA256)) }
