package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gobox/integration/harness"
	"gobox/record"

	"golang.org/x/sys/unix"
)

// behind runs gobox behind filters of the probe's launch form, as a container's profile or a kernel that lacks something looks from inside.
func behind(t *testing.T, b *harness.Box, filters, flags []string, argv ...string) (harness.Result, record.Result) {
	t.Helper()
	file := filepath.Join(b.Home, "result.json")
	args := append(append([]string{"raw", "launch"}, filters...), "--", b.Gobox, "run", "--workspace-mode", "ro", "--result", file, "--rox", filepath.Dir(b.Probe))
	res := b.Run(t, harness.Run{Bin: b.Probe, Args: append(append(append(args, flags...), "--"), argv...)})
	var rec record.Result
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &rec)
	}
	if err != nil {
		t.Errorf("result: %v\n%v", err, res)
	}
	_ = os.Remove(file)
	return res, rec
}

func refusing(nr int, rest string) []string {
	return []string{"refuse=" + strconv.Itoa(nr) + ":" + rest}
}

const cloneNewuser = "0x10000000" // CLONE_NEWUSER, linux/sched.h

// TestR15HostLacks: a host that refuses what a wall is made of is told from one that has it, with the reason and what to do, and the
// command does not run.
func TestR15HostLacks(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for _, c := range []struct {
			name    string
			filters []string
			says    []string
		}{
			{"userns off", refusing(unix.SYS_CLONE, "ENOSPC:"+cloneNewuser), []string{"namespaces clone: no space left", "sysctl user.max_user_namespaces"}},
			{"userns refused", refusing(unix.SYS_CLONE, "EPERM:"+cloneNewuser), []string{"namespaces clone: operation not permitted", "kernel.unprivileged_userns_clone"}},
			{"userns refused by a module", refusing(unix.SYS_CLONE, "EACCES:"+cloneNewuser), []string{"namespaces clone: permission denied", "kernel.apparmor_restrict_unprivileged_userns"}},
			{"userns without mounts", refusing(unix.SYS_MOUNT, "EACCES"), []string{"mount the new root: permission denied", "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0"}},
			{"pivot", refusing(unix.SYS_PIVOT_ROOT, "EACCES"), []string{"pivot to the new root /: permission denied", "--security-opt seccomp=unconfined"}},
			{"new mount calls", refusing(unix.SYS_MOUNT_SETATTR, "ENOSYS"), []string{"function not implemented", "older than 5.13"}},
			{"keyring", refusing(unix.SYS_KEYCTL, "EPERM"), []string{"join a new session keyring: operation not permitted", "--security-opt seccomp=unconfined"}},
			{"no landlock", refusing(unix.SYS_LANDLOCK_CREATE_RULESET, "ENOSYS"), []string{"layer landlock: landlock is not in this kernel or an outer filter hides it", "--allow-missing landlock"}},
			{"landlock not enabled", refusing(unix.SYS_LANDLOCK_CREATE_RULESET, "ENOTSUP"), []string{"layer landlock: landlock is not among the security modules enabled at boot", "lsm="}},
			{"landlock refused", refusing(unix.SYS_LANDLOCK_CREATE_RULESET, "EPERM"), []string{"layer landlock: an outer filter refuses landlock", "--allow-missing landlock"}},
			{"landlock domain refused", refusing(unix.SYS_LANDLOCK_RESTRICT_SELF, "EPERM"), []string{"enter the landlock domain: operation not permitted", "--security-opt seccomp=unconfined"}},
			{"no seccomp", refusing(unix.SYS_SECCOMP, "ENOSYS"), []string{"layer seccomp: the kernel has no seccomp filters, or an outer filter hides them", "--allow-missing seccomp"}},
			{"seccomp refused", refusing(unix.SYS_SECCOMP, "EPERM"), []string{"layer seccomp: an outer filter refuses seccomp(2)", "--allow-missing seccomp"}},
		} {
			res, rec := behind(t, b, c.filters, nil, b.Probe, "raw", "exit", "5")
			text := string(res.Stderr)
			for _, want := range append(c.says, "gobox: error: ", "gobox: hint: ") {
				if !strings.Contains(text, want) {
					t.Errorf("%s: no %q in %v", c.name, want, res)
				}
			}
			if res.Code != 125 || rec.Outcome != record.SetupFailed || rec.Error == nil {
				t.Errorf("%s: outcome %q, %v", c.name, rec.Outcome, res)
			}
		}
		// The control: the filters by themselves are in nobody's way.
		if res, _ := behind(t, b, refusing(unix.SYS_ACCT, "EPERM"), nil, b.Probe, "raw", "exit", "5"); res.Code != 5 {
			t.Error(res)
		}
	})
}

// TestR15AllowMissing: without a wall that the caller gives up the command runs, and whoever reads stderr or the result is told.
func TestR15AllowMissing(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		landlock, seccomp := refusing(unix.SYS_LANDLOCK_CREATE_RULESET, "ENOSYS"), refusing(unix.SYS_SECCOMP, "EPERM")
		for _, c := range []struct {
			name    string
			filters []string
			missing []string
		}{
			{"landlock", landlock, []string{"landlock"}},
			{"seccomp", seccomp, []string{"seccomp"}},
			{"both", append(seccomp, landlock...), []string{"landlock", "seccomp"}},
			{"neither", nil, []string{}},
		} {
			flags := []string{"--quiet", "--allow-missing", "landlock", "--allow-missing", "seccomp"}
			canary := b.Canary(t, b.Work+"/canary")
			res, rec := behind(t, b, c.filters, flags, b.Probe, "write", canary.Path, "x")
			canary.Unchanged(t)
			if res.Code != 0 || strings.Join(rec.Layers.Missing, " ") != strings.Join(c.missing, " ") {
				t.Errorf("%s: missing %q, %v", c.name, rec.Layers.Missing, res)
			}
			if got, want := strings.Count(string(res.Stderr), "gobox: warning: "), len(c.missing); got != want {
				t.Errorf("%s: %d warnings, not %d: %v", c.name, got, want, res)
			}
			for _, wall := range c.missing {
				if !strings.Contains(string(res.Stderr), "gobox: warning: "+wall+": ") {
					t.Errorf("%s: no warning of %s: %v", c.name, wall, res)
				}
			}
			if out := harness.Parse(t, res.Stdout); len(out) == 1 && out[0].Errno == "" {
				t.Errorf("%s: wrote to a read-only workspace: %v", c.name, res)
			}
		}
	})
}
