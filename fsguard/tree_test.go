package fsguard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func itoa(n int) string { return strconv.Itoa(n) }

func list(t *testing.T, r *Root, name string) []string {
	t.Helper()
	var met []string
	must(t, r.Walk(t.Context(), name, WalkLimits{}, func(e *Entry, err error) error {
		must(t, err)
		met = append(met, e.Path)
		return nil
	}))
	return met
}

func TestWalkOrderAndSkips(t *testing.T) {
	p := newPlace(t, Options{})
	for _, name := range []string{"b/x", "b/y/z", "a", "c/d"} {
		p.write(t, name, name)
	}
	if got, want := list(t, p.Root, "."), []string{".", "a", "b", "b/x", "b/y", "b/y/z", "c", "c/d"}; !slices.Equal(got, want) {
		t.Errorf("walk met %q, want %q", got, want)
	}
	if got, want := list(t, p.Root, "b/y"), []string{"b/y", "b/y/z"}; !slices.Equal(got, want) {
		t.Errorf("walk met %q, want %q", got, want)
	}
	for skip, want := range map[string]string{"b": "a b c c/d", "b/x": "a b b/x c c/d", ".": "", "a": "a"} {
		var met []string
		must(t, p.Walk(t.Context(), ".", WalkLimits{}, func(e *Entry, err error) error {
			if e.Path != "." {
				met = append(met, e.Path)
			}
			if e.Path == skip {
				return fs.SkipDir
			}
			return err
		}))
		if got := strings.Join(met, " "); got != want {
			t.Errorf("skipping %s: met %q, want %q", skip, got, want)
		}
	}
	own := errors.New("own")
	if err := p.Walk(t.Context(), ".", WalkLimits{}, func(e *Entry, _ error) error { return own }); err != own {
		t.Errorf("walk gives %v", err)
	}
	err := p.Walk(t.Context(), ".", WalkLimits{}, func(e *Entry, _ error) error {
		if e.Path == "b/x" {
			f, err := e.Open()
			must(t, err)
			text, _ := io.ReadAll(f)
			f.Close()
			if string(text) != "b/x" {
				t.Errorf("reads %q", text)
			}
			p.write(t, "b/other", "")
			must(t, p.Rename("b/other", "b/x", 0))
			if _, err := e.Open(); !errors.Is(err, ErrChanged) {
				t.Errorf("open of another file: %v, want ErrChanged", err)
			}
			return fs.SkipAll
		}
		return nil
	})
	must(t, err)
}

func TestWalkOddNames(t *testing.T) {
	p := newPlace(t, Options{})
	names := []string{"new\nline", "\xff\xfe", "\x1b[31m", "back\\slash", " ", "-rf", "...", strings.Repeat("\xc3", 255)}
	for _, name := range names {
		p.write(t, name, "")
		must(t, os.Symlink(name, filepath.Join(p.dir, "to"+name[:1])))
	}
	met := list(t, p.Root, ".")
	for _, name := range names {
		if !slices.Contains(met, name) {
			t.Errorf("%q was not met", name)
		}
		if _, err := p.Stat(name); err != nil {
			t.Error(err)
		}
	}
}

func TestWalkLimits(t *testing.T) {
	p := newPlace(t, Options{})
	p.write(t, "a/b/c/d", "")
	all := func(e *Entry, err error) error { return err }
	var over *LimitError
	for _, limits := range []WalkLimits{{Entries: 4}, {Depth: 3}} {
		if err := p.Walk(t.Context(), ".", limits, all); !errors.As(err, &over) || !errors.Is(err, ErrLimit) {
			t.Errorf("%+v: %v, want a limit", limits, err)
		}
	}
	for _, limits := range []WalkLimits{{Entries: 5}, {Depth: 4}, {Entries: -1, Depth: -1}} {
		must(t, p.Walk(t.Context(), ".", limits, all))
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := p.Walk(ctx, ".", WalkLimits{}, func(e *Entry, err error) error { cancel(); return err })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled walk: %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if err := p.RemoveAll(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled removal: %v", err)
	}
	if _, err := p.Copy(ctx, "a/b/c/d", p.Root, "copy", 0o600, CopyLimits{}); err != nil {
		t.Errorf("copy of nothing: %v", err)
	}
}

func TestUnreadableDirectory(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root reads every directory; the suite also runs as an ordinary user")
	}
	p := newPlace(t, Options{})
	p.write(t, "locked/file", "")
	p.write(t, "z", "")
	must(t, os.Chmod(filepath.Join(p.dir, "locked"), 0))
	var met []string
	must(t, p.Walk(t.Context(), ".", WalkLimits{}, func(e *Entry, err error) error {
		met = append(met, fmt.Sprint(e.Path, " ", errors.Is(err, fs.ErrPermission)))
		return nil
	}))
	if want := []string{". false", "locked false", "locked true", "z false"}; !slices.Equal(met, want) {
		t.Errorf("met %q, want %q", met, want)
	}
	err := p.Walk(t.Context(), ".", WalkLimits{}, func(e *Entry, err error) error { return err })
	if !errors.Is(err, fs.ErrPermission) {
		t.Errorf("walk: %v", err)
	}
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(entries)
}

// deep makes a chain of directories "d" with a file "f" in each.
func deep(t *testing.T, dir string, depth int) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	for range depth {
		must(t, unix.Mkdirat(fd, "d", 0o755))
		f, err := unix.Openat(fd, "f", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
		must(t, err)
		unix.Close(f)
		next, err := unix.Openat(fd, "d", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		must(t, err)
		unix.Close(fd)
		fd = next
	}
	unix.Close(fd)
}

func TestDepth5000(t *testing.T) {
	const depth = 5000
	p := newPlace(t, Options{})
	deep(t, p.dir, depth)
	before, most := openDescriptors(t), 0
	entries, deepest := 0, ""
	must(t, p.Walk(t.Context(), ".", WalkLimits{}, func(e *Entry, err error) error {
		must(t, err)
		if entries++; entries%500 == 0 {
			most = max(most, openDescriptors(t))
		}
		if e.Depth == depth && e.Mode.IsDir() {
			deepest = e.Path
		}
		return nil
	}))
	if entries != 2*depth+1 {
		t.Errorf("met %d entries, want %d", entries, 2*depth+1)
	}
	if most > before+chainKeep+chainAnchors+8 {
		t.Errorf("%d descriptors open, %d before", most, before)
	}
	// A path far beyond PATH_MAX is as good as any other.
	f, err := p.Create(deepest + "/new")
	must(t, err)
	must(t, f.Close())
	must(t, p.MkdirAll(deepest+"/x/y", 0o755))
	must(t, p.Rename(deepest+"/new", "top", 0))
	if _, err := p.Stat(deepest + "/x/y"); err != nil {
		t.Error(err)
	}
	must(t, p.RemoveAll(t.Context(), "d"))
	if got := list(t, p.Root, "."); !slices.Equal(got, []string{".", "f", "top"}) {
		t.Errorf("left after the removal: %q", got)
	}
	if after := openDescriptors(t); after != before {
		t.Errorf("%d descriptors open, %d before", after, before)
	}
}

func Test100000Entries(t *testing.T) {
	const files = 100_000
	p := newPlace(t, Options{})
	fd, err := unix.Open(p.dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	for i := range files {
		f, err := unix.Openat(fd, itoa(i), unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
		must(t, err)
		unix.Close(f)
	}
	all := func(e *Entry, err error) error { return err }
	if err := p.Walk(t.Context(), ".", WalkLimits{Entries: 1000}, all); !errors.Is(err, ErrLimit) {
		t.Errorf("walk: %v, want a limit", err)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	n := 0
	must(t, p.Walk(t.Context(), ".", WalkLimits{}, func(e *Entry, err error) error {
		if n++; n == files {
			runtime.GC()
			runtime.ReadMemStats(&after)
		}
		return err
	}))
	if n != files+1 {
		t.Errorf("met %d entries", n)
	}
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 64<<20 {
		t.Errorf("the walk holds %d bytes", grown)
	}
	must(t, p.RemoveAll(t.Context(), "."))
	if got := list(t, p.Root, "."); len(got) != 1 {
		t.Errorf("%d entries left", len(got)-1)
	}
}

func TestRemoveAllLocked(t *testing.T) {
	p := newPlace(t, Options{})
	p.write(t, "a/b/c/file", "")
	p.write(t, "a/read-only/file", "")
	must(t, os.Symlink("../../outside", filepath.Join(p.dir, "a/out")))
	must(t, os.Chmod(filepath.Join(p.dir, "a/b/c"), 0))
	must(t, os.Chmod(filepath.Join(p.dir, "a/b"), 0o500))
	must(t, os.Chmod(filepath.Join(p.dir, "a/read-only"), 0o555))
	must(t, os.Chmod(filepath.Join(p.dir, "a"), 0))
	must(t, p.RemoveAll(t.Context(), "a"))
	if got := list(t, p.Root, "."); len(got) != 1 {
		t.Errorf("left: %q", got)
	}
}

func TestCopySparse(t *testing.T) {
	p := newPlace(t, Options{})
	const size = 10 << 30
	f, err := os.Create(filepath.Join(p.dir, "sparse"))
	must(t, err)
	_, err = f.WriteAt([]byte("begin"), 0)
	must(t, err)
	_, err = f.WriteAt([]byte("middle"), size/2)
	must(t, errors.Join(err, f.Truncate(size), f.Close()))
	n, err := p.Copy(t.Context(), "sparse", p.Root, "copy", 0o640, CopyLimits{Size: size, Real: 1 << 20})
	if err != nil || n != size {
		t.Fatalf("copied %d, %v", n, err)
	}
	info, err := p.Stat("copy")
	if err != nil || info.Size != size || info.Real > 1<<20 {
		t.Errorf("the copy: %+v, %v", info, err)
	}
	c, err := p.Open("copy")
	must(t, err)
	defer c.Close()
	for at, want := range map[int64]string{0: "begin\x00", size / 2: "middle", size - 4: "\x00\x00\x00\x00"} {
		got := make([]byte, len(want))
		if _, err := c.ReadAt(got, at); err != nil || string(got) != want {
			t.Errorf("at %d: %q, %v", at, got, err)
		}
	}
	for _, limits := range []CopyLimits{{Size: size - 1}, {Real: 4096}} {
		if _, err := p.Copy(t.Context(), "sparse", p.Root, "over", 0o600, limits); !errors.Is(err, ErrLimit) {
			t.Errorf("%+v: %v, want a limit", limits, err)
		}
		if _, err := p.Lstat("over"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%+v: the copy is still there: %v", limits, err)
		}
	}
	if _, err := p.Copy(t.Context(), "sparse", p.Root, "copy", 0o600, CopyLimits{}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("copy over a file: %v", err)
	}
}

func TestCopyContent(t *testing.T) {
	p := newPlace(t, Options{})
	text := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	p.write(t, "file", string(text))
	other, err := os.MkdirTemp("/dev/shm", "fsguard-test-")
	if err != nil {
		other = t.TempDir()
	}
	defer os.RemoveAll(other)
	to, err := OpenRoot(other, Options{})
	must(t, err)
	defer to.Close()
	for _, r := range []*Root{p.Root, to} {
		n, err := p.Copy(t.Context(), "file", r, "copy", 0o600, CopyLimits{Size: int64(len(text)), Real: int64(len(text))})
		if err != nil || n != int64(len(text)) {
			t.Fatalf("copied %d, %v", n, err)
		}
		f, err := r.Open("copy")
		must(t, err)
		got, err := io.ReadAll(f)
		must(t, errors.Join(err, f.Close()))
		if !bytes.Equal(got, text) {
			t.Error("the copy differs")
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	if _, err := p.Copy(ctx, "file", to, "late", 0o600, CopyLimits{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("late copy: %v", err)
	}
}

func TestXattr(t *testing.T) {
	p := newPlace(t, Options{})
	p.write(t, "dir/file", "")
	if err := unix.Setxattr(filepath.Join(p.dir, "dir"), "user.overlay.opaque", []byte("y"), 0); err != nil {
		t.Skip("the file system of the temporary directory takes no user xattrs:", err)
	}
	long := bytes.Repeat([]byte("x"), 1000)
	must(t, unix.Setxattr(filepath.Join(p.dir, "dir/file"), "user.long", long, 0))
	must(t, p.Walk(t.Context(), ".", WalkLimits{}, func(e *Entry, err error) error {
		must(t, err)
		value, err := e.Xattr("user.overlay.opaque")
		if (string(value) == "y") != (e.Path == "dir") || e.Path != "dir" && err == nil {
			t.Errorf("%s: %q, %v", e.Path, value, err)
		}
		return nil
	}))
	if value, err := p.Xattr("dir/file", "user.long"); err != nil || !bytes.Equal(value, long) {
		t.Errorf("%q, %v", value, err)
	}
	if _, err := p.Xattr("dir/file", "user.none"); !errors.Is(err, unix.ENODATA) {
		t.Errorf("no attribute: %v", err)
	}
}
