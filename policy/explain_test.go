package policy

import (
	"strings"
	"testing"

	"gobox/namespaces"
)

func TestExplainPath(t *testing.T) {
	files := debian().link("/home/ann/work/out", "../data/x").link("/home/ann/work/loop", "loop").link("/home/ann/work/up", "../../../etc/passwd")
	h := fakeHost(files, 1000, "/home/ann", "/home/ann/work")
	p := Default()
	p.Argv = []string{"python3", "app.py"}
	p.Workspace.Mode = ModeReadWrite
	p.Grants = []Grant{
		{Flag: "--ro", Source: "/home/ann/data", Dest: "/data"}, {Flag: "--rox", Source: "/mnt", Exec: true},
		{Flag: "--rw", Source: "/srv", Write: true}, {Flag: "--ro", Source: "/home/ann/work/app.py"},
	}
	p.Deny = []string{"/home/ann/work/.env"}
	plan := must(t, p, h)
	for _, tt := range []struct{ path, inside, may, fix string }{ // fix: of read, write, execute, for the first that is refused
		{"/usr/bin/python3", "/usr/bin/python3.11", "rx", "none: system folders"},
		{"/bin/sh", "/usr/bin/bash", "rx", "none: system folders"},
		{"/usr/new", "/usr/new", "", "none: it is not there"},
		{"app.py", "/home/ann/work/app.py", "r", "--rw /home/ann/work/app.py"},
		{".", "/home/ann/work", "rwx", ""},
		{".env", "/home/ann/work/.env", "", "leave it out of --deny"},
		{"./../work/.env", "/home/ann/work/.env", "", "leave it out of --deny"},
		{"out", "/home/ann/data/x", "w", "none: it is not there"}, // HOME's own scratch: the data is elsewhere inside
		{"up", "/etc/passwd", "r", "--rw /etc/passwd"},
		{"/data", "/data", "r", "--rw /home/ann/data:/data in place of --ro"},
		{"/mnt", "/mnt", "rx", "--rwx /mnt in place of --rox"},
		{"/srv", "/srv", "rw", "--rwx /srv in place of --rw"},
		{"/home/ann/.ssh/id_ed25519", "/home/ann/.ssh/id_ed25519", "w", "--ro /home/ann/.ssh/id_ed25519"},
		{"/root", "/root", "", "--ro /root"},
		{"/etc/shadow", "/etc/shadow", "", "--ro /etc/shadow"},
		{"/etc", "/etc", "r", "none: this is the sandbox's own"},
		{"/", "/", "r", "none: this is the sandbox's own"},
		{"/dev/null", "/dev/null", "rw", "none: the sandbox has its own"},
		{"/dev/sda", "/dev/sda", "", "none: the sandbox has its own"},
		{"/proc/cpuinfo", "/proc/cpuinfo", "r", "none: the sandbox has its own"},
		{"/proc/keys", "/proc/keys", "", "none: the sandbox has its own"},
		{"/sys/kernel", "/sys/kernel", "", "none: the sandbox has its own"},
		{"/tmp/x", "/tmp/x", "w", "none: it is not there"},
		{"/var/tmp", "/tmp", "rwx", ""},
	} {
		a, err := plan.ExplainPath(tt.path, h)
		if err != nil {
			t.Errorf("%s: %v", tt.path, err)
			continue
		}
		may, fix := "", ""
		for _, kind := range []string{AccessRead, AccessWrite, AccessExecute} {
			if a.Allows(kind) {
				may += map[string]string{AccessRead: "r", AccessWrite: "w", AccessExecute: "x"}[kind]
			} else if fix == "" {
				fix = a.Fix(kind)
			}
		}
		if a.Path != tt.inside || may != tt.may || !strings.HasPrefix(fix, tt.fix) || (tt.fix == "") != (fix == "") {
			t.Errorf("%s: %s may %q, fix %q (%s); want %s may %q, fix %q", tt.path, a.Path, may, fix, a.Rule, tt.inside, tt.may, tt.fix)
		}
		if a.Rule == "" {
			t.Errorf("%s: no rule", tt.path)
		}
	}
	for _, bad := range []string{"", "a\x00b", "loop"} {
		if _, err := plan.ExplainPath(bad, h); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

// A fix is a flag that a run takes: what is granted must be there, and two grants of one place are refused.
func TestExplainPathFixes(t *testing.T) {
	h := fakeHost(debian(), 1000, "/home/ann", "/home/ann/work")
	p := Default()
	p.Argv = []string{"python3", "app.py"}
	p.Grants = []Grant{{Flag: "--ro", Source: "/home/ann/data", Dest: "/data"}, {Flag: "--rox", Source: "/mnt", Exec: true}}
	plan := must(t, p, h)
	for _, tt := range []struct{ path, kind, fix string }{
		{"/data/new", AccessWrite, "--rw /home/ann/data:/data in place of --ro"},
		{"/mnt/new", AccessWrite, "--rwx /mnt in place of --rox"},
		{"/srv/new", AccessWrite, "--rw /srv"},
		{"/srv/new/newer", AccessWrite, "none: it is not there, and what is not there cannot be granted"},
		{"/srv/new", AccessRead, "none: it is not there, and what is not there cannot be granted"},
		{"/srv", AccessRead, "--ro /srv"},
		{"new", AccessRead, "none: it is not there, and what is not there cannot be granted"},
		{"/new", AccessWrite, "none: it is not there, and what is not there cannot be granted"},
		{"/usr/new", AccessWrite, "none: system folders are read-only in every sandbox"},
	} {
		a, err := plan.ExplainPath(tt.path, h)
		if err != nil {
			t.Errorf("%s: %v", tt.path, err)
		} else if fix := a.Fix(tt.kind); fix != tt.fix {
			t.Errorf("%s of %s: fix %q, want %q", tt.kind, tt.path, fix, tt.fix)
		}
	}
}

// Everything that a plan binds is explained as visible, unless something covers it.
func TestExplainPathKnowsEveryStep(t *testing.T) {
	for _, s := range situations() {
		plan := s.plan(t)
		for i, step := range plan.Tree.Steps {
			if step.Op != namespaces.OpBind || step.Optional {
				continue
			}
			covered := false
			for _, later := range plan.Tree.Steps[i+1:] {
				covered = covered || later.Op == namespaces.OpMask && within(later.Target, step.Target)
			}
			a, err := plan.ExplainPath(step.Target, s.host)
			if err != nil || !covered && !a.Read {
				t.Errorf("%s: %s is bound and said not to be readable: %+v, %v", s.name, step.Target, a, err)
			}
		}
	}
}
