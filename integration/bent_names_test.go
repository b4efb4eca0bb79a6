package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gobox/integration/harness"
)

// TestWhatARunIsHeldToStays: a command can change neither the policy's files and profile nor the links by which they are found,
// under whatever name it sees them.
func TestWhatARunIsHeldToStays(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		conf := filepath.Join(b.Work, "conf")
		file := b.File(t, filepath.Join(conf, "p.yaml"), "version: 1\nworkspace: {mode: rw}\nsyscalls: {profile: profile.json}\n")
		profile := b.File(t, filepath.Join(b.Work, "profile.json"), `{"defaultAction": "SCMP_ACT_ALLOW"}`)
		link := filepath.Join(b.Work, "link.yaml")
		if err := os.Symlink("conf/p.yaml", link); err != nil {
			t.Fatal(err)
		}
		kept := []*harness.Canary{harness.Watch(t, file), harness.Watch(t, profile)}
		unchanged := func() {
			t.Helper()
			for _, k := range kept {
				k.Unchanged(t)
			}
			if to, err := os.Readlink(link); to != "conf/p.yaml" {
				t.Errorf("the link leads to %q, %v", to, err)
			}
		}
		const change = `for f in conf/p.yaml profile.json; do echo >>$f; rm -f $f; echo x >new; mv -f new $f; done; rm -f link.yaml; ln -sfn conf/other link.yaml; echo made >made`
		res := b.Run(t, harness.Run{Flags: []string{"--policy", link}, Argv: []string{"/bin/sh", "-c", change}})
		unchanged()
		if _, err := os.Lstat(filepath.Join(b.Work, "made")); err != nil {
			t.Errorf("the workspace was not writable, so nothing was tried: %v", res)
		}
		res = b.Run(t, harness.Run{Flags: []string{"--policy", link, "--workspace-mode", "none", "--rw", b.Work + ":/mnt/other"}, Argv: []string{"/bin/sh", "-c", "cd /mnt/other; " + change + "; cat made"}})
		unchanged()
		if string(res.Stdout) != "made\n" {
			t.Errorf("the grant was not writable, so nothing was tried: %v", res)
		}
	})
}

// TestSecretIsNotChosenInside: the file of a secret that a run has turned into a link gives the next run nothing of the host's.
func TestSecretIsNotChosenInside(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		private := b.File(t, filepath.Join(b.Home, "private"), "the private key")
		token := b.File(t, filepath.Join(b.Work, "token"), "the token")
		show := []string{"--workspace-mode", "rw", "--secret", "T=file:token"}
		echo := []string{"/bin/sh", "-c", `echo "$T"`}
		if res := b.Run(t, harness.Run{Flags: append(show, "--policy", "build"), Argv: echo}); string(res.Stdout) != "the token\n" {
			t.Errorf("a secret beside a policy: %v", res)
		}
		for _, how := range []string{"ln -s '" + private + "' token", "ln -s /proc/self/environ token", "mkfifo token"} {
			b.Run(t, harness.Run{Flags: []string{"--workspace-mode", "rw"}, Argv: []string{"/bin/sh", "-c", "rm token; " + how}})
			if info, err := os.Lstat(token); err != nil || info.Mode().IsRegular() {
				t.Fatalf("%s: nothing was tried: %v", how, err)
			}
			res := b.Run(t, harness.Run{Flags: show, Argv: echo})
			if res.Code != 125 || len(res.Stdout) > 0 || !strings.Contains(string(res.Stderr), "secret T: ") {
				t.Errorf("%s: %v", how, res)
			}
			if err := os.Remove(token); err != nil {
				t.Fatal(err)
			}
			b.File(t, token, "the token")
		}
	})
}
