package archive

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fuzzLimits keep one try short.
func fuzzOptions() Options {
	return Options{Limits: Limits{Entries: 200, Size: 1 << 20, File: 1 << 20, Ratio: 50, Depth: 20}, Umask: 0o022}
}

// try unpacks and checks what must hold for every archive: nothing beside the target, nothing in it but files,
// folders and links, no links out, no special bits, no more than the limits.
func try(t *testing.T, data []byte) {
	b := newBox(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	o := fuzzOptions()
	report, err := Extract(ctx, bytes.NewReader(data), int64(len(data)), b.target, o)
	b.check(t, err == nil)
	if ctx.Err() != nil {
		t.Fatal("it takes too long")
	}
	if err != nil {
		return
	}
	defer removeLocked(b.target)
	if report.Bytes > o.Size || report.Entries > o.Entries {
		t.Fatalf("over the limits: %+v", report)
	}
	root, err := os.OpenRoot(b.target)
	if err != nil {
		return // a mode without search permission
	}
	defer root.Close()
	_ = filepath.WalkDir(b.target, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode()&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) != 0 || info.Mode().Perm()&0o022 != 0 && info.Mode()&fs.ModeSymlink == 0 {
			t.Fatalf("%q has the mode %v", path, info.Mode())
		}
		switch {
		case info.Mode().IsRegular(), info.IsDir():
		case info.Mode()&fs.ModeSymlink != 0:
			name, _ := filepath.Rel(b.target, path)
			if _, err := root.Stat(name); err != nil && strings.Contains(err.Error(), "escapes") {
				t.Fatalf("%q leads out: %v", name, err)
			}
		default:
			t.Fatalf("%q is a %v", path, info.Mode())
		}
		return nil
	})
}

// removeLocked removes what the modes of an archive lock.
func removeLocked(dir string) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	_ = os.RemoveAll(dir)
}

const seedMax = 64 << 10

func FuzzTar(f *testing.F) {
	for _, h := range hostileTars(f) {
		if len(h.data) < seedMax && strings.HasPrefix(h.name, "tar/") {
			f.Add(h.data)
		}
	}
	f.Add(forgeTar(folderNamed("./"), folderNamed("a/"), file("a/f"), symlinkTo("a/l", "../a/f"), hardlinkTo("h", "a/f")))
	f.Fuzz(func(t *testing.T, data []byte) { try(t, data) })
}

func FuzzZip(f *testing.F) {
	for _, h := range hostileZips() {
		if len(h.data) < seedMax {
			f.Add(h.data)
		}
	}
	f.Add(forgeZip(zipMember{name: "a", body: "text"}, zipMember{name: "b", body: "text", deflate: true}, zipMember{name: "d/"}))
	f.Fuzz(func(t *testing.T, data []byte) { try(t, data) })
}

// FuzzDecompress feeds the decoders; they may refuse and may not panic or go on for ever.
func FuzzDecompress(f *testing.F) {
	for _, h := range hostileTars(f) {
		if len(h.data) < seedMax && !strings.HasPrefix(h.name, "tar/") {
			f.Add(h.data)
		}
	}
	f.Add(zstdRaw(forgeTar(file("a"))))
	f.Add(zstdBlank(1 << 20))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &source{ctx: t.Context(), r: bytes.NewReader(data), size: int64(len(data))}
		for _, format := range []string{"tar.gz", "tar.zst", "tar.xz", "tar.bz2"} {
			r, err := s.stream(format)
			if err != nil {
				continue
			}
			g := &guarded{source: s, r: r, limits: Limits{Ratio: 10}}
			_, _ = io.Copy(io.Discard, g)
		}
	})
}
