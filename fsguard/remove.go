package fsguard

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"
)

// removePasses bounds how often a directory is gone through while somebody keeps filling it.
const removePasses = 100

// RemoveAll removes name and all beneath it; nothing there is no error. Links are removed and not followed.
// Directories that their owner, the caller, has locked by mode are unlocked. It stops at a mount point
// (ErrMount or EBUSY), at the first error, at the end of ctx, and with ErrChanged when somebody adds files
// faster than they can be removed. Depth costs no descriptors. The root itself cannot be removed: ".", which is allowed,
// empties it.
func (r *Root) RemoveAll(ctx context.Context, name string) error {
	cleaned, err := clean(name)
	if err != nil {
		return r.fail("remove", name, err)
	}
	for range removePasses {
		if cleaned != "." {
			err = r.Remove(cleaned)
			if err == nil || errors.Is(err, unix.ENOENT) {
				return nil
			}
			if !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) && !errors.Is(err, ErrChanged) {
				return err
			}
		}
		err = r.empty(ctx, cleaned)
		switch {
		case err == nil && cleaned == ".":
			return nil
		case err == nil, errors.Is(err, ErrChanged), errors.Is(err, unix.ENOENT),
			errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR): // swapped: what is there now goes by Remove
		default:
			return r.fail("remove", name, err)
		}
	}
	return r.fail("remove", name, ErrChanged)
}

// empty removes what the directory name holds.
func (r *Root) empty(ctx context.Context, name string) error {
	c := chain{root: r}
	defer c.close()
	if err := c.pushUnlocked(name); err != nil {
		return err
	}
	buf := make([]byte, 32<<10)
	passes := []int{0} // by depth
	for c.depth() > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		dir, err := c.fd()
		if err != nil {
			return err
		}
		top := c.top()
		if len(top.rest) == 0 {
			if top.rest, err = dirents(dir, buf); err != nil {
				return r.fail("read directory", c.path(c.depth()), err)
			}
		}
		if len(top.rest) > 0 {
			entry := top.rest[len(top.rest)-1]
			top.rest = top.rest[:len(top.rest)-1]
			down, err := c.removeEntry(dir, entry)
			if err != nil {
				return r.fail("remove", join(c.path(c.depth()), entry), err)
			}
			if down {
				passes = append(passes, 0)
			}
			continue
		}
		// The end of the list, which may have missed what came or moved during it.
		depth := c.depth()
		if passes[depth-1]++; passes[depth-1] > removePasses {
			return ErrChanged
		}
		if depth == 1 {
			again, err := c.rewind(dir, buf)
			if err != nil {
				return err
			}
			if again {
				continue
			}
			return nil
		}
		done, err := c.removeEmptied(buf)
		if err != nil {
			return err
		}
		if done {
			passes = passes[:depth-1]
		}
	}
	return nil
}

// rewind reads the directory again from its beginning and tells whether something is there.
func (c *chain) rewind(dir int, buf []byte) (bool, error) {
	if _, err := unix.Seek(dir, 0, unix.SEEK_SET); err != nil {
		return false, err
	}
	names, err := dirents(dir, buf)
	c.top().rest = names
	return len(names) > 0, err
}

// removeEmptied removes the directory in work from the one above, and goes up; false when it has something in
// it after all.
func (c *chain) removeEmptied(buf []byte) (bool, error) {
	top := *c.top()
	dir, err := c.fd()
	if err != nil {
		return false, err
	}
	again, err := c.rewind(dir, buf)
	if err != nil || again {
		return false, err
	}
	c.pop()
	above, err := c.fd()
	if err != nil {
		return false, err
	}
	// Under this name there may be another one by now. It would go only if it is empty, and it is beneath the root.
	switch err := unix.Unlinkat(above, top.name, unix.AT_REMOVEDIR); err {
	case nil, unix.ENOENT:
		return true, nil
	case unix.ENOTEMPTY, unix.EEXIST, unix.ENOTDIR:
		// Filled or swapped meanwhile: it is an entry like any other again.
		c.top().rest = append(c.top().rest, top.name)
		return true, nil
	default:
		return false, c.root.fail("remove", join(c.path(c.depth()), top.name), err)
	}
}

// removeEntry removes one entry of the directory in work, or goes down into it.
func (c *chain) removeEntry(dir int, name string) (down bool, err error) {
	const tries = 16
	unlocked := false
	for range tries {
		err := ignoreEINTR(func() error { return unix.Unlinkat(dir, name, 0) })
		switch err {
		case nil, unix.ENOENT:
			return false, nil
		case unix.EACCES:
			// The directory in work is locked.
			if unlocked || unlock(dir) != nil {
				return false, err
			}
			unlocked = true
			continue
		case unix.EISDIR:
		default:
			return false, err
		}
		switch err := c.pushUnlocked(name); err {
		case nil:
			return true, nil
		case unix.ENOENT:
			return false, nil
		case unix.ELOOP, unix.ENOTDIR: // swapped for something else: try again
		default:
			return false, err
		}
	}
	return false, ErrChanged
}

// pushUnlocked is push; a directory that the caller owns and may not list is made 0700 first.
func (c *chain) pushUnlocked(name string) error {
	_, err := c.push(name)
	if err != unix.EACCES {
		return err
	}
	at := c.root.fd
	if c.depth() > 0 {
		if at, err = c.fd(); err != nil {
			return err
		}
	}
	fd, pathErr := c.root.openat(at, name, unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY, Resolve: c.root.resolve(false),
	})
	if pathErr == unix.EACCES && c.depth() > 0 && unlock(at) == nil {
		fd, pathErr = c.root.openat(at, name, unix.OpenHow{
			Flags: unix.O_PATH | unix.O_DIRECTORY, Resolve: c.root.resolve(false),
		})
	}
	if pathErr != nil {
		return pathErr
	}
	defer unix.Close(fd)
	if unlock(fd) != nil {
		return unix.EACCES
	}
	_, err = c.push(name)
	return err
}

// unlock lets the owner list and change a directory, by its descriptor.
func unlock(fd int) error {
	return ignoreEINTR(func() error { return unix.Chmod(procFd(fd), 0o700) })
}
