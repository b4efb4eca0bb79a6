package policy

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gobox/namespaces"
)

// What the plan makes itself is left out, or covered, where the caller denied it.
func TestDeniedPlaces(t *testing.T) {
	files := debian().image("/srv/image").dir("/dev/pts", 0).link("/dev/shm", "/run/shm").dir("/run/shm", 0).file("/etc/hosts", "127.0.0.1 host", 0)
	for _, tt := range []struct {
		deny   string
		gone   string
		rootfs bool
	}{
		{"/dev/urandom", "/dev/urandom", false},
		{"/dev/shm", "/dev/shm", false},
		{"/dev/pts", "/dev/pts", false},
		{"/etc/passwd", "/etc/passwd", false},
		{"/etc/hosts", "/etc/hosts", false},
		{"/etc/ssl/certs", "/etc/ssl/certs", false},
		{"/etc/ssl", "/etc/ssl/openssl.cnf", false},
		{"/etc/passwd", "/etc/passwd", true},
		{"/bin/app", "/usr/bin/app", true},
		{"/dev/zero", "/dev/zero", true},
	} {
		t.Run(tt.deny, func(t *testing.T) {
			p := Default()
			p.Argv, p.Deny = []string{"python3"}, []string{tt.deny}
			if tt.rootfs {
				p.Rootfs, p.Argv = "/srv/image", []string{"/bin/app"}
			}
			plan := must(t, p, fakeHost(files, 1000, "/home/ann", "/home/ann/work"))
			for i, s := range plan.Tree.Steps {
				masked := slices.ContainsFunc(plan.Tree.Steps[i:], func(later namespaces.Step) bool {
					return later.Op == namespaces.OpMask && within(later.Target, tt.gone)
				})
				if s.Target == tt.gone && s.Op != namespaces.OpMask && !masked {
					t.Errorf("%s is there: %s", s.Target, s.Op)
				}
			}
			if covered := slices.ContainsFunc(plan.Tree.Steps, func(s namespaces.Step) bool { return s.Op == namespaces.OpMask && s.Target == tt.gone }); tt.rootfs && covered != (tt.gone != "/dev/zero") {
				t.Errorf("%s is covered: %v", tt.gone, covered)
			}
			for _, r := range plan.Landlock.Rules {
				if r.Path == tt.gone {
					t.Errorf("landlock has a rule on %s", r.Path)
				}
			}
		})
	}
}

// An image may have links at its root.
func TestImageLinks(t *testing.T) {
	for _, tt := range []struct{ link, text, made string }{
		{"var", "usr/var", ""},
		{"var", "data/var", "/data/var/tmp"},
		{"var", "/tmp", ""},
		{"var", "run", "/run/tmp"},
		{"var", "../..", ""},
		{"home", "usr/home", "/usr/home/ann"},
	} {
		t.Run(tt.link+" to "+tt.text, func(t *testing.T) {
			files := debian().image("/srv/image").dir("/srv/image/usr/var", 0).dir("/srv/image/usr/home", 0)
			for name := range files {
				if within("/srv/image/"+tt.link, name) {
					delete(files, name)
				}
			}
			files.link("/srv/image/"+tt.link, tt.text)
			p := Default()
			p.Argv, p.Rootfs = []string{"app"}, "/srv/image"
			plan := must(t, p, fakeHost(files, 1000, "/home/ann", "/home/ann/work"))
			made := tt.made == ""
			for _, s := range plan.Tree.Steps {
				made = made || s.Target == tt.made
				if below("/"+tt.link, s.Target) {
					t.Errorf("%s %s is below a link", s.Op, s.Target)
				}
			}
			if !made {
				t.Errorf("%s is not made", tt.made)
			}
		})
	}
}

func TestEnvironmentCategories(t *testing.T) {
	h := fakeHost(debian(), 1000, "/home/ann", "/home/ann/work")
	h.Environ = append(h.Environ, "LC_ALL=C", "LC_CTYPE=C.UTF-8", "LC_TOKEN=canary", "LC_=canary", "LANGX=canary", "LC_TIMEX=canary")
	p := Default()
	p.Argv = []string{"python3"}
	env := strings.Join(must(t, p, h).Exec.Env, " ")
	if !strings.Contains(env, "LC_ALL=C ") || !strings.Contains(env, "LC_CTYPE=") || strings.Contains(env, "canary") {
		t.Errorf("environment %s", env)
	}
}

// Of settings that may hold passwords, none are shown.
func TestEtcSettings(t *testing.T) {
	files := debian().file("/etc/maven/settings.xml", "<password>", 0).file("/etc/maven/m2.conf", "x", 0).file("/etc/maven/logging/simplelogger.properties", "x", 0).
		file("/etc/php/8.2/cli/php.ini", "mysqli.default_pw=x", 0).link("/etc/php/8.2/cli/conf.d/20-x.ini", "/etc/php/8.2/mods-available/x.ini").
		file("/etc/php/8.2/mods-available/x.ini", "x", 0).file("/etc/php/8.2/fpm/pool.d/www.conf", "env[PW]=x", 0).dir("/etc/php/build", 0)
	p := Default()
	p.Argv = []string{"python3"}
	var got []string
	for _, s := range must(t, p, fakeHost(files, 1000, "/home/ann", "/home/ann/work")).Tree.Steps {
		if within("/etc/maven", s.Target) || within("/etc/php", s.Target) {
			got = append(got, s.Target)
		}
	}
	want := []string{"/etc/maven/logging", "/etc/maven/m2.conf", "/etc/php/8.2/cli/conf.d", "/etc/php/8.2/mods-available"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestStackLimit(t *testing.T) {
	for memory, want := range map[uint64]uint64{0: ^uint64(0), 1 << 20: 8 << 20, 1 << 30: 1 << 30} {
		p := Default()
		p.Argv, p.Memory = []string{"python3"}, memory
		for _, l := range must(t, p, fakeHost(debian(), 1000, "/home/ann", "/home/ann/work")).Rlimits {
			if l.Resource == unix.RLIMIT_STACK && (l.Soft != 8<<20 || l.Hard != want) {
				t.Errorf("memory %d: stack %d, %d, want %d", memory, l.Soft, l.Hard, want)
			}
		}
	}
}

// The sockets of one's own choosing may be named.
func TestNamedSockets(t *testing.T) {
	files := debian().add("/run/user/1000/bus", fakeNode{mode: fs.ModeSocket | 0o666, uid: 1000}).dir("/run/secrets", 0).add("/run/docker.sock", fakeNode{mode: fs.ModeSocket | 0o660})
	p := Default()
	p.Argv = []string{"python3"}
	for _, path := range []string{"/run/user/1000/bus", "/run/secrets", "/run/docker.sock"} {
		p.Grants = append(p.Grants, Grant{Flag: "--ro", Source: path})
	}
	must(t, p, fakeHost(files, 1000, "/home/ann", "/home/ann/work"))
}

// A denied path that is there must be there when it is covered; one below another mask is not, by then.
func TestMasks(t *testing.T) {
	files := debian().dir("/home/ann/work/keys", 1000).dir("/home/ann/work/keys/old", 1000).file("/home/ann/work/keys/old/id", "", 1000).file("/home/ann/work/.env", "", 1000)
	p := Default()
	p.Argv = []string{"python3"}
	p.Deny = []string{"keys/old/id", "keys", "keys/old", ".env", "keys/none"}
	plan := must(t, p, fakeHost(files, 1000, "/home/ann", "/home/ann/work"))
	var got []string
	for _, s := range plan.Tree.Steps {
		if s.Op != namespaces.OpMask {
			continue
		}
		if s.Why == whyDeny {
			got = append(got, s.Target)
		}
		if s.Optional == (s.Why == whyDeny) {
			t.Errorf("mask of %s (%s): optional is %v", s.Target, s.Why, s.Optional)
		}
	}
	if want := []string{"/home/ann/work/keys", "/home/ann/work/.env"}; !slices.Equal(got, want) {
		t.Errorf("masks are %q, want %q", got, want)
	}
}
