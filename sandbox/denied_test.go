package sandbox_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gobox/policy"
	"gobox/sandbox"
)

// Who moves a denied path away, or puts a link in its place, after the plan was made and before it is covered could bring it
// back uncovered.
func TestDeniedPathGoesAway(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"stays":     func(string) error { return nil },
		"goes away": func(path string) error { return os.Rename(path, path+".moved") },
		"a link": func(path string) error {
			if err := os.Rename(path, path+".moved"); err != nil {
				return err
			}
			return os.Symlink(filepath.Base(path)+".moved", path)
		},
		"a link above": func(path string) error {
			above := filepath.Dir(path)
			if err := os.Rename(above, above+".moved"); err != nil {
				return err
			}
			return os.Symlink(filepath.Base(above)+".moved", above)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			secret := filepath.Join(dir, "keys", "secret")
			if err := os.Mkdir(filepath.Dir(secret), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(secret, []byte("canary"), 0o644); err != nil {
				t.Fatal(err)
			}
			p := policy.Default()
			p.Argv = []string{"/bin/sh", "-c", "touch ran; ! cat keys/secret"}
			p.Workspace = policy.Workspace{Path: dir, Mode: policy.ModeReadWrite, Explicit: true}
			p.Deny = []string{secret}
			plan, err := policy.Resolve(p, policy.CurrentHost())
			if err != nil {
				t.Fatal(err)
			}
			if err := change(secret); err != nil {
				t.Fatal(err)
			}
			res, err := sandbox.Run(context.Background(), sandbox.Spec{ID: "denied", Plan: plan, Stdio: null()})
			_, ran := os.Stat(filepath.Join(dir, "ran"))
			if name == "stays" {
				if err != nil || res.ExitCode != 0 || ran != nil {
					t.Fatalf("the control: %+v, %v, %v", res, err, ran)
				}
				return
			}
			var refused *policy.Error
			if !errors.As(err, &refused) || ran == nil {
				t.Fatalf("the command ran: %+v, %v", res, err)
			}
			if !strings.Contains(refused.Object, "keys") || refused.Hint == "" {
				t.Errorf("step %q, object %q, hint %q", refused.Step, refused.Object, refused.Hint)
			}
		})
	}
}
