package integration

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gobox/integration/harness"
)

func TestE01EnvironmentOfTheCaller(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		secret := "SECRET_X=" + b.Marker
		run := harness.Run{Env: []string{secret}, Flags: []string{"--env", "PUBLIC=one two"}}
		tries := []string{"environ", "cat /proc/self/environ", "cat /proc/1/environ", "cat /proc/1/cmdline"}
		rep := b.InsideRun(t, run, tries...)
		for _, o := range rep {
			if strings.Contains(o.Detail, b.Marker) || strings.Contains(o.Detail, "SECRET_X") {
				t.Errorf("%s: %q", o.Attempt, o.Detail)
			}
		}
		env := strings.Split(rep.Of(t, "environ").Detail, "\n")
		for _, want := range []string{"PUBLIC=one two", "HOME=" + b.Home} {
			if !slices.Contains(env, want) {
				t.Errorf("no %s in %q", want, env)
			}
		}
		for _, entry := range env {
			name, _, _ := strings.Cut(entry, "=")
			if !slices.Contains([]string{"PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TERM", "PUBLIC", "SHELL", "PWD", "TMPDIR"}, name) && !strings.HasPrefix(name, "LC_") {
				t.Errorf("environment has %q", entry)
			}
		}
		passed := b.InsideRun(t, harness.Run{Env: []string{secret}, Flags: []string{"--env-pass", "SECRET_X"}}, "environ")
		if !strings.Contains(passed[0].Detail, secret) {
			t.Errorf("--env-pass did nothing: %q", passed[0].Detail)
		}
	})
}

func TestE02AgentsAndSessions(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		socket := filepath.Join(b.Dir, "agent/socket")
		b.Mkdir(t, filepath.Dir(socket))
		listenUnix(t, socket)
		var env []string
		for _, name := range []string{"SSH_AUTH_SOCK", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST", "KUBECONFIG", "XAUTHORITY", "DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN"} {
			env = append(env, name+"="+socket)
		}
		rep := b.InsideRun(t, harness.Run{Env: env}, "environ", "stat "+socket)
		for _, e := range env {
			if name, _, _ := strings.Cut(e, "="); strings.Contains(rep.Of(t, "environ").Detail, name) {
				t.Errorf("%s is set", name)
			}
		}
		rep.Refused(t, []string{"ENOENT"}, "stat "+socket)
	})
}

func TestE03CredentialFiles(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		var tries []string
		for _, p := range []string{".netrc", ".aws/credentials", ".config/gh/hosts.yml", ".docker/config.json", ".npmrc", ".git-credentials", ".kube/config", ".config/gcloud/credentials.db", ".gnupg/private.key", ".bash_history", ".bashrc"} {
			tries = append(tries, "open r "+b.Canary(t, filepath.Join(b.Home, p)).Path)
		}
		b.Outside(t, tries...).Allowed(t, tries...)
		tries = append(tries, "stat /var/run/secrets", "stat /run/secrets", "stat /var/run/secrets/kubernetes.io/serviceaccount/token")
		rep := b.Inside(t, nil, append(tries, "list "+b.Home, "write "+b.Home+"/scratch x")...)
		rep.Refused(t, []string{"ENOENT"}, tries...)
		rep.Allowed(t, "write "+b.Home+"/scratch x")
		if o := rep.Of(t, "list "+b.Home); o.Detail != "" {
			t.Errorf("HOME holds %q", o.Detail)
		}
		if _, err := os.Lstat(filepath.Join(b.Home, "scratch")); err == nil {
			t.Error("the host's HOME was written to")
		}
	})
}

func TestE08LoaderAndInterpreterSettings(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		var env []string
		for _, name := range []string{"LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "BASH_ENV", "ENV", "NODE_OPTIONS", "PYTHONPATH", "PYTHONSTARTUP", "GODEBUG", "GOGC", "PERL5OPT", "RUBYOPT", "JAVA_TOOL_OPTIONS", "GIT_SSH_COMMAND", "IFS", "PROMPT_COMMAND"} {
			env = append(env, name+"=/nonexistent/"+b.Marker)
		}
		o := b.InsideRun(t, harness.Run{Env: env}, "environ")[0]
		if strings.Contains(o.Detail, b.Marker) {
			t.Errorf("passed on: %q", o.Detail)
		}
	})
}

func TestE09IdentityOfTheHost(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		tries := []string{"cat /etc/passwd", "cat /etc/group", "cat /etc/hosts", "cat /etc/resolv.conf", "cat /etc/machine-id", "cat /etc/hostname", "cat /proc/sys/kernel/hostname", "cat /proc/sys/kernel/random/boot_id", "open r /etc/shadow", "open r /etc/gshadow", "open r /etc/sudoers", "list /etc/ssh"}
		rep := b.Inside(t, nil, append(tries, "ids")...)
		rep.Refused(t, hidden, tries[8:]...)
		rep.Allowed(t, "cat /etc/passwd", "cat /etc/hosts")
		hostname, err := os.Hostname()
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSpace(rep.Of(t, "cat /proc/sys/kernel/hostname").Detail); got == hostname || got == "" {
			t.Errorf("hostname inside is %q, the host's is %q", got, hostname)
		}
		for _, file := range []string{"/etc/machine-id", "/etc/resolv.conf", "/etc/passwd", "/etc/group", "/etc/hosts", "/etc/hostname", "/proc/sys/kernel/random/boot_id"} {
			data, err := os.ReadFile(file)
			if o := rep.Of(t, "cat "+file); err == nil && len(data) > 0 && o.Detail == string(data) {
				t.Errorf("%s is the host's", file)
			}
		}
		if lines := strings.Count(rep.Of(t, "cat /etc/passwd").Detail, "\n"); lines > 5 {
			t.Errorf("/etc/passwd has %d lines", lines)
		}
		if !strings.Contains(rep.Of(t, "cat /etc/passwd").Detail, ":"+b.Home+":") {
			t.Errorf("/etc/passwd does not know the user's home: %q", rep.Of(t, "cat /etc/passwd").Detail)
		}
	})
}
