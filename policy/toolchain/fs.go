package toolchain

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// FS is the host's file system, read only. Paths are absolute. Errors are those of package os.
type FS interface {
	Lstat(path string) (fs.FileInfo, error)
	Readlink(path string) (string, error)
	// ReadFile gives the first max bytes of a regular file, and never blocks.
	ReadFile(path string, max int64) ([]byte, error)
	ReadDir(path string) ([]fs.DirEntry, error)
	// Executable says whether the caller may execute the file (access(2), X_OK, effective ids).
	Executable(path string) bool
}

// HostFS is the file system of this process.
func HostFS() FS { return hostFS{} }

type hostFS struct{}

var errNotRegular = errors.New("not a regular file")

func (hostFS) Lstat(path string) (fs.FileInfo, error)     { return os.Lstat(path) }
func (hostFS) Readlink(path string) (string, error)       { return os.Readlink(path) }
func (hostFS) ReadDir(path string) ([]fs.DirEntry, error) { return os.ReadDir(path) }

func (hostFS) Executable(path string) bool {
	return unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS) == nil
}

func (hostFS) ReadFile(path string, max int64) ([]byte, error) {
	// O_NONBLOCK: the name may be a FIFO that nobody writes to.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: path, Err: errNotRegular}
	}
	buf := make([]byte, min(max, info.Size()))
	n, err := io.ReadFull(f, buf)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, err
	}
	return buf[:n], nil
}
