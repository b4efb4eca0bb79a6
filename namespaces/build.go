package namespaces

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// attachPoint is where the new root is mounted until it becomes the root: any directory would do, and
// nothing is ever taken from the host's /proc. A mount on it does not count as one that hides the
// host's procfs, which the kernel wants to be visible before it grants a new one.
const attachPoint = "/proc"

// StepError says which step of the tree failed.
type StepError struct {
	Index int // -1 for the root itself
	Err   error
}

func (e *StepError) Error() string { return e.Err.Error() }
func (e *StepError) Unwrap() error { return e.Err }

// builder holds the new root while steps run on it.
type builder struct {
	root       int // the root tmpfs, attached
	rootDev    uint64
	id         Identity
	ownNetwork bool
	mounts     []int // by step: a mount made outside, or -1
	// emptyFile and emptyDir cover what must not be seen; -1 until needed.
	emptyFile, emptyDir int
	scratch             int // number of backing directories made, see scratchBacking
	dir                 int // of dirPath, which is empty for none: see parent
	dirPath             string
	built               Built
}

// Built is what Build leaves to its caller, who closes the descriptors.
type Built struct {
	Upper     int   // descriptor of the upper directory of the tree's overlay, or -1
	Output    int   // descriptor of the folder of the tree's OpOutput, or -1
	NoOverlay error // why the step with OrReadOnly, if there was one, has mounted read-only
}

const (
	emptyFileName = ".gobox-empty-file"
	emptyDirName  = ".gobox-empty-dir"
	backingPrefix = ".gobox-scratch-"
)

// Build makes the tree, in a mount namespace of its own, the caller's root directory, and detaches the
// old one. mounts holds, by step index, detached mounts made by [Idmapper.Open], or -1; Build
// closes none of them. On an error (*StepError) the namespace is half built and must be given up.
func Build(t Tree, id Identity, mounts []int) (Built, error) {
	none := Built{Upper: -1, Output: -1}
	// What the host mounts or unmounts later must not reach the copies.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return none, &StepError{-1, fmt.Errorf("make / private: %w", err)}
	}
	root, err := newTmpfs(NoSuid|NoDev, 0o755, t.Root.Size, t.Root.Inodes)
	if err != nil {
		return none, &StepError{-1, err}
	}
	defer unix.Close(root)
	if err := unix.MoveMount(root, "", unix.AT_FDCWD, attachPoint, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return none, &StepError{-1, fmt.Errorf("move_mount to %s: %w", attachPoint, err)}
	}
	var st unix.Stat_t
	if err := unix.Fstat(root, &st); err != nil {
		return none, &StepError{-1, fmt.Errorf("stat: %w", err)}
	}
	b := &builder{root: root, rootDev: st.Dev, id: id, ownNetwork: t.OwnNetwork, mounts: mounts, emptyFile: -1, emptyDir: -1, built: none}
	defer b.forget()
	for i := range t.Steps {
		if err := b.step(i, &t.Steps[i]); err != nil {
			return none, &StepError{i, err}
		}
	}
	return b.built, nil
}

func (b *builder) step(i int, s *Step) error {
	switch s.Op {
	case OpDir:
		fd, _, err := b.makeDir(s.Target, s.Mode)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return b.own(fd, s)
	case OpSymlink:
		return b.symlink(s)
	case OpFile:
		return b.writeFile(s, s.Content)
	case OpCopy:
		return b.copyFile(s)
	case OpBind:
		return b.bind(i, s)
	case OpOverlay:
		return b.overlay(i, s)
	case OpDevice:
		return b.device(s)
	case OpTmpfs:
		mode := s.Mode
		if mode == 0 {
			mode = 0o755
		}
		m, err := newTmpfs(s.Attr, mode, s.Size, s.Inodes)
		if err != nil {
			return err
		}
		defer unix.Close(m)
		if err := b.own(m, s); err != nil {
			return err
		}
		return b.mountOnDir(m, s.Target)
	case OpScratch, OpOutput:
		return b.scratchDir(s)
	case OpProc:
		m, err := newMount("proc", s.Attr&^ReadOnly)
		if err != nil {
			return err
		}
		defer unix.Close(m)
		// The last write to it, before it becomes read-only.
		if err := adjust(m, b.ownNetwork); err != nil {
			return err
		}
		if err := setAttr(m, s.Attr&ReadOnly, false); err != nil {
			return err
		}
		return b.mountOnDir(m, s.Target)
	case OpDevpts:
		m, err := newMount("devpts", s.Attr, param{"ptmxmode", "0666"}, param{"mode", "0620"}, param{"max", maxTerminals})
		if err != nil {
			return err
		}
		defer unix.Close(m)
		return b.mountOnDir(m, s.Target)
	case OpMask:
		return b.mask(s)
	case OpPivot:
		return b.pivot()
	}
	return fmt.Errorf("unknown operation %q", s.Op)
}

// maxTerminals is how many terminals there may be in a sandbox at a time (Documentation/filesystems/devpts.rst), init's own
// included. What the kernel holds for one, 70 KiB and more, is in no account, not even a cgroup's.
const maxTerminals = "64"

// bind mounts a host path. What the caller, as root, made outside comes ready with its attributes.
func (b *builder) bind(i int, s *Step) error {
	if s.Held {
		return b.hold(s)
	}
	tree, own, err := b.source(i, s)
	if err != nil {
		if s.Optional && errors.Is(err, unix.ENOENT) {
			return nil
		}
		return err
	}
	if own {
		defer unix.Close(tree)
	}
	return b.mountLike(tree, s.Target)
}

// hold mounts on itself what the tree shows already. A mount keeps its name from being renamed, removed or replaced
// (EBUSY), a symbolic link's too.
func (b *builder) hold(s *Step) error {
	at, err := b.itself(s.Target)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	tree, err := cloneMount(at, true)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	if err := setAttr(tree, s.Attr, true); err != nil {
		return err
	}
	b.forget()
	return attach(tree, at)
}

// source gives a detached mount of a step's source, and whether it was made here.
func (b *builder) source(i int, s *Step) (tree int, own bool, err error) {
	if i < len(b.mounts) && b.mounts[i] >= 0 {
		return b.mounts[i], false, nil
	}
	src, err := openSource(s.Source)
	if err != nil {
		return -1, false, err
	}
	defer unix.Close(src)
	if tree, err = cloneMount(src, true); err != nil {
		return -1, false, err
	}
	if err := setAttr(tree, s.Attr, true); err != nil {
		unix.Close(tree)
		return -1, false, err
	}
	return tree, true, nil
}

func (b *builder) device(s *Step) error {
	src, err := openSource(s.Source)
	if err != nil {
		if s.Optional && errors.Is(err, unix.ENOENT) {
			return nil
		}
		return err
	}
	defer unix.Close(src)
	var st unix.Stat_t
	if err := unix.Fstat(src, &st); err != nil {
		return fmt.Errorf("stat: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR {
		return errors.New("not a character device")
	}
	tree, err := cloneMount(src, false)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	if err := setAttr(tree, s.Attr, false); err != nil {
		return err
	}
	return b.mountLike(tree, s.Target)
}

// mountLike attaches mount to target, which is made as a directory or an empty file as mount is one.
func (b *builder) mountLike(mount int, target string) error {
	var st unix.Stat_t
	if err := unix.Fstat(mount, &st); err != nil {
		return fmt.Errorf("stat: %w", err)
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return b.mountOnDir(mount, target)
	}
	fd, err := b.makeFile(target)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return attach(mount, fd)
}

func (b *builder) mountOnDir(mount int, target string) error {
	fd, made, err := b.makeDir(target, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if !made {
		b.forget()
	}
	return attach(mount, fd)
}

// scratchDir opens a writable window on the root's tmpfs at the target.
func (b *builder) scratchDir(s *Step) error {
	target, made, err := b.makeDir(s.Target, s.Mode)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	var st unix.Stat_t
	if err := unix.Fstat(target, &st); err != nil {
		return fmt.Errorf("stat: %w", err)
	}
	backing := target
	if st.Dev != b.rootDev {
		// The target lies in something bound from the host, as /usr/home does.
		if backing, err = b.scratchBacking(s.Mode); err != nil {
			return err
		}
		defer unix.Close(backing)
	}
	if err := b.own(backing, s); err != nil {
		return err
	}
	m, err := cloneMount(backing, false)
	if err != nil {
		return err
	}
	defer unix.Close(m)
	if err := setAttr(m, s.Attr, false); err != nil {
		return err
	}
	if s.Op == OpOutput {
		// By this mount, as the root's becomes read-only.
		if b.built.Output, err = unix.Openat(m, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
			return fmt.Errorf("open: %w", err)
		}
	}
	if !made {
		b.forget()
	}
	return attach(m, target)
}

func (b *builder) scratchBacking(mode uint32) (int, error) {
	b.scratch++
	name := backingPrefix + string(rune('a'+b.scratch))
	fd, _, err := b.makeDir("/"+name, mode)
	if err != nil {
		return -1, err
	}
	return fd, nil
}

// mask covers an existing target with something empty, read-only and without any permission. What was there when the plan
// was made and is gone now, or has become a link, may come back: it is not skipped.
func (b *builder) mask(s *Step) error {
	target, err := b.itself(s.Target)
	if s.Optional && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR)) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(target)
	var st unix.Stat_t
	if err := unix.Fstat(target, &st); err != nil {
		return fmt.Errorf("stat: %w", err)
	}
	empty := &b.emptyFile
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		empty = &b.emptyDir
	case unix.S_IFLNK:
		return fmt.Errorf("open: %w", unix.ELOOP) // the mount would be on the link and not on what was meant
	}
	if *empty < 0 {
		if err := b.makeEmpty(); err != nil {
			return err
		}
	}
	m, err := cloneMount(*empty, false)
	if err != nil {
		return err
	}
	defer unix.Close(m)
	if err := setAttr(m, ReadOnly|NoSuid|NoDev|NoExec, false); err != nil {
		return err
	}
	b.forget()
	return attach(m, target)
}

func (b *builder) makeEmpty() (err error) {
	if err := unix.Mkdirat(b.root, emptyDirName, 0); err != nil {
		return fmt.Errorf("mkdir: %w", err)
	}
	f, err := unix.Openat(b.root, emptyFileName, unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC|unix.O_RDONLY, 0)
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	unix.Close(f)
	const flags = unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW
	if b.emptyFile, err = unix.Openat(b.root, emptyFileName, flags, 0); err == nil {
		b.emptyDir, err = unix.Openat(b.root, emptyDirName, flags, 0)
	}
	return err
}

// pivot swaps the roots. pivot_root(2) with the same directory twice stacks the old root on the new
// one, from where it is detached; no directory for it is needed.
func (b *builder) pivot() error {
	b.dropNames()
	if err := unix.Fchdir(b.root); err != nil {
		return fmt.Errorf("fchdir: %w", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("detach the old root: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return fmt.Errorf("chdir /: %w", err)
	}
	return setAttr(b.root, ReadOnly, false)
}

// dropNames removes the builder's own names from the root; their mounts keep the inodes.
func (b *builder) dropNames() {
	if b.emptyFile >= 0 {
		unix.Close(b.emptyFile)
		unix.Close(b.emptyDir)
		_ = unix.Unlinkat(b.root, emptyFileName, 0)
		_ = unix.Unlinkat(b.root, emptyDirName, unix.AT_REMOVEDIR)
	}
}

// own gives what a step made to the command's user.
func (b *builder) own(fd int, s *Step) error {
	if s.Owned && b.id.Root {
		if err := unix.Fchownat(fd, "", int(b.id.UID), int(b.id.GID), unix.AT_EMPTY_PATH); err != nil {
			return fmt.Errorf("chown: %w", err)
		}
	}
	return nil
}

// clean says whether p is absolute and has no empty, "." or ".." element.
func clean(p string) bool {
	if !strings.HasPrefix(p, "/") {
		return false
	}
	if p == "/" {
		return true
	}
	for elem := range strings.SplitSeq(p[1:], "/") {
		if elem == "" || elem == "." || elem == ".." {
			return false
		}
	}
	return true
}
