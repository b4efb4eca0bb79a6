package policy

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gobox/egress"
	"gobox/landlock"
	"gobox/namespaces"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", "plan", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		t.Errorf("plan differs from %s (go test ./policy -update writes it):\n%s", file, difference(string(want), got))
	}
}

// difference shows the lines that are in one text only.
func difference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	var out strings.Builder
	for _, line := range a {
		if !slices.Contains(b, line) {
			out.WriteString("- " + line + "\n")
		}
	}
	for _, line := range b {
		if !slices.Contains(a, line) {
			out.WriteString("+ " + line + "\n")
		}
	}
	return out.String()
}

type situation struct {
	name string
	host Host
	edit func(p *Policy)
}

func situations() []situation {
	linked := debian().link("/data", "/srv/data").dir("/srv/data/proj", 1000).link("/srv/data/current", "proj")
	return []situation{
		{"debian-user", fakeHost(debian(), 1000, "/home/ann", "/home/ann/work"), nil},
		{"scratch", fakeHost(debian().dir("/var/tmp", 0), 1000, "/home/ann", "/home/ann/work"), func(p *Policy) { p.Scratch = "/var/tmp" }},
		{"root-root-workspace", fakeHost(debian(), 0, "/root", "/proj/app"), func(p *Policy) { p.Workspace.Mode = ModeReadWrite }},
		{"root-user-workspace", fakeHost(debian(), 0, "/root", "/home/ann/work"), func(p *Policy) {
			p.Workspace.Mode = ModeReadWrite
			p.Grants = []Grant{{Flag: "--ro", Source: "/home/ann/data"}, {Flag: "--rox", Source: "/usr/lib", Exec: true}}
		}},
		{"split-usr", fakeHost(split(), 1000, "/home/ann", "/home/ann/work"), nil},
		{"symlinked-workspace", fakeHost(linked, 1000, "/home/ann", "/data/current"), nil},
		{"no-workspace", fakeHost(debian(), 1000, "/home/ann", "/home/ann"), func(p *Policy) {
			p.Workspace.Mode = ModeNone
			p.Argv = []string{"/bin/cat", "-"}
		}},
		{"rootfs", fakeHost(debian().image("/srv/image"), 1000, "/home/ann", "/home/ann/work"), func(p *Policy) {
			p.Rootfs = "/srv/image"
			p.Argv = []string{"app"}
		}},
		{"grants", fakeHost(debian(), 1000, "/home/ann", "/home/ann/work"), func(p *Policy) {
			p.Workspace.Mode = ModeReadWrite
			p.Grants = []Grant{
				{Flag: "--ro", Source: "../data", Dest: "/data"},
				{Flag: "--rw", Source: "/srv", Write: true},
				{Flag: "--ro", Source: "/home/ann/work/.env"},
				{Flag: "--ro", Source: "/mnt", Dest: "/opt/input"},
			}
			p.Deny = []string{"app.py", "/usr/bin/bash", "/etc/mime.types", "/home/ann/data/nothing"}
			p.Tmpfs = []Tmpfs{{Dest: "/scratch"}, {Dest: "/big", Size: 1 << 30}}
			p.Env = []string{"A=1", "LANG=C"}
			p.EnvPass = []string{"AWS_SECRET_ACCESS_KEY", "ABSENT"}
			p.CPUTime, p.Address, p.Nofile, p.Disk = 5*time.Second, 4<<30, 0, 0
		}},
		{"network", fakeHost(debian(), 1000, "/home/ann", "/home/ann/work"), func(p *Policy) {
			p.AllowNet = []string{"@registry", "10.0.2.9:5432", "example.org:443", "[2001:db8::/64]:22"}
			p.Groups = []NetGroup{{"registry", []string{"*.Example.org:443,8000-8002", "example.org"}}}
			p.NetLimits = egress.Limits{Connections: 9, Rate: 2.5, BytesIn: 1 << 30, Idle: time.Minute}
			p.Credentials = []egress.Credential{{Host: "example.org", Port: 443, Header: "Authorization", Env: "TOKEN"}}
			p.Publish = []Publish{{"127.0.0.1", 8080, 80}, {"::1", 8443, 443}}
		}},
		{"network-host", fakeHost(debian().file("/run/resolved.conf", "nameserver 192.0.2.53\n", 0).link("/etc/resolv.conf", "../run/resolved.conf"), 1000, "/home/ann", "/home/ann/work"), func(p *Policy) {
			p.Net = NetHost
		}},
		{"terminal", fakeHost(debian(), 1000, "/home/ann", "/home/ann/work"), func(p *Policy) { p.TTY = true }},
		{"missing-landlock", func() Host {
			h := fakeHost(debian(), 65534, "/nonexistent", "/proj/app")
			h.LandlockABI = 0
			return h
		}(), func(p *Policy) { p.AllowMissing = []Layer{LayerLandlock} }},
	}
}

func (s situation) plan(t *testing.T) *Plan {
	t.Helper()
	p := Default()
	p.Argv = []string{"python3", "app.py"}
	if s.edit != nil {
		s.edit(&p)
	}
	return must(t, p, s.host)
}

func TestPlan(t *testing.T) {
	for _, s := range situations() {
		t.Run(s.name, func(t *testing.T) {
			var text strings.Builder
			if err := s.plan(t).WriteText(&text); err != nil {
				t.Fatal(err)
			}
			// The filter is the business of package seccomp, which has golden files of its own.
			body, _, _ := strings.Cut(text.String(), "\nseccomp:")
			golden(t, s.name+".txt", body)
		})
	}
}

// What holds for every plan, whatever the golden files say.
func TestPlanInvariants(t *testing.T) {
	for _, s := range situations() {
		t.Run(s.name, func(t *testing.T) {
			plan := s.plan(t)
			made := map[string]namespaces.Op{}
			steps := plan.Tree.Steps
			for i, step := range steps {
				if (step.Op == namespaces.OpPivot) != (i == len(steps)-1) {
					t.Errorf("step %d of %d is %s", i, len(steps), step.Op)
				}
				if cleanPath(step.Target) != step.Target || step.Target[0] != '/' {
					t.Errorf("step %d: target %q is not clean", i, step.Target)
				}
				if step.Op == namespaces.OpPivot {
					continue
				}
				if step.Op != namespaces.OpMask && made[step.Target] != "" {
					t.Errorf("step %d: %s is made twice", i, step.Target)
				}
				for place, op := range made {
					if below(step.Target, place) && op != namespaces.OpDir && step.Op != namespaces.OpDir {
						t.Errorf("step %d: %s %s hides the earlier %s %s", i, step.Op, step.Target, op, place)
					}
					if below(place, step.Target) && op == namespaces.OpSymlink {
						t.Errorf("step %d: %s is below the link %s", i, step.Target, place)
					}
				}
				made[step.Target] = step.Op
				if step.Op == namespaces.OpBind {
					checkBind(t, s.host, plan, step)
				}
			}
			for _, rule := range plan.Landlock.Rules {
				if rule.Path == "/" && rule.Access != landlock.List {
					t.Errorf("landlock grants %v on /", rule.Access)
				}
				if made[rule.Path] == namespaces.OpSymlink {
					t.Errorf("landlock rule on the link %s", rule.Path)
				}
			}
			if id := plan.Identity; id.HostUID == 0 || id.HostGID == 0 || id.UID == 0 || id.GID == 0 {
				t.Errorf("the command is root: %+v", id)
			}
			for _, kv := range plan.Exec.Env {
				if strings.HasPrefix(kv, "LD_") || strings.Contains(kv, "canary") && s.name != "grants" {
					t.Errorf("environment holds %s", kv)
				}
			}
		})
	}
}

func checkBind(t *testing.T, h Host, plan *Plan, step namespaces.Step) {
	t.Helper()
	if step.Attr&(namespaces.NoSuid|namespaces.NoDev) != namespaces.NoSuid|namespaces.NoDev {
		t.Errorf("%s is mounted %s", step.Target, step.Attr)
	}
	real, err := resolvePath(h.FS, "", step.Source)
	if err != nil || real.Path != step.Source {
		t.Errorf("source %s is %s, %v", step.Source, real.Path, err)
	}
	for _, secret := range []string{"/etc/shadow", "/etc/ssh", "/etc/ssl/private", "/home/ann/.ssh/id_ed25519", "/run", "/sys", "/boot", "/etc/npmrc", "/etc/gitconfig"} {
		if within(step.Source, secret) {
			t.Errorf("bind of %s shows %s", step.Source, secret)
		}
	}
	if step.Owner != nil && (!plan.Identity.Root || onSystem(step.Source) && step.Why == whySystem) {
		t.Errorf("%s has an idmapped owner", step.Target)
	}
	if plan.Identity.Root && step.Owner == nil && step.Why == whyWorkspace {
		t.Errorf("the workspace has no idmapped owner")
	}
}

func TestPlanJSON(t *testing.T) {
	var text strings.Builder
	if err := situations()[2].plan(t).WriteJSON(&text); err != nil {
		t.Fatal(err)
	}
	body, _, _ := strings.Cut(text.String(), `"seccomp"`)
	golden(t, "root-user-workspace.json", body)
}

func TestRefusals(t *testing.T) {
	large := debian()
	for i := range maxSplit {
		large.tool("/usr/bin/tool" + strconv.Itoa(i))
	}
	many := debian()
	for i := range 300 {
		many.dir("/data/d"+strconv.Itoa(i), 1000)
	}
	profile := func(text string) Host {
		return fakeHost(debian().file("/home/ann/work/profile.json", text, 1000), 1000, "/home/ann", "/home/ann/work")
	}
	user := fakeHost(debian().link("/home/ann/work/up", "..").dir("/run/user/1000", 1000).dir("/run/docker", 0).dir("/dev/pts", 0), 1000, "/home/ann", "/home/ann/work")
	at := func(dir string) Host { h := user; h.Dir = dir; return h }
	grant := func(flag, source, dest string) func(*Policy) {
		return func(p *Policy) {
			p.Grants = append(p.Grants, Grant{Flag: flag, Source: source, Dest: dest, Write: strings.Contains(flag, "w"), Exec: strings.Contains(flag, "x")})
		}
	}
	workspace := func(dir string, mode Mode) func(*Policy) {
		return func(p *Policy) { p.Workspace = Workspace{Path: dir, Mode: mode, Explicit: true} }
	}
	deny := func(path string, mode Mode) func(*Policy) {
		return func(p *Policy) { p.Workspace.Mode, p.Deny = mode, []string{path} }
	}
	for _, tt := range []struct {
		name string
		host Host
		edit func(*Policy)
		code int
		want string // part of the message
		hint string // part of the hint
	}{
		{"no command", user, func(p *Policy) { p.Argv = nil }, 125, "no command given", "gobox run -- COMMAND"},
		{"empty command", user, func(p *Policy) { p.Argv = []string{""} }, 125, "no command given", ""},
		{"NUL in an argument", user, func(p *Policy) { p.Argv = []string{"cat", "a\x00b"} }, 125, "NUL", ""},
		{"unknown command", user, func(p *Policy) { p.Argv = []string{"nothere"} }, 127, "exec nothere", ""},
		{"missing path", user, func(p *Policy) { p.Argv = []string{"./nothere"} }, 127, "nothere", ""},
		{"not executable", user, func(p *Policy) { p.Argv = []string{"./app.py"} }, 126, "app.py", ""},
		{"a folder", user, func(p *Policy) { p.Argv = []string{"/usr"} }, 126, "/usr", ""},

		{"current directory is /", at("/"), nil, 125, "workspace /", "--workspace DIR"},
		{"current directory is HOME", at("/home/ann"), nil, 125, "holds your home", "--workspace-mode none"},
		{"current directory is above HOME", at("/home"), nil, 125, "holds your home", ""},
		{"current directory is /usr", at("/usr"), nil, 125, "system folder", ""},
		{"current directory is /tmp", at("/tmp"), nil, 125, "everybody's", ""},
		{"current directory is /etc/ssl", at("/etc/ssl"), nil, 125, "belongs to the system", ""},
		{"current directory is /run", at("/run"), nil, 125, "belongs to the system", ""},
		{"current directory is unreachable", at(""), nil, 125, "cannot be named", "cd to a folder"},
		{"current directory is in /proc", at("/proc/acpi"), nil, 125, "/proc", ""},
		{"workspace /", user, workspace("/", ModeReadOnly), 125, "no workspace in any mode", ""},
		{"workspace /etc", user, workspace("/etc", ModeReadOnly), 125, "never visible", ""},
		{"workspace /dev", user, workspace("/dev", ModeReadOnly), 125, "never visible", ""},
		{"workspace in /sys", user, workspace("/sys/kernel", ModeReadOnly), 125, "never visible", ""},
		{"workspace by a magic link", user, workspace("/proc/self/cwd", ModeReadOnly), 125, "/proc", ""},
		{"workspace /usr writable", user, workspace("/usr", ModeReadWrite), 125, "read-only in every sandbox", ""},
		{"workspace is a file", user, workspace("app.py", ModeReadOnly), 125, "not a directory", "--ro FILE"},
		{"workspace is missing", user, workspace("gone", ModeReadOnly), 125, "no such file", ""},
		{"workspace mode unknown", user, workspace(".", "copy"), 125, "no such mode", "ro, rw and none"},
		{"workspace and none", user, workspace(".", ModeNone), 125, "contradict", ""},

		{"grant /", user, grant("--ro", "/", ""), 125, "whole host", ""},
		{"grant /etc", user, grant("--ro", "/etc", ""), 125, "never visible", "--ro /etc/FILE"},
		{"grant /proc", user, grant("--ro", "/proc/keys", ""), 125, "/proc", ""},
		{"grant a device", user, grant("--rw", "/dev/sda", ""), 125, "/dev", ""},
		{"grant /sys", user, grant("--ro", "/sys/kernel", ""), 125, "no /sys", ""},
		{"grant /usr writable", user, grant("--rwx", "/usr", ""), 125, "read-only in every sandbox", ""},
		{"grant what is missing", user, grant("--ro", "/home/ann/gone", ""), 125, "no such file", ""},
		{"grant nothing", user, grant("--ro", "/srv\x00", ""), 125, "NUL", ""},
		{"grant twice", user, func(p *Policy) { grant("--ro", "/srv", "")(p); grant("--rw", "/srv", "")(p) }, 125, "already taken by --ro", ""},
		{"grant on the workspace", user, grant("--rwx", ".", ""), 125, "already taken by workspace", ""},
		{"place is relative", user, grant("--ro", "/srv", "x"), 125, "absolute", ""},
		{"place with ..", user, grant("--ro", "/srv", "/a/../etc"), 125, "must not contain", ""},
		{"place /", user, grant("--ro", "/srv", "/"), 125, "belongs to the sandbox", ""},
		{"place /etc", user, grant("--ro", "/srv", "/etc"), 125, "belongs to the sandbox", ""},
		{"place in /proc", user, grant("--ro", "/srv", "/proc/x"), 125, "belongs to the sandbox", ""},
		{"place in /dev", user, grant("--ro", "/srv", "/dev/shm"), 125, "belongs to the sandbox", ""},
		{"place /usr", user, grant("--ro", "/srv", "/usr"), 125, "cannot be replaced", "--rootfs"},
		{"place /bin, a link", user, grant("--ro", "/srv", "/bin"), 125, "cannot be replaced", ""},
		{"tmpfs on a link to the workspace", fakeHost(debian().link("/ws", "/proj/app"), 1000, "/home/ann", "/ws"), func(p *Policy) { p.Tmpfs = []Tmpfs{{Dest: "/ws"}} }, 125, "already taken by workspace", ""},
		{"place missing in the workspace", user, grant("--ro", "/srv", "/home/ann/work/sub"), 125, "no such file", "makes nothing there"},
		{"folder on a file", user, grant("--ro", "/srv", "/home/ann/work/app.py"), 125, "folder on one side", ""},
		{"place behind a link of the host", user, grant("--ro", "/srv", "/home/ann/work/up/data"), 125, "really /home/ann/data", ""},
		{"place missing in a large folder", fakeHost(large, 1000, "/home/ann", "/home/ann/work"), grant("--ro", "/srv", "/bin/new"), 125, "mount /usr/bin: lacks a place", ""},
		{"tmpfs missing in the workspace", user, func(p *Policy) { p.Tmpfs = []Tmpfs{{Dest: "/home/ann/work/t"}} }, 125, "no such file", ""},
		{"tmpfs on a grant", user, func(p *Policy) { grant("--ro", "/srv", "")(p); p.Tmpfs = []Tmpfs{{Dest: "/srv"}} }, 125, "already taken", ""},

		{"deny what the command can create", user, deny(".git", ModeReadWrite), 125, "does not exist", "create it empty"},
		{"deny what nothing could bring", user, deny("/home/ann/nothing", ModeReadOnly), 125, "nothing that is granted", "correct the path"},
		{"deny below what is not there", user, deny("nothing/.env", ModeReadOnly), 125, "nothing that is granted", ""},
		{"deny the workspace", user, deny(".", ModeReadOnly), 125, "would hide all of", ""},
		{"deny above the workspace", user, deny("/home", ModeReadOnly), 125, "would hide all of", ""},
		{"deny /usr", user, deny("/usr", ModeReadOnly), 125, "would hide all of", ""},

		{"deny /dev", user, deny("/dev", ModeReadOnly), 125, "every command needs /dev", "name what"},
		{"deny /dev/null", user, deny("/dev/null", ModeReadOnly), 125, "init needs it", "leave it out"},
		{"deny /etc", user, deny("/etc/", ModeReadOnly), 125, "/etc", ""},
		{"deny in /proc", user, deny("/proc/cpuinfo", ModeReadOnly), 125, "/proc", "its own /proc"},
		{"deny a terminal's", user, func(p *Policy) { p.Deny, p.TTY = []string{"/dev/pts"}, true }, 125, "terminal of its own", ""},

		{"grant /run", user, grant("--ro", "/run", ""), 125, "sockets", "--ro /run/NAME"},
		{"grant /var/run", fakeHost(debian().link("/var/run", "/run"), 1000, "/home/ann", "/home/ann/work"), grant("--ro", "/var/run/", "/mnt/x"), 125, "sockets", ""},
		{"grant XDG_RUNTIME_DIR", user, grant("--ro", "/run/user/1000", ""), 125, "sockets", "--ro /run/user/1000/NAME"},
		{"grant /run/user", user, grant("--rw", "/run/user", ""), 125, "sockets", ""},
		{"grant the engine's folder", user, grant("--ro", "/run/docker", ""), 125, "sockets", ""},
		{"grant /var with a /var/run of its own", fakeHost(debian().dir("/var/run", 0), 1000, "/home/ann", "/home/ann/work"), grant("--ro", "/var", ""), 125, "sockets", ""},
		{"workspace /run/user/1000", user, func(p *Policy) { p.Workspace = Workspace{Path: "/run/user/1000", Mode: ModeReadOnly, Explicit: true} }, 125, "sockets", "--workspace"},
		{"current directory is another's home", fakeHost(debian(), 0, "/root", "/home/ann"), nil, 125, "home of a user", "--workspace"},
		{"current directory is above another's home", fakeHost(debian().file("/etc/passwd", "bob:x:1:1::/data/people/bob:/bin/sh\n", 0).dir("/data/people", 0), 0, "/root", "/data"), nil, 125, "home of a user", ""},
		{"current directory is another's home by a link", fakeHost(debian().file("/etc/passwd", "bob:x:1:1::/people/bob:/bin/sh\n", 0).dir("/data/bob", 1).link("/people", "data"), 0, "/root", "/data/bob"), nil, 125, "home of a user", ""},
		{"more than root can grant", fakeHost(many, 0, "/root", "/proj/app"), func(p *Policy) {
			for i := range 300 {
				p.Grants = append(p.Grants, Grant{Flag: "--ro", Source: "/data/d" + strconv.Itoa(i)})
			}
		}, 125, "are more than the 240", "grant a folder"},

		{"env without value", user, func(p *Policy) { p.Env = []string{"A"} }, 125, "no value", "--env-pass"},
		{"env without name", user, func(p *Policy) { p.Env = []string{"=x"} }, 125, "no name", ""},
		{"env with a bad name", user, func(p *Policy) { p.Env = []string{"A B=x"} }, 125, "no name", ""},
		{"env with NUL", user, func(p *Policy) { p.Env = []string{"A=\x00"} }, 125, "NUL", ""},
		{"env-pass with a bad name", user, func(p *Policy) { p.EnvPass = []string{"1A"} }, 125, "no name", ""},
		{"CPU time in parts of a second", user, func(p *Policy) { p.CPUTime = 1500 * time.Millisecond }, 125, "whole seconds", ""},

		{"unknown system call", user, func(p *Policy) { p.AllowSyscall = []string{"ptarce"} }, 125, "ptrace", ""},
		{"system call allowed and denied", user, func(p *Policy) { p.AllowSyscall, p.DenySyscall = []string{"ptrace"}, []string{"ptrace"} }, 125, "both allowed and denied", ""},
		{"profile is missing", user, func(p *Policy) { p.SeccompFile = "profile.json" }, 125, "seccomp profile.json: no such file", "--seccomp takes"},
		{"profile is no JSON", profile("{"), func(p *Policy) { p.SeccompFile = "profile.json" }, 125, "profile.json:1:", ""},
		{"profile with what cannot be honoured", profile(`{"defaultAction": "SCMP_ACT_NOTIFY"}`), func(p *Policy) { p.SeccompFile = "profile.json" }, 125, "profile.json:1:", ""},
		{"no Landlock", func() Host { h := user; h.LandlockABI = 0; return h }(), nil, 125, "layer landlock", "--allow-missing landlock"},
		{"no seccomp", func() Host { h := user; h.Seccomp = false; return h }(), nil, 125, "layer seccomp", "--allow-missing seccomp"},
		{"required and missing", user, func(p *Policy) { p.Require, p.AllowMissing = []Layer{LayerLandlock}, []Layer{LayerLandlock} }, 125, "both required", ""},
		{"unknown layer", user, func(p *Policy) { p.Require = []Layer{"selinux"} }, 125, "no such layer", ""},
		{"namespaces missing", user, func(p *Policy) { p.AllowMissing = []Layer{LayerNamespaces} }, 125, "cannot be missing", ""},

		{"rootfs is missing", user, func(p *Policy) { p.Rootfs = "/gone" }, 125, "rootfs /gone", ""},
		{"rootfs is a file", user, func(p *Policy) { p.Rootfs = "app.py" }, 125, "not a directory", ""},
		{"rootfs is /", user, func(p *Policy) { p.Rootfs = "/" }, 125, "not an image", ""},
		{"command not in the rootfs", fakeHost(debian().image("/srv/image"), 1000, "/home/ann", "/home/ann/work"), func(p *Policy) { p.Rootfs = "/srv/image" }, 127, "python3", "in the image /srv/image"},
		{"command in the rootfs is no program", fakeHost(debian().image("/srv/image"), 1000, "/home/ann", "/home/ann/work"), func(p *Policy) { p.Rootfs, p.Argv = "/srv/image", []string{"text"} }, 126, "text", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := Default()
			p.Argv = []string{"python3"}
			if tt.edit != nil {
				tt.edit(&p)
			}
			plan, err := Resolve(p, tt.host)
			if err == nil {
				t.Fatalf("not refused; exec %s", plan.Exec.Path)
			}
			var refusal *Error
			if !errors.As(err, &refusal) {
				t.Fatalf("not an *Error: %T %v", err, err)
			}
			if plan != nil {
				t.Error("a plan in spite of the refusal")
			}
			if got := ExitCode(err); got != tt.code {
				t.Errorf("exit status %d, want %d", got, tt.code)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("message %q lacks %q", err, tt.want)
			}
			if !strings.Contains(refusal.Hint, tt.hint) {
				t.Errorf("hint %q lacks %q", refusal.Hint, tt.hint)
			}
		})
	}
}

// What looks dangerous at first sight but is what the caller named.
func TestAccepted(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(*Policy)
		want namespaces.Step
	}{
		{"HOME as the named workspace", func(p *Policy) { p.Workspace = Workspace{Path: "/home/ann", Mode: ModeReadOnly, Explicit: true} },
			namespaces.Step{Op: namespaces.OpBind, Target: "/home/ann"}},
		{"/tmp as the named workspace", func(p *Policy) { p.Workspace = Workspace{Path: "/tmp", Mode: ModeReadWrite, Explicit: true} },
			namespaces.Step{Op: namespaces.OpBind, Target: "/tmp"}},
		{"a file of /etc", func(p *Policy) { p.Grants = []Grant{{Flag: "--ro", Source: "/etc/resolv.conf"}} },
			namespaces.Step{Op: namespaces.OpBind, Target: "/etc/resolv.conf"}},
		{"the same grant twice", func(p *Policy) { p.Grants = []Grant{{Flag: "--ro", Source: "/srv"}, {Flag: "--ro", Source: "/srv/"}} },
			namespaces.Step{Op: namespaces.OpBind, Target: "/srv"}},
		{"scratch inside the workspace", func(p *Policy) { p.Tmpfs = []Tmpfs{{Dest: "/home/ann/work"}}; p.Workspace.Mode = ModeNone },
			namespaces.Step{Op: namespaces.OpScratch, Target: "/home/ann/work"}},
		{"HOME below the workspace", func(p *Policy) { p.Workspace = Workspace{Path: "/home", Mode: ModeReadOnly, Explicit: true} },
			namespaces.Step{Op: namespaces.OpScratch, Target: "/home/ann"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := Default()
			p.Argv = []string{"python3"}
			tt.edit(&p)
			plan := must(t, p, fakeHost(debian(), 1000, "/home/ann", "/home/ann/work"))
			found := 0
			for _, s := range plan.Tree.Steps {
				if s.Target == tt.want.Target {
					found++
					if s.Op != tt.want.Op {
						t.Errorf("%s is made by %s, want %s", s.Target, s.Op, tt.want.Op)
					}
				}
			}
			if found != 1 {
				t.Errorf("%s is made %d times", tt.want.Target, found)
			}
		})
	}
}
