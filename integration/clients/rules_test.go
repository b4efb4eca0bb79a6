package clients

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gobox/integration/harness"
)

func named(t *testing.T, name string) client {
	t.Helper()
	i := slices.IndexFunc(clients, func(c client) bool { return c.name == name })
	if i < 0 {
		t.Fatalf("no client %s", name)
	}
	return clients[i]
}

// A group of a policy file means its hosts, those of a wildcard among them, whether the file or a flag names it.
func TestGroups(t *testing.T) {
	const text = "version: 1\nextends: default\ngroups: {registry: [index.example.org, '*.files.example.org']}\n"
	for _, tt := range []struct {
		name, client, more string
		rules              []string
	}{
		{name: "file", client: "pip", more: "network: {allow: ['@registry']}\n"},
		{name: "flag", client: "go", rules: []string{"@registry"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			suite.Each(t, func(t *testing.T, b *harness.Box) {
				c := named(t, tt.client)
				c.rules = tt.rules
				c.flags = []string{"--policy", b.File(t, filepath.Join(b.Home, "policy.yaml"), text+tt.more)}
				c.inside(t, b, c.layOut(t, b), "proxied", c.via)
			})
		})
	}
}

// Who follows the flags that a result names gets there: the first run lacks the host of the files, and the second has it.
func TestFlagOfADenialHelps(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		c := named(t, "pip")
		env := c.layOut(t, b)
		flags := []string{"--workspace-mode", "rw", "--timeout", "2m", "--allow-net", c.host, "--ro", certificate(b)}
		for _, v := range env {
			flags = append(flags, "--env", v)
		}
		run := harness.Run{Flags: flags, Argv: []string{"sh", "frame.sh", "direct", c.host}}
		res, said, rec := b.OnlineRecorded(t, run)
		if strings.Contains(string(res.Stdout), greeting) || said.Asked("pkg.files.example.org") > 0 || len(rec.Denials) != 1 {
			t.Fatalf("without the rule: %v\n%+v", res, rec.Denials)
		}
		fix := strings.Fields(rec.Denials[0].Fix)
		if want := []string{"--allow-net", "pkg.files.example.org:443"}; !slices.Equal(fix, want) {
			t.Fatalf("%q, want %q", fix, want)
		}
		run.Flags = append(run.Flags, fix...)
		run.Argv = []string{"sh", "-c", "rm -rf index.example.org && exec sh frame.sh direct " + c.host}
		if res, _, rec = b.OnlineRecorded(t, run); string(res.Stdout) != greeting+"\n"+c.host+" ended with 0\n" || len(rec.Denials) != 0 {
			t.Errorf("with it: %v\n%+v", res, rec.Denials)
		}
	})
}
