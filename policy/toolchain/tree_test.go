package toolchain

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// tree is a host's file system in memory. A path's value is its link text, or its contents.
type tree map[string]node

type node struct {
	name string
	mode fs.FileMode
	text string
}

func (n node) Name() string               { return n.name }
func (n node) Size() int64                { return int64(len(n.text)) }
func (n node) Mode() fs.FileMode          { return n.mode }
func (n node) ModTime() time.Time         { return time.Time{} }
func (n node) IsDir() bool                { return n.mode.IsDir() }
func (n node) Sys() any                   { return nil }
func (n node) Type() fs.FileMode          { return n.mode.Type() }
func (n node) Info() (fs.FileInfo, error) { return n, nil }

// newTree reads one entry a line: "x PATH TEXT" a program, "f PATH TEXT" a file, "l PATH TARGET" a link,
// "d PATH" a directory. In TEXT, \n is a line end.
func newTree(t testing.TB, lines ...string) tree {
	t.Helper()
	tr := tree{}
	lines = append(lines, "x /usr/bin/env \x7fELF", "x /usr/bin/bash \x7fELF", "x /usr/bin/sh \x7fELF", "x /usr/bin/true \x7fELF",
		"l /bin usr/bin", "d /home/u/p/sub")
	for _, block := range lines {
		for line := range strings.Lines(block) {
			if line = strings.TrimSpace(line); line == "" {
				continue
			}
			kind, rest, _ := strings.Cut(line, " ")
			name, text, _ := strings.Cut(rest, " ")
			text = strings.ReplaceAll(text, `\n`, "\n")
			mode, ok := map[string]fs.FileMode{"x": 0o755, "f": 0o644, "l": fs.ModeSymlink | 0o777, "d": fs.ModeDir | 0o755}[kind]
			if !ok || !path.IsAbs(name) {
				t.Fatalf("bad tree line %q", line)
			}
			tr[name] = node{path.Base(name), mode, text}
			for dir := path.Dir(name); dir != "/"; dir = path.Dir(dir) {
				if _, ok := tr[dir]; !ok {
					tr[dir] = node{path.Base(dir), fs.ModeDir | 0o755, ""}
				}
			}
		}
	}
	return tr
}

func (tr tree) Lstat(name string) (fs.FileInfo, error) {
	if n, ok := tr[name]; ok {
		return n, nil
	}
	err := syscall.ENOENT
	if n, ok := tr[path.Dir(name)]; ok && !n.IsDir() {
		err = syscall.ENOTDIR
	}
	return nil, &fs.PathError{Op: "lstat", Path: name, Err: err}
}

func (tr tree) Readlink(name string) (string, error) {
	if n, ok := tr[name]; ok && n.mode&fs.ModeSymlink != 0 {
		return n.text, nil
	}
	return "", &fs.PathError{Op: "readlink", Path: name, Err: syscall.EINVAL}
}

func (tr tree) ReadFile(name string, max int64) ([]byte, error) {
	n, ok := tr[name]
	for range 10 {
		if ok && n.mode&fs.ModeSymlink != 0 {
			if !path.IsAbs(n.text) {
				n.text = path.Join(path.Dir(name), n.text)
			}
			name = n.text
			n, ok = tr[name]
		}
	}
	if !ok || !n.mode.IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: os.ErrNotExist}
	}
	return []byte(n.text[:min(int64(len(n.text)), max)]), nil
}

func (tr tree) ReadDir(dir string) ([]fs.DirEntry, error) {
	var list []fs.DirEntry
	for _, name := range slices.Sorted(maps.Keys(tr)) {
		if path.Dir(name) == dir {
			list = append(list, tr[name])
		}
	}
	return list, nil
}

func (tr tree) Executable(name string) bool {
	n, ok := tr[name]
	return ok && n.mode&0o111 != 0
}

// ask resolves a command as user u in /home/u/p, which is the workspace.
func ask(tr tree, name, searchPath string, env map[string]string) (Result, error) {
	return Resolve(Request{Name: name, Dir: "/home/u/p/sub", Home: "/home/u", Path: searchPath, FS: tr,
		Env: func(k string) string { return env[k] }, Visible: []string{"/home/u/p"}})
}

// summary is a Result as test tables write it: exec, then grants (a file ends in *), then links.
func summary(res Result) string {
	s := []string{res.Exec}
	for _, g := range res.Grants {
		star := ""
		if g.File {
			star = "*"
		}
		s = append(s, g.Path+star)
	}
	for _, l := range res.Links {
		s = append(s, l.Path+" -> "+l.Target)
	}
	return strings.Join(s, "\n")
}

// checkSafe fails if a result makes visible what must never be.
func checkSafe(t testing.TB, tr tree, res Result) {
	t.Helper()
	secret := []string{"/home/u", "/home/u/.ssh", "/home/u/.aws", "/home/u/.gnupg", "/home/u/.config", "/home/u/.cargo/credentials.toml",
		"/home/u/.local/share/keyrings", "/home/u/.docker/config.json", "/home/u/.npmrc", "/home/u/.netrc", "/home/other", "/root/.ssh",
		"/etc/shadow", "/etc", "/run/user/1000", "/proc", "/sys", "/dev", "/var/lib"}
	for _, g := range res.Grants {
		for _, s := range secret {
			if under(s, g.Path) {
				t.Errorf("grant %s makes %s visible", g.Path, s)
			}
		}
		if path.Clean(g.Path) != g.Path || !path.IsAbs(g.Path) || strings.ContainsRune(g.Path, 0) {
			t.Errorf("grant %q is no clean absolute path", g.Path)
		}
		for dir := g.Path; dir != "/"; dir = path.Dir(dir) {
			if n, ok := tr[dir]; ok && n.mode&fs.ModeSymlink != 0 {
				t.Errorf("grant %s goes through the link %s", g.Path, dir)
			}
		}
	}
	for i, g := range res.Grants {
		for j, h := range res.Grants {
			if i != j && !g.File && under(h.Path, g.Path) {
				t.Errorf("grant %s is beneath %s", h.Path, g.Path)
			}
		}
	}
	for _, l := range res.Links {
		if !path.IsAbs(l.Path) || path.Clean(l.Path) != l.Path || l.Path == "/home/u" || l.Target == "" {
			t.Errorf("bad link %q -> %q", l.Path, l.Target)
		}
	}
}
