package policy

import (
	"errors"
	"slices"

	"gobox/namespaces"
)

// maxSplit is the largest folder, in entries, of which each entry is mounted by itself.
const maxSplit = 256

const systemAttr = namespaces.ReadOnly | namespaces.NoSuid | namespaces.NoDev

// addSystem shows the host's system folders, or those of --rootfs, read-only.
func (b *builder) addSystem() error {
	if b.rootfs != "" {
		return b.addRootfs()
	}
	for _, dir := range systemFolders() {
		info, err := lstat(b.host.FS, dir)
		if err != nil {
			continue // a host has those it has
		}
		if err := b.addSystemEntry(dir, dir, info, whySystem); err != nil {
			return err
		}
	}
	return nil
}

func rootfsError(name string, err error) error {
	return &Error{Step: "rootfs", Object: name, Err: err, Hint: "--rootfs takes the folder an image was unpacked into, with usr and etc in it"}
}

// findRootfs checks the folder of --rootfs.
func (b *builder) findRootfs() error {
	name := b.policy.Rootfs
	if name == "" {
		return nil
	}
	found, err := resolvePath(b.host.FS, b.host.Dir, name)
	switch {
	case err != nil:
		return rootfsError(name, err)
	case !found.Info.isDir():
		return rootfsError(name, errNotDir)
	case found.Path == "/":
		return rootfsError(name, errors.New("the host's own root is not an image"))
	}
	b.ways = append(b.ways, way{step: "rootfs", object: name, flag: "--rootfs", found: found})
	b.rootfs = found.Path
	return nil
}

// addRootfs takes every folder of an unpacked image but those that a sandbox has of its own.
func (b *builder) addRootfs() error {
	entries, err := names(b.host.FS, b.rootfs)
	if err != nil {
		return rootfsError(b.rootfs, err)
	}
	for _, name := range entries {
		if replaced(name) {
			continue
		}
		source, target := join(b.rootfs, name), "/"+name
		info, err := lstat(b.host.FS, source)
		if err != nil {
			return rootfsError(b.rootfs, err)
		}
		if err := b.addSystemEntry(source, target, info, whyRootfs); err != nil {
			return err
		}
	}
	if len(b.system) == 0 {
		return rootfsError(b.rootfs, errors.New("nothing of a system is in it"))
	}
	return nil
}

// replaced tells what of an image's root a sandbox has of its own.
func replaced(name string) bool {
	switch name {
	case "dev", "proc", "sys", "tmp", "run", "lost+found":
		return true
	}
	return false
}

// addSystemEntry shows one entry as it is. A folder in which something else has to be mounted, at a
// place that it does not have, is made new and its entries are shown one by one.
func (b *builder) addSystemEntry(source, target string, info FileInfo, why string) error {
	if slices.ContainsFunc(b.claims, func(c claim) bool { return c.step.Target == target }) {
		return nil
	}
	if info.isSymlink() {
		text, err := b.host.FS.Readlink(source)
		if err != nil {
			return &Error{Step: "system", Object: source, Err: err}
		}
		b.step(namespaces.Step{Op: namespaces.OpSymlink, Source: text, Target: target, Why: why})
		return nil
	}
	if !info.isDir() && !info.isRegular() {
		return nil
	}
	if !info.isDir() || !b.lacksMountpoint(source, target) {
		step := namespaces.Step{Op: namespaces.OpBind, Source: source, Target: target, Attr: systemAttr, Why: why}
		b.step(step)
		b.system = append(b.system, claim{step: step, info: info, exec: true})
		return nil
	}
	entries, err := names(b.host.FS, source)
	if err != nil {
		return &Error{Step: "system", Object: source, Err: err}
	}
	if len(entries) > maxSplit {
		return &Error{Step: "mount", Object: target, Err: errors.New("lacks a place that something is to be mounted on, and is too large to be shown entry by entry"),
			Hint: "choose another place, such as /mnt/NAME"}
	}
	b.step(namespaces.Step{Op: namespaces.OpDir, Target: target, Why: why})
	for _, name := range entries {
		entry := join(source, name)
		info, err := lstat(b.host.FS, entry)
		if err != nil {
			return &Error{Step: "system", Object: entry, Err: err}
		}
		if err := b.addSystemEntry(entry, join(target, name), info, why); err != nil {
			return err
		}
	}
	return nil
}

// lacksMountpoint tells whether a claim below target finds no place to be mounted on in source.
func (b *builder) lacksMountpoint(source, target string) bool {
	for _, c := range b.claims {
		if !below(target, c.step.Target) || b.above(c.step.Target, b.claims) != nil {
			continue
		}
		info, err := lstat(b.host.FS, move(c.step.Target, target, source))
		if err != nil || info.isSymlink() || info.isDir() != (!c.bound() || c.info.isDir()) {
			return true
		}
	}
	return false
}
