package sandbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gobox/fsguard/changes"
	"gobox/policy"
)

// asideLimit is how long it may take to look through what the command could write to.
const asideLimit = 2 * time.Minute

// Aside is a file or folder that the host would have run or obeyed.
type Aside struct {
	Path string // absolute, where the command put it
	To   string // where it is now; empty when Err says why it is still there
	Why  string
	Err  error
	// Doubt says that it may have come after the run, from somebody else, and was left where it is; see [SetAside].
	Doubt bool
}

// setAside looks through what the command could write to for what only came during the run. Nothing of the command is
// left that could put it back.
func setAside(guards []policy.Guard, id string) (list []Aside, err error) {
	return lookAside(guards, id, time.Time{}, time.Time{})
}

// aliveSlack is how much longer than it was last seen alive a gobox may have lived, and what ends with it.
const aliveSlack = 3 * time.Second

// SetAside does for a run whose gobox was killed what that would have done at its end: it looks through what the command could
// write to for what the host would run or obey, and renames what came during the run. started and alive are times at which it
// was under way.
func SetAside(guards []policy.Guard, id string, started, alive time.Time) ([]Aside, error) {
	return lookAside(guards, id, started, alive.Add(aliveSlack))
}

func lookAside(guards []policy.Guard, id string, since, until time.Time) (list []Aside, err error) {
	if len(guards) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), asideLimit)
	defer cancel()
	for _, g := range guards {
		found, sweepErr := sweepGuard(ctx, g, id, since, until)
		for _, a := range found {
			full := Aside{Path: beneath(g.Path, a.Path), Why: a.Why, Err: a.Err, Doubt: a.Doubt}
			if a.To != "" {
				full.To = beneath(g.Path, a.To)
			}
			list = append(list, full)
		}
		if sweepErr != nil {
			err = errors.Join(err, fmt.Errorf("look through %s: %w", g.Path, sweepErr))
		}
	}
	return list, err
}

func sweepGuard(ctx context.Context, g policy.Guard, id string, since, until time.Time) ([]changes.Aside, error) {
	root, err := openReal(g.Path)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	o := changes.SweepOptions{Path: g.Path, Known: g.Known, Allow: g.Allow, Named: g.Named, Suffix: ".gobox-aside-" + id, Aliases: map[string]string{}, Since: since, Until: until}
	for _, a := range g.Aliases {
		o.Aliases[a.Path] = a.Name
	}
	return changes.Sweep(ctx, root, o)
}

func beneath(dir, path string) string {
	if dir == "/" {
		return "/" + path
	}
	return dir + "/" + path
}
