package integration

import (
	"path/filepath"
	"strings"
	"testing"

	"gobox/integration/harness"
)

// TestChangesNotKept: a command that went well, and whose work is lost, has not gone well; nor has the answer that a key repeats.
func TestChangesNotKept(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for name, c := range map[string]struct{ ulimit, script, anomaly string }{
			"no room":  {"ulimit -S -f 2000", "head -c 5000000 /dev/zero >big", "changes_lost"},
			"too deep": {":", "mkdir -p $(printf 'a/%.0s' $(seq 1001))", "changes_refused"},
		} {
			for _, end := range []struct {
				then string
				code int
			}{{"", 74}, {"; exit 3", 3}} {
				t.Run(name+end.then, func(t *testing.T) {
					dir := filepath.Join(b.Work, strings.ReplaceAll(name, " ", "-")+end.then)
					b.Mkdir(t, dir)
					result := filepath.Join(b.Home, name+end.then+".json")
					run := func(key string) harness.Result {
						// The limit is gobox's alone, as the command's own comes from the hard one.
						script := c.ulimit + `; exec "$@"`
						return b.Run(t, harness.Run{Bin: "/bin/bash", Dir: dir, Args: []string{
							"-c", script, "bash", b.Gobox, "run", "--workspace-mode", "overlay", "--result", result, "--idempotency-key", key, "--", "/bin/bash", "-c", c.script + end.then,
						}})
					}
					for _, round := range []string{"first", "again"} {
						res := run("not-kept " + name + end.then)
						rec := readResult(t, result, res)
						if res.Code != end.code || !strings.Contains(string(res.Stderr), "gobox: error: changes: ") && round == "first" {
							t.Errorf("%s: want exit %d and the reason, got %v", round, end.code, res)
						}
						if len(rec.Anomalies) != 1 || rec.Anomalies[0].Kind != c.anomaly || rec.ExitStatus() != end.code {
							t.Errorf("%s: %+v, exit status %d", round, rec.Anomalies, rec.ExitStatus())
						}
					}
				})
			}
		}
	})
}
