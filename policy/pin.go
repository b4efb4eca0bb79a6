package policy

import (
	"errors"
	"slices"

	"gobox/namespaces"
)

const whyPin = "keeps its place"

// pinAncestors keeps what is protected inside a writable folder where it is. A mount holds its own name
// (rename(2), EBUSY) but not those of the folders above: moved away with what is on it, and made anew,
// such a folder would show the host, and the next run, whatever the command put there. So each folder
// between the writable mount and the protected place is mounted on itself.
//
// In an overlay they keep their places by themselves: a folder that the lower layer has cannot be renamed (EXDEV, as
// redirect_dir is off). And a mount of the host's folder there would be one to write through.
//
// The price is that of any mount: rename(2) and link(2) across it fail with EXDEV, as between two file
// systems, and mv and its like copy instead.
func (b *builder) pinAncestors() error {
	var places []string
	for i := range b.claims {
		if c := &b.claims[i]; b.protects(c) {
			places = append(places, c.step.Target)
		}
	}
	places = append(places, b.masks...)
	var pins []claim
	for _, place := range places {
		for dir := parent(place); ; dir = parent(dir) {
			cover := b.above(dir, b.claims)
			if cover == nil || cover.step.Op != namespaces.OpBind || !cover.write {
				break
			}
			taken := func(c claim) bool { return c.step.Target == dir }
			if slices.ContainsFunc(b.claims, taken) || slices.ContainsFunc(pins, taken) {
				continue
			}
			source := move(dir, cover.step.Target, cover.step.Source)
			info, err := lstat(b.host.FS, source)
			if err != nil || !info.isDir() {
				continue // checkMountpoints says what is wrong with the place
			}
			step := namespaces.Step{Op: namespaces.OpBind, Source: source, Target: dir, Attr: cover.step.Attr, Held: true, Why: whyPin}
			pins = append(pins, claim{step: step, info: info, write: true, exec: cover.exec})
		}
	}
	b.claims = append(b.claims, pins...)
	slices.SortStableFunc(b.claims, byDepth)
	return nil
}

func byDepth(x, y claim) int { return depth(x.step.Target) - depth(y.step.Target) }

// protects tells whether a claim changes what a writable folder above it shows or lets change, so that
// its place matters. The folder's own content, writable again, does not.
func (b *builder) protects(c *claim) bool {
	cover := b.above(c.step.Target, b.claims)
	if cover == nil || !cover.bound() {
		return false
	}
	return !c.write || !c.bound() || c.step.Source != move(c.step.Target, cover.step.Target, cover.step.Source)
}

// checkAliases refuses what is to stay read-only at its own place and is writable at another, as part of
// a folder that is also granted under another name; an input under any name. To show a writable folder's content read-only somewhere
// else protects nothing, and is fine.
func (b *builder) checkAliases() error {
	for i := range b.claims {
		fixed := &b.claims[i]
		// The workspace is to stay as it is unless it is rw; in an overlay, too, nothing may be written through to the host.
		asked := slices.Contains([]string{"--ro", "--rox", "--input", whyWorkspace}, fixed.step.Why)
		writes := fixed.write && fixed.step.Op != namespaces.OpOverlay
		elsewhere := fixed.step.Source != fixed.step.Target && fixed.step.Why != "--input"
		if !asked || !fixed.bound() || writes || elsewhere {
			continue
		}
		flag := fixed.step.Why
		if flag == whyWorkspace {
			flag = "--ro"
		}
		for j := range b.claims {
			c := &b.claims[j]
			if !c.bound() || !c.write || !below(c.step.Source, fixed.step.Source) {
				continue
			}
			place := move(fixed.step.Source, c.step.Source, c.step.Target)
			if b.shows(c, place) {
				return &Error{Step: "grant", Object: fixed.step.Why + " " + fixed.step.Source, Err: errors.New("the command can write to it at " + place + ", through " + c.step.Why + " " + c.step.Source),
					Hint: "make it read-only there too: " + flag + " " + fixed.step.Source + ":" + place}
			}
		}
	}
	return nil
}

// way is how the caller named a place of the host.
type way struct {
	step   string // of the refusal
	object string // flag and path as given
	flag   string
	before string // what stands before the path in the flag's value
	found  realPath
	// fixes is true for what the caller wants to stay as it is: read-only or hidden.
	fixes bool
}

// checkWays refuses names that an earlier run may have bent. A symbolic link in the workspace, or in a
// folder that the command can write to, must not decide what of the rest of the host is granted, nor
// what is protected.
func (b *builder) checkWays() error {
	for _, w := range b.ways {
		for _, hop := range w.found.Hops {
			for i := range b.claims {
				c := &b.claims[i]
				if !c.bound() || !below(c.step.Source, hop.Path) {
					continue
				}
				leadsOut := w.step != "deny" && !within(c.step.Source, w.found.Path)
				var cause string
				switch {
				case leadsOut && (c.write || c.step.Why == whyWorkspace):
					cause = "the link " + hop.Path + " leads out of " + c.step.Source + " to " + w.found.Path + ", and an earlier run may have put it there"
				case c.write && w.fixes:
					cause = "the command can replace the link " + hop.Path + ", and with it what the next run protects"
				default:
					continue
				}
				return &Error{Step: w.step, Object: w.object, Err: errors.New(cause),
					Hint: "if that is what you mean, name it: " + w.flag + " " + w.before + w.found.Path}
			}
		}
	}
	return nil
}
