package policy

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// request is one with the named flags given.
func request(t *testing.T, dir string, named string, flags map[string]func(*Policy)) Request {
	t.Helper()
	h := CurrentHost()
	h.Dir = dir
	p := Default()
	for _, set := range flags {
		set(&p)
	}
	return Request{Named: named, Flags: p, Host: h, Ceiling: "/nonexistent/policy.yaml", Changed: func(flag string) bool { return flags[flag] != nil }}
}

func combined(t *testing.T, r Request, ceiling *Document) Policy {
	t.Helper()
	c, err := combine(r, ceiling)
	if err != nil {
		t.Fatal(err)
	}
	return c.Policy
}

type setFlags = map[string]func(*Policy)

// default <- extends <- file <- flags: a later one replaces a single value and adds to a list.
func TestCombineOrder(t *testing.T) {
	dir := write(t, map[string]string{
		"base.yaml": "version: 1\nworkspace: {mode: ro}\nlimits: {timeout: 1m, memory: 2G, processes: 5}\nfilesystem: {deny: [a]}\nenvironment: {pass: [A], set: {X: base}}\nlabels: {model: base, kept: base}\nrequire: [landlock]\n",
		"p.yaml":    "version: 1\nextends: base.yaml\nlimits: {memory: 3G, processes: 6}\nfilesystem: {deny: [b], write: [/tmp]}\nenvironment: {set: {X: file}}\nlabels: {model: file}\n",
	})
	p := combined(t, request(t, dir, dir+"/p.yaml", setFlags{
		"pids":     func(p *Policy) { p.Pids = 7 },
		"deny":     func(p *Policy) { p.Deny = []string{"c"} },
		"env-pass": func(p *Policy) { p.EnvPass = []string{"B"} },
		"label":    func(p *Policy) { p.Labels = []string{"model=flag"} },
		"ro":       func(p *Policy) { p.Grants = []Grant{{Flag: "--ro", Source: "/srv"}} },
		"tmpfs":    func(p *Policy) { p.Tmpfs = []Tmpfs{{Dest: "/scratch"}} },
	}), nil)
	if p.Name != "p" || p.Timeout != time.Minute || p.Memory != 3*gib || p.Pids != 7 || p.Output != Default().Output {
		t.Errorf("single values: %+v", p)
	}
	if want := []string{dir + "/a", dir + "/b", "c"}; !slices.Equal(p.Deny, want) {
		t.Errorf("deny is %q, want %q", p.Deny, want)
	}
	if want := []string{"X=base", "X=file"}; !slices.Equal(p.Env, want) {
		t.Errorf("set is %q, want %q, of which the last counts", p.Env, want)
	}
	if want := map[string]string{"model": "flag", "kept": "base"}; !reflect.DeepEqual(LabelsOf(p.Labels), want) {
		t.Errorf("labels are %q, want %q", LabelsOf(p.Labels), want)
	}
	if !slices.Equal(p.EnvPass, []string{"A", "B"}) || len(p.Tmpfs) != 1 || len(p.Require) != 1 {
		t.Errorf("lists: %+v", p)
	}
	var flags []string
	for _, g := range p.Grants {
		flags = append(flags, g.Flag+" "+g.Source)
	}
	// The policy's own file lies in the write grant if that is where tests have their folders.
	if !slices.Contains(flags, "--rw /tmp") || !slices.Contains(flags, "--ro /srv") {
		t.Errorf("grants are %q", flags)
	}
}

// Without any file the flags are the policy, as if there were no files at all.
func TestCombinePlain(t *testing.T) {
	dir := t.TempDir()
	r := request(t, dir, "", setFlags{"memory": func(p *Policy) { p.Memory = 1 }, "disk": func(p *Policy) { p.Disk = gib }})
	p := combined(t, r, nil)
	want := r.Flags
	want.Fsize = gib
	if !reflect.DeepEqual(p, want) {
		t.Errorf("got %+v\nwant %+v", p, want)
	}
	named := combined(t, Request{Named: "default", Flags: r.Flags, Changed: r.Changed, Host: r.Host, Ceiling: r.Ceiling}, nil)
	named.Fsize = gib // the default states it
	if !reflect.DeepEqual(named, want) {
		t.Errorf("by name %+v\nwant %+v", named, want)
	}
}

func TestCombineTerminal(t *testing.T) {
	dir := write(t, map[string]string{"p.yaml": "version: 1\nlimits: {memory: 1G}\n", "timed.yaml": "version: 1\nlimits: {timeout: 7}\n"})
	for _, tt := range []struct {
		named   string
		flags   setFlags
		ceiling string
		want    time.Duration
	}{
		{"", nil, "", 0},
		{"", setFlags{"timeout": func(p *Policy) { p.Timeout = 5 * time.Second }}, "", 5 * time.Second},
		{dir + "/p.yaml", nil, "", 0},
		{dir + "/timed.yaml", nil, "", 7 * time.Second},
		{"agent", nil, "", 2 * time.Minute},
		{"", nil, "limits: {timeout: 10m}", 10 * time.Minute},
		{"", nil, "limits: {timeout: 10s}", 10 * time.Second},
	} {
		r := request(t, dir, tt.named, tt.flags)
		r.Terminal = true
		var ceiling *Document
		if tt.ceiling != "" {
			ceiling = parse(t, tt.ceiling)
		}
		if got := combined(t, r, ceiling).Timeout; got != tt.want {
			t.Errorf("%s under %q: timeout %v, want %v", tt.named, tt.ceiling, got, tt.want)
		}
	}
}

// Of each key one case that loosens and is refused, and one that tightens and is taken.
func TestWorkspaceFile(t *testing.T) {
	base := "version: 1\nname: base\nworkspace: {mode: overlay}\nlimits: {timeout: 30s, grace: 2s, cpu_time: 20s, memory: 1G, processes: 64, cpus: 2, disk: 1G, output: 1M, nofile: 512, fsize: 1M, net_connections: 4, net_rate: 2, net_bytes_in: 1G, net_bytes_out: 1G, net_idle: 1m, net_total: 1h}\n" +
		"network: {allow: [\"a.org:80,443\", \"*.a.org\", \"10.0.0.0/16:22\"], refuse_host: true}\ngroups: {known: [\"a.org:80\"], other: [\"b.org:1\"]}\n" +
		"environment: {pass: [A]}\nsyscalls: {allow: [ptrace]}\naudit: {required: true}\ngate: {max_limit_hits: 3}\n"
	for _, tt := range []struct{ key, loose, tight string }{
		{"workspace.path", "workspace: {path: /}", ""},
		{"workspace.mode", "workspace: {mode: rw}", "workspace: {mode: ro}"},
		{"filesystem.read", "filesystem: {read: [/root]}", "filesystem: {read: []}"},
		{"filesystem.execute", "filesystem: {execute: [.]}", "filesystem: {execute: []}"},
		{"filesystem.write", "filesystem: {write: [.]}", "filesystem: {write: []}"},
		{"filesystem.deny", "", "filesystem: {deny: [.env]}"},
		{"environment.pass", "environment: {pass: [AWS_SECRET_ACCESS_KEY]}", "environment: {pass: [A]}"},
		{"environment.set", "environment: {set: {LD_PRELOAD: x}}", ""},
		{"network.mode", "network: {mode: host}", "network: {mode: none}"},
		{"network.allow", "network: {allow: [b.org]}", "network: {allow: [\"a.org:80\"]}"},
		{"network.allow", "network: {allow: [\"a.org:8080\"]}", "network: {allow: [\"x.sub.a.org:443\"]}"},
		{"network.allow", "network: {allow: [\"10.0.0.0/15:22\"]}", "network: {allow: [\"10.0.7.0/24:22\", \"10.0.0.1:22\"]}"},
		{"network.allow", "network: {allow: [\"*.a.org:80\"]}", "network: {allow: [\"@known\"]}"},
		{"network.allow", "network: {allow: [\"@unknown\"]}", "network: {allow: [\"*.deep.a.org\"]}"},
		{"network.refuse_host", "network: {refuse_host: false}", "network: {refuse_host: true}"},
		{"groups", "groups: {known: [evil.org]}", ""},
		{"limits.net_connections", "limits: {net_connections: 0}", "limits: {net_connections: 3}"},
		{"limits.net_rate", "limits: {net_rate: 9}", "limits: {net_rate: 0.5}"},
		{"limits.net_bytes_in", "limits: {net_bytes_in: 2G}", "limits: {net_bytes_in: 1}"},
		{"limits.net_bytes_out", "limits: {net_bytes_out: 0}", "limits: {net_bytes_out: 1}"},
		{"limits.net_idle", "limits: {net_idle: 2m}", "limits: {net_idle: 1s}"},
		{"limits.net_total", "limits: {net_total: 2h}", "limits: {net_total: 1s}"},
		{"limits.timeout", "limits: {timeout: 31s}", "limits: {timeout: 3s}"},
		{"limits.timeout", "limits: {timeout: 0}", "limits: {timeout: 30s}"},
		{"limits.grace", "limits: {grace: 3s}", "limits: {grace: 0}"},
		{"limits.cpu_time", "limits: {cpu_time: 0}", "limits: {cpu_time: 1s}"},
		{"limits.memory", "limits: {memory: 2G}", "limits: {memory: 1M}"},
		{"limits.processes", "limits: {processes: 65}", "limits: {processes: 1}"},
		{"limits.cpus", "limits: {cpus: 2.5}", "limits: {cpus: 0.5}"},
		{"limits.disk", "limits: {disk: 0}", "limits: {disk: 1M}"},
		{"limits.output", "limits: {output: 2M}", "limits: {output: 1k}"},
		{"limits.nofile", "limits: {nofile: 0}", "limits: {nofile: 32}"},
		{"limits.fsize", "limits: {fsize: 2M}", "limits: {fsize: 1k}"},
		{"syscalls.allow", "syscalls: {allow: [mount]}", "syscalls: {allow: [ptrace]}"},
		{"syscalls.deny", "", "syscalls: {deny: [socket]}"},
		{"syscalls.profile", "syscalls: {profile: x.json}", ""},
		{"require", "", "require: [landlock]"},
		{"audit.required", "audit: {required: false}", "audit: {required: true}"},
		{"gate.window", "gate: {window: 1s}", ""},
		{"gate.max_escape_attempts", "gate: {max_escape_attempts: 0}", ""},
		{"gate.max_limit_hits", "gate: {max_limit_hits: 9}", ""},
		{"gate.max_teardown", "gate: {max_teardown: 0}", ""},
		{"gate.max_quarantined", "gate: {max_quarantined: 0}", ""},
		{"labels", "labels: {model: other}", ""},
		{"name", "name: other", ""},
		{"extends", "extends: build", ""},
	} {
		dir := write(t, map[string]string{"base.yaml": base})
		if tt.loose != "" {
			if err := os.WriteFile(dir+"/"+WorkspaceFile, []byte("version: 1\n"+tt.loose), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := combine(request(t, dir, dir+"/base.yaml", nil), nil)
			if err == nil || !strings.HasPrefix(err.Error(), "policy "+dir+"/.gobox.yaml:2: "+tt.key+": ") {
				t.Errorf("%s: error %v, want one of line 2 about %s", tt.loose, err, tt.key)
			}
		}
		if tt.tight != "" {
			if err := os.WriteFile(dir+"/"+WorkspaceFile, []byte("version: 1\n"+tt.tight), 0o600); err != nil {
				t.Fatal(err)
			}
			p := combined(t, request(t, dir, dir+"/base.yaml", nil), nil)
			if p.Name != "base" {
				t.Errorf("%s: the policy is called %s", tt.tight, p.Name)
			}
			d := parse(t, tt.tight)
			i := slices.IndexFunc(fields(), func(f field) bool { return f.path == tt.key })
			f := fields()[i]
			// What is asked for is in force.
			if f.looser != nil && f.looser(&p, &d.policy) != "" && !f.lists() {
				t.Errorf("%s: is not in force: %s", tt.tight, f.looser(&p, &d.policy))
			}
		}
	}
	// The table above knows every key.
	for _, f := range fields() {
		if !f.notWorkspace && f.looser == nil && !f.adds {
			t.Errorf("%s: neither checked nor refused in a workspace's file", f.path)
		}
	}
}

func TestWorkspaceFileIsCareful(t *testing.T) {
	dir := write(t, map[string]string{WorkspaceFile: "version: 1\nlimits: {timeout: 3}\n"})
	sub := dir + "/sub"
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	timeout := func(r Request) time.Duration { t.Helper(); return combined(t, r, nil).Timeout }
	if got := timeout(request(t, dir, "", nil)); got != 3*time.Second {
		t.Errorf("in the current directory: %v", got)
	}
	if got := timeout(request(t, sub, "", nil)); got != 30*time.Second {
		t.Errorf("not the workspace's own: %v", got)
	}
	for name, flags := range map[string]setFlags{
		"--workspace":      {"workspace": func(p *Policy) { p.Workspace.Path, p.Workspace.Explicit = "..", true }},
		"--workspace /abs": {"workspace": func(p *Policy) { p.Workspace.Path, p.Workspace.Explicit = dir, true }},
	} {
		if got := timeout(request(t, sub, "", flags)); got != 3*time.Second {
			t.Errorf("%s: %v", name, got)
		}
	}
	none := setFlags{"workspace-mode": func(p *Policy) { p.Workspace.Mode = ModeNone }}
	if got := timeout(request(t, dir, "", none)); got != 30*time.Second {
		t.Errorf("no workspace: %v", got)
	}
	r := request(t, dir, "", nil)
	r.NoWorkspaceFile = true
	if got := timeout(r); got != 30*time.Second {
		t.Errorf("left out: %v", got)
	}
	// A flag is the caller's own word.
	more := setFlags{"timeout": func(p *Policy) { p.Timeout = time.Minute }}
	if got := timeout(request(t, dir, "", more)); got != time.Minute {
		t.Errorf("--timeout 1m: %v", got)
	}
	// One that the caller names is trusted.
	if err := os.WriteFile(dir+"/"+WorkspaceFile, []byte("version: 1\nname: own\nlimits: {timeout: 1h}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := timeout(request(t, dir, dir+"/"+WorkspaceFile, nil)); got != time.Hour {
		t.Errorf("named: %v", got)
	}
	// It turns a workspace off.
	if err := os.WriteFile(dir+"/"+WorkspaceFile, []byte("version: 1\nworkspace: {mode: none}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := combined(t, request(t, dir, "", nil), nil).Workspace; got != (Workspace{Mode: ModeNone}) {
		t.Errorf("mode none: %+v", got)
	}
	for _, make := range []func(string) error{
		func(name string) error { return os.Symlink("/etc/passwd", name) },
		func(name string) error { return os.Mkdir(name, 0o755) },
	} {
		place := sub + "/" + WorkspaceFile
		if err := make(place); err != nil {
			t.Fatal(err)
		}
		_, err := combine(request(t, sub, "", nil), nil)
		if err == nil || strings.Contains(err.Error(), "root:") {
			t.Errorf("no regular file: %v", err)
		}
		os.Remove(place)
	}
}

// Of each key one request beyond the ceiling, refused by its line, and what becomes of the default under it.
func TestCeiling(t *testing.T) {
	dir := write(t, map[string]string{"profile.json": "{}"})
	for _, sub := range []string{"/open", "/open/below", "/closed"} {
		if err := os.Mkdir(dir+sub, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	grant := func(source string, write, exec bool) func(*Policy) {
		return func(p *Policy) {
			p.Grants = []Grant{{Flag: grantFlag(write, exec), Source: source, Write: write, Exec: exec}}
		}
	}
	in := func(path string) func(*Policy) {
		return func(p *Policy) { p.Workspace.Path, p.Workspace.Explicit = path, true }
	}
	allow := func(rules ...string) func(*Policy) { return func(p *Policy) { p.AllowNet = rules } }
	host := func(p *Policy) { p.Net = NetHost }
	for _, tt := range []struct {
		ceiling, key string
		beyond, in   setFlags
	}{
		{"workspace: {path: " + dir + "/open}", "workspace.path", setFlags{"workspace": in(dir + "/closed")}, setFlags{"workspace": in(dir + "/open/below")}},
		{"workspace: {path: " + dir + "/open}", "workspace.path", setFlags{"workspace": in(dir + "/open/../closed")}, setFlags{"workspace": in(dir + "/open")}},
		{"workspace: {mode: overlay}", "workspace.mode", setFlags{"workspace-mode": func(p *Policy) { p.Workspace.Mode = ModeReadWrite }}, nil},
		{"filesystem: {read: [" + dir + "/open]}", "filesystem.read", setFlags{"ro": grant(dir+"/closed", false, false)}, setFlags{"ro": grant(dir+"/open/below", false, false)}},
		{"filesystem: {read: []}", "filesystem.read", setFlags{"rw": grant(dir+"/open", true, false)}, nil},
		{"filesystem: {write: []}", "filesystem.write", setFlags{"rw": grant(dir+"/open", true, false)}, setFlags{"ro": grant(dir+"/open", false, false)}},
		{"filesystem: {execute: []}", "filesystem.execute", setFlags{"rox": grant(dir+"/open", false, true)}, setFlags{"rw": grant(dir+"/open", true, false)}},
		{"filesystem: {read: [" + dir + "/open]}", "filesystem.read", setFlags{"rootfs": func(p *Policy) { p.Rootfs = dir + "/closed" }}, setFlags{"rootfs": func(p *Policy) { p.Rootfs = dir + "/open/below" }}},
		{"filesystem: {execute: []}", "filesystem.execute", setFlags{"rootfs": func(p *Policy) { p.Rootfs = dir + "/open" }}, nil},
		{"environment: {pass: [LANG]}", "environment.pass", setFlags{"env-pass": func(p *Policy) { p.EnvPass = []string{"TOKEN"} }}, setFlags{"env-pass": func(p *Policy) { p.EnvPass = []string{"LANG"} }}},
		{"limits: {net_rate: 2}", "limits.net_rate", setFlags{"net-rate": func(p *Policy) { p.NetLimits.Rate = 3 }}, nil},
		{"network: {allow: [\"*.a.org:443\"]}", "network.allow", setFlags{"allow-net": allow("a.org:443")}, setFlags{"allow-net": allow("b.a.org")}},
		{"network: {allow: []}", "network.allow", setFlags{"allow-net": allow("b.a.org")}, nil},
		{"network: {mode: none}", "network.mode", setFlags{"allow-net": allow("b.a.org")}, nil},
		{"network: {mode: none}", "network.mode", setFlags{"net": host}, nil},
		{"network: {allow: [\"@some\"]}\ngroups: {some: [b.org]}", "network.allow", setFlags{"allow-net": allow("b.org:444")}, setFlags{"allow-net": allow("@some")}},
		{"limits: {timeout: 10s}", "limits.timeout", setFlags{"timeout": func(p *Policy) { p.Timeout = 11 * time.Second }}, setFlags{"timeout": func(p *Policy) { p.Timeout = time.Second }}},
		{"limits: {timeout: 10s}", "limits.timeout", setFlags{"timeout": func(p *Policy) { p.Timeout = 0 }}, nil},
		{"limits: {grace: 0}", "limits.grace", setFlags{"grace": func(p *Policy) { p.Grace = 1 }}, nil},
		{"limits: {memory: 1M}", "limits.memory", setFlags{"memory": func(p *Policy) { p.Memory = 2 * mib }}, nil},
		{"limits: {cpus: 1}", "limits.cpus", setFlags{"cpus": func(p *Policy) { p.CPUs = 2 }}, nil},
		{"limits: {fsize: 1M}", "limits.fsize", setFlags{"fsize": func(p *Policy) { p.Fsize = 0 }}, setFlags{"disk": func(p *Policy) { p.Disk = gib }}},
		{"syscalls: {allow: []}", "syscalls.allow", setFlags{"allow-syscall": func(p *Policy) { p.AllowSyscall = []string{"mount"} }}, nil},
		{"syscalls: {deny: [ptrace]}", "syscalls.deny", setFlags{"seccomp": func(p *Policy) { p.SeccompFile = dir + "/profile.json" }}, nil},
		{"syscalls: {profile: " + dir + "/profile.json}", "syscalls.profile", setFlags{"seccomp": func(p *Policy) { p.SeccompFile = "/etc/passwd" }}, setFlags{"seccomp": func(p *Policy) { p.SeccompFile = dir + "/open/../profile.json" }}},
	} {
		_, err := combine(request(t, dir, "", tt.beyond), parse(t, tt.ceiling))
		if err == nil || !strings.HasPrefix(err.Error(), "policy p.yaml:2: "+tt.key+": ") {
			t.Errorf("%s: error %v, want one about %s", tt.ceiling, err, tt.key)
		}
		if strings.HasPrefix(tt.ceiling, "workspace: {path") && tt.in == nil {
			continue
		}
		if _, err := combine(request(t, dir, "", tt.in), parse(t, tt.ceiling)); err != nil {
			t.Errorf("%s: within it: %v", tt.ceiling, err)
		}
	}
	for _, f := range fields() {
		if !f.notCeiling && f.looser == nil && f.bounds == nil && !f.adds {
			t.Errorf("%s: no ceiling is checked", f.path)
		}
	}
}

// What a ceiling adds is there whatever is asked for, and policies are held to it like flags.
func TestCeilingHolds(t *testing.T) {
	dir := write(t, map[string]string{
		"loose.yaml": "version: 1\naudit: {required: false}\n",
		"gate.yaml":  "version: 1\ngate: {max_limit_hits: 9}\n",
		"short.yaml": "version: 1\ngate: {window: 1s}\n",
		"host.yaml":  "version: 1\nnetwork: {mode: host}\n",
	})
	ceiling := func() *Document {
		return parse(t, "filesystem: {deny: [/srv/keys]}\nrequire: [landlock]\nsyscalls: {deny: [ptrace]}\naudit: {required: true}\ngate: {window: 1h, max_limit_hits: 2}\nlimits: {memory: 2G}\n")
	}
	p := combined(t, request(t, dir, "", nil), ceiling())
	if !p.AuditRequired || p.Gate.Window != time.Hour || *p.Gate.MaxLimitHits != 2 || !slices.Contains(p.Deny, "/srv/keys") ||
		!slices.Contains(p.Require, LayerLandlock) || !slices.Contains(p.DenySyscall, "ptrace") || p.Memory != Default().Memory {
		t.Errorf("default under the ceiling: %+v", p)
	}
	for named, want := range map[string]string{
		dir + "/loose.yaml": "policy p.yaml:5: audit.required: false",
		dir + "/gate.yaml":  "policy p.yaml:6: gate.max_limit_hits: 9 is more than 2",
		dir + "/short.yaml": "policy p.yaml:6: gate.window: ",
		dir + "/host.yaml":  "policy p.yaml: network.mode: the host's network is not in the ceiling",
		"build":             "policy p.yaml:7: limits.memory: 4GiB is more than 2GiB",
	} {
		if _, err := combine(request(t, dir, named, nil), ceiling()); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", named, err, want)
		}
	}
	less := setFlags{"memory": func(p *Policy) { p.Memory = gib }}
	if p := combined(t, request(t, dir, "build", less), ceiling()); p.Pids != 1024 {
		t.Errorf("build with less memory: %+v", p)
	}
}
