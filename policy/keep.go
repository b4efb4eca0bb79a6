package policy

import (
	"errors"
	"slices"

	"gobox/namespaces"
)

// Kept is a file that says what a run is held to, as the caller named it.
type Kept struct {
	Flag string
	Path string
}

const whyKept = "keeps what the next run is held to"

// keepFiles keeps what the run is held to as it is, wherever the command could change it: the file, and each symbolic link
// by which the caller has named it, is mounted on itself, read-only.
func (b *builder) keepFiles() error {
	kept := b.policy.Keep
	if file := b.policy.SeccompFile; file != "" {
		kept = append(slices.Clip(kept), Kept{"--seccomp", file})
	}
	covers := b.claims // grows below
	for _, k := range kept {
		found, err := resolvePath(b.host.FS, b.host.Dir, k.Path)
		if err != nil && k.Flag == "--policy" {
			return &Error{Step: "policy", Object: k.Path, Err: err, Hint: "it was there a moment ago: run it again"}
		}
		if err != nil {
			continue // whoever reads it says so
		}
		places := []string{found.Path}
		for _, h := range found.Hops {
			places = append(places, h.Path)
		}
		for i := range covers {
			for _, place := range places {
				if err := b.keep(k, &covers[i], place); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// keep does so for a place of the host's that c may show.
func (b *builder) keep(k Kept, c *claim, place string) error {
	switch {
	case c.step.Op != namespaces.OpBind || !c.write || !within(c.step.Source, place):
		return nil
	case c.step.Source == place:
		return &Error{Step: "policy", Object: k.Flag + " " + k.Path, Err: errors.New("the command may write to it, by " + c.step.Why + " " + place + ", and with it to what the next run is held to"),
			Hint: "leave that grant out, or grant a copy"}
	}
	target := move(place, c.step.Source, c.step.Target)
	if !b.shows(c, target) {
		return nil // something else is there inside, or it is held already
	}
	info, err := lstat(b.host.FS, place)
	if err != nil {
		return &Error{Step: "policy", Object: k.Flag + " " + k.Path, Err: err}
	}
	step := namespaces.Step{Op: namespaces.OpBind, Source: place, Target: target, Attr: c.step.Attr | namespaces.ReadOnly, Held: true, Why: whyKept}
	b.claims = append(b.claims, claim{step: step, info: info, exec: c.exec})
	return nil
}
