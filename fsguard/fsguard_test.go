package fsguard

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const secret = "canary: nobody may read or change this"

// place is a root in a directory of its own beside a canary that must never be reached.
type place struct {
	*Root
	dir     string // the root
	outside string // a directory with the file "secret"
}

func newPlace(t testing.TB, options Options) *place {
	t.Helper()
	base := t.TempDir()
	p := &place{dir: filepath.Join(base, "root"), outside: filepath.Join(base, "outside")}
	must(t, os.Mkdir(p.dir, 0o755))
	must(t, os.Mkdir(p.outside, 0o755))
	must(t, os.WriteFile(filepath.Join(p.outside, "secret"), []byte(secret), 0o640))
	must(t, os.Chmod(filepath.Join(p.outside, "secret"), 0o640))
	must(t, os.Chtimes(filepath.Join(p.outside, "secret"), time.Unix(1000, 0), time.Unix(1000, 0)))
	root, err := OpenRoot(p.dir, options)
	must(t, err)
	p.Root = root
	t.Cleanup(func() {
		p.checkCanary(t)
		must(t, root.RemoveAll(context.Background(), "."))
		must(t, root.Close())
	})
	return p
}

func (p *place) checkCanary(t testing.TB) {
	t.Helper()
	entries, err := os.ReadDir(p.outside)
	must(t, err)
	if len(entries) != 1 || entries[0].Name() != "secret" {
		t.Errorf("outside holds %v, want the canary alone", entries)
	}
	text, err := os.ReadFile(filepath.Join(p.outside, "secret"))
	info, statErr := os.Lstat(filepath.Join(p.outside, "secret"))
	if err != nil || statErr != nil || string(text) != secret {
		t.Fatalf("the canary reads %q, %v, %v", text, err, statErr)
	}
	if info.Mode() != 0o640 || !info.ModTime().Equal(time.Unix(1000, 0)) {
		t.Errorf("the canary has mode %v and time %v", info.Mode(), info.ModTime())
	}
}

func (p *place) write(t testing.TB, name, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(filepath.Join(p.dir, name)), 0o755))
	must(t, os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o644))
}

func (p *place) read(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, name))
	must(t, err)
	return string(text)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// operation is one way into the tree by a name; each must guard it alike.
type operation struct {
	name string
	do   func(r *Root, name string) error
}

func operations() []operation {
	return []operation{
		{"open", func(r *Root, name string) error {
			f, err := r.Open(name)
			if err != nil {
				return err
			}
			defer f.Close()
			text, err := io.ReadAll(f)
			if string(text) == secret {
				return errors.New("read the canary")
			}
			return err
		}},
		{"create", func(r *Root, name string) error {
			f, err := r.Create(name)
			if err != nil {
				return err
			}
			_, err = f.WriteString("written")
			return errors.Join(err, f.Close())
		}},
		{"append", func(r *Root, name string) error {
			f, err := r.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteString("+")
			return errors.Join(err, f.Close())
		}},
		{"stat", func(r *Root, name string) error { _, err := r.Stat(name); return err }},
		{"chmod", func(r *Root, name string) error { return r.Chmod(name, 0o600) }},
		{"chtimes", func(r *Root, name string) error { return r.Chtimes(name, time.Unix(5, 0)) }},
		{"copy", func(r *Root, name string) error {
			to := "copy" + time.Now().Format("150405.000000000")
			if _, err := r.Copy(context.Background(), name, r, to, 0o600, CopyLimits{}); err != nil {
				return err
			}
			f, err := r.Open(to)
			if err != nil {
				return err
			}
			text, err := io.ReadAll(f)
			f.Close()
			if string(text) == secret {
				return errors.New("copied the canary")
			}
			return errors.Join(err, r.Remove(to))
		}},
	}
}

func TestNamesOutsideAreRefused(t *testing.T) {
	p := newPlace(t, Options{})
	p.write(t, "in/file", "inside")
	for _, name := range []string{
		"", "/", "/etc/passwd", "..", "../outside/secret", "in/../../outside/secret", "in/..", "./..", "in/../in/file",
		"in/fi\x00le", p.outside + "/secret", strings.Repeat("n", 256), "in/" + strings.Repeat("n", 256),
	} {
		for _, op := range operations() {
			if err := op.do(p.Root, name); !errors.Is(err, ErrName) {
				t.Errorf("%s %q: %v, want ErrName", op.name, name, err)
			}
		}
		for op, err := range map[string]error{
			"mkdir": p.Mkdir(name, 0o755), "mkdirall": p.MkdirAll(name, 0o755), "symlink": p.Symlink("x", name),
			"link": p.Link("in/file", name), "link from": p.Link(name, "in/new"), "rename": p.Rename("in/file", name, 0),
			"rename from": p.Rename(name, "in/new", 0), "remove": p.Remove(name), "removeall": p.RemoveAll(t.Context(), name),
			"sync": p.Sync(name), "walk": p.Walk(t.Context(), name, WalkLimits{}, nil),
		} {
			if !errors.Is(err, ErrName) {
				t.Errorf("%s %q: %v, want ErrName", op, name, err)
			}
		}
	}
	if got := p.read(t, "in/file"); got != "inside" {
		t.Errorf("the file reads %q", got)
	}
}

func TestLinksAreNotFollowed(t *testing.T) {
	p := newPlace(t, Options{})
	p.write(t, "in/file", "inside")
	must(t, os.Symlink(p.outside, filepath.Join(p.dir, "absolute")))
	must(t, os.Symlink("../outside", filepath.Join(p.dir, "relative")))
	must(t, os.Symlink("relative", filepath.Join(p.dir, "chained")))
	must(t, os.Symlink("/proc/self/root", filepath.Join(p.dir, "magic")))
	must(t, os.Symlink("in", filepath.Join(p.dir, "harmless")))
	must(t, os.Symlink("../outside/secret", filepath.Join(p.dir, "file")))
	must(t, os.Symlink("../outside/new", filepath.Join(p.dir, "dangling")))
	for _, name := range []string{"absolute/secret", "relative/secret", "chained/secret", "magic/etc/passwd", "harmless/file", "file", "dangling"} {
		for _, op := range operations() {
			if op.name == "chtimes" && !strings.Contains(name, "/") {
				continue // it is the link's own time
			}
			if err := op.do(p.Root, name); !errors.Is(err, ErrSymlink) || !errors.Is(err, unix.ELOOP) {
				t.Errorf("%s %q: %v, want ErrSymlink", op.name, name, err)
			}
		}
	}
	for op, err := range map[string]error{
		"mkdir": p.Mkdir("relative/d", 0o755), "mkdirall": p.MkdirAll("relative/d/e", 0o755), "mkdirall at": p.MkdirAll("relative", 0o755),
		"symlink": p.Symlink("x", "relative/l"), "link": p.Link("in/file", "relative/h"), "link from": p.Link("relative/secret", "h"),
		"rename": p.Rename("in/file", "relative/r", 0), "rename from": p.Rename("relative/secret", "in/r", 0),
		"remove": p.Remove("relative/secret"), "removeall": p.RemoveAll(t.Context(), "relative/secret"), "sync": p.Sync("relative"),
	} {
		if !errors.Is(err, ErrSymlink) {
			t.Errorf("%s: %v, want ErrSymlink", op, err)
		}
	}
	// The links themselves are the root's.
	if target, err := p.Readlink("relative"); err != nil || target != "../outside" {
		t.Errorf("readlink: %q, %v", target, err)
	}
	if err := p.Link("file", "h"); !errors.Is(err, ErrNotRegular) {
		t.Errorf("link to a link: %v, want ErrNotRegular", err)
	}
	must(t, p.Chtimes("relative", time.Unix(7, 0)))
	if info, err := p.Lstat("relative"); err != nil || !info.Mtime.Equal(time.Unix(7, 0)) || info.Mode.Type() != fs.ModeSymlink {
		t.Errorf("lstat: %+v, %v", info, err)
	}
	must(t, p.Rename("in/file", "file", 0))
	if got := p.read(t, "file"); got != "inside" {
		t.Errorf("rename over a link gives %q", got)
	}
	must(t, p.RemoveAll(t.Context(), "absolute"))
	must(t, p.Remove("chained"))
}

func TestFollowLinksStaysBeneath(t *testing.T) {
	p := newPlace(t, Options{FollowLinks: true})
	p.write(t, "in/file", "inside")
	must(t, os.Symlink("in", filepath.Join(p.dir, "harmless")))
	must(t, os.Symlink("../in/file", filepath.Join(p.dir, "in/up")))
	must(t, os.Symlink("../outside", filepath.Join(p.dir, "out")))
	must(t, os.Symlink("/proc/self/root", filepath.Join(p.dir, "magic")))
	for _, name := range []string{"harmless/file", "in/up", "harmless/up"} {
		f, err := p.Open(name)
		must(t, err)
		text, err := io.ReadAll(f)
		must(t, errors.Join(err, f.Close()))
		if string(text) != "inside" {
			t.Errorf("%s reads %q", name, text)
		}
	}
	for _, name := range []string{"out/secret", "magic/etc/passwd"} {
		for _, op := range operations() {
			if err := op.do(p.Root, name); !errors.Is(err, ErrEscape) {
				t.Errorf("%s %s: %v, want ErrEscape", op.name, name, err)
			}
		}
	}
	must(t, os.Symlink("/proc/self/fd/"+itoa(p.Fd()), filepath.Join(p.dir, "fd")))
	if _, err := p.Stat("fd"); err == nil {
		t.Error("a magic link was followed")
	}
}

func TestSpecialFilesAreNotOpened(t *testing.T) {
	p := newPlace(t, Options{})
	must(t, unix.Mkfifo(filepath.Join(p.dir, "fifo"), 0o666))
	must(t, p.Mkdir("dir", 0o755))
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	must(t, unix.Bind(fd, &unix.SockaddrUnix{Name: procFd(p.Fd()) + "/socket"}))
	want := map[string]fs.FileMode{"fifo": fs.ModeNamedPipe, "dir": fs.ModeDir, "socket": fs.ModeSocket}
	if unix.Mknod(filepath.Join(p.dir, "null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))) == nil {
		want["null"] = fs.ModeDevice | fs.ModeCharDevice
	}
	if unix.Mknod(filepath.Join(p.dir, "whiteout"), unix.S_IFCHR, 0) == nil {
		want["whiteout"] = fs.ModeDevice | fs.ModeCharDevice
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for name, mode := range want {
			for _, flag := range []int{os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDWR | os.O_CREATE | os.O_TRUNC} {
				if f, err := p.OpenFile(name, flag, 0o600); !errors.Is(err, ErrNotRegular) {
					t.Errorf("open %s with %#x: %v %v, want ErrNotRegular", name, flag, f, err)
				}
			}
			if _, err := p.Copy(context.Background(), name, p.Root, "copy", 0o600, CopyLimits{}); !errors.Is(err, ErrNotRegular) {
				t.Errorf("copy %s: %v, want ErrNotRegular", name, err)
			}
			if info, err := p.Lstat(name); err != nil || info.Mode.Type() != mode {
				t.Errorf("lstat %s: %v, %v", name, info.Mode, err)
			}
		}
		err := p.Walk(context.Background(), ".", WalkLimits{}, func(e *Entry, err error) error {
			must(t, err)
			if e.Depth == 0 {
				return nil
			}
			if e.Mode.Type() != want[e.Path] || e.Whiteout() != (e.Path == "whiteout") {
				t.Errorf("walk %s: %v, whiteout %v", e.Path, e.Mode, e.Whiteout())
			}
			delete(want, e.Path)
			if _, err := e.Open(); !errors.Is(err, ErrNotRegular) {
				t.Errorf("open %s in the walk: %v, want ErrNotRegular", e.Path, err)
			}
			return nil
		})
		if err != nil || len(want) > 0 {
			t.Errorf("walk: %v, not met: %v", err, want)
		}
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("a special file hangs the caller")
	}
}

func TestFilesAndDirectories(t *testing.T) {
	p := newPlace(t, Options{})
	must(t, p.MkdirAll("a/b/c", 0o755))
	must(t, p.MkdirAll("a/./b//c/", 0o755))
	f, err := p.Create("a/b/c/file")
	must(t, err)
	if flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK != 0 {
		t.Errorf("flags %#x, %v: O_NONBLOCK is left", flags, err)
	}
	_, err = f.WriteString("text")
	must(t, errors.Join(err, f.Close()))
	if _, err := p.OpenFile("a/b/c/file", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); !errors.Is(err, fs.ErrExist) {
		t.Errorf("exclusive create: %v", err)
	}
	must(t, p.Link("a/b/c/file", "hard"))
	must(t, p.Rename("hard", "soft", NoReplace))
	if err := p.Rename("soft", "a/b/c/file", NoReplace); !errors.Is(err, fs.ErrExist) {
		t.Errorf("rename without replacing: %v", err)
	}
	must(t, p.Chmod("soft", 0o640))
	for _, mode := range []fs.FileMode{0o4755, fs.ModeSetuid | 0o755, 0o1777} {
		if err := p.Chmod("soft", mode); !errors.Is(err, ErrMode) {
			t.Errorf("chmod %v: %v, want ErrMode", mode, err)
		}
		if _, err := p.OpenFile("new", os.O_RDWR|os.O_CREATE, mode); !errors.Is(err, ErrMode) {
			t.Errorf("create with %v: %v, want ErrMode", mode, err)
		}
	}
	info, err := p.Stat("a/b/c/file")
	if err != nil || info.Mode != 0o640 || info.Size != 4 || info.Links != 2 || info.Real == 0 {
		t.Errorf("stat: %+v, %v", info, err)
	}
	if _, err := p.OpenFile("soft", os.O_RDONLY|unix.O_PATH, 0); !errors.Is(err, unix.EINVAL) {
		t.Errorf("open with O_PATH: %v", err)
	}
	name, tmp, err := p.CreateTemp("a", ".new-")
	must(t, err)
	must(t, tmp.Close())
	must(t, p.Rename(name, "soft", Exchange))
	must(t, p.Sync("a"))
	sub, err := p.OpenRoot("a")
	must(t, err)
	if err := sub.Remove("."); !errors.Is(err, ErrName) {
		t.Errorf("remove the root: %v", err)
	}
	if err := sub.Remove("b"); !errors.Is(err, unix.ENOTEMPTY) {
		t.Errorf("remove a full directory: %v", err)
	}
	must(t, sub.RemoveAll(t.Context(), "."))
	must(t, sub.Close())
	if _, err := sub.Stat("b"); err == nil {
		t.Error("a closed root still works")
	}
	must(t, p.Remove("a"))
	must(t, p.RemoveAll(t.Context(), "a"))
}
