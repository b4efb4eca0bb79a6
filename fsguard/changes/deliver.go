package changes

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"gobox/fsguard"
)

// DeliverOptions says how to [Deliver].
type DeliverOptions struct {
	Limits Limits   // Hashed means nothing here
	Allow  []string // paths, at or beneath which protected ones are taken; "." is all
	// Secret tells whether there is something in a content, name or link that is not for everybody; nil for never.
	Secret func(io.Reader) (bool, error)
	Path   string // of the folder on the host, to tell absolute links into it
	Temp   string // what the folder beside it is called while it is filled; "" for a name that begins with ".gobox-output-"
	UID    int    // whose the files will be; -1 for the caller's
	GID    int
}

// Delivered says what came out.
type Delivered struct {
	Entries int    // files, folders and links
	Bytes   uint64 // of files, holes included
	Dropped []Note
}

// Deliver copies what is in the directory from, which nothing writes to any more and whose every name and kind a command has chosen,
// to the folder base of parent, which must be there and be empty: all, or nothing. It is held to the rules of an [Apply]: devices, FIFOs,
// sockets and modes beyond 0777 are left out; a protected path or a link that leads out of the folder is a *RefusedError. The copy is made beside base and
// then takes its place by one rename, with base's mode. On an error nothing is left of it; a crash can leave it, under a name that begins
// with ".gobox-output-".
//
// Modes in from are changed where they keep the caller from reading.
func Deliver(ctx context.Context, from, parent *fsguard.Root, base string, o DeliverOptions) (*Delivered, error) {
	d := &delivery{ctx: ctx, from: from, o: o, limits: o.Limits.filled()}
	if err := d.look(); err != nil {
		return nil, err
	}
	info, err := parent.Lstat(base)
	if err != nil {
		return nil, err
	}
	fresh := o.Temp
	if fresh == "" {
		fresh, err = parent.MkdirTemp(".", ".gobox-output-")
	} else {
		err = parent.Mkdir(fresh, 0o700)
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = parent.RemoveAll(context.WithoutCancel(ctx), fresh) }()
	if d.to, err = parent.OpenRoot(fresh); err != nil {
		return nil, err
	}
	defer d.to.Close()
	if err := d.check(); err != nil {
		return nil, err
	}
	if err := d.copyAll(); err != nil {
		return nil, err
	}
	if err := d.own(".", info.Mode&fs.ModePerm); err != nil {
		return nil, err
	}
	if err := d.sync(); err != nil {
		return nil, err
	}
	// Without a flag rename(2) replaces an empty folder and nothing else.
	if err := parent.Rename(fresh, base, 0); err != nil {
		return nil, fmt.Errorf("take the place of %q: %w", base, err)
	}
	// It is there; that a crash of the machine could still undo the rename makes no failure of it.
	_ = parent.Sync(".")
	return &d.report, nil
}

type delivery struct {
	ctx      context.Context
	from, to *fsguard.Root
	o        DeliverOptions
	limits   Limits
	set      Set
	report   Delivered
}

// look goes through all of it before anything is copied.
func (d *delivery) look() error {
	limits := fsguard.WalkLimits{Entries: d.limits.Entries, Depth: d.limits.Depth}
	left := d.limits.Size
	visit := func(e *fsguard.Entry, err error) error {
		if err == nil && e.Mode.IsDir() && !e.MountPoint && e.Mode&0o500 != 0o500 {
			// Before it is gone into; its mode in the copy is the one it had.
			err = d.from.Chmod(e.Path, 0o700)
		}
		if err != nil || e.Path == "." {
			return err
		}
		if e.MountPoint {
			return d.drop(e, "another file system is mounted there")
		}
		secret := false
		state := &State{Type: Folder, Mode: uint32(e.Mode & fs.ModePerm)}
		switch {
		case e.Mode.IsDir():
		case e.Mode.IsRegular():
			state.Type, state.Size = File, e.Size
			if left -= e.Size; left < 0 || e.Size < 0 {
				return &fsguard.LimitError{What: "bytes", Max: d.limits.Size}
			}
			d.report.Bytes += uint64(e.Size)
			if secret, err = d.secretIn(e); err != nil {
				return err
			}
		case e.Mode&fs.ModeSymlink != 0:
			state = &State{Type: Symlink}
			if state.Target, err = e.Readlink(); err != nil {
				return err
			}
		default:
			return d.drop(e, "a device, FIFO or socket")
		}
		if e.Mode&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) != 0 {
			d.report.Dropped = append(d.report.Dropped, Note{e.Path, "its setuid, setgid or sticky bit"})
		}
		if d.o.Secret != nil && !secret {
			if secret, err = d.o.Secret(nameReader(e.Path, state.Target)); err != nil {
				return err
			}
		}
		d.set.Entries = append(d.set.Entries, Entry{Path: e.Path, Kind: Added, New: state, Secret: secret})
		return nil
	}
	err := d.from.Walk(d.ctx, ".", limits, visit)
	slices.SortFunc(d.set.Entries, func(a, b Entry) int { return cmp.Compare(a.Path, b.Path) })
	d.report.Entries = len(d.set.Entries)
	return err
}

// secretIn looks for secrets in the file met.
func (d *delivery) secretIn(e *fsguard.Entry) (bool, error) {
	if d.o.Secret == nil {
		return false, nil
	}
	if e.Mode&0o400 == 0 {
		if err := d.from.Chmod(e.Path, 0o600); err != nil {
			return false, err
		}
	}
	f, err := e.Open()
	if err != nil {
		return false, err
	}
	defer f.Close()
	return d.o.Secret(&sparse{ctx: d.ctx, file: f})
}

func (d *delivery) drop(e *fsguard.Entry, what string) error {
	d.report.Dropped = append(d.report.Dropped, Note{e.Path, what})
	if e.Mode.IsDir() {
		return fs.SkipDir
	}
	return nil
}

// check is that of an apply to a folder that is empty yet.
func (d *delivery) check() error {
	sel := &selection{set: &d.set, byPath: make(map[string]*Entry, len(d.set.Entries))}
	for i := range d.set.Entries {
		e := &d.set.Entries[i]
		sel.entries = append(sel.entries, e)
		sel.byPath[e.Path] = e
	}
	return newGuard(sel, d.to, &Request{Path: d.o.Path}).check(d.ctx, d.o.Allow)
}

func (d *delivery) copyAll() error {
	for i := range d.set.Entries {
		if err := d.ctx.Err(); err != nil {
			return err
		}
		e := &d.set.Entries[i]
		var err error
		switch e.New.Type {
		case Folder:
			err = d.to.Mkdir(e.Path, 0o700)
		case Symlink:
			if err = d.to.Symlink(e.New.Target, e.Path); err == nil {
				err = d.own(e.Path, fs.ModeSymlink)
			}
		default:
			if err = d.copyFile(e); err == nil {
				err = d.own(e.Path, fs.FileMode(e.New.Mode))
			}
		}
		if err != nil {
			return err
		}
	}
	// A folder's own mode comes last: it may be one that lets nothing be made in it.
	for i := range slices.Backward(d.set.Entries) {
		if e := &d.set.Entries[i]; e.New.Type == Folder {
			if err := d.own(e.Path, fs.FileMode(e.New.Mode)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *delivery) copyFile(e *Entry) error {
	if e.New.Mode&0o400 == 0 {
		if err := d.from.Chmod(e.Path, 0o600); err != nil {
			return err
		}
	}
	src, err := d.from.Open(e.Path)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := d.to.OpenFile(e.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = fsguard.CopyFile(d.ctx, dst, src, fsguard.CopyLimits{})
	if err == nil && len(d.set.Entries) <= fewFiles {
		err = dst.Sync()
	}
	if closeErr := dst.Close(); err == nil {
		err = closeErr
	}
	return err
}

// own gives what was made its owner and then, as that would clear some of it, its mode.
func (d *delivery) own(path string, mode fs.FileMode) error {
	if d.o.UID >= 0 {
		if err := d.to.Lchown(path, d.o.UID, d.o.GID); err != nil {
			return err
		}
	}
	if mode&fs.ModeSymlink != 0 {
		return nil
	}
	return d.to.Chmod(path, mode)
}

// sync has the copy on the disk before its name is.
func (d *delivery) sync() error {
	if len(d.set.Entries) <= fewFiles {
		return d.to.Sync(".")
	}
	fd, err := unix.Openat(d.to.Fd(), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("openat", err)
	}
	defer unix.Close(fd)
	return os.NewSyscallError("syncfs", unix.Syncfs(fd))
}
