package policy

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"gobox/namespaces"
)

// machineID is the same in every sandbox: the word gobox in ASCII and zeros, so that it identifies
// nothing and nobody (machine-id(5)).
const machineID = "676f626f780000000000000000000000"

// etcEntry is a name below /etc, or a pattern of names, that programs read from the host's. A folder is
// mounted, a small file is copied, a symbolic link is kept.
type etcEntry struct {
	name string
	why  string
}

// etcEntries is the whole of what is visible of the host's /etc. What could hold a secret stays out:
// shadow, sudoers, ssh, ssl/private, pki/tls/private, gitconfig, npmrc, pip.conf (tokens in URLs), maven/settings.xml, php.ini.
func etcEntries() []etcEntry {
	return []etcEntry{
		{"alpine-release", "which distribution this is"},
		{"alternatives", "what /usr/bin/java, awk, cc lead to on Debian and Fedora"},
		{"ca-certificates/extracted", "trusted certificates on Arch"},
		{"crypto-policies", "included by Fedora's openssl.cnf"},
		{"debian_version", "which distribution this is"},
		{"fedora-release", "which distribution this is"},
		{"fonts", "fontconfig"},
		{"java", "settings of OpenJDK on Fedora"},
		{"java-*-openjdk", "OpenJDK on Debian cannot start without"},
		{"ld-musl-*.path", "musl's dynamic linker"},
		{"ld.so.cache", "the dynamic linker"},
		{"ld.so.conf", "the linker of binutils"},
		{"ld.so.conf.d", "the linker of binutils"},
		{"lsb-release", "which distribution this is"},
		{"maven/logging", "Maven on Debian"},
		{"maven/m2.conf", "Maven on Debian cannot start without"},
		{"mime.types", "names of file types"},
		{"mtab", "mounted file systems, a link into /proc"},
		{"os-release", "which distribution this is"},
		{"perl", "modules of Perl on Debian"},
		{"php/*/cli/conf.d", "extensions of PHP on Debian"},
		{"php/*/mods-available", "extensions of PHP on Debian"},
		{"pki/ca-trust", "trusted certificates on Fedora"},
		{"pki/java", "trusted certificates for Java on Fedora"},
		{"pki/tls/cert.pem", "trusted certificates on Fedora"},
		{"pki/tls/certs", "trusted certificates on Fedora"},
		{"pki/tls/openssl.cnf", "OpenSSL on Fedora"},
		{"protocols", "getprotobyname(3)"},
		{"python3.*", "sitecustomize of Python on Debian"},
		{"R", "settings of R"},
		{"redhat-release", "which distribution this is"},
		{"services", "getservbyname(3)"},
		{"ssl/cert.pem", "trusted certificates on Alpine and Arch"},
		{"ssl/certs", "trusted certificates"},
		{"ssl/openssl.cnf", "OpenSSL"},
		{"texmf", "TeX"},
		{"timezone", "name of the time zone on Debian"},
	}
}

// terminalEntries are for people, so that only a command with a terminal has them.
func terminalEntries() []etcEntry {
	return []etcEntry{
		{"bash.bashrc", "interactive bash on Debian"},
		{"bashrc", "interactive bash on Fedora"},
		{"inputrc", "readline"},
		{"terminfo", "terminals beyond those of /usr/share"},
	}
}

// copyLimit is the largest file, in bytes, that is copied: writing more costs more than a mount.
const copyLimit = 16 << 10

// addEtc makes a new /etc. The host's own is never mounted.
func (b *builder) addEtc() {
	for _, file := range b.etcFiles() {
		b.step(namespaces.Step{Op: namespaces.OpFile, Target: "/etc/" + file.name, Content: []byte(file.text), Why: "synthetic"})
	}
	b.addEtcEntry("localtime", "time zone")
	top, err := names(b.host.FS, "/etc")
	if err != nil {
		return
	}
	entries := etcEntries()
	if b.policy.TTY {
		entries = append(entries, terminalEntries()...)
	}
	for _, entry := range entries {
		for _, name := range b.etcMatches("", top, entry.name) {
			b.addEtcEntry(name, entry.why)
		}
	}
}

// etcMatches expands a pattern below dir, whose names are given in order.
func (b *builder) etcMatches(dir string, entries []string, pattern string) []string {
	first, rest, nested := strings.Cut(pattern, "/")
	var found []string
	if !strings.ContainsRune(first, '*') {
		if _, ok := slices.BinarySearch(entries, first); !ok {
			return nil
		}
		found = []string{first}
	} else {
		for _, name := range entries {
			if ok, _ := path.Match(first, name); ok {
				found = append(found, name)
			}
		}
	}
	var list []string
	for _, name := range found {
		switch name = dir + name; {
		case !nested:
			list = append(list, name)
		case !strings.ContainsRune(rest, '*'):
			list = append(list, name+"/"+rest)
		default:
			if below, err := names(b.host.FS, "/etc/"+name); err == nil {
				list = append(list, b.etcMatches(name+"/", below, rest)...)
			}
		}
	}
	return list
}

// addEtcEntry shows one entry of the host's /etc, if it is there and everybody may read it.
func (b *builder) addEtcEntry(name, why string) {
	target := "/etc/" + name
	if b.isDenied(target) || slices.ContainsFunc(b.claims, func(c claim) bool { return within(c.step.Target, target) }) {
		return
	}
	info, err := lstat(b.host.FS, target)
	if err != nil {
		return
	}
	if info.isSymlink() {
		text, err := b.host.FS.Readlink(target)
		if err != nil {
			return
		}
		b.step(namespaces.Step{Op: namespaces.OpSymlink, Source: text, Target: target, Why: why})
		if name == "mtab" {
			return
		}
		found, err := resolvePath(b.host.FS, "", target)
		if err != nil || onSystem(found.Path) || b.private(found.Path) {
			return
		}
		// The link leads to where nothing else of the host shows, as openSUSE's certificates do.
		for _, h := range found.Hops {
			if h.Path != target && !b.onPlan(h.Path) {
				b.step(namespaces.Step{Op: namespaces.OpSymlink, Source: h.Text, Target: h.Path, Why: why})
			}
		}
		target, info = found.Path, found.Info
		if b.onPlan(target) {
			return
		}
	}
	step := namespaces.Step{Source: target, Target: target, Why: why}
	switch {
	case !info.worldReadable():
		return
	case info.isDir():
		step.Op, step.Attr = namespaces.OpBind, systemAttr|namespaces.NoExec
		b.system = append(b.system, claim{step: step, info: info})
	case info.isRegular() && info.Size <= copyLimit:
		step.Op = namespaces.OpCopy
	case info.isRegular():
		step.Op, step.Attr = namespaces.OpBind, systemAttr|namespaces.NoExec
	default:
		return
	}
	b.step(step)
}

// private tells whether a link in /etc must not make path visible.
func (b *builder) private(path string) bool {
	return reserved(path) || within(b.home, path) || slices.ContainsFunc([]string{"/home", "/root", "/tmp", "/var/tmp"},
		func(dir string) bool { return within(dir, path) })
}

type etcFile struct{ name, text string }

// etcFiles are the files of /etc that say who and where the command is.
func (b *builder) etcFiles() []etcFile {
	id, who := b.plan.Identity, b.account
	passwd := "root:x:0:0:root:/root:/usr/sbin/nologin\n"
	group := "root:x:0:\n"
	if id.UID != 0 {
		passwd += fmt.Sprintf("%s:x:%d:%d:%s:%s:%s\n", who.name, id.UID, id.GID, who.name, b.home, who.shell)
	}
	if id.GID != 0 {
		group += fmt.Sprintf("%s:x:%d:\n", who.group, id.GID)
	}
	if id.UID != overflowID {
		passwd += fmt.Sprintf("nobody:x:%d:%d:nobody:/nonexistent:/usr/sbin/nologin\n", overflowID, overflowID)
	}
	if id.GID != overflowID {
		group += fmt.Sprintf("nogroup:x:%d:\n", overflowID)
	}
	hosts, resolv, sources := b.nameFiles()
	return []etcFile{
		{"passwd", passwd},
		{"group", group},
		{"hostname", Hostname + "\n"},
		{"hosts", hosts},
		{"resolv.conf", resolv},
		{"nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: " + sources + "\nnetworks: files\nprotocols: files\nservices: files\nrpc: files\n"},
		{"machine-id", machineID + "\n"},
	}
}
