package policy

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"gobox/policy/toolchain"
	"gobox/seccomp"
)

// Host is what a plan depends on beyond the policy. Resolve asks for nothing else, so that a test can
// describe any host without being on it. The functions are called only for what a run needs.
type Host struct {
	EUID uint32
	EGID uint32
	// Environ is the caller's environment, NAME=VALUE.
	Environ []string
	// Dir is the caller's current directory, absolute and by preference the name the caller's shell
	// knows it by. It is empty when it cannot be named from the caller's root (getcwd(2), "(unreachable)").
	Dir string
	FS  FS
	// Mounts lists what is mounted in the caller's mount namespace.
	Mounts func() ([]Mount, error)
	// LandlockABI is the kernel's Landlock ABI version, 0 for none.
	LandlockABI int
	// Kernel gives the kernel's version.
	Kernel func() (seccomp.Kernel, error)
	// Seccomp tells whether the kernel has seccomp filters.
	Seccomp bool
	// LandlockLack and SeccompLack say why there is none, as far as that is known.
	LandlockLack, SeccompLack error
	// HardLimit gives the hard limit that the caller has for an RLIMIT_* resource.
	HardLimit func(resource int) uint64
}

// FS is the host's file system, read only.
type FS = toolchain.FS

// FileInfo is the part of inode(7) that planning needs.
type FileInfo struct {
	Mode fs.FileMode
	UID  uint32
	GID  uint32
	Size int64 // bytes
}

func (f FileInfo) isDir() bool     { return f.Mode.IsDir() }
func (f FileInfo) isSymlink() bool { return f.Mode&fs.ModeSymlink != 0 }
func (f FileInfo) isRegular() bool { return f.Mode.IsRegular() }
func (f FileInfo) isDevice() bool  { return f.Mode&fs.ModeDevice != 0 }

// worldReadable tells whether everybody may read the file, whoever the command runs as.
func (f FileInfo) worldReadable() bool { return f.Mode&0o004 != 0 }

// lstat describes path without following a symbolic link in its last component.
func lstat(files FS, path string) (FileInfo, error) {
	info, err := files.Lstat(path)
	if err != nil {
		return FileInfo{}, plainCause(err)
	}
	found := FileInfo{Mode: info.Mode(), Size: info.Size()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		found.UID, found.GID = st.Uid, st.Gid
	}
	return found, nil
}

// plainCause leaves the errno of an error of package os: the path is in the refusal already.
func plainCause(err error) error {
	var detail *fs.PathError
	if errors.As(err, &detail) {
		return detail.Err
	}
	return err
}

// maxRead is what is read of a host's text file at most, in bytes.
const maxRead = 1 << 20

// names lists a directory in order.
func names(files FS, dir string) ([]string, error) {
	entries, err := files.ReadDir(dir)
	list := make([]string, len(entries))
	for i, entry := range entries {
		list[i] = entry.Name()
	}
	slices.Sort(list)
	return list, err
}

// lookupEnv is getenv(3) on the caller's environment.
func (h *Host) lookupEnv(name string) (string, bool) {
	for _, kv := range h.Environ {
		if len(kv) > len(name) && kv[len(name)] == '=' && strings.HasPrefix(kv, name) {
			return kv[len(name)+1:], true
		}
	}
	return "", false
}

func (h *Host) getenv(name string) string {
	value, _ := h.lookupEnv(name)
	return value
}

var errNoDir = errors.New("the current directory cannot be named from here")

// snapshot is an FS that looks at each path once, so that one plan sees one state of it, and so that the
// same parents are not asked for again and again.
type snapshot struct {
	FS
	seen map[string]looked
}

type looked struct {
	info fs.FileInfo
	err  error
}

func newSnapshot(files FS) FS { return snapshot{FS: files, seen: make(map[string]looked, 256)} }

func (s snapshot) Lstat(path string) (fs.FileInfo, error) {
	if before, ok := s.seen[path]; ok {
		return before.info, before.err
	}
	info, err := s.FS.Lstat(path)
	s.seen[path] = looked{info, err}
	return info, err
}
