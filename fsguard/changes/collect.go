package changes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gobox/fsguard"
)

// Limits bounds what Collect takes. A zero field has the default.
type Limits struct {
	Entries int   // paths looked at, in the upper directory and below what was deleted; default 500,000
	Depth   int   // components of a path; default 1,000
	Size    int64 // bytes of new contents together, holes included; default 64 GiB
	Hashed  int64 // bytes read of the workspace's side; an old file beyond is known by its time; default 16 GiB
}

func (l Limits) filled() Limits {
	if l.Entries == 0 {
		l.Entries = 500_000
	}
	if l.Depth == 0 {
		l.Depth = 1000
	}
	if l.Size == 0 {
		l.Size = 64 << 30
	}
	if l.Hashed == 0 {
		l.Hashed = 16 << 30
	}
	return l
}

// Options says how to collect.
type Options struct {
	Limits    Limits
	Workspace string    // its path on the host, kept in the set for apply
	Started   time.Time // when the command was started: older changes of the workspace are what it saw; zero when unknown
	Durable   bool      // the set is on the disk when Collect returns
	// Secret tells whether there is something in a new content, name or link that is not for everybody; nil for never.
	Secret func(io.Reader) (bool, error)
}

// Collect compares upper, the upper directory of an overlay mount that is in use no more, with lower, its lower
// directory (nil for an empty one), and stores the set in the run directory. The set is refused whole, with no error
// and [Set].Refused set, when a limit or ctx ends it or something cannot be read; an error is that of the run
// directory. Nothing is stored when there is nothing to tell. The cost grows with what is in upper and what was
// deleted of lower.
//
// Upper must be mounted without redirect_dir and metacopy, and with userxattr unless trusted.* is readable. Modes in
// it are changed where they keep the caller from reading. The mode of the root itself is no change.
func Collect(ctx context.Context, upper, lower, run *fsguard.Root, o Options) (*Set, error) {
	c := &collector{ctx: ctx, upper: upper, lower: lower, limits: o.Limits.filled(), started: o.Started, secret: o.Secret}
	c.store = &store{run: run, sync: o.Durable, hashed: c.limits.Hashed, limit: c.limits.Size, size: c.limits.Size}
	set := &Set{Workspace: o.Workspace}
	err := c.walk()
	var failed *storeError
	switch {
	case errors.As(err, &failed):
		return nil, c.store.abandon(err)
	case err != nil:
		set.Refused = refusalText(err)
		if err := c.store.abandon(nil); err != nil {
			return nil, err
		}
	default:
		set.Entries, set.Dropped = c.entries, c.dropped
		set.seal()
	}
	if set.Empty() {
		return set, c.store.abandon(nil)
	}
	if err := c.store.finish(set); err != nil {
		return nil, c.store.abandon(err)
	}
	return set, nil
}

func refusalText(err error) string {
	var over *fsguard.LimitError
	switch {
	case errors.As(err, &over):
		return over.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return "taking out the changes was not done in time"
	case errors.Is(err, context.Canceled):
		return "taking out the changes was interrupted"
	}
	return err.Error()
}

// collector merges the two directories as overlayfs does (Documentation/filesystems/overlayfs.rst).
type collector struct {
	ctx          context.Context
	upper, lower *fsguard.Root
	store        *store
	limits       Limits
	started      time.Time
	secret       func(io.Reader) (bool, error)
	entries      []Entry
	dropped      []Note
	dirs         []dir // the folders from the root down to the one in work
	seen         int   // paths looked at on either side
	// unlocked has the modes of the folders that were made readable before the walk came to them.
	unlocked map[string]fs.FileMode
}

// dir is a folder of the upper directory.
type dir struct {
	path   string
	lower  bool // it is a folder in lower, too
	hidden bool // lower does not shine through here: it or one above is opaque or new
	xattrs bool // files in it may be whiteouts by xattr
}

func (c *collector) walk() error {
	limits := fsguard.WalkLimits{Entries: c.limits.Entries, Depth: c.limits.Depth}
	return c.upper.Walk(c.ctx, ".", limits, func(e *fsguard.Entry, err error) error {
		if err != nil {
			return err
		}
		if err := c.count(); err != nil {
			return err
		}
		if e.Path == "." {
			return c.enterRoot(e)
		}
		for len(c.dirs) > 1 && !beneath(e.Path, c.dirs[len(c.dirs)-1].path) {
			c.dirs = c.dirs[:len(c.dirs)-1]
		}
		return c.visit(e, &c.dirs[len(c.dirs)-1])
	})
}

func (c *collector) count() error {
	if c.seen++; c.seen > c.limits.Entries {
		return &fsguard.LimitError{What: "changed paths", Max: int64(c.limits.Entries)}
	}
	return nil
}

func (c *collector) enterRoot(e *fsguard.Entry) error {
	d, err := c.openDir(e)
	d.lower = c.lower != nil
	d.hidden = false
	c.dirs = append(c.dirs, d)
	return err
}

// openDir makes a folder readable and reads what overlayfs noted at it.
func (c *collector) openDir(e *fsguard.Entry) (dir, error) {
	d := dir{path: e.Path}
	if err := c.unlock(e.Path, e.Mode); err != nil {
		return d, err
	}
	opaque, err := overlayXattr(e, "opaque")
	if err != nil {
		return d, err
	}
	d.hidden, d.xattrs = opaque == "y", opaque == "x"
	if to, err := overlayXattr(e, "redirect"); err != nil || to != "" {
		return d, fmt.Errorf("%q was renamed in a way that needs redirect_dir: %w", e.Path, errOr(err, unix.EOPNOTSUPP))
	}
	return d, nil
}

// unlock makes a folder of upper readable.
func (c *collector) unlock(path string, mode fs.FileMode) error {
	if mode&0o500 == 0o500 {
		return nil
	}
	if c.unlocked == nil {
		c.unlocked = map[string]fs.FileMode{}
	}
	c.unlocked[path] = mode
	return c.upper.Chmod(path, 0o700)
}

func errOr(err, or error) error {
	if err != nil {
		return err
	}
	return or
}

// overlayXattr reads an attribute of overlayfs in the name space that the mount used.
func overlayXattr(e *fsguard.Entry, attr string) (string, error) {
	for _, prefix := range []string{"user.overlay.", "trusted.overlay."} {
		value, err := e.Xattr(prefix + attr)
		switch {
		case err == nil:
			return string(value), nil
		case errors.Is(err, unix.ENODATA), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EPERM):
		default:
			return "", err
		}
	}
	return "", nil
}

// visit compares one path of upper with the same of lower.
func (c *collector) visit(e *fsguard.Entry, in *dir) error {
	if e.MountPoint {
		return c.drop(e, "another file system is mounted there")
	}
	gone := e.Whiteout()
	if e.Mode.IsRegular() {
		if e.Mode&0o400 == 0 {
			if err := c.upper.Chmod(e.Path, 0o600); err != nil {
				return err
			}
		}
		if in.xattrs && e.Size == 0 {
			_, err := e.Xattr("user.overlay.whiteout")
			if gone = err == nil; err != nil && !errors.Is(err, unix.ENODATA) && !errors.Is(err, unix.EOPNOTSUPP) {
				return err
			}
		}
		if meta, err := metacopy(e); err == nil {
			return fmt.Errorf("%q has no content of its own (metacopy %x): %w", e.Path, meta, unix.EOPNOTSUPP)
		}
	}
	if gone && (in.hidden || !in.lower) {
		return nil // what was there is dealt with at the opaque folder above
	}
	var old *fsguard.Info
	if in.lower {
		info, err := c.lower.Lstat(e.Path)
		switch {
		case err == nil:
			old = &info
		case errors.Is(err, fs.ErrNotExist):
		case errors.Is(err, fsguard.ErrMount):
			return c.drop(e, "another file system is mounted there in the workspace")
		default:
			return err
		}
	}
	switch {
	case gone && old == nil:
		return nil
	case gone:
		return c.deleted(e.Path, old, false)
	case e.Mode.IsDir():
		return c.folder(e, in, old)
	case e.Mode.IsRegular(), e.Mode&fs.ModeType == fs.ModeSymlink:
		return c.leaf(e, in, old)
	}
	return c.drop(e, "a device, FIFO or socket")
}

// metacopy reads the attribute of a file whose content is still in lower. Such a file is one hole, and the others need
// not be asked.
func metacopy(e *fsguard.Entry) ([]byte, error) {
	if e.Size == 0 || e.Real > 0 {
		return nil, unix.ENODATA
	}
	return e.Xattr("user.overlay.metacopy")
}

// drop notes what cannot become a change, and leaves out what is beneath.
func (c *collector) drop(e *fsguard.Entry, what string) error {
	c.dropped = append(c.dropped, Note{e.Path, what})
	if e.Mode.IsDir() {
		return fs.SkipDir
	}
	return nil
}

func (c *collector) folder(e *fsguard.Entry, in *dir, old *fsguard.Info) error {
	d, err := c.openDir(e)
	if err != nil {
		return err
	}
	d.lower = old != nil && old.Mode.IsDir()
	own := d.hidden
	d.hidden = d.hidden || in.hidden || !d.lower
	c.dirs = append(c.dirs, d)
	mode, ok := c.unlocked[e.Path]
	if !ok {
		mode = e.Mode
	}
	now := &State{Type: Folder, Mode: uint32(mode & 0o777)}
	if old == nil {
		return c.add(Entry{Path: e.Path, New: now})
	}
	was, err := c.oldState(e.Path, old, nil)
	if err != nil {
		return err
	}
	if err := c.add(Entry{Path: e.Path, Old: was, New: now, Late: c.late(old) && !d.lower}); err != nil {
		return err
	}
	if d.lower && own && !in.hidden {
		return c.deleted(e.Path, old, true)
	}
	return nil
}

// leaf is for a file or symlink.
func (c *collector) leaf(e *fsguard.Entry, in *dir, old *fsguard.Info) error {
	var was *State
	if old != nil {
		var err error
		if was, err = c.oldState(e.Path, old, nil); err != nil {
			return err
		}
	}
	now, secret := &State{Type: Symlink}, false
	if e.Mode.IsRegular() {
		f, err := e.Open()
		if err != nil {
			return err
		}
		defer f.Close()
		*now = State{Type: File, Mode: uint32(e.Mode & 0o777)}
		if now.Size, now.SHA256, err = c.store.put(c.ctx, f, was); err != nil {
			return err
		}
		if c.secret != nil {
			if secret, err = c.secret(&sparse{ctx: c.ctx, file: f}); err != nil {
				return err
			}
		}
		if e.Mode&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) != 0 {
			c.dropped = append(c.dropped, Note{e.Path, "its setuid, setgid or sticky bit"})
		}
	} else {
		var err error
		if now.Target, err = e.Readlink(); err != nil {
			return err
		}
	}
	if err := c.add(Entry{Path: e.Path, Old: was, New: now, Late: old != nil && c.late(old), Secret: secret}); err != nil {
		return err
	}
	if old != nil && old.Mode.IsDir() && !in.hidden {
		return c.deleted(e.Path, old, true)
	}
	return nil
}

// nameReader is what is looked through for secrets besides contents.
func nameReader(path, target string) io.Reader { return strings.NewReader(path + "\x00" + target) }

// add keeps an entry when its sides differ.
func (c *collector) add(e Entry) error {
	if e.Kind = kindOf(e.Old, e.New); e.Kind == "" {
		return nil
	}
	if c.secret != nil && e.New != nil && !e.Secret {
		var err error
		if e.Secret, err = c.secret(nameReader(e.Path, e.New.Target)); err != nil {
			return err
		}
	}
	c.entries = append(c.entries, e)
	if e.Old != nil && e.Old.SHA256 != "" && e.Kind != ModeChanged {
		return c.store.keepOld()
	}
	return nil
}

// late reports whether the workspace's file was changed after the command had started.
func (c *collector) late(old *fsguard.Info) bool {
	return !c.started.IsZero() && old.Ctime.After(c.started)
}

// deleted adds deletions of path and all beneath it in lower. With partly, path itself stays and only that goes which
// upper does not have.
func (c *collector) deleted(path string, old *fsguard.Info, partly bool) error {
	if !old.Mode.IsDir() {
		was, err := c.oldState(path, old, nil)
		if err != nil {
			return err
		}
		return c.add(Entry{Path: path, Old: was, Late: c.late(old)})
	}
	limits := fsguard.WalkLimits{Entries: c.limits.Entries, Depth: c.limits.Depth}
	return c.lower.Walk(c.ctx, path, limits, func(e *fsguard.Entry, err error) error {
		if err != nil {
			return err
		}
		if e.Path == path && partly {
			return nil
		}
		if err := c.count(); err != nil {
			return err
		}
		if e.MountPoint {
			return c.drop(e, "another file system is mounted there in the workspace")
		}
		if partly {
			info, err := c.upper.Lstat(e.Path)
			switch {
			case err == nil && info.Mode.IsDir():
				return c.unlock(e.Path, info.Mode)
			case err == nil && !info.Whiteout():
				return nil
			case err == nil, errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR), errors.Is(err, fsguard.ErrSymlink):
			default:
				return err
			}
		}
		was, err := c.oldState(e.Path, &e.Info, e)
		if err != nil {
			return err
		}
		return c.add(Entry{Path: e.Path, Old: was, Late: c.late(&e.Info) && !e.Mode.IsDir()})
	})
}

// oldState describes a path of lower; met is the entry of a walk where there is one.
func (c *collector) oldState(path string, info *fsguard.Info, met *fsguard.Entry) (*State, error) {
	return c.store.describe(c.ctx, c.lower, path, info, met)
}
