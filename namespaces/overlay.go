package namespaces

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Staging holds the layers of the overlay, on the root's tmpfs or on what a step before has mounted there (OnDisk). Nobody but
// its owner, init, gets in by mode, and the command not at all, for want of a Landlock rule and since the root is read-only. A
// mount on it is gone before the command comes.
const Staging = "/.gobox-overlay"

// overlay shows the host's folder with a layer over it; where the step allows for that and no overlay can be had, the folder
// is read-only.
func (b *builder) overlay(i int, s *Step) error {
	lower, own, err := b.source(i, s)
	if err != nil {
		return err
	}
	if own {
		defer unix.Close(lower)
	}
	m, err := b.newOverlay(lower, s)
	if err != nil && s.OrReadOnly {
		b.dropUpper(err)
		if err := setAttr(lower, ReadOnly, true); err != nil {
			return err
		}
		return b.mountOnDir(lower, s.Target)
	}
	if err != nil {
		return err
	}
	defer unix.Close(m)
	// The overlay has mounts of its own of its layers.
	b.forget()
	if err := unix.Unmount(attachPoint+Staging+"/lower", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("detach the lower layer: %w", err)
	}
	if s.OnDisk {
		if err := unix.Unmount(attachPoint+Staging, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("detach the scratch folder: %w", err)
		}
	}
	return b.mountOnDir(m, s.Target)
}

// dropUpper notes why there is no overlay.
func (b *builder) dropUpper(why error) {
	if b.built.Upper >= 0 {
		unix.Close(b.built.Upper)
		b.built.Upper = -1
	}
	b.built.NoOverlay = why
}

// newOverlay makes a detached overlayfs (Documentation/filesystems/overlayfs.rst) of lower and a new upper
// directory. userxattr makes it keep its marks in user.* attributes, the only ones a user namespace may set.
func (b *builder) newOverlay(lower int, s *Step) (int, error) {
	var st unix.Stat_t
	if err := unix.Fstat(lower, &st); err != nil {
		return -1, fmt.Errorf("stat: %w", err)
	}
	if err := b.layers(s, st.Mode&0o777); err != nil {
		return -1, err
	}
	if err := b.mountOnDir(lower, Staging+"/lower"); err != nil {
		return -1, err
	}
	fs, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("fsopen overlay: %w", err)
	}
	defer unix.Close(fs)
	for _, p := range [...]param{
		{"lowerdir", attachPoint + Staging + "/lower"},
		{"upperdir", attachPoint + Staging + "/upper"},
		{"workdir", attachPoint + Staging + "/work"},
	} {
		if err := unix.FsconfigSetString(fs, p.key, p.value); err != nil {
			return -1, fmt.Errorf("fsconfig overlay %s: %w", p.key, err)
		}
	}
	if err := unix.FsconfigSetFlag(fs, "userxattr"); err != nil {
		return -1, fmt.Errorf("fsconfig overlay userxattr: %w", err)
	}
	if s.OnDisk {
		// The layer does not outlive the run. Without this the end of the mount writes the whole file system to the disk, while
		// init is dying.
		if err := unix.FsconfigSetFlag(fs, "volatile"); err != nil {
			return -1, fmt.Errorf("fsconfig overlay volatile: %w", err)
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, fmt.Errorf("fsconfig overlay: %w", err)
	}
	m, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	if err != nil {
		return -1, fmt.Errorf("fsmount overlay: %w", err)
	}
	return m, nil
}

// layers makes the directories for the layers. The upper one lends its mode and owner to the root of the
// overlay.
func (b *builder) layers(s *Step, mode uint32) error {
	for _, d := range [...]Step{
		{Target: Staging, Mode: 0o700},
		{Target: Staging + "/lower", Mode: 0o700},
		{Target: Staging + "/work", Mode: 0o700, Owned: s.Owned},
		{Target: Staging + "/upper", Mode: mode, Owned: s.Owned},
	} {
		fd, _, err := b.makeDir(d.Target, d.Mode)
		if err != nil {
			return err
		}
		err = b.own(fd, &d)
		unix.Close(fd)
		if err != nil {
			return err
		}
	}
	dir, err := b.lookup(Staging + "/upper")
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	// By a mount of its own: the root's becomes read-only, and who looks through it may have to change modes.
	m, err := cloneMount(dir, false)
	if err != nil {
		return err
	}
	defer unix.Close(m)
	fd, err := unix.Openat(m, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	b.built.Upper = fd
	return keepsMarks(fd)
}

// keepsMarks makes sure that the upper directory's file system has user.* attributes, as tmpfs does since Linux 6.6.
// The kernel mounts the overlay without; but then a folder cannot be made where another was deleted (EIO).
func keepsMarks(dir int) error {
	const mark = "user.overlay.gobox"
	err := unix.Fsetxattr(dir, mark, []byte("y"), 0)
	if err == nil {
		err = unix.Fremovexattr(dir, mark)
	}
	if err != nil {
		return fmt.Errorf("user.* attributes in the upper layer: %w", err)
	}
	return nil
}
