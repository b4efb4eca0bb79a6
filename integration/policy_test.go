package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gobox/integration/harness"
)

// refusedRun runs a command that would leave a file, and fails the test when it ran or the reason is another.
func refusedRun(t *testing.T, b *harness.Box, flags []string, want string) {
	t.Helper()
	mark := filepath.Join(b.Work, "ran")
	flags = append([]string{"--workspace-mode", "rw"}, flags...)
	res := b.Run(t, harness.Run{Flags: flags, Argv: []string{"/bin/sh", "-c", "echo ran; echo x >ran"}})
	if _, err := os.Lstat(mark); err == nil || res.Code != 125 || len(res.Stdout) != 0 || !strings.Contains(string(res.Stderr), want) {
		t.Errorf("%q: want a refusal that says %q: %v", flags, want, res)
	}
}

// TestPolicyFile: what the file says happens.
func TestPolicyFile(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		secret := b.Canary(t, filepath.Join(b.Work, "secret"))
		extra := b.File(t, filepath.Join(b.Home, "extra/data"), "granted")
		file := b.File(t, filepath.Join(b.Home, "p.yaml"), `version: 1
name: mine
workspace: {mode: rw}
filesystem: {read: ["`+filepath.Dir(extra)+`:/extra"], deny: [secret]}
environment: {set: {FLAVOUR: 1.10}}
limits: {nofile: 99}
labels: {model: m1}
`)
		result := filepath.Join(b.Home, "result.json")
		res := b.Run(t, harness.Run{Flags: []string{"--policy", file, "--result", result}, Argv: []string{"/bin/sh", "-c",
			`cat secret; cat /extra/data; echo x >/extra/data; echo " $FLAVOUR $(ulimit -n)"; echo made >made`}})
		if got := string(res.Stdout); got != "granted 1.10 99\n" {
			t.Errorf("inside: %v", res)
		}
		secret.Unchanged(t)
		if data, _ := os.ReadFile(extra); string(data) != "granted" {
			t.Errorf("what was granted for reading is now %q", data)
		}
		if _, err := os.Lstat(filepath.Join(b.Work, "made")); err != nil {
			t.Errorf("workspace in mode rw: %v", err)
		}
		var record struct {
			Policy struct{ Name string }
			Labels map[string]string
		}
		if data, err := os.ReadFile(result); err != nil || json.Unmarshal(data, &record) != nil || record.Policy.Name != "mine" || record.Labels["model"] != "m1" {
			t.Errorf("result %s, %v", data, err)
		}
	})
}

// TestPolicyFileInWorkspaceStays: a command cannot loosen what the next run is held to.
func TestPolicyFileInWorkspaceStays(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		file := b.File(t, filepath.Join(b.Work, "conf/p.yaml"), "version: 1\nworkspace: {mode: rw}\n")
		kept := harness.Watch(t, file)
		res := b.Run(t, harness.Run{Flags: []string{"--policy", file}, Argv: []string{"/bin/sh", "-c",
			"echo >>conf/p.yaml; rm -f conf/p.yaml; mv conf moved; echo 'version: 1' >new && mv new conf/p.yaml; echo made >made"}})
		kept.Unchanged(t)
		if _, err := os.Lstat(filepath.Join(b.Work, "made")); err != nil {
			t.Errorf("the workspace was not writable, so nothing was tried: %v", res)
		}
	})
}

// TestWorkspacePolicy: a workspace's own file tightens, and one that loosens runs nothing.
func TestWorkspacePolicy(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		secret := b.Canary(t, filepath.Join(b.Work, "secret"))
		own := b.File(t, filepath.Join(b.Work, ".gobox.yaml"), "version: 1\nfilesystem: {deny: [secret]}\nlimits: {nofile: 99}\n")
		show := []string{"/bin/sh", "-c", "cat secret; ulimit -n"}
		if res := b.Run(t, harness.Run{Argv: show}); string(res.Stdout) != "99\n" {
			t.Errorf("tightened: %v", res)
		}
		secret.Unchanged(t)
		if res := b.Run(t, harness.Run{Flags: []string{"--no-workspace-policy", "--nofile", "98"}, Argv: show}); !strings.HasSuffix(string(res.Stdout), "98\n") || len(res.Stdout) < 4 {
			t.Errorf("left out: %v", res)
		}
		for text, want := range map[string]string{
			"filesystem: {read: [" + b.Home + "]}": ".gobox.yaml:2: filesystem.read: ",
			"limits: {timeout: 1h}":                ".gobox.yaml:2: limits.timeout: 1h0m0s is more than 30s",
			"gate: {max_limit_hits: 0}":            ".gobox.yaml:2: gate.max_limit_hits: ",
			"environment: {pass: [SECRET]}":        ".gobox.yaml:2: environment.pass: SECRET ",
		} {
			if err := os.WriteFile(own, []byte("version: 1\n"+text+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			refusedRun(t, b, nil, want)
		}
	})
}

// TestAuditRequired: no record, no run.
func TestAuditRequired(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		file := b.File(t, filepath.Join(b.Home, "p.yaml"), "version: 1\naudit: {required: true}\n")
		place := b.File(t, filepath.Join(b.Home, "place"), "no folder")
		refusedRun(t, b, []string{"--policy", file, "--audit", place}, "error: ")
		open := filepath.Join(b.Home, "open")
		b.Mkdir(t, open)
		if err := os.Chmod(open, 0o777); err != nil {
			t.Fatal(err)
		}
		refusedRun(t, b, []string{"--policy", file, "--audit", open}, "others can write to it")
		audit := filepath.Join(b.Home, "audit")
		b.Mkdir(t, audit)
		if err := os.Chmod(audit, 0o700); err != nil {
			t.Fatal(err)
		}
		if res := b.Run(t, harness.Run{Flags: []string{"--policy", file, "--audit", audit}, Argv: []string{"/bin/true"}}); res.Code != 0 {
			t.Errorf("with a place for it: %v", res)
		}
		if found, _ := filepath.Glob(audit + "/runs/*/result.json"); len(found) != 1 {
			t.Errorf("%d records after one run", len(found))
		}
	})
}

// TestGate: a run that tries to get out closes the gate for the next ones, until it is cleared.
func TestGate(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		file := b.File(t, filepath.Join(b.Home, "p.yaml"), "version: 1\nname: gated\ngate: {max_escape_attempts: 0}\n")
		audit := filepath.Join(b.Home, "audit")
		b.Mkdir(t, audit)
		if err := os.Chmod(audit, 0o700); err != nil {
			t.Fatal(err)
		}
		flags := []string{"--policy", file, "--audit", audit}
		if res := b.Run(t, harness.Run{Flags: flags, Argv: []string{"/bin/true"}}); res.Code != 0 {
			t.Fatalf("nothing has happened yet: %v", res)
		}
		if res := b.Run(t, harness.Run{Flags: flags, Argv: []string{"/bin/sh", "-c", "unshare -U true"}}); res.Code == 0 || res.Code == 125 || res.Code == 127 {
			t.Fatalf("the attempt: %v", res)
		}
		refusedRun(t, b, flags, "gate gated: closed: escape_attempts is ")
		// The figure is the policy's own: another one's runs go on.
		if res := b.Run(t, harness.Run{Flags: []string{"--audit", audit}, Argv: []string{"/bin/true"}}); res.Code != 0 {
			t.Errorf("under another policy: %v", res)
		}
		if res := b.Run(t, harness.Run{Args: []string{"runs", "gate", "--clear", "--audit", audit}}); res.Code != 0 {
			t.Fatalf("clear: %v", res)
		}
		if res := b.Run(t, harness.Run{Flags: flags, Argv: []string{"/bin/true"}}); res.Code != 0 {
			t.Errorf("after it was cleared: %v", res)
		}
	})
}

// TestCeiling puts a ceiling into the /etc of a mount namespace of the test's own.
func TestCeiling(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		if b.UID != 0 {
			t.Skip("only root can put a ceiling there")
		}
		layers := filepath.Join(b.Dir, "layers")
		run := func(prepare string, flags ...string) harness.Result {
			t.Helper()
			script := `set -e; mkdir -p "$1"; mount -t tmpfs none "$1"; mkdir "$1/u" "$1/w"
mount -t overlay none -o "lowerdir=/etc,upperdir=$1/u,workdir=$1/w" /etc
mkdir -p /etc/gobox; chmod 755 /etc/gobox; umask 022
printf 'version: 1\nlimits: {memory: 256M, timeout: 10, nofile: 99}\nfilesystem: {write: []}\n' >/etc/gobox/policy.yaml
` + prepare + `
shift; exec "$@"`
			args := append([]string{"-m", "--propagation", "private", "/bin/sh", "-c", script, "sh", layers, suite.Gobox, "run"}, flags...)
			return b.Run(t, harness.Run{Bin: "/usr/bin/unshare", Args: append(args, "--", "/bin/sh", "-c", "ulimit -n")})
		}
		if res := run(""); string(res.Stdout) != "99\n" {
			t.Fatalf("the default under the ceiling: %v", res)
		}
		for _, tt := range []struct {
			prepare string
			flags   []string
			want    string
		}{
			{"", []string{"--memory", "512M"}, "policy /etc/gobox/policy.yaml:2: limits.memory: 512MiB is more than 256MiB"},
			{"", []string{"--timeout", "0"}, "policy.yaml:2: limits.timeout: no limit is more than 10s"},
			{"", []string{"--policy", "build"}, "policy.yaml:2: limits."},
			{"", []string{"--rw", b.Home}, "policy.yaml:3: filesystem.write: --rw "},
			{"chmod 666 /etc/gobox/policy.yaml", nil, "is no ceiling: others than root can change it"},
			{"chmod 777 /etc/gobox", nil, "is no ceiling: others than root can change its folder"},
			{"chown 65534 /etc/gobox/policy.yaml", nil, "is no ceiling: others than root can change it"},
			{"echo x: >>/etc/gobox/policy.yaml", nil, "policy /etc/gobox/policy.yaml:4: x: unknown key"},
		} {
			if res := run(tt.prepare, tt.flags...); res.Code != 125 || len(res.Stdout) != 0 || !strings.Contains(string(res.Stderr), tt.want) {
				t.Errorf("%s %q: want %q: %v", tt.prepare, tt.flags, tt.want, res)
			}
		}
	})
}

// TestDoctor: what it proves here is what the other tests prove, and it leaves nothing behind.
func TestDoctor(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		tmp := filepath.Join(b.Dir, "tmp")
		b.Mkdir(t, tmp)
		type report struct {
			OK     bool
			Layers []struct{ Layer, State, Reason, Fix string }
		}
		doctor := func(r harness.Run) (report, harness.Result) {
			t.Helper()
			var got report
			r.Env = []string{"TMPDIR=" + tmp}
			res := b.Run(t, r)
			if err := json.Unmarshal(res.Stdout, &got); err != nil {
				t.Fatalf("%v: %v", err, res)
			}
			return got, res
		}
		got, res := doctor(harness.Run{Args: []string{"doctor", "--json"}})
		if !got.OK || res.Code != 0 {
			t.Errorf("here every wall stands: %v", res)
		}
		states := map[string]string{}
		for _, l := range got.Layers {
			states[l.Layer] = l.State
		}
		for _, layer := range []string{"namespaces", "mounts", "privileges", "landlock", "seccomp", "rlimits", "overlay", "terminal", "network"} {
			if states[layer] != "ok" {
				t.Errorf("%s is %q", layer, states[layer])
			}
		}
		if left, _ := os.ReadDir(tmp); len(left) > 0 {
			t.Errorf("it left %v", left)
		}
		// Inside a sandbox there can be no other: the layer is named, with a reason and a way out.
		got, res = doctor(harness.Run{Flags: []string{"--rox", suite.Gobox}, Argv: []string{suite.Gobox, "doctor", "--json"}})
		if got.OK || res.Code != 1 || got.Layers[0].Layer != "namespaces" || got.Layers[0].State != "failed" || got.Layers[0].Fix == "" {
			t.Errorf("inside a sandbox: %v", res)
		}
	})
}
