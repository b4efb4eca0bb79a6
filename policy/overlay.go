package policy

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"gobox/namespaces"
)

const whySubmount = "mounted in the workspace"

// settleOverlay decides about what is mounted below the workspace. overlayfs takes one mount as a layer, and nobody
// but root, in the host's own namespaces, can have the workspace's without those on it: seen from a user namespace
// they are locked together (mount_namespaces(7)). For root they come on top of the overlay, read-only: what changes in
// them could not be applied in one piece with the rest.
func (b *builder) settleOverlay(step *namespaces.Step) error {
	mounts, err := b.mounts()
	if err != nil {
		return err
	}
	for _, m := range mounts {
		// Root leaves out the kernel's, which checkMounts deals with; and a mount that another covers is not there.
		if !below(step.Source, m.Point) || b.host.EUID == 0 && kernelType(m.Type) || slices.Contains(b.submounts, m.Point) {
			continue
		}
		if _, err := lstat(b.host.FS, m.Point); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		b.submounts = append(b.submounts, m.Point)
	}
	if len(b.submounts) == 0 || b.host.EUID == 0 {
		return nil
	}
	cause := b.submounts[0] + " is mounted below, and only root can have an overlay of a folder without what is mounted in it"
	b.submounts = nil
	if !step.OrReadOnly {
		return &Error{Step: "workspace", Object: step.Source, Err: errors.New(cause), Hint: "--workspace-mode ro or rw can, or unmount it first"}
	}
	b.plan.NoOverlay = cause
	step.Op, step.Owned, step.OrReadOnly = namespaces.OpBind, false, false
	step.Attr |= namespaces.ReadOnly
	return nil
}

// addSubmounts puts what is mounted below the workspace on top of its overlay, but where a grant is.
func (b *builder) addSubmounts() error {
	for _, point := range b.submounts {
		granted := func(c claim) bool { return c.step.Why != whyWorkspace && within(c.step.Target, point) }
		if slices.ContainsFunc(b.claims, granted) {
			continue // one that lies in another comes with it
		}
		found, err := resolvePath(b.host.FS, "", point)
		if err != nil || found.Path != point {
			// It cannot be shown, and what is beneath it must not be.
			b.masks = append(b.masks, point)
			continue
		}
		step := namespaces.Step{Op: namespaces.OpBind, Source: point, Target: point, Attr: namespaces.ReadOnly | namespaces.NoSuid | namespaces.NoDev, Why: whySubmount}
		b.claims = append(b.claims, claim{step: step, info: found.Info, exec: true})
	}
	return nil
}

const whyScratch = "--scratch"

// settleScratch checks the folder of --scratch. What is in it is the upper layer: the command must not get at it but
// through the overlay.
func (b *builder) settleScratch() error {
	given := b.policy.Scratch
	if given == "" {
		return nil
	}
	refuse := func(err error, hint string) error {
		return &Error{Step: "scratch", Object: whyScratch + " " + given, Err: err, Hint: hint}
	}
	if b.plan.Workspace.Mode != ModeOverlay {
		return refuse(fmt.Errorf("the workspace has mode %s, and no layer to keep there", b.plan.Workspace.Mode), "--workspace-mode overlay")
	}
	found, err := resolvePath(b.host.FS, b.host.Dir, given)
	if err != nil {
		return refuse(err, "name a folder that exists, on a file system with user.* attributes: ext4, xfs, btrfs")
	}
	const elsewhere = "name a folder outside of what the command sees, such as /var/tmp"
	switch {
	case !found.Info.isDir():
		return refuse(errNotDir, elsewhere)
	case reserved(found.Path) || slices.ContainsFunc(systemFolders(), func(dir string) bool { return within(dir, found.Path) }):
		return refuse(errors.New("belongs to the system"), elsewhere)
	}
	for i := range b.claims {
		if c := &b.claims[i]; c.bound() && within(c.step.Source, found.Path) {
			return refuse(fmt.Errorf("lies in %s (%s)", c.step.Source, c.step.Why), elsewhere)
		}
	}
	b.ways = append(b.ways, way{step: "scratch", object: whyScratch + " " + given, flag: whyScratch, found: found, fixes: true})
	b.scratch = found.Path
	return nil
}

// addLayer mounts the folder of --scratch for the overlay's use.
func (b *builder) addLayer() {
	if b.scratch == "" {
		return
	}
	b.step(namespaces.Step{Op: namespaces.OpBind, Source: b.scratch, Target: namespaces.Staging, Attr: namespaces.NoSuid | namespaces.NoDev, Why: whyScratch})
	for i := range b.claims {
		if s := &b.claims[i].step; s.Op == namespaces.OpOverlay {
			s.OnDisk = true
		}
	}
}
