package archive

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

// readTar adds the entries of a tar to the tree.
func readTar(stream *guarded, t *tree) error {
	r := tar.NewReader(stream)
	for {
		header, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return t.tarError(err)
		}
		e, err := tarEntry(header, r)
		if err == nil && e == nil {
			continue
		}
		if err != nil {
			t.index++
			return t.refused(header.Name, err)
		}
		if err := t.add(e); err != nil {
			return err
		}
	}
	more, err := stream.rest()
	if err != nil {
		return err
	}
	if more {
		t.index++
		t.note("", "data behind the end of the archive was not read")
	}
	return nil
}

// tarError is what the reader said when there was no header to blame.
func (t *tree) tarError(err error) error {
	if errors.Is(err, ErrLimit) || errors.Is(err, ErrBroken) || t.ctx.Err() != nil {
		return err
	}
	if errors.Is(err, tar.ErrFieldTooLong) {
		err = fmt.Errorf("a header of an entry is longer than 1 MiB: %w", err)
	}
	return broken(fmt.Errorf("after entry %d: %w", t.index, err))
}

// tarEntry gives an entry for what a header describes, nil for what is no file.
func tarEntry(h *tar.Header, body io.Reader) (*entry, error) {
	e := &entry{name: h.Name, mode: tarMode(h.Mode), mtime: h.ModTime}
	for _, key := range slices.Sorted(maps.Keys(h.PAXRecords)) {
		if name, ok := strings.CutPrefix(key, "SCHILY.xattr."); ok {
			e.losing = append(e.losing, "xattr "+name)
		} else if name, ok := strings.CutPrefix(key, "LIBARCHIVE.xattr."); ok {
			e.losing = append(e.losing, "xattr "+name)
		} else if strings.HasPrefix(key, "SCHILY.acl.") {
			e.losing = append(e.losing, "ACL")
		}
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse, tar.TypeCont:
		e.size, e.body = h.Size, tarBody{body}
	case tar.TypeDir:
		e.mode |= fs.ModeDir
	case tar.TypeSymlink:
		e.mode |= fs.ModeSymlink
		e.link = h.Linkname
	case tar.TypeLink:
		e.hard, e.link = true, h.Linkname
	case tar.TypeChar, tar.TypeBlock:
		e.mode |= fs.ModeDevice
	case tar.TypeFifo:
		e.mode |= fs.ModeNamedPipe
	case tar.TypeXGlobalHeader:
		// The reader does not apply these to what follows, other programs do.
		for key := range h.PAXRecords {
			if key == "path" || key == "linkpath" || key == "size" || strings.HasPrefix(key, "GNU.sparse.") {
				return nil, ambiguous("a global header sets %q for all entries", key)
			}
		}
		return nil, nil
	default:
		return nil, fmt.Errorf("%w: %q", ErrType, h.Typeflag)
	}
	return e, nil
}

// tarBody is the content of an entry; what the reader says of its structure is said as of all else.
type tarBody struct{ r io.Reader }

func (b tarBody) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	switch {
	case err == nil, err == io.EOF, errors.Is(err, ErrLimit), errors.Is(err, ErrBroken),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	default:
		err = broken(err)
	}
	return n, err
}

// tarMode is the mode field of a header (tar(5)): the lowest twelve bits.
func tarMode(bits int64) fs.FileMode {
	mode := fs.FileMode(bits & 0o777)
	if bits&0o4000 != 0 {
		mode |= fs.ModeSetuid
	}
	if bits&0o2000 != 0 {
		mode |= fs.ModeSetgid
	}
	if bits&0o1000 != 0 {
		mode |= fs.ModeSticky
	}
	return mode
}
