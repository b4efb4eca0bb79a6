package changes

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// collectAdded collects an upper directory over an empty workspace.
func collectAdded(t *testing.T, ctx context.Context, script string, l Limits) (*Set, string) {
	t.Helper()
	upper, run := tempDir(t), tempDir(t)
	shell(t, upper, script)
	set, err := Collect(ctx, openRoot(t, upper), nil, openRoot(t, run), Options{Limits: l})
	if err != nil {
		t.Fatal(err)
	}
	return set, run
}

func TestOverALimitTheSetIsRefusedWhole(t *testing.T) {
	over, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	stopped, stop := context.WithCancel(t.Context())
	stop()
	tests := []struct {
		name, script string
		ctx          context.Context
		limits       Limits
		want         string
	}{
		{"entries", "echo a >a; echo b >b; echo c >c", t.Context(), Limits{Entries: 3}, "more than 3 entries"},
		{"depth", "echo a >a; mkdir -p 1/2/3/4", t.Context(), Limits{Depth: 3}, "more than 3 components in depth"},
		{"size", "echo aaaa >a; echo bbbb >b", t.Context(), Limits{Size: 9}, "more than 9 bytes of content"},
		{"holes", "echo a >a; truncate -s 1G hole", t.Context(), Limits{Size: 1 << 20}, "bytes of content"},
		{"time", "echo a >a", over, Limits{}, "taking out the changes was not done in time"},
		{"interrupted", "echo a >a", stopped, Limits{}, "taking out the changes was interrupted"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			set, run := collectAdded(t, test.ctx, test.script, test.limits)
			if !strings.Contains(set.Refused, test.want) || len(set.Entries) > 0 || set.Hash != "" {
				t.Errorf("set %+v", set)
			}
			loaded, err := Load(openRoot(t, run))
			if err != nil || loaded.Refused != set.Refused {
				t.Errorf("loaded %+v, %v", loaded, err)
			}
			if blobs, err := os.ReadDir(run + "/" + blobsDir); err != nil || len(blobs) > 0 {
				t.Errorf("contents were left: %v, %v", blobs, err)
			}
			if _, err := Apply(t.Context(), openRoot(t, run), openRoot(t, tempDir(t)), Request{}); err == nil {
				t.Error("it was applied")
			}
		})
	}
	set, _ := collectAdded(t, t.Context(), "echo aaaa >a; echo bbbb >b", Limits{Size: 10, Entries: 10, Depth: 1})
	if set.Refused != "" || len(set.Entries) != 2 {
		t.Errorf("within the limits: %+v", set)
	}
}

func TestHolesStayHoles(t *testing.T) {
	set, run := collectAdded(t, t.Context(), "truncate -s 256M hole; echo end >>hole", Limits{})
	if len(set.Entries) != 1 {
		t.Fatalf("set %s", brief(set))
	}
	st, err := openRoot(t, run).Lstat(blobName(set.Entries[0].New.SHA256))
	if err != nil || st.Size != 256<<20+4 || st.Real > 8<<20 {
		t.Errorf("%+v, %v", st, err)
	}
}

func TestOldContentBeyondTheLimitIsKnownByItsTime(t *testing.T) {
	workspace, upper, run := tempDir(t), tempDir(t), tempDir(t)
	shell(t, workspace, "echo old content >a; echo old >b")
	shell(t, upper, "echo new >a; echo new >b")
	set, err := Collect(t.Context(), openRoot(t, upper), openRoot(t, workspace), openRoot(t, run), Options{Limits: Limits{Hashed: 8}})
	if err != nil {
		t.Fatal(err)
	}
	if e := set.find("a"); e.Kind != Modified || e.Old.SHA256 != "" || e.Old.Mtime == 0 {
		t.Errorf("%+v", e.Old)
	}
	if e := set.find("b"); e.Old.SHA256 == "" {
		t.Errorf("%+v", e.Old)
	}
	f := &fixture{t: t, workspace: workspace, run: run, set: set}
	shell(t, workspace, "touch -d '1 hour ago' a")
	if _, err := f.apply(Request{}); err == nil || !strings.Contains(err.Error(), "changed in one place") {
		t.Errorf("with another time: %v", err)
	}
	if err := os.Chtimes(workspace+"/a", time.Now(), time.Unix(0, set.find("a").Old.Mtime)); err != nil {
		t.Fatal(err)
	}
	if _, err := f.apply(Request{}); err != nil {
		t.Error(err)
	}
}

func TestWhatChangedWhileTheCommandRanIsAConflict(t *testing.T) {
	workspace, upper, run := tempDir(t), tempDir(t), tempDir(t)
	shell(t, workspace, "echo a >a; echo b >b")
	started := time.Now()
	time.Sleep(20 * time.Millisecond) // a file's time is that of the last tick
	shell(t, workspace, "echo mine >a")
	shell(t, upper, "echo A >a; echo B >b")
	set, err := Collect(t.Context(), openRoot(t, upper), openRoot(t, workspace), openRoot(t, run), Options{Started: started})
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, workspace: workspace, run: run, set: set}
	if !set.find("a").Late || set.find("b").Late {
		t.Errorf("late: %s", brief(set))
	}
	if _, err := f.apply(Request{}); err == nil {
		t.Error("it was applied")
	}
	if _, err := f.apply(Request{Skip: []string{"a"}}); err != nil {
		t.Error(err)
	}
	if got := tree(t, workspace); got != "a -rw-r--r-- \"mine\\n\"\nb -rw-r--r-- \"B\\n\"\n" {
		t.Errorf("got\n%s", got)
	}
}

// TestCostGrowsWithTheChanges counts what is looked at, over a workspace of 100,000 files.
func TestCostGrowsWithTheChanges(t *testing.T) {
	workspace, upper, run := memoryDir(t), tempDir(t), tempDir(t)
	for d := range 100 {
		dir := filepath.Join(workspace, fmt.Sprintf("d%02d", d))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for f := range 1000 {
			if err := os.WriteFile(fmt.Sprintf("%s/f%03d", dir, f), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	shell(t, upper, "mkdir d01 d50; chmod 755 d01 d50; echo a >d01/f001; echo b >d50/new; echo c >d50/f999")
	c := &collector{ctx: context.Background(), upper: openRoot(t, upper), lower: openRoot(t, workspace), limits: Limits{}.filled()}
	c.store = &store{run: openRoot(t, run), size: math.MaxInt64, hashed: math.MaxInt64}
	if err := c.walk(); err != nil {
		t.Fatal(err)
	}
	if len(c.entries) != 3 || c.seen != 6 {
		t.Errorf("%d entries of %d paths looked at, want 3 of 6: the root, two folders and three files", len(c.entries), c.seen)
	}
}
