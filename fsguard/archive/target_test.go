package archive

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestTarget(t *testing.T) {
	data := forgeTar(file("f"))
	full := func(b box) {
		_ = os.Mkdir(b.target, 0o755)
		_ = os.WriteFile(filepath.Join(b.target, "kept"), nil, 0o600)
	}
	for name, prepare := range map[string]func(b box){
		"full":             full,
		"file":             func(b box) { _ = os.WriteFile(b.target, []byte(canary), 0o600) },
		"symlink":          func(b box) { _ = os.Symlink("elsewhere", b.target) },
		"symlink to empty": func(b box) { _ = os.Symlink(t.TempDir(), b.target) },
	} {
		b := newBox(t)
		prepare(b)
		before, _ := os.Lstat(b.target)
		if _, err := b.extract(data, testOptions()); !errors.Is(err, ErrTarget) {
			t.Errorf("%s: %v, want ErrTarget", name, err)
		}
		if after, err := os.Lstat(b.target); err != nil || after.Mode() != before.Mode() || !after.ModTime().Equal(before.ModTime()) {
			t.Errorf("%s: the target was changed: %v", name, err)
		}
		b.check(t, true)
	}
	// Taken while the archive is unpacked.
	b := newBox(t)
	reader := &noticing{data: data, notice: func() { full(b) }}
	if _, err := Extract(t.Context(), reader, int64(len(data)), b.target, testOptions()); !errors.Is(err, ErrTarget) {
		t.Errorf("taken meanwhile: %v, want ErrTarget", err)
	}
	b.check(t, true)
	// Ended while it is unpacked.
	b = newBox(t)
	ctx, cancel := context.WithCancel(t.Context())
	reader = &noticing{data: data, notice: cancel}
	if _, err := Extract(ctx, reader, int64(len(data)), b.target, testOptions()); !errors.Is(err, context.Canceled) {
		t.Errorf("ended meanwhile: %v", err)
	}
	b.check(t, false)
}

// noticing calls notice at the first read.
type noticing struct {
	data   []byte
	notice func()
}

func (n *noticing) ReadAt(p []byte, at int64) (int, error) {
	if n.notice != nil {
		n.notice()
		n.notice = nil
	}
	return bytes.NewReader(n.data).ReadAt(p, at)
}
