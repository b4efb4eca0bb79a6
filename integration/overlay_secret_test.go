package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gobox/integration/harness"
)

// TestOverlaySecret: what holds a secret that the command was given is told, and goes to the workspace by name only.
func TestOverlaySecret(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		secret := b.File(t, filepath.Join(b.Home, "token"), "hunter2-hunter2\n")
		result := filepath.Join(b.Home, "result.json")
		res := b.Run(t, harness.Run{Flags: []string{"--secret", "TOKEN=file:" + secret, "--result", result}, Argv: []string{"/bin/sh", "-c",
			`echo plain >plain; echo "key=$TOKEN" >leak; mkdir d; printf %s "$TOKEN" | base64 >d/encoded; ln -s "$TOKEN" link`}})
		text, err := os.ReadFile(result)
		if res.Code != 0 || err != nil || strings.Contains(string(text), "hunter2") || strings.Count(string(text), `"kind":"secret"`) != 3 || !strings.Contains(string(res.Stderr), "a secret of --secret is in what changed") {
			t.Errorf("%v\n%s %v", res, text, err)
		}
		_, rest, _ := strings.Cut(string(res.Stderr), "--hash ")
		hash, _, _ := strings.Cut(rest, " ")
		res = b.Run(t, harness.Run{Args: []string{"apply", "last", "--hash", hash}})
		for _, name := range []string{"leak", "d/encoded", "link"} {
			if res.Code != 125 || !strings.Contains(string(res.Stderr), "--skip "+name) {
				t.Errorf("apply: %v", res)
			}
		}
		if left := entriesOf(t, b.Work); len(left) > 0 {
			t.Errorf("written: %q", left)
		}
		res = b.Run(t, harness.Run{Args: []string{"apply", "last", "--hash", hash, "--skip", "link", "--skip", "d/encoded", "--allow-path", "leak"}})
		if got, err := os.ReadFile(filepath.Join(b.Work, "leak")); res.Code != 0 || err != nil || string(got) != "key=hunter2-hunter2\n" {
			t.Errorf("%v\n%q %v", res, got, err)
		}
	})
}
