package archive

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestSwapWhileUnpacking exchanges folders of the unfinished tree with links to the outside while entries are
// made in them. Every archive is refused or unpacked; nothing reaches the outside.
func TestSwapWhileUnpacking(t *testing.T) {
	members := []member{folderNamed("d/")}
	for i := range 300 {
		members = append(members, file(fmt.Sprintf("d/f%d", i)))
	}
	data := forgeTar(members...)
	unpacked := 0
	var at []int // the entries at which it was refused
	for round := range 30 {
		b := newBox(t)
		outside := filepath.Join(b.dir, "..", "outside-"+filepath.Base(b.dir)+t.Name())
		if err := os.MkdirAll(outside, 0o755); err != nil {
			t.Fatal(err)
		}
		stop, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			for {
				select {
				case <-stop:
					return
				default:
				}
				found, _ := filepath.Glob(filepath.Join(b.dir, ".gobox-extract-*", "d"))
				for _, d := range found {
					// Somewhere in the work, and in the last rounds most likely after it.
					time.Sleep(time.Duration(round) * 300 * time.Microsecond)
					link := strings.TrimSuffix(d, "d") + "evil"
					_ = os.Symlink(outside, link)
					_ = unix.Renameat2(unix.AT_FDCWD, d, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE)
				}
			}
		}()
		_, err := b.extract(data, testOptions())
		close(stop)
		<-done
		var refused *RefusedError
		switch {
		case err == nil:
			unpacked++
		case errors.As(err, &refused):
			at = append(at, refused.Index)
		}
		entries, readErr := os.ReadDir(outside)
		if readErr != nil || len(entries) > 0 {
			t.Fatalf("the archive reached the outside: %d files, %v", len(entries), readErr)
		}
		b.check(t, err == nil)
		if err := errors.Join(os.RemoveAll(outside), os.RemoveAll(b.target)); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(at)
	if at = slices.Compact(at); len(at) < 3 {
		t.Errorf("the swaps only came at the entries %d", at)
	}
	t.Logf("%d of 30 were unpacked, others refused at the entries %d", unpacked, at)
}
