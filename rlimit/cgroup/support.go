package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Support says what cgroups can do for this process on this host. It is a snapshot: [Create] may still fail.
type Support struct {
	Version int // 1 or 2; 0 when nothing can be limited

	host   host
	point  string  // version 2: the mount
	own    string  // version 2: this process's cgroup as the mount shows it
	levels []level // version 2: own and its ancestors, nearest first, that this user may write
	v1     map[controllers]string
	why    map[controllers]lack
	scope  bool
}

// level is a cgroup of version 2 that might become the parent of a group.
type level struct {
	dir       string
	available controllers // cgroup.controllers: what its parent gave it
	enabled   controllers // cgroup.subtree_control: what its children get
	root      bool        // the real root, which may have both processes and children with controllers
	occupied  bool
	delegated bool // gobox may rearrange it: not systemd's, or given away by systemd (Delegate=)
}

// A Lack is a limit that no cgroup can enforce here.
type Lack struct {
	Controller string // "memory", "pids", "cpu"
	Why        string // one clause, lower case
	Hint       string // the command that grants it; may be empty
}

type lack struct{ why, hint string }

// host is where Detect looks; tests give it a tree of their own.
type host struct {
	prefix string // before every path
	uid    int
	bus    string // socket of the user's systemd, or ""
}

// Detect finds out what this process may use. It changes nothing and reads about ten small files, some 50
// microseconds; call it only when a limit is wanted.
func Detect() Support {
	return detect(host{uid: unix.Geteuid(), bus: userBus()})
}

func detect(h host) Support {
	s := Support{host: h, why: make(map[controllers]lack)}
	own, err := readAll(h.prefix+"/proc/self/cgroup", 1<<16)
	if err != nil {
		s.lacksAll("cannot read /proc/self/cgroup: "+err.Error(), "")
		return s
	}
	paths := parseMembership(own)
	// The common case needs no mountinfo, which can be long: version 2 alone, at its usual place.
	var fs unix.Statfs_t
	if len(paths) == 1 && h.prefix == "" && unix.Statfs("/sys/fs/cgroup", &fs) == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC {
		if p, ok := paths[""]; ok && inside(p) && exists("/sys/fs/cgroup"+p) {
			s.detectV2("/sys/fs/cgroup", p)
			return s
		}
	}
	info, err := readAll(h.prefix+"/proc/self/mountinfo", 4<<20)
	if err != nil {
		s.lacksAll("cannot read /proc/self/mountinfo: "+err.Error(), "")
		return s
	}
	mounts := parseMounts(info)
	if len(mounts) == 0 {
		s.lacksAll("no cgroup file system is mounted", "mount -t cgroup2 none /sys/fs/cgroup (as root)")
		return s
	}
	unified := Support{host: h, why: make(map[controllers]lack)}
	unified.lacksAll("this process's cgroup is outside the cgroup namespace or not mounted", "")
	legacy := false
	for _, m := range mounts {
		legacy = legacy || m.controllers&limiting != 0
		if p, ok := paths[""]; ok && m.unified && unified.Version == 0 {
			if rel, ok := beneath(m.root, p); ok {
				unified.detectV2(h.prefix+m.point, rel)
			}
		}
	}
	if !legacy {
		return unified
	}
	s.detectV1(mounts, paths)
	// A hybrid host has both, with each controller in one of them, and a run has all of its own from one: that with memory, which nothing
	// else limits as well. Version 1 also has the better reasons.
	if v2 := unified.usable(); v2&memory != 0 || v2 != 0 && v2&s.usable() == s.usable() {
		return unified
	}
	return s
}

func (s *Support) lacksAll(why, hint string) {
	for _, c := range [...]controllers{memory, pidsController, cpu} {
		s.why[c] = lack{why, hint}
	}
}

// inside says whether a path of /proc/self/cgroup is below the root of this cgroup namespace
// (cgroup_namespaces(7)).
func inside(p string) bool { return p != "/.." && !strings.HasPrefix(p, "/../") }

// beneath makes p, a cgroup's path, relative to the root that a mount shows.
func beneath(root, p string) (string, bool) {
	if !inside(p) || !inside(root) {
		return "", false
	}
	if root == "/" {
		return p, true
	}
	if p == root {
		return "/", true
	}
	rel, ok := strings.CutPrefix(p, root+"/")
	return "/" + rel, ok
}

// parseMembership reads /proc/self/cgroup: controller, or "" for version 2, to path.
func parseMembership(data []byte) map[string]string {
	paths := make(map[string]string)
	for line := range bytes.Lines(data) {
		f := strings.SplitN(strings.TrimSuffix(string(line), "\n"), ":", 3)
		if len(f) != 3 || !strings.HasPrefix(f[2], "/") {
			continue
		}
		for name := range strings.SplitSeq(f[1], ",") {
			paths[name] = f[2]
		}
	}
	return paths
}

type mount struct {
	root, point string
	unified     bool
	controllers controllers // version 1
}

// parseMounts reads the cgroup mounts of mountinfo (proc_pid_mountinfo(5)).
func parseMounts(data []byte) []mount {
	var list []mount
	for line := range bytes.Lines(data) {
		before, after, ok := bytes.Cut(line, []byte(" - "))
		if !ok || !bytes.HasPrefix(after, []byte("cgroup")) {
			continue
		}
		f, t := strings.Fields(string(before)), strings.Fields(string(after))
		if len(f) < 6 || len(t) < 3 {
			continue
		}
		m := mount{root: unescape(f[3]), point: unescape(f[4]), unified: t[0] == "cgroup2"}
		if t[0] == "cgroup" {
			for option := range strings.SplitSeq(t[len(t)-1], ",") {
				m.controllers |= controllerOf(option)
			}
		}
		if m.unified || m.controllers != 0 {
			list = append(list, m)
		}
	}
	return list
}

// unescape undoes the octal escapes of mountinfo.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func parseControllers(file string) controllers {
	var buf [512]byte
	data, err := read(file, buf[:])
	if err != nil {
		return 0
	}
	var c controllers
	for name := range bytes.FieldsSeq(data) {
		c |= controllerOf(string(name))
	}
	return c & limiting
}

func (s *Support) detectV2(point, rel string) {
	s.Version = 2
	clear(s.why)
	s.point = point
	s.own = path.Join(point, rel)
	var seen controllers // available somewhere on the way up, writable or not
	var denied error
	managed := systemdUnit(rel) != ""
	for p := rel; ; p = path.Dir(p) {
		dir := path.Join(point, p)
		available := parseControllers(dir + "/cgroup.controllers")
		seen |= available
		err := writable(dir)
		if err == nil {
			// To move a process takes leave to write the common ancestor's cgroup.procs.
			err = writable(dir + "/cgroup.procs")
		}
		if err == nil {
			s.levels = append(s.levels, level{
				dir:       dir,
				available: available,
				enabled:   parseControllers(dir + "/cgroup.subtree_control"),
				root:      p == "/" && !exists(dir+"/cgroup.type"),
				occupied:  occupied(dir),
				delegated: !managed || delegated(dir),
			})
		} else if denied == nil {
			denied = fmt.Errorf("%s: %w", strings.TrimPrefix(dir, s.host.prefix), err)
		}
		if p == "/" {
			break
		}
	}
	s.scope = s.host.bus != "" && s.host.uid != 0 && managed
	usable := s.usable()
	for _, c := range [...]controllers{memory, pidsController, cpu} {
		if usable&c == 0 {
			s.why[c] = s.explainV2(c, seen, denied, rel)
		}
	}
}

// systemdUnit is the innermost of a cgroup path's parts that is a unit of systemd's; only systemd writes there,
// unless it has delegated it (https://systemd.io/CGROUP_DELEGATION).
func systemdUnit(p string) string {
	for ; p != "/" && p != "."; p = path.Dir(p) {
		switch base := path.Base(p); path.Ext(base) {
		case ".slice", ".scope", ".service":
			return base
		}
	}
	return ""
}

// delegated reads the mark systemd puts on a delegated unit's cgroup. A user manager's own service carries it
// too, but what is below that one is the user manager's again.
func delegated(dir string) bool {
	if strings.HasPrefix(path.Base(dir), "user@") {
		return false
	}
	var buf [4]byte
	for _, name := range [...]string{"user.delegate", "trusted.delegate"} {
		if n, err := unix.Getxattr(dir, name, buf[:]); err == nil && string(buf[:n]) == "1" {
			return true
		}
	}
	return systemdUnit(path.Base(dir)) == "" && delegatedParent(dir)
}

// delegatedParent is for a cgroup made below a delegated unit by its owner.
func delegatedParent(dir string) bool {
	parent := path.Dir(dir)
	return parent != "/" && parent != dir && exists(parent+"/cgroup.type") && delegated(parent)
}

func (s *Support) explainV2(c, seen controllers, denied error, rel string) lack {
	name := c.String()
	switch {
	case seen&c == 0 && inUserManager(rel):
		return lack{
			fmt.Sprintf("the %s controller is not delegated to your systemd user session", name),
			fmt.Sprintf(`sudo mkdir -p /etc/systemd/system/user@.service.d && printf '[Service]\nDelegate=cpu memory pids\n' | sudo tee /etc/systemd/system/user@.service.d/delegate.conf && sudo systemctl daemon-reload && sudo systemctl restart user@%d.service (this ends your session)`, s.host.uid),
		}
	case seen&c == 0:
		return lack{fmt.Sprintf("the %s controller is not available in %s", name, strings.TrimPrefix(s.own, s.host.prefix)), ""}
	case errors.Is(denied, unix.EROFS):
		return lack{
			"the cgroup file system is mounted read-only",
			"start the container with a writable cgroup: docker run --security-opt writable-cgroups=true, or podman run --security-opt unmask=/sys/fs/cgroup",
		}
	case denied != nil && len(s.levels) == 0:
		return lack{
			"this user may not write " + denied.Error(),
			"systemd-run --user --scope -p Delegate=yes gobox run ... (in a systemd login session), or run gobox as root",
		}
	}
	return lack{
		fmt.Sprintf("the %s controller cannot be enabled: other processes are in %s", name, strings.TrimPrefix(s.own, s.host.prefix)),
		"systemd-run --user --scope -p Delegate=yes gobox run ...",
	}
}

func inUserManager(rel string) bool { return strings.Contains(rel, "/user@") }

func (s *Support) detectV1(mounts []mount, paths map[string]string) {
	s.v1 = make(map[controllers]string)
	for _, c := range [...]controllers{memory, pidsController, cpu, cpuacct, freezer} {
		name := c.String()
		s.why[c] = lack{fmt.Sprintf("no cgroup hierarchy has the %s controller", name), ""}
		for _, m := range mounts {
			if m.controllers&c == 0 {
				continue
			}
			rel, ok := beneath(m.root, paths[name])
			if !ok {
				s.why[c] = lack{fmt.Sprintf("this process's %s cgroup is outside its cgroup namespace", name), ""}
				continue
			}
			dir := path.Join(s.host.prefix+m.point, rel)
			err := writable(dir)
			if err == nil {
				s.v1[c] = dir
				delete(s.why, c)
				break
			}
			l := lack{why: fmt.Sprintf("this user may not write %s: %v", strings.TrimPrefix(dir, s.host.prefix), err)}
			l.hint = "run gobox as root: this host's cgroups are version 1, and root's unless it gives one away (docs/limits.md has the commands)"
			if err == unix.EROFS {
				l = lack{"the cgroup file system is mounted read-only", "start the container with a writable /sys/fs/cgroup"}
			}
			s.why[c] = l
		}
	}
	s.Version = 1
	if s.usable() == 0 {
		s.Version = 0
	}
}

// usable are the controllers a group made now would have.
func (s Support) usable() controllers {
	var c controllers
	if s.v1 != nil {
		for k := range s.v1 {
			c |= k
		}
		return c & limiting
	}
	for _, subset := range preferences(limiting) {
		if _, ok := s.place(subset); ok {
			return subset
		}
	}
	return 0
}

// preferences are the subsets of need, best first: memory is worth most, since nothing else can limit it.
func preferences(need controllers) []controllers {
	all := [...]controllers{
		memory | pidsController | cpu, memory | pidsController, memory | cpu, memory,
		pidsController | cpu, pidsController, cpu,
	}
	var list []controllers
	for _, c := range all {
		if c&need == c {
			list = append(list, c)
		}
	}
	return list
}

// placement is where a group goes on version 2, and what has to be done there first.
type placement struct {
	level
	need     controllers
	enable   bool // write subtree_control
	evacuate bool // move the processes of that cgroup into a leaf before that
}

// place finds the nearest cgroup that can be the parent of one with the controllers of need: the nearer, the
// more of the caller's own limits hold for the command too.
func (s Support) place(need controllers) (placement, bool) {
	for i, l := range s.levels {
		// The caller has made room before, in the cgroup above this one.
		if path.Base(l.dir) == callerLeaf {
			continue
		}
		p := placement{level: l, need: need}
		if l.enabled&need == need {
			return p, true
		}
		if l.available&need != need || !(l.delegated || l.root) || writable(l.dir+"/cgroup.subtree_control") != nil {
			continue
		}
		p.enable = true
		if l.root || !l.occupied {
			return p, true
		}
		// Processes and controllers exclude each other (cgroups(7), "no internal processes").
		if i == 0 && l.dir == s.own {
			p.evacuate = true
			return p, true
		}
	}
	return placement{}, false
}

// Controllers names what a group made now can limit: of "memory", "pids", "cpu".
func (s Support) Controllers() []string { return s.usable().names() }

// Enforceable are the limits of l that a group can hold; the rest is in [Support.Lacks].
func (s Support) Enforceable(l Limits) Limits {
	need := l.needs()
	if s.Version == 1 {
		return l.keep(s.usable())
	}
	for _, c := range preferences(need) {
		if _, ok := s.place(c); ok {
			return l.keep(c)
		}
	}
	return Limits{}
}

// Lacks says for each limit of l that no group can hold why, and what would change that.
func (s Support) Lacks(l Limits) []Lack {
	missing := l.needs() &^ s.Enforceable(l).needs()
	var list []Lack
	for _, c := range [...]controllers{memory, pidsController, cpu} {
		if missing&c != 0 {
			w, ok := s.why[c]
			if !ok {
				w.why = "not together with the other limits"
			}
			list = append(list, Lack{Controller: c.String(), Why: w.why, Hint: w.hint})
		}
	}
	return list
}

// Scope says whether [CreateScope] can be tried: this user has a systemd that may give it a cgroup. That takes
// some milliseconds of systemd's time, so it is for limits that were asked for and are lacking otherwise.
func (s Support) Scope() bool { return s.scope }
