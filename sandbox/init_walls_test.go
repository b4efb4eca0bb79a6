package sandbox

import (
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"gobox/landlock"
	"gobox/namespaces"
	"gobox/policy"
	"gobox/rlimit"
	"gobox/seccomp"
)

// A plan without a wall is refused by init, whoever made it, unless the caller has given that wall up and it is one that can be.
func TestPlanWithoutAWall(t *testing.T) {
	whole := func() *policy.Plan {
		return &policy.Plan{
			Tree:     namespaces.Tree{Steps: []namespaces.Step{{Op: namespaces.OpPivot, Target: "/"}}},
			Landlock: landlock.Ruleset{ABI: 1},
			Filter:   seccomp.Embedded(),
			Rlimits:  []rlimit.Limit{{Resource: unix.RLIMIT_CORE}},
		}
	}
	if f := checkWalls(whole()); f != nil {
		t.Fatalf("a plan with all walls: %+v", f)
	}
	for layer, take := range map[policy.Layer]func(*policy.Plan){
		policy.LayerNamespaces: func(p *policy.Plan) { p.Tree.Steps = nil },
		policy.LayerLandlock:   func(p *policy.Plan) { p.Landlock.ABI = 0 },
		policy.LayerSeccomp:    func(p *policy.Plan) { p.Filter.BPF = nil },
		policy.LayerRlimits:    func(p *policy.Plan) { p.Rlimits = nil },
	} {
		p := whole()
		take(p)
		if f := checkWalls(p); f == nil || f.stage != stageWalls || f.index != slices.Index(policy.Layers(), layer) {
			t.Errorf("without %s: %+v", layer, f)
		}
		p.Missing = []policy.Layer{layer}
		canBe := layer == policy.LayerLandlock || layer == policy.LayerSeccomp || wallTest
		if f := checkWalls(p); (f == nil) != canBe {
			t.Errorf("without %s, which is given up: %+v", layer, f)
		}
	}
	// A tree that does not become the root is none.
	p := whole()
	p.Tree.Steps = append(p.Tree.Steps, namespaces.Step{Op: namespaces.OpDir, Target: "/x"})
	if f := checkWalls(p); f == nil {
		t.Error("the last step is not the pivot, and the plan is taken")
	}
}

// Whoever has other ids than the plan's, as with id maps that were not written, goes no further.
func TestPlanOfOtherIDs(t *testing.T) {
	mine := uint32(os.Getuid())
	for _, c := range []struct {
		id   namespaces.Identity
		good bool
	}{
		{namespaces.Identity{UID: mine}, true},
		{namespaces.Identity{UID: mine + 1}, false},
		{namespaces.Identity{UID: mine + 1, Root: true}, mine == 0},
	} {
		if f := checkIdentity(c.id); (f == nil) != c.good {
			t.Errorf("%+v: %+v", c.id, f)
		}
	}
}
