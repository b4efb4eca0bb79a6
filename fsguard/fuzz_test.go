package fsguard

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// FuzzClean compares clean with what path.Clean makes of the names it takes.
func FuzzClean(f *testing.F) {
	for _, s := range []string{"", ".", "..", "/", "a", "a/b", "a//b", "./a", "a/.", "a/./b", "../a", "a/../b", "a/", "\x00", "a\nb", "..a/b..", strings.Repeat("x", 256)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		refused := name == "" || name[0] == '/' || strings.Contains(name, "\x00")
		for part := range strings.SplitSeq(name, "/") {
			refused = refused || part == ".." || len(part) > 255
		}
		got, err := clean(name)
		if refused {
			if !errors.Is(err, ErrName) {
				t.Fatalf("clean(%q) = %q, %v, want ErrName", name, got, err)
			}
			return
		}
		if err != nil || got != path.Clean(name) {
			t.Fatalf("clean(%q) = %q, %v, want %q", name, got, err, path.Clean(name))
		}
		for rest := got; rest != ""; {
			head, next := headOf(rest)
			if len(head) >= pathMax || next != "" && head+"/"+next != rest {
				t.Fatalf("headOf parts %q as %q, %q", rest, head, next)
			}
			rest = next
		}
	})
}

// model is the tree of FuzzResolve: to each path the target of the link, "" for a file, "/" for a directory.

func model() map[string]string {
	return map[string]string{
		".": "/", "a": "/", "a/b": "/", "a/b/file": "", "a/file": "",
		"a/up": "..", "a/upfile": "../file", "file": "", "a/out": "../..", "a/out2": "../../outside",
		"abs": "/etc", "self": ".", "loop": "loop", "a/b/deep": "../../a/./b", "dangling": "none", "a/b/root": "../..",
		"tofile": "a/b/file",
	}
}

// resolveModel says what a name means in the tree without the kernel: the clean path, or an error.
func resolveModel(tree map[string]string, name string, follow bool) (string, error) {
	name, err := clean(name)
	if err != nil {
		return "", err
	}
	rest := strings.Split(name, "/")
	var at []string
	links := 0
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		here := "."
		if len(at) > 0 {
			here = strings.Join(at, "/")
		}
		if tree[here] != "/" {
			return "", unix.ENOTDIR
		}
		switch part {
		case "", ".":
			continue
		case "..":
			if len(at) == 0 {
				return "", unix.EXDEV
			}
			at = at[:len(at)-1]
			continue
		}
		next := strings.Join(append(at[:len(at):len(at)], part), "/")
		target, ok := tree[next]
		switch {
		case !ok:
			return "", unix.ENOENT
		case target == "" || target == "/":
			at = append(at[:len(at):len(at)], part)
		case !follow:
			return "", unix.ELOOP
		case target[0] == '/':
			return "", unix.EXDEV
		default:
			if links++; links > 40 {
				return "", unix.ELOOP
			}
			rest = append(strings.Split(target, "/"), rest...)
		}
	}
	if len(at) == 0 {
		return ".", nil
	}
	return strings.Join(at, "/"), nil
}

// FuzzResolve compares what the kernel makes of a name with the model, with and without links, and with os.Root.
func FuzzResolve(f *testing.F) {
	dir := f.TempDir()
	root := filepath.Join(dir, "root")
	must(f, os.MkdirAll(filepath.Join(root, "a/b"), 0o755))
	must(f, os.Mkdir(filepath.Join(dir, "outside"), 0o755))
	tree := model()
	for name, target := range tree {
		switch target {
		case "/":
		case "":
			must(f, os.WriteFile(filepath.Join(root, name), nil, 0o644))
		default:
			must(f, os.Symlink(target, filepath.Join(root, name)))
		}
	}
	strict, err := OpenRoot(root, Options{})
	must(f, err)
	follow, err := OpenRoot(root, Options{FollowLinks: true})
	must(f, err)
	std, err := os.OpenRoot(root)
	must(f, err)
	f.Cleanup(func() { strict.Close(); follow.Close(); std.Close() })
	for name := range tree {
		f.Add(name)
		f.Add(name + "/b/./file")
		f.Add(name + "/self/a/up/tofile")
	}
	f.Add("a/b/root/a/b/root/a/b/deep/file")
	f.Add("a/../file")
	f.Add("tofile/")
	f.Add("file/.")
	f.Fuzz(func(t *testing.T, name string) {
		if len(name) > 2000 {
			t.Skip("the model knows no ENAMETOOLONG")
		}
		for _, r := range []*Root{strict, follow} {
			want, wantErr := resolveModel(tree, name, r.options.FollowLinks)
			info, err := r.Stat(name)
			var errno unix.Errno
			switch {
			case wantErr == nil && err == nil:
				at, err := os.Lstat(filepath.Join(root, want))
				must(t, err)
				if same, _ := r.Lstat(want); !same.Same(&info) || at.Mode() != info.Mode {
					t.Fatalf("%q is another file than %q", name, want)
				}
			case errors.As(wantErr, &errno):
				if !errors.Is(err, errno) {
					t.Fatalf("%q: %v, want %v", name, err, wantErr)
				}
			case !errors.Is(err, wantErr) || wantErr == nil:
				t.Fatalf("%q: %v, want %v", name, err, wantErr)
			}
			if err == nil {
				// os.Root does not take "file/" for the file.
				cleaned, _ := clean(name)
				if _, stdErr := std.Stat(cleaned); stdErr != nil && !strings.Contains(stdErr.Error(), "too many") {
					t.Fatalf("%q: os.Root refuses it: %v", name, stdErr)
				}
			}
		}
	})
}
