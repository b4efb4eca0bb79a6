package policy

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"gobox/egress"
)

// write puts files into a new folder and gives its path.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func parse(t *testing.T, text string) *Document {
	t.Helper()
	d, err := ParseDocument("p.yaml", []byte("version: 1\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestParseDocumentRefuses(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"empty", "", "p.yaml:1: is empty"},
		{"comment", "# nothing\n", "p.yaml:1: is empty"},
		{"list", "- a\n", "p.yaml:1: is a list where the keys"},
		{"no version", "name: x\n", "p.yaml:1: states no version"},
		{"other version", "version: 2\n", "p.yaml:1: version: the only one is 1"},
		{"unknown key", "version: 1\nlimit: {}\n", "p.yaml:2: limit: unknown key"},
		{"unknown key inside", "version: 1\nlimits:\n  timeout: 1\n  memmory: 1G\n", "p.yaml:4: limits.memmory: unknown key"},
		{"key twice", "version: 1\nname: a\nname: b\n", "p.yaml:3: "},
		{"key twice inside", "version: 1\nlimits: {timeout: 1, timeout: 2}\n", "p.yaml:2: "},
		{"two documents", "version: 1\n---\nversion: 1\n", "p.yaml:3: a second document"},
		{"anchor", "version: 1\nfilesystem:\n  read: &a [/x]\n  write: *a\n", "p.yaml:3: a policy file has no anchors"},
		{"merge", "version: 1\nlimits:\n  <<: {timeout: 1}\n", "p.yaml:3: a policy file has no anchors"},
		{"tag", "version: 1\nlimits: {timeout: !!int 3}\n", "p.yaml:2: a policy file has no anchors"},
		{"no YAML", "version: 1\nname: [\n", "is no YAML: "},
		{"tab", "version: 1\nlimits:\n\ttimeout: 1\n", "is no YAML: "},
		{"scalar for list", "version: 1\nfilesystem:\n  deny: .env\n", "p.yaml:3: filesystem.deny: is a single value where a list belongs"},
		{"list for scalar", "version: 1\nlimits:\n  timeout: [1]\n", "p.yaml:3: limits.timeout: is a list where a single value belongs"},
		{"scalar for section", "version: 1\nlimits: 3\n", "p.yaml:2: limits: is a single value where a mapping belongs"},
		{"null", "version: 1\nlimits:\n  memory:\n", "limits.memory: is empty"},
		{"tilde null", "version: 1\nlimits: {memory: ~}\n", "limits.memory: is empty"},
		{"empty text", "version: 1\nfilesystem: {deny: ['']}\n", `p.yaml:2: filesystem.deny: "": is empty`},
		{"NUL", "version: 1\nfilesystem: {deny: [\"a\\0b\"]}\n", "p.yaml:2: filesystem.deny: \"a\\x00b\": contains a NUL byte"},
		{"size", "version: 1\nlimits: {memory: 1MB}\n", `limits.memory: "1MB": is no size`},
		{"negative", "version: 1\nlimits: {processes: -1}\n", `limits.processes: "-1": is no number`},
		{"hexadecimal", "version: 1\nlimits: {processes: 0x10}\n", `limits.processes: "0x10": is no number`},
		{"infinite", "version: 1\nlimits: {timeout: .inf}\n", `limits.timeout: ".inf": is no duration`},
		{"CPU time", "version: 1\nlimits: {cpu_time: 1500ms}\n", "CPU time is counted in whole seconds"},
		{"yes", "version: 1\naudit: {required: yes}\n", `audit.required: "yes": is neither true nor false`},
		{"mode", "version: 1\nworkspace: {mode: writable}\n", `workspace.mode: "writable": is none of none, ro, overlay, rw`},
		{"layer", "version: 1\nrequire: [selinux]\n", `require: "selinux": is none of`},
		{"system call", "version: 1\nsyscalls:\n  deny:\n    - read\n    - raed\n", "p.yaml:5: syscalls.deny: "},
		{"variable", "version: 1\nenvironment: {pass: [A-B]}\n", "no name for a variable"},
		{"network", "version: 1\nnetwork: {allow: [\"a.org:44a\"]}\n", "p.yaml:2: network.allow: \"a.org:44a\": "},
		{"network host", "version: 1\nnetwork: host\n", "p.yaml:2: network: is a single value where a mapping belongs"},
		{"network of all", "version: 1\nnetwork: {allow: [\"*\"]}\n", "network.allow: \"*\": * would allow every host"},
		{"group in a group", "version: 1\ngroups: {a: [\"@b\"]}\n", "p.yaml:2: groups: \"@b\": "},
		{"group's name", "version: 1\ngroups: {\"a b\": []}\n", "is no name of a group"},
		{"groups without names", "version: 1\ngroups: [a.org]\n", "p.yaml:2: groups: is a list where a mapping"},
		{"rate", "version: 1\nlimits: {net_rate: 0.001}\n", "is no number of connections per second"},
		{"name", "version: 1\nname: ../x\n", "p.yaml:2: name: "},
		{"name of options", "version: 1\nname: -x\n", "p.yaml:2: name: "},
		{"large", "version: 1\n#" + strings.Repeat("x", maxPolicyFile), "is larger than 32KiB"},
		{"deep flow", "version: 1\nname: " + strings.Repeat("[", 30000), "brackets"},
		{"deep block", "version: 1\nname:\n " + strings.Repeat("- ", 15000), "brackets"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseDocument("p.yaml", []byte(tt.text))
			var refusal *Error
			if !errors.As(err, &refusal) {
				t.Fatalf("error %v, want an *Error", err)
			}
			if !strings.HasPrefix(err.Error(), "policy p.yaml:") || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q, want %q in it", err, tt.want)
			}
		})
	}
}

func TestParseDocumentTakes(t *testing.T) {
	d := parse(t, `name: data-analysis
extends: agent
workspace: {path: sub, mode: overlay}
network: {mode: none, allow: ["a.org:80,443", "@registry"], refuse_host: true}
groups: {registry: ["*.b.org"], none: []}
filesystem:
  read: ["~/data:/data"]
  execute: [bin, tool]
  write: [out, tool]
  deny: [.env]
  allow_path: [.vscode]
  input: ["data.csv:/in/data.csv"]
  output_dir: result
environment:
  pass: [LANG]
  set: {A: 1.10, B: true, C: "", D: 0x1F}
limits: {timeout: 1.5, grace: 0, cpu_time: 10s, memory: 512MiB, processes: "64", cpus: 0.5, disk: 1G, output: 65536, nofile: 0, fsize: 1k,
  net_connections: 10, net_rate: 0.5, net_bytes_in: 1M, net_bytes_out: 1k, net_idle: 1m, net_total: 1h}
syscalls: {allow: [ptrace], deny: [socket], profile: seccomp.json}
require: [landlock, cgroup]
audit: {required: true}
gate: {window: 1h, max_escape_attempts: 0, max_limit_hits: 3, max_teardown: 2s, max_quarantined: 1}
labels: {model: m-1}
`)
	n0, n1, n3, two := uint64(0), uint64(1), uint64(3), 2*time.Second
	want := Policy{
		Workspace: Workspace{Path: "sub", Mode: ModeOverlay, Explicit: true},
		Grants: []Grant{
			{Flag: "--ro", Source: "~/data", Dest: "/data"}, {Flag: "--rox", Source: "bin", Exec: true},
			{Flag: "--rwx", Source: "tool", Exec: true, Write: true}, {Flag: "--rw", Source: "out", Write: true},
			{Flag: "--input", Source: "data.csv", Dest: "/in/data.csv"},
		},
		OutputDir: "result",
		Deny:      []string{".env"}, AllowPath: []string{".vscode"}, EnvPass: []string{"LANG"}, Env: []string{"A=1.10", "B=true", "C=", "D=0x1F"},
		Net: NetNone, AllowNet: []string{"a.org:80,443", "@registry"}, RefuseHostNet: true,
		Groups:    []NetGroup{{"registry", []string{"*.b.org"}}, {Name: "none"}},
		NetLimits: egress.Limits{Connections: 10, Rate: 0.5, BytesIn: mib, BytesOut: kib, Idle: time.Minute, Total: time.Hour},
		Timeout:   1500 * time.Millisecond, CPUTime: 10 * time.Second, Memory: 512 * mib, Pids: 64, CPUs: 0.5,
		Disk: gib, Output: 65536, Fsize: kib, AllowSyscall: []string{"ptrace"}, DenySyscall: []string{"socket"},
		SeccompFile: "seccomp.json", Require: []Layer{LayerLandlock, LayerCgroup}, AuditRequired: true,
		Gate:   Gate{Window: time.Hour, MaxEscapeAttempts: &n0, MaxLimitHits: &n3, MaxTeardown: &two, MaxQuarantined: &n1},
		Labels: []string{"model=m-1"},
	}
	if !reflect.DeepEqual(d.policy, want) {
		t.Errorf("got  %+v\nwant %+v", d.policy, want)
	}
	for _, f := range fields() {
		if !d.States(f.path) {
			t.Errorf("%s is not stated: the example should have every key", f.path)
		}
	}
}

// Every built-in policy can be used, and the default one says what a plain run does.
func TestBuiltins(t *testing.T) {
	for _, name := range BuiltinNames() {
		chain, err := LoadDocuments(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := chain[len(chain)-1].Name; got != name {
			t.Errorf("%s is called %s", name, got)
		}
	}
	d, err := builtinDocument("default")
	if err != nil {
		t.Fatal(err)
	}
	d.policy.Name = d.Name
	if !reflect.DeepEqual(d.policy, Default()) {
		t.Errorf("default.yaml says %+v\nDefault() says %+v", d.policy, Default())
	}
	for _, file := range must1(builtinFiles.ReadDir("builtin")) {
		if !isBuiltin(strings.TrimSuffix(file.Name(), ".yaml")) {
			t.Errorf("%s is listed nowhere", file.Name())
		}
	}
}

func must1[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestLoadDocuments(t *testing.T) {
	dir := write(t, map[string]string{
		"a.yaml":        "version: 1\nextends: b.yaml\n",
		"b.yaml":        "version: 1\nname: bee\nextends: build\n",
		"loop1.yaml":    "version: 1\nextends: loop2.yaml\n",
		"loop2.yaml":    "version: 1\nextends: ./loop1.yaml\n",
		"self.yaml":     "version: 1\nextends: self.yaml\n",
		"lost.yaml":     "version: 1\nextends: nowhere.yaml\n",
		"strange.yaml":  "version: 1\nextends: nope\n",
		"default.yaml":  "version: 1\n",
		"agent2.yaml":   "version: 1\nname: agent\n",
		"a b.yaml":      "version: 1\n",
		"bad-base.yaml": "version: 1\nextends: bad.yaml\n",
		"bad.yaml":      "version: 1\n\nlimits: {x: 1}\n",
	})
	chain, err := LoadDocuments(dir + "/a.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range chain {
		names = append(names, d.Name)
	}
	if got := strings.Join(names, " "); got != "default build bee a" {
		t.Errorf("chain is %q", got)
	}
	if err := os.Symlink("a.yaml", dir+"/link.yaml"); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"loop1.yaml":    "extends itself in the end",
		"self.yaml":     "extends itself in the end",
		"lost.yaml":     "lost.yaml:2: extends: " + dir + "/nowhere.yaml: no such file",
		"strange.yaml":  "strange.yaml:2: extends: nope: there is no such policy",
		"default.yaml":  "default is the name of a built-in policy",
		"agent2.yaml":   "agent2.yaml:2: agent is the name of a built-in policy",
		"a b.yaml":      "the policy has no name",
		"bad-base.yaml": "bad.yaml:3: limits.x: unknown key",
		".":             "is no regular file",
	} {
		_, err := LoadDocuments(dir + "/" + file)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q in it", file, err, want)
		}
	}
	if _, err := ReadDocument(dir+"/link.yaml", true); err == nil || !strings.Contains(err.Error(), "is a symbolic link") {
		t.Errorf("a link where none may be: %v", err)
	}
}

// A ceiling that others than root can write is none.
func TestLoadCeiling(t *testing.T) {
	dir := write(t, map[string]string{"policy.yaml": "version: 1\nlimits: {memory: 1G}\n", "odd.yaml": "version: 1\nlabels: {a: b}\n", "here.yaml": "version: 1\nworkspace: {path: .}\n"})
	if d, err := LoadCeiling(dir + "/none.yaml"); d != nil || err != nil {
		t.Errorf("one that is not there: %v, %v", d, err)
	}
	if d, err := LoadCeiling(dir + "/none/policy.yaml"); d != nil || err != nil {
		t.Errorf("one whose folder is not there: %v, %v", d, err)
	}
	if os.Geteuid() != 0 {
		if _, err := LoadCeiling(dir + "/policy.yaml"); err == nil || !strings.Contains(err.Error(), "others than root can change it") {
			t.Errorf("a user's own: %v", err)
		}
		return
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if d, err := LoadCeiling(dir + "/policy.yaml"); d == nil || err != nil {
		t.Errorf("root's: %v, %v", d, err)
	}
	if _, err := LoadCeiling(dir + "/odd.yaml"); err == nil || !strings.Contains(err.Error(), "labels: has no meaning in a ceiling") {
		t.Errorf("labels: %v", err)
	}
	if _, err := LoadCeiling(dir + "/here.yaml"); err == nil || !strings.Contains(err.Error(), "here.yaml:2: workspace.path: ") {
		t.Errorf("a relative workspace: %v", err)
	}
	for _, spoil := range []func() error{
		func() error { return os.Chmod(dir+"/policy.yaml", 0o664) },
		func() error { return os.Chmod(dir+"/policy.yaml", 0o646) },
		func() error { return os.Chown(dir+"/policy.yaml", 65534, 0) },
		func() error { return os.Chmod(dir, 0o777) },
		func() error { return os.Chown(dir, 65534, 0) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadCeiling(dir + "/policy.yaml"); err == nil || !strings.Contains(err.Error(), "is no ceiling: others than root can change") {
			t.Errorf("one that others can change: %v", err)
		}
		for path, mode := range map[string]os.FileMode{dir: 0o755, dir + "/policy.yaml": 0o600} {
			if err := errors.Join(os.Chown(path, 0, 0), os.Chmod(path, mode)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func FuzzParseDocument(f *testing.F) {
	for _, name := range BuiltinNames() {
		f.Add(must1(Builtin(name)))
	}
	for _, text := range []string{"", "version: 1", "a: &x [*x]", "{version: 1, limits: {timeout: 1e3}}", "? a\n: b", "- - -", "\xff\xfe", "version: 1\nlabels: {? {a: b} : c}", "%YAML 1.2\n---\nversion: 1\n...", "a: |\n  b\n c", "\"\\x"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		start := time.Now()
		d, err := ParseDocument("p.yaml", text)
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("took %v", took)
		}
		if err != nil {
			var refusal *Error
			if !errors.As(err, &refusal) || !strings.HasPrefix(refusal.Object, "p.yaml:") {
				t.Errorf("error without a line: %v", err)
			}
			return
		}
		if !d.States("version") {
			t.Error("taken without a version")
		}
	})
}
