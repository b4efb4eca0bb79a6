package namespaces

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// setAttr adds attributes to the detached or attached mount at fd and, when recursive, to all below it
// (mount_setattr(2)).
func setAttr(fd int, a Attr, recursive bool) error {
	var attr unix.MountAttr
	if a&ReadOnly != 0 {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if a&NoSuid != 0 {
		attr.Attr_set |= unix.MOUNT_ATTR_NOSUID
	}
	if a&NoDev != 0 {
		attr.Attr_set |= unix.MOUNT_ATTR_NODEV
	}
	if a&NoExec != 0 {
		attr.Attr_set |= unix.MOUNT_ATTR_NOEXEC
	}
	if attr.Attr_set == 0 {
		return nil
	}
	return setMountAttr(fd, &attr, recursive)
}

func setMountAttr(fd int, attr *unix.MountAttr, recursive bool) error {
	flags := uint(unix.AT_EMPTY_PATH)
	if recursive {
		flags |= unix.AT_RECURSIVE
	}
	if err := unix.MountSetattr(fd, "", flags, attr); err != nil {
		return fmt.Errorf("mount_setattr: %w", err)
	}
	return nil
}

// cloneMount returns a detached copy of the mount tree at fd (open_tree(2)); the caller closes it.
func cloneMount(fd int, recursive bool) (int, error) {
	flags := uint(unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_EMPTY_PATH)
	if recursive {
		flags |= unix.AT_RECURSIVE
	}
	tree, err := unix.OpenTree(fd, "", flags)
	if err != nil {
		return -1, fmt.Errorf("open_tree: %w", err)
	}
	return tree, nil
}

// attach moves the detached mount onto the file or directory at target (move_mount(2)).
func attach(mount, target int) error {
	err := unix.MoveMount(mount, "", target, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	if err != nil {
		return fmt.Errorf("move_mount: %w", err)
	}
	return nil
}

// param is one string parameter of a file system (fsconfig(2)).
type param struct{ key, value string }

// newMount makes a detached mount of a new file system; the caller closes it.
func newMount(fstype string, a Attr, params ...param) (int, error) {
	fs, err := unix.Fsopen(fstype, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("fsopen %s: %w", fstype, err)
	}
	defer unix.Close(fs)
	for _, p := range params {
		if err := unix.FsconfigSetString(fs, p.key, p.value); err != nil {
			return -1, fmt.Errorf("fsconfig %s %s=%s: %w", fstype, p.key, p.value, err)
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, fmt.Errorf("fsconfig %s: %w", fstype, err)
	}
	flags := 0
	for _, m := range [...]struct {
		bit  Attr
		flag int
	}{{ReadOnly, unix.MOUNT_ATTR_RDONLY}, {NoSuid, unix.MOUNT_ATTR_NOSUID}, {NoDev, unix.MOUNT_ATTR_NODEV}, {NoExec, unix.MOUNT_ATTR_NOEXEC}} {
		if a&m.bit != 0 {
			flags |= m.flag
		}
	}
	mount, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, flags)
	if err != nil {
		return -1, fmt.Errorf("fsmount %s: %w", fstype, err)
	}
	return mount, nil
}

// newTmpfs makes a detached tmpfs; size in bytes and inodes of 0 mean no limit.
func newTmpfs(a Attr, mode uint32, size, inodes uint64) (int, error) {
	params := make([]param, 0, 3)
	params = append(params, param{"mode", strconv.FormatUint(uint64(mode), 8)},
		param{"size", strconv.FormatUint(size, 10)},
		param{"nr_inodes", strconv.FormatUint(inodes, 10)})
	return newMount("tmpfs", a, params...)
}

// openSource opens a host path, which must be absolute and free of symbolic links, as an O_PATH
// descriptor. A path that was swapped for a link since it was planned fails with ELOOP.
func openSource(path string) (int, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
		// Without O_NOFOLLOW, which with O_PATH would open a last link itself.
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return -1, fmt.Errorf("open: %w", err)
	}
	return fd, nil
}

// Open returns a detached copy of the mount tree at path with attributes a, or with deep false of the one mount that path
// is on. With an owner, that one's ids stand for the sandbox user's host ids (mount_setattr(2), MOUNT_ATTR_IDMAP). It takes root, and a
// file system that allows it; the cause of a refusal is in the error's chain. The caller closes it.
func (m *Idmapper) Open(path string, a Attr, owner *Owner, deep bool) (*os.File, error) {
	src, err := openSource(path)
	if err != nil {
		return nil, err
	}
	defer unix.Close(src)
	tree, err := cloneMount(src, deep)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(tree), path)
	if owner != nil {
		err = m.idmap(tree, *owner)
	}
	if err == nil {
		err = setAttr(tree, a, true)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (m *Idmapper) idmap(tree int, owner Owner) error {
	ns, err := m.userns(owner)
	if err != nil {
		return err
	}
	return setMountAttr(tree, &unix.MountAttr{
		Attr_set:    unix.MOUNT_ATTR_IDMAP,
		Propagation: unix.MS_PRIVATE,
		Userns_fd:   uint64(ns.Fd()),
	}, true)
}

// Idmapper makes idmapped mounts for one sandbox identity and keeps one user namespace per owner.
type Idmapper struct {
	Identity Identity
	owners   map[Owner]*os.File
	reap     []func()
}

func (m *Idmapper) userns(owner Owner) (*os.File, error) {
	if ns, ok := m.owners[owner]; ok {
		return ns, nil
	}
	ns, reap, err := idmapUserns(owner, m.Identity)
	m.reap = append(m.reap, reap)
	if err != nil {
		return nil, err
	}
	if m.owners == nil {
		m.owners = make(map[Owner]*os.File)
	}
	m.owners[owner] = ns
	return ns, nil
}

// Close gives up the user namespaces, and waits for the processes that made them; the mounts keep what they need.
func (m *Idmapper) Close() {
	for _, ns := range m.owners {
		ns.Close()
	}
	m.owners = nil
	for _, reap := range m.reap {
		reap()
	}
	m.reap = nil
}
