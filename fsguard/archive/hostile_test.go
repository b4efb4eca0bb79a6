package archive

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const canary = "canary: nobody may read or change this"

// box is a directory with a canary beside the target.
type box struct{ dir, target string }

func newBox(t testing.TB) box {
	b := box{dir: t.TempDir()}
	b.target = filepath.Join(b.dir, "target")
	for _, name := range []string{"outside", "x", "passwd"} {
		if err := os.WriteFile(filepath.Join(b.dir, name), []byte(canary), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// check looks after the canaries and what else is beside the target.
func (b box) check(t testing.TB, wantTarget bool) {
	t.Helper()
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
		if e.Name() == "target" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(b.dir, e.Name()))
		info, statErr := e.Info()
		if err != nil || statErr != nil || string(text) != canary || info.Mode() != 0o600 || info.Sys().(*unixStat).Nlink != 1 {
			t.Errorf("%s reads %q, %v, mode %v", e.Name(), text, err, info.Mode())
		}
	}
	want := []string{"outside", "passwd", "target", "x"}
	if !wantTarget {
		want = []string{"outside", "passwd", "x"}
	}
	if !slices.Equal(names, want) {
		t.Errorf("the folder holds %q, want %q", names, want)
	}
}

func (b box) extract(data []byte, o Options) (*Report, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return Extract(ctx, bytes.NewReader(data), int64(len(data)), b.target, o)
}

func testOptions() Options {
	return Options{
		Limits: Limits{Entries: 1000, Size: 256 << 20, File: 128 << 20, Ratio: 200, Depth: 50},
		Umask:  0o022,
	}
}

type hostile struct {
	name string
	data []byte
	want error // the refusal
}

// TestHostile unpacks what must be refused. Nothing may be left, inside or outside of the target.
func TestHostile(t *testing.T) {
	cases := append(hostileTars(t), hostileZips()...)
	if len(cases) < 100 {
		t.Errorf("%d archives, want 100", len(cases))
	}
	for _, c := range cases {
		t.Run(strings.NewReplacer(" ", "_", "/", ":", "\x00", "NUL").Replace(c.name), func(t *testing.T) {
			b := newBox(t)
			report, err := b.extract(c.data, testOptions())
			if !errors.Is(err, c.want) {
				t.Errorf("%v, %+v, want %v", err, report, c.want)
			}
			b.check(t, false)
		})
	}
	t.Logf("%d hostile archives", len(cases))
}
