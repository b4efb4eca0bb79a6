package policy

import (
	"gobox/landlock"
	"gobox/namespaces"
)

// setLandlock says the same as the tree in Landlock's words. Rights are inherited downwards and cannot
// be taken away again, so a read-only grant below HOME is held by its mount alone.
func (b *builder) setLandlock() {
	set := &b.plan.Landlock
	set.ABI = b.host.LandlockABI
	if set.ABI == 0 {
		return
	}
	set.Scoped = true
	rule := func(path string, access landlock.Access) {
		set.Rules = append(set.Rules, landlock.Rule{Path: path, Access: access})
	}
	rule("/", landlock.List)
	for _, dir := range b.systemTops() {
		rule(dir, landlock.Read|landlock.Execute)
	}
	if b.rootfs == "" {
		rule("/etc", landlock.Read)
	}
	rule("/proc", landlock.Read)
	made := func(path string, access landlock.Access) {
		if b.onPlan(path) { // unless it was denied
			rule(path, access)
		}
	}
	for _, name := range b.devices() {
		made("/dev/"+name, landlock.Read|landlock.WriteExisting|landlock.Ioctl)
	}
	made("/dev/pts", landlock.Read|landlock.WriteExisting|landlock.Ioctl)
	made("/dev/shm", landlock.Read|landlock.Write)
	for i := range b.claims {
		c := &b.claims[i]
		access := landlock.Read
		if c.write {
			access |= landlock.Write
		}
		if c.exec {
			access |= landlock.Execute
		}
		if cover := b.above(c.step.Target, b.claims); cover != nil && (!c.write || cover.write && !cover.step.OrReadOnly) && (!c.exec || cover.exec) {
			continue
		}
		if cover := b.above(c.step.Target, b.system); cover != nil && !c.write && (!c.exec || cover.exec) {
			continue
		}
		rule(c.step.Target, access)
	}
}

// systemTops gives the outermost system folders inside, whether they are mounts or made entry by entry.
func (b *builder) systemTops() []string {
	var tops []string
	for _, s := range b.plan.Tree.Steps {
		if depth(s.Target) == 1 && (s.Why == whySystem || s.Why == whyRootfs) && s.Op != namespaces.OpSymlink {
			tops = append(tops, s.Target)
		}
	}
	return tops
}
