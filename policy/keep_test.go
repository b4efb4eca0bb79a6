package policy

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gobox/namespaces"

	"golang.org/x/sys/unix"
)

// realDir is dir without symbolic links.
func realDir(t *testing.T, dir string) string {
	t.Helper()
	found, err := resolvePath(CurrentHost().FS, "", dir)
	if err != nil {
		t.Fatal(err)
	}
	return found.Path
}

// kept resolves what combine gives, and lists the places inside that are held for keeping what the run is held to.
func kept(t *testing.T, r Request) ([]string, error) {
	t.Helper()
	p := combined(t, r, nil)
	p.Argv = []string{"/bin/true"}
	plan, err := Resolve(p, r.Host)
	if err != nil {
		return nil, err
	}
	var list []string
	for _, s := range plan.Tree.Steps {
		if s.Why == whyKept {
			if !s.Held || s.Attr&namespaces.ReadOnly == 0 {
				t.Errorf("%s is not held read-only: %+v", s.Target, s)
			}
			list = append(list, s.Target)
		}
	}
	slices.Sort(list)
	return list, nil
}

// The command must not write what the next run is held to.
func TestNamedFileStaysAsItIs(t *testing.T) {
	const profile = `{"defaultAction": "SCMP_ACT_ALLOW"}`
	dir := realDir(t, write(t, map[string]string{
		"base.yaml": "version: 1\nsyscalls: {profile: seccomp.json}\n", "p.yaml": "version: 1\nextends: base.yaml\n", "seccomp.json": profile, "schema.json": "{}",
	}))
	if err := os.Symlink("p.yaml", dir+"/link.yaml"); err != nil {
		t.Fatal(err)
	}
	workspace := func(m Mode) func(*Policy) { return func(p *Policy) { p.Workspace.Mode = m } }
	grants := func(g ...Grant) func(*Policy) { return func(p *Policy) { p.Grants = g } }
	rw := setFlags{"workspace-mode": workspace(ModeReadWrite)}
	for _, c := range []struct {
		name, policy string
		flags        setFlags
		want         string
	}{
		{"workspace", "p.yaml", rw, dir + "/base.yaml " + dir + "/p.yaml " + dir + "/seccomp.json"},
		{"by a link", "link.yaml", rw, dir + "/base.yaml " + dir + "/link.yaml " + dir + "/p.yaml " + dir + "/seccomp.json"},
		{"read-only", "p.yaml", setFlags{"workspace-mode": workspace(ModeReadOnly)}, ""},
		{"grant", "p.yaml", setFlags{"workspace-mode": workspace(ModeNone), "rw": grants(Grant{Flag: "--rw", Source: dir, Write: true})},
			dir + "/base.yaml " + dir + "/p.yaml " + dir + "/seccomp.json"},
		{"grant at another place", "p.yaml", setFlags{"workspace-mode": workspace(ModeNone), "rw": grants(Grant{Flag: "--rw", Source: dir, Dest: "/mnt/x", Write: true})},
			"/mnt/x/base.yaml /mnt/x/p.yaml /mnt/x/seccomp.json"},
		{"flags", "", setFlags{"workspace-mode": workspace(ModeReadWrite), "seccomp": func(p *Policy) { p.SeccompFile = "seccomp.json" },
			"keep": func(p *Policy) { p.Keep = []Kept{{"--expect-json", "schema.json"}} }}, dir + "/schema.json " + dir + "/seccomp.json"},
		{"flags on a file", "p.yaml", setFlags{"workspace-mode": workspace(ModeReadWrite), "keep": func(p *Policy) { p.Keep = []Kept{{"--expect-json", "schema.json"}} }},
			dir + "/base.yaml " + dir + "/p.yaml " + dir + "/schema.json " + dir + "/seccomp.json"},
	} {
		if c.policy != "" {
			c.policy = dir + "/" + c.policy
		}
		list, err := kept(t, request(t, dir, c.policy, c.flags))
		if got := strings.Join(list, " "); err != nil || got != c.want {
			t.Errorf("%s: %s is held, want %s; error %v", c.name, got, c.want, err)
		}
	}
	_, err := kept(t, request(t, dir, dir+"/p.yaml", setFlags{"rw": grants(Grant{Flag: "--rw", Source: dir + "/base.yaml", Write: true})}))
	if err == nil || !strings.Contains(err.Error(), "base.yaml: the command may write to it") {
		t.Errorf("the policy itself is granted: error %v", err)
	}
}

// What is granted by a ceiling is not exceeded by what gobox holds of its own.
func TestKeptUnderACeiling(t *testing.T) {
	dir := realDir(t, write(t, map[string]string{"p.yaml": "version: 1\nworkspace: {mode: rw}\n"}))
	ceiling, err := ParseDocument("ceiling.yaml", []byte("version: 1\nfilesystem: {read: [/srv]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	combined(t, request(t, dir, dir+"/p.yaml", nil), ceiling)
}

// No flag's word is lost when a policy file is there too.
func TestFlagsOnTopOfAFile(t *testing.T) {
	dir := realDir(t, write(t, map[string]string{"p.yaml": "version: 1\n"}))
	r := request(t, dir, dir+"/p.yaml", nil)
	r.Changed = func(string) bool { return true }
	flags := reflect.ValueOf(&r.Flags).Elem()
	var fill func(f reflect.Value)
	fill = func(f reflect.Value) {
		switch f.Kind() {
		case reflect.Struct:
			for i := range f.NumField() {
				fill(f.Field(i))
			}
		case reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
		case reflect.String:
			f.SetString("/given")
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Uint64:
			f.SetUint(987654321)
		case reflect.Int, reflect.Int64:
			f.SetInt(987654321)
		case reflect.Float64:
			f.SetFloat(0.987)
		}
	}
	fill(flags)
	r.Flags.Workspace = Workspace{Path: dir, Mode: ModeReadOnly, Explicit: true}
	got := reflect.ValueOf(combined(t, r, nil))
	for i := range flags.NumField() {
		name := flags.Type().Field(i).Name
		switch name {
		case "Name", "Groups", "Gate", "RefuseHostNet", "AuditRequired":
			continue // no flag's
		}
		want, have := flags.Field(i), got.Field(i)
		lost := want.Kind() == reflect.Slice && have.Len() == 0 || want.Kind() != reflect.Slice && !want.Equal(have)
		if lost {
			t.Errorf("%s: the flag says %v, and the run has %v", name, want, have)
		}
	}
}

// A name that an earlier run may have bent decides nothing about which file's content the command gets.
func TestSecretByABentName(t *testing.T) {
	private := realDir(t, write(t, map[string]string{"key": "private", "token": "token"}))
	dir := realDir(t, write(t, map[string]string{"token": "token"}))
	for link, to := range map[string]string{"key": private + "/key", "way": private, "environ": "/proc/self/environ", "inner": "token"} {
		if err := os.Symlink(to, dir+"/"+link); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(private+"/token", private+"/own"); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(dir+"/fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	h := CurrentHost()
	h.Dir = dir
	for _, mode := range []Mode{ModeOverlay, ModeReadOnly, ModeReadWrite} {
		for source, want := range map[string]string{
			"token": dir + "/token", "inner": dir + "/token", private + "/own": private + "/token", "/dev/fd/63": "/dev/fd/63",
			"key": "leads out of", "way/key": "leads out of", "environ": "passes through /proc", "fifo": "is no regular file", "missing": "no such file",
		} {
			p := Default()
			p.Argv, p.Workspace.Mode = []string{"/bin/true"}, mode
			p.Secrets = []Secret{{"T", "file:" + source}}
			plan, err := Resolve(p, h)
			switch {
			case strings.HasPrefix(want, "/") && (err != nil || plan.Exec.Secrets[0].Source != "file:"+want):
				t.Errorf("%s, %s: %v, want %s", mode, source, err, want)
			case !strings.HasPrefix(want, "/") && (err == nil || !strings.Contains(err.Error(), want)):
				t.Errorf("%s, %s: error %v, want %q", mode, source, err, want)
			}
			if err != nil && strings.HasPrefix(want, "leads") && !strings.Contains(err.(*Error).Hint, "--secret T=file:"+private+"/key") {
				t.Errorf("%s, %s: hint %q", mode, source, err.(*Error).Hint)
			}
		}
	}
}

// A link that an earlier run may have put there decides nothing about what the next one may change.
func TestAllowPathByABentName(t *testing.T) {
	outside := realDir(t, t.TempDir())
	dir := outside + "/ws"
	for _, d := range []string{dir + "/.git/hooks", dir + "/plain"} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{dir + "/sub": ".", outside + "/alias": dir} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	h := CurrentHost()
	h.Dir = dir
	for given, want := range map[string]string{
		"sub/.git": "the link " + dir + "/sub leads to " + dir + "/.git", "sub/.git/hooks/new": "the link " + dir + "/sub leads to ", dir + "/sub/new/.git": "the link ",
		".git": "", "plain/.git": "", "plain/new/.git": "", outside + "/alias/.git": "",
	} {
		p := Default()
		p.Argv, p.Workspace.Mode, p.AllowPath = []string{"/bin/true"}, ModeReadWrite, []string{given}
		_, err := Resolve(p, h)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("--allow-path %s: error %v, want %q", given, err, want)
		}
	}
}

func TestNamesDescriptor(t *testing.T) {
	for path, want := range map[string]bool{
		"/dev/fd/63": true, "/proc/self/fd/0": true, "/dev/stdin": true,
		"/proc/self/fd/../environ": false, "/dev/fd/3/etc/shadow": false, "/dev/fd/": false, "/dev/stdin/..": false, "/dev/fdx": false, "/etc/passwd": false,
	} {
		if got := NamesDescriptor(path); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}
