package policy

import (
	"errors"
	"slices"
	"strconv"

	"gobox/namespaces"
)

const (
	// scratchInodes bounds the files that a command can make in scratch; each costs kernel memory.
	scratchInodes = 64 << 10
	// planInodes are for what the plan itself makes on the root.
	planInodes = 1 << 10
)

// buildTree puts all steps into the order in which init can do them: parents before children, what the
// plan makes itself before what covers it, and the pivot last.
func (b *builder) buildTree() error {
	for i := range b.claims {
		// A link that a later grant brought may lie on the way to an earlier one's place.
		b.claims[i].step.Target = b.inside(b.claims[i].step.Target)
	}
	slices.SortStableFunc(b.claims, byDepth)
	tree := &b.plan.Tree
	if b.policy.Disk > 0 {
		tree.Root = namespaces.Root{Size: b.policy.Disk, Inodes: scratchInodes + planInodes}
	}
	if err := b.addSystem(); err != nil {
		return err
	}
	if b.rootfs == "" {
		b.addEtc()
	}
	if err := b.addDenials(); err != nil {
		return err
	}
	if err := b.checkMounts(); err != nil {
		return err
	}
	if err := b.checkAliases(); err != nil {
		return err
	}
	if err := b.allowPaths(); err != nil {
		return err
	}
	if err := b.keepFiles(); err != nil {
		return err
	}
	if err := b.protectFiles(); err != nil {
		return err
	}
	if err := b.pinAncestors(); err != nil {
		return err
	}
	b.addLayer()
	b.addDev()
	b.addProc()
	b.addRunAndVar()
	if err := b.dropDenied(); err != nil {
		return err
	}
	if err := b.checkMountpoints(); err != nil {
		return err
	}
	// A claim replaces the file or link that the plan has made of its own at the same place.
	tree.Steps = slices.DeleteFunc(tree.Steps, func(s namespaces.Step) bool {
		return slices.ContainsFunc(b.claims, func(c claim) bool { return c.step.Target == s.Target })
	})
	for _, c := range b.claims {
		tree.Steps = append(tree.Steps, c.step)
	}
	for _, link := range b.links {
		if !b.fromHost(link.path) && !b.onPlan(link.path) {
			b.step(namespaces.Step{Op: namespaces.OpSymlink, Source: link.text, Target: link.path, Why: link.why})
		}
	}
	b.addMasks()
	b.step(namespaces.Step{Op: namespaces.OpPivot, Target: "/", Why: "the new root"})
	return b.checkCount()
}

// addMasks covers what was denied. What lies below another mask is not there any more when its turn would come. A denied
// path that is there now must be there when it is to be covered: whoever moves it away meanwhile could bring it back.
func (b *builder) addMasks() {
	steps := b.plan.Tree.Steps
	for _, path := range b.masks {
		hidden := slices.ContainsFunc(b.masks, func(other string) bool { return below(other, path) }) ||
			slices.ContainsFunc(steps, func(s namespaces.Step) bool { return s.Op == namespaces.OpMask && within(s.Target, path) })
		if hidden {
			continue
		}
		there := false
		if c := b.cover(path); c != nil && c.bound() {
			_, err := lstat(b.host.FS, move(path, c.step.Target, c.step.Source))
			there = err == nil
		}
		b.step(namespaces.Step{Op: namespaces.OpMask, Target: path, Optional: !there, Why: whyDeny})
	}
}

// maxOwned is how many mounts can be handed to init: SCM_MAX_FD (<net/scm.h>) is 253 descriptors for one
// message, and a few are for other files.
const maxOwned = 240

// checkCount refuses more mounts than root's supervisor can make for init.
func (b *builder) checkCount() error {
	if !b.plan.Identity.Root {
		return nil
	}
	count := 0
	for _, s := range b.plan.Tree.Steps {
		if s.Owner != nil {
			count++
		}
	}
	if count <= maxOwned {
		return nil
	}
	return &Error{Step: "mount", Object: strconv.Itoa(count) + " folders and files", Err: errors.New("are more than the " + strconv.Itoa(maxOwned) + " that gobox, as root, can grant one by one"),
		Hint: "grant a folder that holds several of them; what is read-only or hidden deep inside a writable folder takes a mount for every folder on the way"}
}

func (b *builder) step(s namespaces.Step) { b.plan.Tree.Steps = append(b.plan.Tree.Steps, s) }

// onPlan tells whether a step makes path already.
func (b *builder) onPlan(path string) bool {
	return slices.ContainsFunc(b.plan.Tree.Steps, func(s namespaces.Step) bool { return s.Target == path })
}

// above finds the deepest claim that path is below, nil for none.
func (b *builder) above(path string, claims []claim) *claim {
	var deepest *claim
	for i := range claims {
		if c := &claims[i]; below(c.step.Target, path) && (deepest == nil || len(c.step.Target) > len(deepest.step.Target)) {
			deepest = c
		}
	}
	return deepest
}

// cover finds what path, as a place inside, shows a part of; nil for the root's tmpfs.
func (b *builder) cover(path string) *claim {
	if c := b.above(path, b.claims); c != nil {
		return c
	}
	return b.above(path, b.system)
}

// fromHost tells whether the host's own path shows at the same place inside.
func (b *builder) fromHost(path string) bool {
	cover := b.cover(path)
	return cover != nil && cover.bound() && cover.step.Source == cover.step.Target
}

// checkMountpoints makes sure that what is mounted below a folder of the host finds its place there:
// gobox leaves no placeholder on the host.
func (b *builder) checkMountpoints() error {
	for i := range b.claims {
		c := &b.claims[i]
		cover := b.cover(c.step.Target)
		if cover == nil || !cover.bound() || c.step.Held || b.comes(c, cover) {
			continue
		}
		place := move(c.step.Target, cover.step.Target, cover.step.Source)
		found, err := resolvePath(b.host.FS, "", place)
		switch {
		case err != nil:
		case found.Path != place:
			err = errors.New("a symbolic link is in the way: the place is really " + found.Path)
		case found.Info.isDir() != (!c.bound() || c.info.isDir()):
			err = errors.New("is a folder on one side and a file on the other")
		}
		if err != nil {
			return &Error{Step: "mount", Object: c.step.Why + " on " + c.step.Target, Err: err,
				Hint: "the place must exist in " + cover.step.Source + ", as gobox makes nothing there; choose another, such as /mnt/NAME"}
		}
	}
	return nil
}
