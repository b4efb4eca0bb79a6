package record

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestSyncDir: what cannot be synced is no broken record, and a descriptor that is none is an error.
func TestSyncDir(t *testing.T) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(p[1])
	if err := unix.Fsync(p[0]); err != unix.EINVAL {
		t.Fatalf("a pipe can be synced: %v", err)
	}
	if err := syncDir(p[0]); err != nil {
		t.Error(err)
	}
	unix.Close(p[0])
	if err := syncDir(p[0]); err != unix.EBADF {
		t.Errorf("no descriptor: %v", err)
	}
}

// TestHasJournal: what is no disk has none.
func TestHasJournal(t *testing.T) {
	for _, path := range []string{"/proc", "/sys", "/dev/shm"} {
		var st unix.Stat_t
		if unix.Stat(path, &st) == nil && hasJournal(st.Dev) {
			t.Errorf("%s has a journal", path)
		}
	}
}
