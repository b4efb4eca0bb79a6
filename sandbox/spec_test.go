package sandbox_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"gobox/policy"
	"gobox/sandbox"
)

// TestSpecLacks: what the Spec does not have is refused, by either way of running.
func TestSpecLacks(t *testing.T) {
	p := plan("/bin/true")
	defer os.RemoveAll(p.Workspace.Path)
	for name, spec := range map[string]sandbox.Spec{
		"plan":  {ID: "lacks", Stdio: null()},
		"stdio": {ID: "lacks", Plan: p},
	} {
		for way, run := range map[string]func(context.Context, sandbox.Spec) (sandbox.Result, error){
			"Run": sandbox.Run, "Sandbox.Run": func(ctx context.Context, s sandbox.Spec) (sandbox.Result, error) { return sandbox.Launch().Run(ctx, s) },
		} {
			var e *policy.Error
			if res, err := run(t.Context(), spec); !errors.As(err, &e) || e.Step == "" {
				t.Errorf("no %s, %s: %+v, %v", name, way, res, err)
			}
		}
	}
}
