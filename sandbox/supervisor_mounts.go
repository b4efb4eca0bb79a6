package sandbox

import (
	"errors"
	"os"
	"slices"

	"gobox/namespaces"
	"gobox/policy"

	"golang.org/x/sys/unix"
)

// openMounts makes, as root, the mounts that only root can make: those in which an owner's files belong
// to the unprivileged user of the sandbox, and the lower layer of an overlay without what is mounted below it. It notes
// their steps in h; the caller closes the files, also on an error, and calls over once the plan is sent: what it waits for
// need not hold that up.
//
// Not every file system can be idmapped (mount_setattr(2)); overlayfs, and with it most containers, is
// the common one. What is granted read-only is then bound as it is, and shows what everybody may read.
// What is granted for writing takes a sandbox that runs as its owner, unless that is root; noLayer says that an
// overlay became read-only for that.
func openMounts(h *handover) (mounts []*os.File, noLayer string, over func(), err error) {
	var first, second namespaces.Idmapper // each for an identity
	over = func() {
		first.Close()
		second.Close()
	}
	mounts, step, err := tryMounts(h, &first)
	if step == nil || !notIdmappable(err) {
		return mounts, "", over, explainMount(step, err)
	}
	owner := *step.Owner
	again := func() {
		closeFiles(mounts)
		h.Mounts = nil
		mounts, step, err = tryMounts(h, &second)
	}
	switch {
	case owner.UID == 0 && step.OrReadOnly:
		readOnlyInstead(h)
		again()
		noLayer = "it is root's, and its file system has no idmapped mounts, by which root lets an unprivileged command write as the owner"
	case owner.UID != 0:
		h.Plan.Identity.HostUID = owner.UID
		if owner.GID != 0 {
			h.Plan.Identity.HostGID = owner.GID
		}
		// Two owners, and the sandbox can only be one of them.
		again()
	}
	if step != nil && notIdmappable(err) {
		return mounts, "", over, explainIdmap(step, err)
	}
	return mounts, noLayer, over, explainMount(step, err)
}

// tryMounts does so for the identity of h. On an error it gives the step that failed.
func tryMounts(h *handover, m *namespaces.Idmapper) ([]*os.File, *namespaces.Step, error) {
	var mounts []*os.File
	id := h.Plan.Identity
	m.Identity = id
	for i := range h.Plan.Tree.Steps {
		st := &h.Plan.Tree.Steps[i]
		layer := st.Op == namespaces.OpOverlay
		owner := st.Owner
		if owner != nil && owner.UID == id.HostUID {
			owner = nil
		}
		if !id.Root || !layer && (st.Op != namespaces.OpBind || owner == nil && st.Target != namespaces.Staging) {
			continue
		}
		f, err := m.Open(st.Source, st.Attr, owner, !layer)
		switch {
		case err == nil:
			mounts = append(mounts, f)
			h.Mounts = append(h.Mounts, i)
		case st.Optional && errors.Is(err, unix.ENOENT):
		case notIdmappable(err) && (st.Attr&namespaces.ReadOnly != 0 || owner == nil):
			// Init binds it as it is.
		default:
			return mounts, st, err
		}
	}
	return mounts, nil, nil
}

// readOnlyInstead makes the overlay of h, whose plan is shared, a read-only mount.
func readOnlyInstead(h *handover) {
	h.Plan.Tree.Steps = slices.Clone(h.Plan.Tree.Steps)
	h.Plan.Landlock.Rules = slices.Clone(h.Plan.Landlock.Rules)
	withoutWrite(&h.Plan)
	for i := range h.Plan.Tree.Steps {
		if s := &h.Plan.Tree.Steps[i]; s.OrReadOnly {
			s.Op, s.Attr, s.OrReadOnly = namespaces.OpBind, s.Attr|namespaces.ReadOnly, false
		}
	}
}

// notIdmappable tells the refusals of file systems and kernels that do not have idmapped mounts.
func notIdmappable(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS)
}

func explainMount(s *namespaces.Step, err error) error {
	if s == nil {
		return nil
	}
	e := &policy.Error{Step: "mount " + s.Source + " on", Object: s.Target, Err: err}
	if errors.Is(err, unix.EMFILE) {
		e.Hint = "raise ulimit -n: gobox takes about two dozen descriptors, and one more for each folder that root grants"
	}
	if errors.Is(err, unix.ELOOP) {
		e.Hint = "the path changed to a symbolic link while gobox started; run it again"
	}
	return e
}
