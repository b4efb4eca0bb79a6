package integration

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"gobox/integration/harness"
)

// TestExample is what `make run` shows a newcomer.
func TestExample(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for _, name := range []string{"run.sh", "hello.py"} {
			data, err := os.ReadFile(filepath.Join("..", "examples", name))
			if err != nil {
				t.Fatal(err)
			}
			b.File(t, filepath.Join(b.Work, name), string(data))
		}
		show := harness.Run{Bin: "/bin/sh", Args: []string{"run.sh", b.Gobox}}
		res := b.Run(t, show)
		if res.Code != 0 || bytes.Contains(res.Stdout, []byte("IT COULD")) || !bytes.Contains(res.Stdout, []byte("every wall stood")) {
			t.Error(res)
		}
		if got := names(t, b.Work); got != "hello.py run.sh" {
			t.Errorf("the workspace holds %q", got)
		}

		// With something given away the script finds it, and says so.
		given := b.Run(t, harness.Run{Flags: []string{"--env-pass", "DEMO_TOKEN"}, Env: []string{"DEMO_TOKEN=x"}, Argv: []string{"python3", "hello.py"}})
		if given.Code != 1 || bytes.Count(given.Stdout, []byte("IT COULD")) != 1 {
			t.Error(given)
		}
	})
}
