package vm

import (
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
)

// An archive writes an initramfs: cpio's newc format (the kernel's
// Documentation/driver-api/early-userspace/buffer-format.rst), all owned by root.
type archive struct {
	w    io.Writer
	ino  int
	dirs []string
	err  error
}

const (
	typeDir  = 0o040000
	typeFile = 0o100000
	typeLink = 0o120000
)

func (a *archive) entry(name string, mode int, data []byte) {
	if a.err != nil {
		return
	}
	name = strings.TrimPrefix(name, "/")
	a.ino++
	pad := func(n int) string { return strings.Repeat("\x00", -n&3) }
	header := fmt.Sprintf("070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
		a.ino, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name)+1, 0)
	header += name + "\x00"
	_, a.err = io.WriteString(a.w, header+pad(len(header)))
	if a.err == nil {
		_, a.err = a.w.Write(data)
	}
	if a.err == nil {
		_, a.err = io.WriteString(a.w, pad(len(data)))
	}
}

// dir adds a directory and those above it, once.
func (a *archive) dir(name string) {
	name = path.Clean("/" + name)
	if name == "/" || slices.Contains(a.dirs, name) {
		return
	}
	a.dir(path.Dir(name))
	a.dirs = append(a.dirs, name)
	a.entry(name, typeDir|0o755, nil)
}

func (a *archive) file(name string, mode int, data []byte) {
	a.dir(path.Dir(path.Clean("/" + name)))
	a.entry(name, typeFile|mode, data)
}

func (a *archive) link(name, target string) {
	a.dir(path.Dir(path.Clean("/" + name)))
	a.entry(name, typeLink|0o777, []byte(target))
}

// copy adds a file of the host's with its permissions.
func (a *archive) copy(name, from string) {
	if a.err != nil {
		return
	}
	data, err := os.ReadFile(from)
	if err != nil {
		a.err = err
		return
	}
	st, err := os.Stat(from)
	if err != nil {
		a.err = err
		return
	}
	a.file(name, int(st.Mode().Perm()), data)
}

func (a *archive) close() error {
	a.entry("TRAILER!!!", 0, nil)
	return a.err
}
