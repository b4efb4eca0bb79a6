package toolchain

import (
	"io/fs"
	"path"
	"strings"
	"syscall"
)

// place is where a path leads.
type place struct {
	real string      // without symbolic links
	info fs.FileInfo // of real; nil for "/"
	hops []Link      // every symbolic link on the way; Link.Path is where it really is
	err  error
}

func (p *place) isDir() bool     { return p.err == nil && (p.info == nil || p.info.IsDir()) }
func (p *place) isRegular() bool { return p.err == nil && p.info != nil && p.info.Mode().IsRegular() }

// maxHops is the kernel's MAXSYMLINKS.
const maxHops = 40

// place follows an absolute path to its end.
func (r *resolver) place(name string) *place { return r.follow("/", name) }

// follow resolves name from the real directory dir, as the kernel would: "..", after a link, is the
// parent of where the link led.
func (r *resolver) follow(dir, name string) *place {
	if strings.HasPrefix(name, "/") {
		dir = "/"
	}
	if name == "" {
		return &place{err: syscall.ENOENT}
	}
	// A key of places is a path without links, so a hit is the answer; so is a hit on a parent below.
	if p, ok := r.places[name]; ok {
		return p
	}
	at := &place{real: dir}
	var hops []Link
	same := dir == "/" && name[0] == '/' // at.real is name as far as it was read
	for start, end := 0, 0; start < len(name); start = end + 1 {
		if end = strings.IndexByte(name[start:], '/'); end < 0 {
			end = len(name)
		} else {
			end += start
		}
		switch part := name[start:end]; part {
		case "", ".":
			same = same && start == 0
			continue
		case "..":
			same = false
			at = &place{real: path.Dir(at.real)}
			if at.real != "/" {
				at = r.step(at.real, path.Dir(at.real))
			}
			continue
		default:
			full := name[:end]
			if !same {
				full = strings.TrimSuffix(at.real, "/") + "/" + part
			}
			at = r.step(full, at.real)
		}
		if len(at.hops) > 0 {
			hops = append(hops, at.hops...)
			same = false
		}
		if at.err == nil && len(hops) > maxHops {
			return &place{err: syscall.ELOOP, hops: hops[:maxHops]}
		}
		if at.err != nil {
			return &place{err: at.err, hops: hops}
		}
	}
	if len(hops) == len(at.hops) && at.real != dir {
		return at
	}
	return &place{real: at.real, info: at.info, hops: hops}
}

// step resolves name, an entry of the real directory dir. Results are kept: PATH entries share most of
// their parents.
func (r *resolver) step(name, dir string) *place {
	if p, ok := r.places[name]; ok {
		return p
	}
	// Found again while it is being resolved, the name is a loop.
	r.places[name] = &place{err: syscall.ELOOP}
	p := r.look(dir, name)
	r.places[name] = p
	return p
}

func (r *resolver) look(dir, name string) *place {
	info, err := r.FS.Lstat(name)
	if err != nil {
		return &place{err: err}
	}
	if info.Mode()&fs.ModeSymlink == 0 {
		return &place{real: name, info: info}
	}
	target, err := r.FS.Readlink(name)
	if err != nil {
		return &place{err: err}
	}
	if r.depth++; r.depth > maxHops {
		r.depth--
		return &place{err: syscall.ELOOP}
	}
	end := r.follow(dir, target)
	r.depth--
	return &place{real: end.real, info: end.info, err: end.err,
		hops: append([]Link{{Path: name, Target: target}}, end.hops...)}
}

// exists says whether the path, followed, leads to anything.
func (r *resolver) exists(name string) bool { return r.place(name).err == nil }

// under says whether name is dir or beneath it.
func under(name, dir string) bool {
	if dir == "/" {
		return true
	}
	return strings.HasPrefix(name, dir) && (len(name) == len(dir) || name[len(dir)] == '/')
}

// upward calls visit for dir and each of its parents until it returns true.
func upward(dir string, visit func(dir string) bool) {
	for {
		if visit(dir) || dir == "/" || dir == "." {
			return
		}
		dir = path.Dir(dir)
	}
}
