package policy

import (
	"errors"
	"strconv"
	"strings"

	"gobox/namespaces"
)

const (
	// overflowID is the kernel's id for what is not mapped (/proc/sys/kernel/overflowuid), and that of
	// the user nobody everywhere; as a host id it owns nothing.
	overflowID = 65534
	// firstUser is the usual id of a system's first ordinary user; it stands in where the real one is 0.
	firstUser = 1000
)

// account is who the command sees itself as.
type account struct {
	name  string
	group string
	shell string
}

// findHome takes HOME where the caller has it. A caller without one, or with one that cannot be
// scratch, gets /home/NAME.
func (b *builder) findHome() error {
	home := b.host.getenv("HOME")
	if strings.HasPrefix(home, "/") && strings.IndexByte(home, 0) < 0 {
		found, err := resolvePath(b.host.FS, "", home)
		switch {
		case err == nil && found.Info.isDir():
			b.home = found.Path
			b.addHops(found.Hops, "HOME")
		case err != nil && !errors.Is(err, errMagicLink):
			b.home = cleanPath(home) // such as /nonexistent of nobody
		}
	}
	if b.home == "" || b.home == "/" || reserved(b.home) || onSystem(b.home) {
		b.home = "/home/gobox"
		b.links = nil
	}
	return nil
}

// decideIdentity maps an ordinary caller to itself. A caller who is root must not lend its id to the
// command: every file of the host belongs to it, and RLIMIT_NPROC does not bind it. So the command runs
// as nobody of the host, who inside has the ids of the workspace's owner.
func (b *builder) decideIdentity() error {
	id, owned := &b.plan.Identity, true
	if b.host.EUID != 0 {
		*id = namespaces.Identity{UID: b.host.EUID, GID: b.host.EGID, HostUID: b.host.EUID, HostGID: b.host.EGID}
	} else {
		*id, owned = namespaces.Identity{UID: firstUser, GID: firstUser, HostUID: overflowID, HostGID: overflowID, Root: true}, false
		for _, c := range b.claims {
			if c.step.Why == whyWorkspace {
				if c.info.UID != 0 {
					id.UID, owned = c.info.UID, true
				}
				if c.info.GID != 0 {
					id.GID = c.info.GID
				}
			}
		}
		for i := range b.claims {
			c := &b.claims[i]
			if c.bound() && (c.info.UID != overflowID || c.info.GID != overflowID) {
				c.step.Owner = &namespaces.Owner{UID: c.info.UID, GID: c.info.GID}
			}
		}
	}
	b.account = b.findAccount(id.UID, id.GID, owned)
	return nil
}

// findAccount takes the names from the host's passwd(5) and group(5), which everybody may read. Ids that
// stand in for root's are nobody's there.
func (b *builder) findAccount(uid, gid uint32, owned bool) account {
	found := account{name: "user", group: "user", shell: "/bin/sh"}
	if owned {
		if name := nameOf(b.host.FS, "/etc/passwd", uid); name != "" {
			found.name = name
		} else if name := b.host.getenv("USER"); b.host.EUID != 0 && plainName(name) && name != "root" {
			found.name = name
		}
		found.group = found.name
		if name := nameOf(b.host.FS, "/etc/group", gid); name != "" {
			found.group = name
		}
	}
	if shell := b.host.getenv("SHELL"); onSystem(shell) && cleanPath(shell) == shell && plainName(shell) {
		found.shell = shell
	}
	return found
}

// nameOf finds the name for an id in a file of name:password:id:... lines.
func nameOf(files FS, path string, id uint32) string {
	text, err := files.ReadFile(path, maxRead)
	if err != nil {
		return ""
	}
	want := strconv.FormatUint(uint64(id), 10)
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(line, ":")
		_, rest, _ = strings.Cut(rest, ":")
		number, _, _ := strings.Cut(rest, ":")
		if number == want && plainName(name) {
			return name
		}
	}
	return ""
}

// holdsHome tells whether dir is the home of any user of the host's passwd(5), or above one: with sudo, HOME
// is root's and the current directory still another's home.
func (b *builder) holdsHome(dir string) bool {
	text, err := b.host.FS.ReadFile("/etc/passwd", maxRead)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 7)
		if len(fields) < 7 || !strings.HasPrefix(fields[5], "/") {
			continue
		}
		home := cleanPath(fields[5])
		if home == "/" {
			continue // nobody's
		}
		if within(dir, home) {
			return true
		}
		// A home may be named by a link, as /home -> /usr/home is.
		if found, err := resolvePath(b.host.FS, "", home); err == nil && found.Path != "/" && within(dir, found.Path) {
			return true
		}
	}
	return false
}

// plainName tells whether name can stand in a field of passwd(5).
func plainName(name string) bool {
	if name == "" {
		return false
	}
	for _, r := range name {
		if r <= ' ' || r == ':' || r == 0x7f || r == 0xfffd {
			return false
		}
	}
	return true
}
