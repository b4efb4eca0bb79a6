package selftest

import (
	"fmt"
	"os"
	"strings"

	"gobox/policy"
	"gobox/selftest/attempt"
)

func (s *scene) networkRows() []row {
	var n01 []try
	n04 := refused(append(unreachable(), "EPERM"), "route 192.0.2.1")
	for _, l := range s.listeners {
		switch {
		case strings.HasPrefix(l.name, "tcp "):
			n01 = append(n01, refused(unreachable(), "dial "+l.name)...)
		case strings.HasPrefix(l.name, "udp "):
			// The datagram may leave, and arrives nowhere: the effect tells.
			n04 = append(n04, try{do: words("dial " + l.name), want: append(unreachable(), "")})
		}
	}
	// Addresses for documentation, asked for by a call that sends nothing.
	n01 = append(n01, refused(unreachable(), "route 192.0.2.1", "route 2001:db8::1", "route 169.254.169.254", "route 10.0.0.1")...)
	n01 = append(n01, succeeds("loopback"), checked("interfaces", func(o attempt.Outcome) string {
		if o.Detail != "lo" {
			return "the interfaces are " + told(o)
		}
		return ""
	}))
	return []row{
		{id: "N01", layer: Network, title: "no way to the host's loopback or to any network", tries: n01, effect: func() string { return s.heard("tcp ") }},
		{id: "N02", layer: Network, title: "sockets without a file are the sandbox's own", effect: func() string { return s.heard(s.abstract) }, tries: append(
			refused([]string{"ECONNREFUSED", "EPERM"}, "connect-unix stream "+s.abstract, "connect-unix dgram "+s.abstract),
			checked("cat /proc/net/unix", func(o attempt.Outcome) string {
				if strings.Contains(o.Detail, s.abstract) {
					return "the host's sockets are listed"
				}
				return ""
			}))},
		{id: "N04", layer: Network, title: "no datagram leaves", tries: n04, effect: func() string { return s.heard("udp ") }},
		{id: "N18", layer: Network, title: "no interface can be made", tries: refused(noSocket(), "netlink-newlink")},
		{id: "N19", layer: Network, title: "who listens inside hears nobody outside", tries: []try{checked("accept "+s.port+" 300ms", func(o attempt.Outcome) string {
			if o.Errno != "" || o.Ret != 0 {
				return fmt.Sprintf("%d connections came from outside: %s", o.Ret, told(o))
			}
			return ""
		})}},
	}
}

// strays are variables that must not arrive; the scene puts them into the caller's environment.
func strays() (secrets, sessions, settings []string) {
	return []string{"GOBOX_SELFTEST_SECRET", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN"},
		[]string{"SSH_AUTH_SOCK", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST", "KUBECONFIG", "XAUTHORITY", "DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR"},
		[]string{"LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "BASH_ENV", "ENV", "NODE_OPTIONS", "PYTHONPATH", "GODEBUG", "PERL5OPT", "RUBYOPT", "JAVA_TOOL_OPTIONS", "GIT_SSH_COMMAND", "IFS"}
}

func (s *scene) environmentRows() []row {
	absent := func(names []string) []try {
		var tries []try
		for _, name := range names {
			tries = append(tries, try{do: words("environ"), variable: name, check: func(o attempt.Outcome) string {
				for line := range strings.SplitSeq(o.Detail, "\n") {
					if line == name+"="+marker {
						return name + " is the caller's"
					}
				}
				return ""
			}})
		}
		return tries
	}
	secrets, sessions, settings := strays()
	differs := func(what, host string) func(attempt.Outcome) string {
		return func(o attempt.Outcome) string {
			if host != "" && o.Errno == "" && strings.TrimSpace(o.Detail) == strings.TrimSpace(host) {
				return what + " is the host's"
			}
			return ""
		}
	}
	hostname, _ := os.Hostname()
	machine, _ := os.ReadFile("/etc/machine-id")
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	e01 := append(absent(secrets), checked("cat /proc/self/environ", func(o attempt.Outcome) string {
		for _, name := range secrets {
			if strings.Contains(o.Detail, name+"="+marker) && !s.permits(try{variable: name}) {
				return name + " is in /proc/self/environ"
			}
		}
		return ""
	}), try{do: words("cat /proc/1/environ"), want: unread()})
	rows := []row{
		{id: "E01", layer: Environment, title: "no variable of the caller's but those that are named", tries: e01},
		{id: "E02", layer: Environment, title: "no agents and sessions of the caller's", tries: absent(sessions)},
		{id: "E03", layer: Environment, title: "no credentials of the caller's", tries: s.credentials()},
		{id: "E04", layer: Environment, title: "no keys of the caller's", tries: []try{checked("cat /proc/keys", func(o attempt.Outcome) string {
			if o.Errno == "" && o.Ret != 0 {
				return "/proc/keys tells " + told(o)
			}
			return ""
		})}},
		{id: "E08", layer: Environment, title: "no settings for loaders and interpreters", tries: absent(settings)},
		{id: "E09", layer: Environment, title: "nothing tells which host this is", tries: []try{
			checked("cat /proc/sys/kernel/hostname", differs("the host name", hostname)), checked("cat /etc/hostname", differs("/etc/hostname", hostname)),
			checked("cat /etc/machine-id", differs("/etc/machine-id", string(machine))), checked("cat /proc/sys/kernel/random/boot_id", differs("boot_id", string(boot))),
			onPath("list", "/etc/ssh", policy.AccessRead, unread()...), onPath("open r", "/etc/sudoers", policy.AccessRead, unread()...),
		}},
	}
	return rows
}

// credentials asks for files below the caller's real HOME, whether they are there or not; nothing is read of those that are.
func (s *scene) credentials() []try {
	home := ""
	for _, kv := range s.host.Environ {
		if value, ok := strings.CutPrefix(kv, "HOME="); ok {
			home = value
		}
	}
	tries := refused(hidden(), "stat /var/run/secrets", "stat /run/secrets")
	if !strings.HasPrefix(home, "/") {
		return tries
	}
	for _, name := range []string{".ssh", ".netrc", ".aws", ".config/gh", ".docker/config.json", ".npmrc", ".git-credentials", ".kube/config", ".config/gcloud", ".gnupg", ".bash_history", ".bashrc"} {
		tries = append(tries, onPath("stat", strings.TrimRight(home, "/")+"/"+name, policy.AccessRead, hidden()...))
	}
	return tries
}

// The limits of the second sandbox, small enough to be reached without harm.
const (
	limitFiles     = 64
	limitProcesses = 48
	limitDisk      = 8 << 20
	limitInodes    = 4096
)

// limitRows are tried in a sandbox of their own, with lower limits.
func limitRows(p policy.Policy) []row {
	reached := func(least, most int64, errno string) func(attempt.Outcome) string {
		return func(o attempt.Outcome) string {
			var n int64
			if _, err := fmt.Sscanf(o.Detail, "after %d", &n); err != nil || o.Errno != errno || n < least || n > most {
				return fmt.Sprintf("got %s %q, want %s after at most %d", told(o), o.Detail, errno, most)
			}
			return ""
		}
	}
	none := func(limit uint64, flag string) string {
		if limit == 0 {
			return "the policy sets no limit: " + flag + " 0"
		}
		return ""
	}
	return []row{
		{id: "R05", layer: Limits, title: "processes end at the limit", skip: none(p.Pids, "--pids"),
			tries: []try{checked(fmt.Sprintf("hold-processes %d", 4*limitProcesses), reached(1, limitProcesses, "EAGAIN")), succeeds("clone 0")}},
		{id: "R07", layer: Limits, title: "open files end at the limit, which cannot be raised", skip: none(p.Nofile, "--nofile"), tries: []try{
			checked(fmt.Sprintf("hold-files %d", 4*limitFiles), reached(1, limitFiles, "EMFILE")),
			{do: words("raise-files"), want: []string{"EPERM"}},
		}},
		{id: "R08", layer: Limits, title: "scratch ends at the limit", skip: none(p.Disk, "--disk"),
			tries: []try{checked(fmt.Sprintf("fill /tmp/gobox-selftest-big %d", 4*limitDisk>>10), reached(1, limitDisk>>10, "ENOSPC")), succeeds("write /tmp/gobox-selftest-small x")}},
		{id: "R09", layer: Limits, title: "files end at the limit", skip: none(p.Disk, "--disk"),
			tries: []try{checked(fmt.Sprintf("make-files /tmp %d", 2*limitInodes), reached(1, limitInodes, "ENOSPC"))}},
		{id: "R13", layer: Limits, title: "no more of the machine than others get", tries: append(
			refused([]string{"EACCES", "EPERM", "EROFS", "ENOENT"}, "write /proc/self/oom_score_adj -1000"),
			refused([]string{"EPERM", "EACCES", "ENOSYS"}, attempt.Syscall("setpriority 0 0 -20"), attempt.Syscall("ioprio_set 1 0 0x2000"))...)},
		{id: "P18", layer: Limits, title: "no core dumps", tries: []try{checked("cat /proc/self/limits", func(o attempt.Outcome) string {
			for line := range strings.Lines(o.Detail) {
				if f := strings.Fields(line); strings.HasPrefix(line, "Max core file size") && f[4] == "0" && f[5] == "0" {
					return ""
				}
			}
			return "a core file may be written"
		})}},
	}
}
