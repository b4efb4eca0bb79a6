//go:build gobox_walltest

package main

import (
	"errors"

	"gobox/policy"

	"github.com/spf13/pflag"
)

// without takes walls off a plan, so that the tests can see each of the others hold alone; of "host-" and a wall it takes
// care that the host seems to lack it.
type without []string

func (w *without) register(flags *pflag.FlagSet) {
	flags.StringArrayVar((*[]string)(w), "without", nil, "run without this wall: mounts, landlock or seccomp (tests only)")
}

func (w without) apply(p *policy.Plan) error {
	for _, layer := range w {
		switch layer {
		case "mounts":
			p.Tree.Steps = nil
			p.Missing = append(p.Missing, policy.LayerNamespaces)
		case "landlock":
			p.Landlock.ABI = 0
			p.Missing = append(p.Missing, policy.LayerLandlock)
		case "host-landlock", "host-seccomp":
		case "seccomp":
			p.Filter.BPF = nil
			p.Missing = append(p.Missing, policy.LayerSeccomp)
		default:
			return &policy.Error{Step: "flag", Object: "--without " + layer, Err: errors.New("no such wall")}
		}
	}
	return nil
}

func (w without) host(h *policy.Host) {
	for _, layer := range w {
		switch layer {
		case "host-landlock":
			h.LandlockABI = 0
		case "host-seccomp":
			h.Seccomp = false
		}
	}
}
