package fsguard

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// WalkLimits bounds a [Root.Walk]. A zero field has the default, a negative one no bound.
type WalkLimits struct {
	Entries int // files and directories seen; default 1e6
	Depth   int // components below the start; default 10000
}

const (
	defaultEntries = 1_000_000
	defaultDepth   = 10_000
)

// Entry is one file met by [Root.Walk]. It is valid only until the function it was given to returns.
type Entry struct {
	Path  string // beneath the root, any bytes but NUL
	Depth int    // components below the start, which is 0
	Info
	base string
	walk *walk
}

type walk struct {
	ctx    context.Context
	chain  chain
	limits WalkLimits
	seen   int
	fn     func(*Entry, error) error
	buf    []byte
	path   []byte // of the directory in work, with a slash at its end unless empty
}

// Walk calls fn for name and, in lexical order of bytes, for all beneath it, directories before what they hold.
// Nothing but directories is opened; links are reported and not followed; a mount point is reported and not
// entered unless the Root crosses mounts. Memory grows with the number of names in the directories on the
// way to the one in work, descriptors do not grow with anything.
//
// fn may return fs.SkipDir to leave out what a directory holds, or the rest of a file's directory, and
// fs.SkipAll to end the walk. A directory that cannot be read is given to fn a second time with
// the error; fn decides by what it returns whether the walk goes on. Over a limit the walk ends with a *LimitError, and
// at the end of ctx with ctx's error. What is changed during the walk may be met in either state, or missed,
// but nothing outside the root is met.
func (r *Root) Walk(ctx context.Context, name string, limits WalkLimits, fn func(e *Entry, err error) error) error {
	cleaned, err := clean(name)
	if err != nil {
		return r.fail("walk", name, err)
	}
	if limits.Entries == 0 {
		limits.Entries = defaultEntries
	}
	if limits.Depth == 0 {
		limits.Depth = defaultDepth
	}
	w := &walk{ctx: ctx, chain: chain{root: r}, limits: limits, fn: fn, buf: make([]byte, 32<<10)}
	defer w.chain.close()
	info, err := r.Lstat(cleaned)
	if err != nil {
		return err
	}
	w.seen = 1
	e := &Entry{Path: cleaned, Info: info, base: cleaned, walk: w}
	err = fn(e, nil)
	if err == nil && info.Mode.IsDir() {
		err = w.enter(e)
		if err == nil {
			err = w.loop()
		}
	}
	if err == fs.SkipDir || err == fs.SkipAll {
		return nil
	}
	return err
}

// loop works until the chain is empty. It is no recursion: the depth is the attacker's to choose.
func (w *walk) loop() error {
	for w.chain.depth() > 0 {
		top := w.chain.top()
		if len(top.rest) == 0 {
			w.leave()
			continue
		}
		name := top.rest[0]
		top.rest = top.rest[1:]
		switch err := w.visit(name); err {
		case nil:
		case fs.SkipDir:
			w.leave()
		default:
			return err
		}
	}
	return nil
}

func (w *walk) visit(name string) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	dir, err := w.chain.fd()
	if err != nil {
		return w.chain.root.fail("walk", w.chain.path(w.chain.depth()), err)
	}
	info, err := statx(dir, name, 0)
	if err == unix.ENOENT {
		return nil // gone since the directory was read
	}
	e := &Entry{Path: string(w.path) + name, Depth: w.chain.depth(), Info: info, base: name, walk: w}
	if err != nil {
		return w.fn(e, w.chain.root.fail("stat", e.Path, err))
	}
	if w.limits.Depth > 0 && e.Depth > w.limits.Depth {
		return w.chain.root.fail("walk", e.Path, &LimitError{"components in depth", int64(w.limits.Depth)})
	}
	if err := w.fn(e, nil); err != nil {
		if err == fs.SkipDir && info.Mode.IsDir() {
			return nil
		}
		return err
	}
	if !info.Mode.IsDir() || info.MountPoint && !w.chain.root.options.CrossMounts {
		return nil
	}
	return w.enter(e)
}

// enter reads the names of the directory e and makes it the one in work.
func (w *walk) enter(e *Entry) error {
	r := w.chain.root
	names, err := w.names(e)
	var over *LimitError
	switch {
	case err == nil:
	case errors.As(err, &over), w.ctx.Err() != nil:
		return r.fail("walk", e.Path, err)
	case errors.Is(err, unix.ENOENT):
		return nil
	default:
		err = w.fn(e, r.fail("read directory", e.Path, err))
		if err == fs.SkipDir {
			err = nil
		}
		return err
	}
	slices.Sort(names)
	w.chain.top().rest = names
	if e.Path != "." {
		w.path = append(append(w.path[:0], e.Path...), '/')
	}
	return nil
}

// names pushes the directory e and lists it; on an error it is not pushed.
func (w *walk) names(e *Entry) (names []string, err error) {
	info, err := w.chain.push(e.base)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			w.chain.pop()
		}
	}()
	if !info.Same(&e.Info) {
		return nil, ErrChanged
	}
	for {
		more, err := dirents(w.chain.top().fd, w.buf)
		if err != nil || len(more) == 0 {
			return names, err
		}
		names = append(names, more...)
		w.seen += len(more)
		if w.limits.Entries > 0 && w.seen > w.limits.Entries {
			return nil, &LimitError{"entries", int64(w.limits.Entries)}
		}
		if err := w.ctx.Err(); err != nil {
			return nil, err
		}
	}
}

// leave goes back to the directory above.
func (w *walk) leave() {
	cut := len(w.chain.top().name) + 1
	if w.chain.depth() == 1 {
		cut = len(w.path)
	}
	w.path = w.path[:max(0, len(w.path)-cut)]
	w.chain.pop()
}

// dirFd is the directory that holds e.
func (e *Entry) dirFd() (int, error) {
	if e.walk.chain.depth() == 0 {
		return e.walk.chain.root.fd, nil
	}
	return e.walk.chain.fd()
}

// onPath does something to the file met, or fails with ErrChanged when it is another one by now.
func (e *Entry) onPath(op string, do func(fd int) error) error {
	r := e.walk.chain.root
	dir, err := e.dirFd()
	if err != nil {
		return r.fail(op, e.Path, err)
	}
	fd, err := r.openat(dir, e.base, unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW, Resolve: r.resolve(false)})
	if err != nil {
		return r.fail(op, e.Path, err)
	}
	defer unix.Close(fd)
	info, err := statFd(fd)
	switch {
	case err != nil:
	case !info.Same(&e.Info) || info.Mode.Type() != e.Mode.Type():
		err = ErrChanged
	default:
		err = ignoreEINTR(func() error { return do(fd) })
	}
	return r.fail(op, e.Path, err)
}

// Open opens the regular file met, for reading. The caller closes it.
func (e *Entry) Open() (f *os.File, err error) {
	err = e.onPath("open", func(fd int) error {
		f, err = openRegular(fd, e.Path, os.O_RDONLY)
		return err
	})
	return f, err
}

// Readlink gives the target of the symbolic link met, unchecked.
func (e *Entry) Readlink() (target string, err error) {
	err = e.onPath("readlink", func(fd int) error {
		target, err = readlink(fd)
		return err
	})
	return target, err
}

// Xattr reads the extended attribute attr of what was met; unix.ENODATA when it has none. An opaque directory
// of an overlay's upper layer has "trusted.overlay.opaque", or "user.overlay.opaque" with the mount option
// userxattr, with the value "y".
func (e *Entry) Xattr(attr string) (value []byte, err error) {
	err = e.onPath("getxattr", func(fd int) error {
		value, err = xattr(fd, attr)
		return err
	})
	return value, err
}
