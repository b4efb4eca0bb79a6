package policy

import (
	"errors"
	"io/fs"
	"strings"
)

// maxHops is the kernel's limit on symbolic links in one path (path_resolution(7)).
const maxHops = 40

var (
	errMagicLink  = errors.New("passes through /proc, where a name means something else for every process")
	errTooManyHop = errors.New("too many levels of symbolic links")
	errNotDir     = errors.New("not a directory")
	errNUL        = errors.New("contains a NUL byte")
)

// hop is a symbolic link met on the way: at Path, itself free of symbolic links, with Text.
type hop struct {
	Path string
	Text string
}

// realPath is what a path names.
type realPath struct {
	Path string // absolute, clean, free of symbolic links
	Info FileInfo
	Hops []hop
}

// resolvePath follows path, absolute or relative to dir, as path_resolution(7) says, and keeps every
// symbolic link it met. Names in /proc are refused: its magic links do not lead where their text says.
func resolvePath(files FS, dir, path string) (realPath, error) {
	if strings.IndexByte(path, 0) >= 0 {
		return realPath{}, errNUL
	}
	if !strings.HasPrefix(path, "/") {
		if dir == "" {
			return realPath{}, errNoDir
		}
		path = dir + "/" + path
	}
	var result realPath
	current := "/"
	rest := path
	info, err := lstat(files, "/")
	if err != nil {
		return realPath{}, err
	}
	for {
		rest = strings.TrimLeft(rest, "/")
		if rest == "" {
			break
		}
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		if !info.isDir() {
			return realPath{}, errNotDir
		}
		switch name {
		case ".":
			continue
		case "..":
			current = parent(current)
			if info, err = lstat(files, current); err != nil {
				return realPath{}, err
			}
			continue
		}
		next := join(current, name)
		if within("/proc", next) {
			return realPath{}, errMagicLink
		}
		if info, err = lstat(files, next); err != nil {
			return realPath{}, err
		}
		if !info.isSymlink() {
			current = next
			continue
		}
		if len(result.Hops) == maxHops {
			return realPath{}, errTooManyHop
		}
		text, err := files.Readlink(next)
		if err != nil {
			return realPath{}, err
		}
		result.Hops = append(result.Hops, hop{Path: next, Text: text})
		if strings.HasPrefix(text, "/") {
			current = "/"
		}
		rest = text + "/" + rest
		if info, err = lstat(files, current); err != nil {
			return realPath{}, err
		}
	}
	if strings.HasSuffix(path, "/") && !info.isDir() {
		return realPath{}, errNotDir
	}
	result.Path, result.Info = current, info
	return result, nil
}

// resolveMissing is resolvePath for a path whose last parts may not exist: it gives the real path that
// the missing name would have, and whether it exists.
func resolveMissing(files FS, dir, path string) (real string, exists bool, err error) {
	found, err := resolvePath(files, dir, path)
	if err == nil {
		return found.Path, true, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", false, err
	}
	path = strings.TrimRight(path, "/")
	cut := strings.LastIndexByte(path, '/')
	up, name := ".", path
	if cut >= 0 {
		up, name = path[:cut+1], path[cut+1:]
	}
	if name == "" || name == "." || name == ".." {
		return "", false, err
	}
	base, _, err := resolveMissing(files, dir, up)
	if err != nil {
		return "", false, err
	}
	return join(base, name), false, nil
}

// within tells whether path is dir or below it. Both are absolute and clean.
func within(dir, path string) bool {
	if dir == "/" {
		return true
	}
	return strings.HasPrefix(path, dir) && (len(path) == len(dir) || path[len(dir)] == '/')
}

// below is within without dir itself.
func below(dir, path string) bool { return dir != path && within(dir, path) }

// move gives the place below to that path has below from.
func move(path, from, to string) string {
	rest := strings.TrimPrefix(strings.TrimPrefix(path, from), "/")
	if rest == "" {
		return to
	}
	return join(to, rest)
}

func join(dir, name string) string {
	if dir == "/" {
		return "/" + name
	}
	return dir + "/" + name
}

func parent(path string) string {
	cut := strings.LastIndexByte(path, '/')
	if cut <= 0 {
		return "/"
	}
	return path[:cut]
}

// depth counts the components of a clean absolute path.
func depth(path string) int {
	if path == "/" {
		return 0
	}
	return strings.Count(path, "/")
}
