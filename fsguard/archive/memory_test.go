package archive

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gobox/fsguard"
)

// TestMemory unpacks 2 GiB in one file and looks at what the process needed: it is flat.
func TestMemory(t *testing.T) {
	const size = 2 << 30
	data := zstdBlank(size)
	b := newBox(t)
	debug.FreeOSMemory()
	before := rss(t)
	peak, stop := watch(t)
	report, err := Extract(t.Context(), bytes.NewReader(data), int64(len(data)), b.target, Options{Limits: Limits{Entries: 10, Size: size, File: size}})
	stop()
	if err != nil || report.Bytes != size {
		t.Fatalf("%+v, %v", report, err)
	}
	made, err := os.Stat(filepath.Join(b.target, "zeros"))
	if err != nil || made.Size() != size {
		t.Fatalf("%v, %v", made, err)
	}
	if real := made.Sys().(*syscall.Stat_t).Blocks * 512; real > 64<<20 {
		t.Errorf("the blank file takes %d bytes of disk", real)
	}
	if grown := *peak - before; grown > 64<<20 {
		t.Errorf("memory grew by %d bytes", grown)
	}
	t.Logf("memory before %d, at most %d", before, *peak)
}

// rss is the process's resident memory in bytes.
func rss(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// watch keeps the largest resident memory seen until stop.
func watch(t *testing.T) (peak *int64, stop func()) {
	peak = new(int64)
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			*peak = max(*peak, rss(t))
			select {
			case <-end:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return peak, func() { close(end); <-done }
}

// TestNamesAreBounded: what is remembered of an archive until its end, of which a small one can have any number.
func TestNamesAreBounded(t *testing.T) {
	root, err := fsguard.OpenRoot(t.TempDir(), fsguard.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	tree := newTree(t.Context(), root, Options{}, &Report{})
	target := strings.Repeat("a/", 2000)
	for i := range 2 * namesMax / len(target) {
		err := tree.add(&entry{name: "l" + strconv.Itoa(i), mode: fs.ModeSymlink | 0o777, link: target})
		if err == nil {
			continue
		}
		var limit *LimitError
		if held := i * len(target); !errors.As(err, &limit) || limit.What != "names" || held < namesMax/2 || held > namesMax {
			t.Errorf("after %d links: %v", i, err)
		}
		return
	}
	t.Error("there is no end")
}
