package cgroup

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A fake host: /proc/self/{cgroup,mountinfo} and a directory for each cgroup with its files.
type fakeHost struct {
	cgroup, mountinfo string
	files             map[string]string // path below the prefix -> content; a directory when it ends in '/'
	readonly          []string
	bus               string
}

const (
	unifiedMount = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
	all          = "cpuset cpu io memory hugetlb pids\n"
)

func (f fakeHost) detect(t *testing.T) (Support, string) {
	t.Helper()
	root := t.TempDir()
	files := map[string]string{"proc/self/cgroup": f.cgroup, "proc/self/mountinfo": f.mountinfo}
	maps.Copy(files, f.files)
	for name, content := range files {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range f.readonly {
		if err := os.Chmod(filepath.Join(root, name), 0o555); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Chmod(filepath.Join(root, name), 0o755) })
	}
	return detect(host{prefix: root, uid: 1000, bus: f.bus}), root
}

// v2 are the files of one cgroup of version 2.
func v2(dir, available, enabled, procs string) map[string]string {
	files := map[string]string{
		"cgroup.controllers": available, "cgroup.subtree_control": enabled, "cgroup.procs": procs,
	}
	if dir != "sys/fs/cgroup" {
		files["cgroup.type"] = "domain\n"
	}
	m := make(map[string]string)
	for k, v := range files {
		m[dir+"/"+k] = v
	}
	return m
}

func merge(list ...map[string]string) map[string]string {
	m := make(map[string]string)
	for _, l := range list {
		maps.Copy(m, l)
	}
	return m
}

func TestDetectV2(t *testing.T) {
	limits := Limits{Memory: 1 << 30, Pids: 100, CPUs: 1}
	const top = "sys/fs/cgroup"
	const session = "/user.slice/user-1000.slice/session-3.scope"
	const app = "/user.slice/user-1000.slice/user@1000.service/app.slice/term.scope"
	tests := []struct {
		name   string
		host   fakeHost
		root   bool // needs permissions to be refused, so only as an ordinary user
		want   string
		place  string // below the mount
		enable bool
		clear  bool // evacuate
		why    string
		scope  bool
	}{
		{
			name: "real root of the hierarchy",
			host: fakeHost{cgroup: "0::/\n", mountinfo: unifiedMount, files: v2(top, all, "memory\n", "1\n2\n")},
			want: "memory, pids, cpu", place: "/", enable: true,
		},
		{
			name: "container whose namespace root has processes",
			host: fakeHost{cgroup: "0::/\n", mountinfo: unifiedMount, files: merge(v2(top, all, "", "1\n"), map[string]string{top + "/cgroup.type": "domain\n"})},
			want: "memory, pids, cpu", place: "/", enable: true, clear: true,
		},
		{
			name: "made room before",
			host: fakeHost{cgroup: "0::/gobox-caller\n", mountinfo: unifiedMount, files: merge(
				v2(top, all, "memory pids cpu\n", ""), map[string]string{top + "/cgroup.type": "domain\n"},
				v2(top+"/gobox-caller", "memory pids cpu\n", "", "1\n7\n"))},
			want: "memory, pids, cpu", place: "/",
		},
		{
			name: "container without a cgroup namespace",
			host: fakeHost{cgroup: "0::/docker/abc\n", mountinfo: strings.Replace(unifiedMount, " / ", " /docker/abc ", 1), files: merge(v2(top, all, "", "1\n"), map[string]string{top + "/cgroup.type": "domain\n"})},
			want: "memory, pids, cpu", place: "/", enable: true, clear: true,
		},
		{
			name: "cgroup outside the namespace",
			host: fakeHost{cgroup: "0::/../x\n", mountinfo: unifiedMount, files: v2(top, all, "", "")},
			why:  "outside the cgroup namespace",
		},
		{
			name: "beside an application's scope of a user session",
			host: fakeHost{cgroup: "0::" + app + "\n", mountinfo: unifiedMount, bus: "/run/bus", files: merge(
				v2(top+app, "memory pids\n", "", "10\n11\n"),
				v2(top+filepath.Dir(app), "memory pids\n", "memory pids\n", ""))},
			want: "memory, pids", place: filepath.Dir(app), why: "not delegated", scope: true,
		},
		{
			name: "login session",
			root: true,
			host: fakeHost{cgroup: "0::" + session + "\n", mountinfo: unifiedMount, bus: "/run/bus", files: v2(top+session, "memory pids cpu\n", "", "10\n"), readonly: []string{top + session, top}},
			why:  "may not write", scope: true,
		},
		{
			name: "no controllers at all",
			host: fakeHost{cgroup: "0::/a\n", mountinfo: unifiedMount, files: v2(top+"/a", "", "", "1\n")},
			why:  "not available",
		},
		{
			name: "nothing mounted",
			host: fakeHost{cgroup: "0::/\n", mountinfo: "22 1 8:1 / / rw - ext4 /dev/sda rw\n"},
			why:  "no cgroup file system",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.root && os.Geteuid() == 0 {
				t.Skip("root may write everywhere")
			}
			s, root := tt.host.detect(t)
			if got := strings.Join(s.Controllers(), ", "); got != tt.want {
				t.Errorf("controllers %q, want %q", got, tt.want)
			}
			if s.Scope() != tt.scope {
				t.Errorf("scope %v, want %v", s.Scope(), tt.scope)
			}
			lacks := s.Lacks(limits)
			if tt.why == "" && len(lacks) > 0 {
				t.Errorf("lacks %+v", lacks)
			}
			if tt.why != "" && !slices.ContainsFunc(lacks, func(l Lack) bool { return strings.Contains(l.Why, tt.why) }) {
				t.Errorf("lacks %+v, want %q", lacks, tt.why)
			}
			for _, l := range lacks {
				if strings.Contains(l.Why, root) {
					t.Errorf("%q names the fake root", l.Why)
				}
			}
			if tt.want == "" {
				return
			}
			p, ok := s.place(s.Enforceable(limits).needs())
			if want := filepath.Join(root, top, tt.place); !ok || p.dir != want || p.enable != tt.enable || p.evacuate != tt.clear {
				t.Errorf("placed %+v, %v; want %s enable=%v evacuate=%v", p, ok, want, tt.enable, tt.clear)
			}
		})
	}
}

// v1 mounts, one of them shared by two controllers and one below a container's own path.
const legacyMounts = `31 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
32 30 0:29 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
33 30 0:30 / /sys/fs/cgroup/with\040blank rw - cgroup cgroup rw,pids
34 30 0:31 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd
35 30 0:32 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
`

func TestDetectV1(t *testing.T) {
	const top = "sys/fs/cgroup/"
	f := fakeHost{
		cgroup:    "9:name=systemd:/\n4:memory:/docker/abc/child\n2:cpu,cpuacct:/\n3:pids:/x\n0::/\n",
		mountinfo: legacyMounts,
		files: map[string]string{
			top + "cpu,cpuacct/tasks": "", top + "memory/child/tasks": "", top + "with blank/x/tasks": "",
			top + "unified/cgroup.controllers": "", top + "unified/cgroup.procs": "1\n", top + "unified/cgroup.subtree_control": "",
		},
	}
	s, root := f.detect(t)
	if s.Version != 1 {
		t.Fatalf("version %d: %+v", s.Version, s)
	}
	want := map[controllers]string{
		memory: "memory/child", pidsController: "with blank/x", cpu: "cpu,cpuacct", cpuacct: "cpu,cpuacct",
	}
	for c, dir := range want {
		if s.v1[c] != filepath.Join(root, top, dir) {
			t.Errorf("%s in %s, want %s", c, s.v1[c], dir)
		}
	}
	if lacks := s.Lacks(Limits{Memory: 1, Pids: 1, CPUs: 1}); len(lacks) != 0 {
		t.Errorf("lacks %+v", lacks)
	}
}

// Of controllers shared out between the versions those of one are used, that with memory, and only what was asked for is lacking.
func TestDetectSharedOut(t *testing.T) {
	const top = "sys/fs/cgroup/"
	const unified = "35 30 0:32 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
	for name, c := range map[string]struct {
		mounts, own, v1, v2 string
		version             int
		lacks               []string // with memory, pids and cpu asked for
		memory              bool     // alone is enforced
	}{
		"memory in 1": {"32 30 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n", "4:memory:/a\n0::/\n", "memory/a/tasks", "cpu pids", 1, []string{"pids", "cpu"}, true},
		"memory in 2": {"32 30 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n", "4:cpu,cpuacct:/a\n0::/\n", "cpu/a/tasks", "memory pids", 2, []string{"cpu"}, true},
	} {
		f := fakeHost{cgroup: c.own, mountinfo: c.mounts + unified, files: map[string]string{
			top + c.v1: "", top + "unified/cgroup.controllers": c.v2, top + "unified/cgroup.procs": "1\n", top + "unified/cgroup.subtree_control": c.v2,
		}}
		s, _ := f.detect(t)
		var lacks []string
		for _, l := range s.Lacks(Limits{Memory: 1, Pids: 1, CPUs: 1}) {
			lacks = append(lacks, l.Controller)
			if l.Why == "" {
				t.Errorf("%s: no reason for %s", name, l.Controller)
			}
		}
		if s.Version != c.version || !slices.Equal(lacks, c.lacks) {
			t.Errorf("%s: version %d lacks %v, want %d and %v", name, s.Version, lacks, c.version, c.lacks)
		}
		if alone := s.Lacks(Limits{Memory: 1}); (len(alone) == 0) != c.memory {
			t.Errorf("%s: memory alone lacks %+v", name, alone)
		}
	}
}

func TestPrepare(t *testing.T) {
	const top = "sys/fs/cgroup"
	f := fakeHost{cgroup: "0::/\n", mountinfo: unifiedMount, files: v2(top, all, "", "")}
	s, root := f.detect(t)
	p, ok := s.place(memory | pidsController)
	if !ok {
		t.Fatal("no place")
	}
	if err := p.prepare(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, top, "cgroup.subtree_control"))
	if err != nil || string(got) != "+memory +pids" {
		t.Errorf("wrote %q, %v", got, err)
	}
	// A process of another pid namespace cannot be moved, and so there is no room.
	if err := os.WriteFile(filepath.Join(root, top, "cgroup.procs"), []byte("0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := evacuate(p.dir, filepath.Join(p.dir, callerLeaf)); err == nil {
		t.Error("moved a process that cannot be named")
	}
}

func TestNames(t *testing.T) {
	o := owner{pid: 12, start: 345, ns: 4026531836}
	for _, id := range []string{"a", "01HX-2-3-4", "x.y_z"} {
		gotID, got, ok := parseName(o.name(id))
		if !ok || gotID != id || got != o {
			t.Errorf("%s: %q %+v %v", o.name(id), gotID, got, ok)
		}
	}
	for _, name := range []string{"", "gobox-", "gobox-caller", "gobox-1-2-3", "gobox-a-0-1-2", "gobox-a-x-1-2", "other-a-1-2-3", "gobox-a/b-1-2-3"} {
		if _, _, ok := parseName(name); ok {
			t.Errorf("%q is no group's name", name)
		}
	}
	me, err := self()
	if err != nil {
		t.Fatal(err)
	}
	if alive, known := me.life(me); !alive || !known {
		t.Error("this process is dead")
	}
}

func TestParse(t *testing.T) {
	if n, ok := field([]byte("low 0\noom_kill 12\nmax 3\n"), "oom_kill"); !ok || n != 12 {
		t.Errorf("field: %d %v", n, ok)
	}
	if _, ok := field([]byte("oom_kill_x 12\n"), "oom_kill"); ok {
		t.Error("field: took another's value")
	}
	for cpus, want := range map[float64]uint64{0.000001: 1000, 0.5: 50_000, 2: 200_000, 1e30: 1 << 40} {
		if got := quota(cpus); got != want {
			t.Errorf("quota %v: %d, want %d", cpus, got, want)
		}
	}
	for _, tt := range []struct {
		root, path, want string
		ok               bool
	}{
		{"/", "/a", "/a", true}, {"/a", "/a", "/", true}, {"/a", "/a/b", "/b", true},
		{"/a", "/ab", "", false}, {"/", "/../a", "", false}, {"/..", "/", "", false},
	} {
		if got, ok := beneath(tt.root, tt.path); ok != tt.ok || ok && got != tt.want {
			t.Errorf("%s beneath %s: %q %v", tt.path, tt.root, got, ok)
		}
	}
}
