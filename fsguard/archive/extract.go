package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"gobox/fsguard"
)

// Extract unpacks an archive of size bytes into the folder dir, which must not be there or be empty. It does so
// in a new folder beside dir, which is renamed to dir as the last step: on any error, and at the end of ctx, dir is
// as it was and the new folder is removed. Only a crash or SIGKILL leaves that one behind, under a name that begins
// with ".gobox-extract-".
//
// archive stays the caller's and is read in any order. A *RefusedError names the entry that was refused; other
// errors wrap one of the Err values of this package, the file system's error or ctx's.
func Extract(ctx context.Context, archive io.ReaderAt, size int64, dir string, o Options) (*Report, error) {
	begun := time.Now()
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	above, base := filepath.Split(dir)
	if base == "" {
		return nil, fmt.Errorf("%w is the root of the file system", ErrTarget)
	}
	parent, err := fsguard.OpenRoot(above, fsguard.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { _ = parent.Close() }()
	mode, err := checkTarget(ctx, parent, base)
	if err != nil {
		return nil, err
	}
	fresh, err := parent.MkdirTemp(".", ".gobox-extract-")
	if err != nil {
		return nil, err
	}
	// The caller's ctx may be what ended the work; the cleaning is bounded by what was made.
	defer func() { _ = parent.RemoveAll(context.WithoutCancel(ctx), fresh) }()
	root, err := parent.OpenRoot(fresh)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	report, err := extract(ctx, archive, size, root, o)
	if err != nil {
		return nil, err
	}
	if mode != 0 {
		if err := root.Chmod(".", mode); err != nil {
			return nil, err
		}
	}
	// Without a flag rename(2) replaces an empty folder and nothing else.
	if err := parent.Rename(fresh, base, 0); err != nil {
		return nil, fmt.Errorf("%w was taken meanwhile: %w", ErrTarget, err)
	}
	report.Elapsed = time.Since(begun)
	return report, nil
}

// checkTarget refuses a target that rename(2) could not replace, before the work. It gives the mode of the
// empty folder that is there, or 0.
func checkTarget(ctx context.Context, parent *fsguard.Root, base string) (fs.FileMode, error) {
	info, err := parent.Lstat(base)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, nil
	case err != nil:
		return 0, err
	case info.Mode&fs.ModeSymlink != 0:
		return 0, fmt.Errorf("%w is a symbolic link", ErrTarget)
	case !info.Mode.IsDir():
		return 0, fmt.Errorf("%w is there and no folder", ErrTarget)
	case info.MountPoint:
		return 0, fmt.Errorf("%w is a mount point, which cannot be replaced", ErrTarget)
	}
	err = parent.Walk(ctx, base, fsguard.WalkLimits{Entries: 1}, func(_ *fsguard.Entry, err error) error { return err })
	if errors.Is(err, fsguard.ErrLimit) {
		return 0, fmt.Errorf("%w is not empty", ErrTarget)
	}
	if err != nil {
		return 0, err
	}
	if here, err := fsguard.OpenRoot(".", fsguard.Options{}); err == nil {
		defer func() { _ = here.Close() }()
		if current, err := here.Stat("."); err == nil && current.Same(&info) {
			return 0, fmt.Errorf("%w is the current one, which cannot be replaced", ErrTarget)
		}
	}
	return info.Mode.Perm(), nil
}

// extract unpacks into root, a new folder of ours.
func extract(ctx context.Context, archive io.ReaderAt, size int64, root *fsguard.Root, o Options) (*Report, error) {
	s := &source{ctx: ctx, r: archive, size: size}
	format, err := s.format()
	if err != nil {
		return nil, err
	}
	report := &Report{Format: format, Archive: size, Notes: []Note{}}
	t := newTree(ctx, root, o, report)
	switch format {
	case "":
		return nil, ErrFormat
	case "zip":
		err = readZip(s, t)
	default:
		err = t.readTarStream(s, format)
	}
	if err == nil {
		err = t.finish()
	}
	if err != nil {
		// What a decoder made of the end of ctx says less than ctx.
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
			err = fmt.Errorf("no room: %w", err)
		}
		return nil, err
	}
	return report, nil
}

func (t *tree) readTarStream(s *source, format string) error {
	r, err := s.stream(format)
	if err != nil {
		return err
	}
	stream := &guarded{source: s, r: r, limits: t.options.Limits, plain: format == "tar"}
	if format != "tar" {
		head := make([]byte, 512)
		n, err := io.ReadFull(stream, head)
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return err
		}
		if !isTar(head[:n]) {
			return fmt.Errorf("%w: what is compressed in it is no tar", ErrFormat)
		}
		stream.pending = head[:n]
	}
	return readTar(stream, t)
}
