//go:build !gobox_walltest

package main

import (
	"gobox/policy"

	"github.com/spf13/pflag"
)

// without is empty in every binary but that of the wall tests; see walltest_on.go.
type without struct{}

func (without) register(*pflag.FlagSet) {}

func (without) apply(*policy.Plan) error { return nil }

func (without) host(*policy.Host) {}
