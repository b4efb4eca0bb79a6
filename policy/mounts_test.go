package policy

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"gobox/namespaces"
)

func TestParseMounts(t *testing.T) {
	got, err := parseMounts("22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n" +
		"23 22 0:5 / /mnt/a\\040b\\134c rw - fuse.sshfs a:b rw\n24 22 0:4 net:[4026531833] /run/netns/x rw shared:3 master:2 - nsfs nsfs rw\n")
	want := []Mount{{"/", "ext4"}, {`/mnt/a b\c`, "fuse.sshfs"}, {"/run/netns/x", "nsfs"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	for _, bad := range []string{"\n", "22 1 8:1 / / rw\n", "22 1 8:1 / / rw - ext4\n", "x"} {
		if got, err := parseMounts(bad); err == nil {
			t.Errorf("%q: got %v", bad, got)
		}
	}
}

func TestCurrentMounts(t *testing.T) {
	list, err := currentMounts()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(list, func(m Mount) bool { return m.Point == "/proc" && m.Type == "proc" }) {
		t.Errorf("no procfs on /proc in %v", list)
	}
}

func BenchmarkCurrentMounts(b *testing.B) {
	text, _ := os.ReadFile("/proc/self/mountinfo")
	b.Logf("%d mounts", strings.Count(string(text), "\n"))
	for b.Loop() {
		_, _ = currentMounts()
	}
}

func TestKernelFileSystems(t *testing.T) {
	for _, tt := range []struct {
		name   string
		mounts []Mount
		edit   func(*Policy)
		want   string // of the refusal; empty: accepted
		hint   string
		masks  []string
	}{
		{name: "procfs in the workspace", mounts: []Mount{{"/home/ann/work/proc", "proc"}}, want: "proc on /home/ann/work/proc", hint: "--deny /home/ann/work/proc"},
		{name: "denied", mounts: []Mount{{"/home/ann/work/proc", "proc"}}, edit: func(p *Policy) { p.Deny = []string{"proc"} }, masks: []string{"/home/ann/work/proc"}},
		{name: "something else there", mounts: []Mount{{"/home/ann/work/proc", "proc"}}, edit: func(p *Policy) { p.Tmpfs = []Tmpfs{{Dest: "/home/ann/work/proc"}} }},
		{name: "in a grant", mounts: []Mount{{"/mnt/c/sys", "sysfs"}}, edit: func(p *Policy) { p.Grants = []Grant{{Flag: "--ro", Source: "/mnt"}} }, want: "grant", hint: "--deny /mnt/c/sys"},
		{name: "the grant itself", mounts: []Mount{{"/mnt/c", "cgroup2"}}, edit: func(p *Policy) { p.Grants = []Grant{{Flag: "--ro", Source: "/mnt/c/sub"}} }, want: "cgroup2 on /mnt/c", hint: "copy"},
		{name: "on top of one", mounts: []Mount{{"/mnt/c", "devtmpfs"}, {"/mnt/c/sub", "tmpfs"}}, edit: func(p *Policy) { p.Grants = []Grant{{Flag: "--ro", Source: "/mnt/c/sub"}} }},
		{name: "beside", mounts: []Mount{{"/home/ann/workproc", "proc"}, {"/home/ann/proc", "proc"}}},
		{name: "an ordinary one", mounts: []Mount{{"/home/ann/work/data", "ext4"}, {"/home/ann/work/tmp", "tmpfs"}, {"/home/ann/work/net", "fuse.sshfs"}}},
		{name: "in a system folder", mounts: []Mount{{"/usr/lib/chroot/proc", "proc"}}, masks: []string{"/usr/lib/chroot/proc"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := debian().dir("/home/ann/work/proc", 1000).dir("/mnt/c/sub", 0)
			h := fakeHost(files, 1000, "/home/ann", "/home/ann/work")
			h.Mounts = func() ([]Mount, error) {
				return append([]Mount{{"/", "ext4"}, {"/proc", "proc"}, {"/sys", "sysfs"}}, tt.mounts...), nil
			}
			p := Default()
			p.Argv = []string{"python3"}
			if tt.edit != nil {
				tt.edit(&p)
			}
			plan, err := Resolve(p, h)
			if tt.want != "" {
				var refusal *Error
				if !errors.As(err, &refusal) || !strings.Contains(err.Error(), strings.TrimPrefix(tt.want, "grant")) || !strings.Contains(refusal.Hint, tt.hint) {
					t.Errorf("got %v, want a refusal with %q, hint %q", err, tt.want, tt.hint)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var masks []string
			for _, s := range plan.Tree.Steps {
				if s.Op == namespaces.OpMask && !within("/proc", s.Target) {
					masks = append(masks, s.Target)
				}
			}
			if !slices.Equal(masks, tt.masks) {
				t.Errorf("masks %q, want %q", masks, tt.masks)
			}
		})
	}
	h := fakeHost(debian(), 1000, "/home/ann", "/home/ann/work")
	h.Mounts = func() ([]Mount, error) { return nil, os.ErrPermission }
	p := Default()
	p.Argv = []string{"python3"}
	if _, err := Resolve(p, h); ExitCode(err) != ExitFailed || !errors.Is(err, os.ErrPermission) {
		t.Errorf("mounts unknown: %v", err)
	}
}
