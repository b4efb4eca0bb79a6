package fsguard

import (
	"strings"

	"golang.org/x/sys/unix"
)

// The lowest chainKeep directories of a chain stay open, and above them every chainStep-th, chainAnchors at
// most, so that opening one anew is a short way.
const (
	chainKeep    = 32
	chainStep    = 256
	chainAnchors = 64
)

// chain is the line of directories from a starting directory down to the one in work. Each is opened from the
// one above it. Only the lowest few stay open: one that is needed again is opened anew and must be the
// same directory as before.
type chain struct {
	root  *Root
	links []chainLink
}

type chainLink struct {
	name string // beneath the link above; the first one's is beneath the root and may have slashes
	fd   int    // O_RDONLY, own; -1 when it was closed meanwhile
	dev  uint64
	ino  uint64
	rest []string // names still to be worked on
}

func (c *chain) depth() int { return len(c.links) }

func (c *chain) top() *chainLink { return &c.links[len(c.links)-1] }

// path is the name of the directory at the given depth, counted from 1, beneath the root.
func (c *chain) path(depth int) string { return c.between(0, depth) }

// between is the name of the directory at depth to beneath that at depth from, where 0 is the root.
func (c *chain) between(from, to int) string {
	var b strings.Builder
	for i, l := range c.links[from:to] {
		if from == 0 && i == 0 && l.name == "." && to > 1 {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('/')
		}
		b.WriteString(l.name)
	}
	return b.String()
}

// how opens a directory to list it. Links are never followed here.
func (c *chain) how() unix.OpenHow {
	return unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NONBLOCK | unix.O_NOATIME, Resolve: c.root.resolve(false)}
}

// open is openat for a directory, without O_NOATIME where that is only the owner's to ask.
func (c *chain) open(at int, name string) (int, error) {
	how := c.how()
	fd, err := c.root.openat(at, name, how)
	if err == unix.EPERM {
		how.Flags &^= unix.O_NOATIME
		fd, err = c.root.openat(at, name, how)
	}
	return fd, err
}

// push goes down to the directory name of the one in work, or of the root where there is none yet.
func (c *chain) push(name string) (Info, error) {
	at := c.root.fd
	if len(c.links) > 0 {
		fd, err := c.fd()
		if err != nil {
			return Info{}, err
		}
		at = fd
	}
	fd, err := c.open(at, name)
	if err != nil {
		return Info{}, err
	}
	info, err := statFd(fd)
	if err != nil {
		unix.Close(fd)
		return Info{}, err
	}
	c.links = append(c.links, chainLink{name: name, fd: fd, dev: info.Dev, ino: info.Ino})
	old := len(c.links) - 1 - chainKeep
	if anchor := old%chainStep == 0 && old/chainStep < chainAnchors; old >= 0 && !anchor && c.links[old].fd >= 0 {
		unix.Close(c.links[old].fd)
		c.links[old].fd = -1
	}
	return info, nil
}

// pop goes back up.
func (c *chain) pop() {
	if fd := c.top().fd; fd >= 0 {
		unix.Close(fd)
	}
	c.links = c.links[:len(c.links)-1]
}

// fd is the descriptor of the directory in work. It stays the chain's own, until push or pop.
func (c *chain) fd() (int, error) {
	l := c.top()
	if l.fd >= 0 {
		return l.fd, nil
	}
	above, at := len(c.links)-1, c.root.fd
	for above > 0 && c.links[above-1].fd < 0 {
		above--
	}
	if above > 0 {
		at = c.links[above-1].fd
	}
	fd, err := c.open(at, c.between(above, len(c.links)))
	switch err {
	case nil:
	case unix.ENOENT, unix.ELOOP, unix.ENOTDIR, unix.EXDEV:
		return -1, ErrChanged
	default:
		return -1, err
	}
	info, err := statFd(fd)
	if err == nil && (info.Dev != l.dev || info.Ino != l.ino) {
		err = ErrChanged
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	l.fd = fd
	return fd, nil
}

func (c *chain) close() {
	for len(c.links) > 0 {
		c.pop()
	}
}

// dirents reads the next names of the open directory fd, in the order the file system has them, "." and ".."
// left out. None and no error is the end.
func dirents(fd int, buf []byte) ([]string, error) {
	for {
		n, err := retry(func() (int, error) { return unix.ReadDirent(fd, buf) })
		if err != nil || n == 0 {
			return nil, err
		}
		if _, _, names := unix.ParseDirent(buf[:n], -1, nil); len(names) > 0 {
			return names, nil
		}
	}
}
