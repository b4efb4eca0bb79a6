package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"gobox/fsguard"
)

// entry is one entry of any archive.
type entry struct {
	name   string
	mode   fs.FileMode // the type, and the lowest twelve bits in Go's terms
	hard   bool        // link is the name of an earlier file
	link   string
	size   int64 // of a file
	mtime  time.Time
	body   io.Reader // of a file; gives exactly size bytes or an error
	losing []string  // attributes that are not kept
}

// node is what a path of the archive has become.
type node struct {
	kind   kind
	folder int // index in tree.folders
}

type kind uint8

const (
	aFolder kind = iota + 1
	aFile
	aSymlink
	aDropped // a device, FIFO or socket, or skipped
)

// tree makes the files beneath root and knows what it has made.
type tree struct {
	ctx     context.Context
	root    *fsguard.Root
	options Options
	report  *Report

	index    int
	nodes    map[string]node
	folded   map[string]string
	folders  []folder // in the order they were made
	links    []string // paths of symbolic links
	targets  map[string]string
	names    int64 // bytes held
	implicit int64 // folders no entry had named when they were made
	buf      []byte
	blank    []byte
}

// folder is what is set when everything beneath it is there.
type folder struct {
	path  string
	mode  fs.FileMode
	mtime time.Time // zero: not known
}

func newTree(ctx context.Context, root *fsguard.Root, o Options, r *Report) *tree {
	t := &tree{
		ctx: ctx, root: root, options: o, report: r,
		nodes: map[string]node{".": {kind: aFolder}}, folded: map[string]string{}, targets: map[string]string{},
		buf: make([]byte, 64<<10), blank: make([]byte, 64<<10),
	}
	t.folders = append(t.folders, folder{path: ".", mode: 0o755})
	return t
}

// add makes one entry.
func (t *tree) add(e *entry) error {
	t.index++
	t.report.Entries++
	if err := t.addEntry(e); err != nil {
		return t.refused(e.name, err)
	}
	return nil
}

func (t *tree) refused(name string, err error) error {
	var done *RefusedError
	if errors.As(err, &done) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &RefusedError{t.index, name, err}
}

func (t *tree) addEntry(e *entry) error {
	if err := t.ctx.Err(); err != nil {
		return err
	}
	if err := t.count(""); err != nil {
		return err
	}
	if t.skips(e.name) {
		t.note(e.name, "skipped")
		return nil
	}
	path, err := cleanName(e.name, t.options.AllowBackslash)
	if err != nil {
		return err
	}
	if t.skips(path) {
		t.note(e.name, "skipped")
		return nil
	}
	if t.options.Depth > 0 && depthOf(path) > t.options.Depth {
		return &LimitError{"depth", int64(t.options.Depth)}
	}
	isFolder := e.mode.IsDir() && !e.hard
	if !isFolder && (path == "." || strings.HasSuffix(e.name, "/")) {
		return fmt.Errorf("%w: it is that of a folder", ErrName)
	}
	if err := parents(path, t.implied); err != nil {
		return err
	}
	if path != "." {
		if err := t.claim(path, isFolder); err != nil {
			return err
		}
	}
	if what := lost(e); what != "" {
		t.note(e.name, what)
	}
	switch {
	case e.hard:
		return t.hardlink(path, e)
	case isFolder:
		return t.folder(path, e)
	case e.mode&fs.ModeSymlink != 0:
		return t.symlink(path, e)
	case e.mode.IsRegular():
		return t.file(path, e)
	default:
		t.nodes[path] = node{kind: aDropped}
		return nil
	}
}

// lost says what of an entry is not kept.
func lost(e *entry) string {
	var what []string
	switch {
	case e.mode&fs.ModeNamedPipe != 0:
		return "left out: a FIFO"
	case e.mode&fs.ModeSocket != 0:
		return "left out: a socket"
	case e.mode&fs.ModeDevice != 0:
		return "left out: a device"
	}
	for _, bit := range []struct {
		mode fs.FileMode
		name string
	}{{fs.ModeSetuid, "setuid"}, {fs.ModeSetgid, "setgid"}, {fs.ModeSticky, "sticky"}} {
		if e.mode&bit.mode != 0 && e.mode&fs.ModeSymlink == 0 {
			what = append(what, bit.name)
		}
	}
	what = append(what, e.losing...)
	if len(what) == 0 {
		return ""
	}
	return "without " + strings.Join(what, ", ")
}

func (t *tree) note(name, what string) { t.report.note(t.index, name, what) }

// skips tells whether name, or a folder above it, is to be left out.
func (t *tree) skips(name string) bool {
	return slices.ContainsFunc(t.options.Skip, func(skip string) bool {
		skip = strings.TrimRight(skip, "/")
		rest, ok := strings.CutPrefix(name, skip)
		return ok && skip != "" && (rest == "" || rest[0] == '/')
	})
}

// count keeps the number of nodes and the memory of their names within bounds.
func (t *tree) count(held string) error {
	if most := t.options.Entries; most > 0 && t.report.Entries+t.implicit > most {
		return &LimitError{"entries", most}
	}
	if t.names += int64(len(held)); t.names > namesMax {
		return &LimitError{"names", namesMax}
	}
	return nil
}

// implied makes a folder that a name goes through, when it is not there yet.
func (t *tree) implied(path string) error {
	switch t.nodes[path].kind {
	case aFolder:
		return nil
	case aSymlink:
		return ErrThrough
	case aFile, aDropped:
		return fmt.Errorf("%w: %q is no folder", ErrTwice, path)
	}
	if err := t.claim(path, true); err != nil {
		return err
	}
	t.implicit++
	return t.mkdir(path)
}

// claim takes path for an entry. A folder may be named again.
func (t *tree) claim(path string, isFolder bool) error {
	if was, taken := t.nodes[path]; taken {
		if was.kind == aFolder && isFolder {
			return nil
		}
		return ErrTwice
	}
	if err := t.count(path); err != nil {
		return err
	}
	if t.options.AllowFold {
		return nil
	}
	key := fold(path)
	if other, taken := t.folded[key]; taken && other != path {
		return fmt.Errorf("%w: %q", ErrFold, other)
	}
	if err := t.count(key); err != nil {
		return err
	}
	t.folded[key] = path
	return nil
}

func (t *tree) mkdir(path string) error {
	// Its own mode comes at the end: it may be one that lets nothing be made in it.
	if err := t.root.Mkdir(path, 0o700); err != nil {
		return err
	}
	t.nodes[path] = node{aFolder, len(t.folders)}
	t.folders = append(t.folders, folder{path: path, mode: 0o755})
	return t.count("")
}

func (t *tree) folder(path string, e *entry) error {
	if t.nodes[path].kind != aFolder {
		if err := t.mkdir(path); err != nil {
			return err
		}
	}
	made := &t.folders[t.nodes[path].folder]
	made.mode, made.mtime = e.mode.Perm(), e.mtime
	return nil
}

func (t *tree) hardlink(path string, e *entry) error {
	target, err := cleanName(e.link, t.options.AllowBackslash)
	if err != nil {
		return fmt.Errorf("%w: hard link to %q", ErrLink, e.link)
	}
	switch t.nodes[target].kind {
	case aFile:
	case aSymlink:
		return fmt.Errorf("%w: hard link to the symbolic link %q", ErrLink, e.link)
	default:
		return fmt.Errorf("%w: hard link to %q, which is no file unpacked before", ErrLink, e.link)
	}
	if err := t.root.Link(target, path); err != nil {
		return err
	}
	t.nodes[path] = node{kind: aFile}
	t.report.Hardlinks++
	return nil
}

func (t *tree) symlink(path string, e *entry) error {
	target := e.link
	switch {
	case target == "" || len(target) > targetMax || strings.IndexByte(target, 0) >= 0:
		return fmt.Errorf("%w: its target is no path", ErrLink)
	case target[0] == '/':
		return fmt.Errorf("%w: its target %q is absolute", ErrLink, target)
	}
	if err := t.count(target); err != nil {
		return err
	}
	if err := t.root.Symlink(target, path); err != nil {
		return err
	}
	t.nodes[path] = node{kind: aSymlink}
	t.links = append(t.links, path)
	t.targets[path] = target
	t.report.Symlinks++
	return t.root.Chtimes(path, e.mtime)
}

func (t *tree) file(path string, e *entry) error {
	if most := t.options.File; most > 0 && e.size > most {
		return &LimitError{"file", most}
	}
	if most := t.options.Size; most > 0 && e.size > most-t.report.Bytes {
		return &LimitError{"size", most}
	}
	f, err := t.root.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	t.nodes[path] = node{kind: aFile}
	t.report.Files++
	t.report.Bytes += e.size
	err = t.write(f, e)
	if err == nil {
		err = f.Chmod(e.mode.Perm() &^ t.options.Umask)
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return t.root.Chtimes(path, e.mtime)
}

// write copies the body; blocks of zeros become holes.
func (t *tree) write(f *os.File, e *entry) error {
	at := int64(0)
	for {
		if err := t.ctx.Err(); err != nil {
			return err
		}
		n, err := io.ReadFull(e.body, t.buf)
		if n > 0 {
			if int64(n) > e.size-at {
				return fmt.Errorf("%w: longer than its header says", ErrBroken)
			}
			if !bytes.Equal(t.buf[:n], t.blank[:n]) {
				if _, err := f.WriteAt(t.buf[:n], at); err != nil {
					return err
				}
			}
			at += int64(n)
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			break
		}
		if err != nil {
			return err
		}
	}
	if at != e.size {
		return fmt.Errorf("%w: shorter than its header says", ErrBroken)
	}
	return f.Truncate(e.size)
}

// finish checks the links as a whole and gives the folders their modes and times, the lowest first.
func (t *tree) finish() error {
	for _, path := range t.links {
		if err := t.checkLink(path); err != nil {
			return &RefusedError{t.index, path, err}
		}
	}
	for _, f := range slices.Backward(t.folders) {
		if err := t.ctx.Err(); err != nil {
			return err
		}
		if err := t.root.Chmod(f.path, f.mode&^t.options.Umask); err != nil {
			return err
		}
		if !f.mtime.IsZero() {
			if err := t.root.Chtimes(f.path, f.mtime); err != nil {
				return err
			}
		}
	}
	t.report.Folders = int64(len(t.folders)) - 1
	return nil
}
