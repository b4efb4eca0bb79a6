package policy

import (
	"errors"
	"slices"
	"strings"

	"gobox/namespaces"
)

// Mount is one mount of the host, as in /proc/self/mountinfo (proc_pid_mountinfo(5)).
type Mount struct {
	Point string // absolute
	Type  string // "ext4", "proc"
}

// kernelType tells the file systems that show or steer the kernel. Those of the host are never shown:
// its procfs has every process, its sysfs every device, and a mount below a granted folder comes along.
func kernelType(name string) bool {
	switch name {
	case "proc", "sysfs", "cgroup", "cgroup2", "cpuset", "debugfs", "tracefs", "securityfs", "selinuxfs", "smackfs", "bpf", "configfs", "fusectl",
		"devpts", "devtmpfs", "mqueue", "nsfs", "binfmt_misc", "efivarfs", "pstore", "rpc_pipefs", "nfsd", "resctrl":
		return true
	}
	return false
}

// checkMounts refuses folders that bring a file system of the kernel's with them, and covers those that
// lie in a system folder, as in a chroot below /opt.
func (b *builder) checkMounts() error {
	mounts, err := b.mounts()
	if err != nil {
		return err
	}
	for _, m := range mounts {
		if !kernelType(m.Type) {
			continue
		}
		for i := range b.claims {
			c := &b.claims[i]
			switch {
			case !c.bound():
			case within(m.Point, c.step.Source) && !covered(mounts, m.Point, c.step.Source):
				return &Error{Step: "mount", Object: c.step.Why + " " + c.step.Source, Err: errors.New("lies in a file system of the kernel's: " + m.Type + " on " + m.Point),
					Hint: "leave it out; copy what the command needs from there to a file, and grant that"}
			case below(c.step.Source, m.Point) && b.shows(c, move(m.Point, c.step.Source, c.step.Target)):
				return &Error{Step: "mount", Object: c.step.Why + " " + c.step.Source, Err: errors.New("brings a file system of the kernel's with it: " + m.Type + " on " + m.Point),
					Hint: "--deny " + m.Point + " hides it, or unmount it first"}
			}
		}
		for i := range b.system {
			c := &b.system[i]
			if place := move(m.Point, c.step.Source, c.step.Target); within(c.step.Source, m.Point) && b.shows(c, place) {
				b.step(namespaces.Step{Op: namespaces.OpMask, Target: place, Optional: true, Why: "the kernel's: " + m.Type})
			}
		}
	}
	return nil
}

// mounts asks the host once.
func (b *builder) mounts() ([]Mount, error) {
	if b.mounted == nil {
		list, err := b.host.Mounts()
		if err != nil {
			return nil, &Error{Step: "mount", Object: "/proc/self/mountinfo", Err: err, Hint: "gobox reads there which file systems a granted folder brings; mount /proc"}
		}
		b.mounted = list
	}
	return b.mounted, nil
}

// covered tells whether another mount lies between point and path.
func covered(mounts []Mount, point, path string) bool {
	return slices.ContainsFunc(mounts, func(m Mount) bool { return below(point, m.Point) && within(m.Point, path) && !kernelType(m.Type) })
}

// shows tells whether place is visible inside as a part of c.
func (b *builder) shows(c *claim, place string) bool {
	over := func(target string) bool { return within(target, place) && len(target) > len(c.step.Target) }
	return !slices.ContainsFunc(b.masks, func(mask string) bool { return within(mask, place) }) &&
		!slices.ContainsFunc(b.claims, func(other claim) bool { return over(other.step.Target) })
}

// parseMounts reads mountinfo: "ID PARENT DEV ROOT POINT OPTIONS [TAG...] - TYPE SOURCE OPTIONS" a line.
func parseMounts(text string) ([]Mount, error) {
	list := make([]Mount, 0, strings.Count(text, "\n"))
	for line := range strings.Lines(text) {
		rest := line
		for range 4 {
			_, rest, _ = strings.Cut(rest, " ")
		}
		point, rest, _ := strings.Cut(rest, " ")
		_, rest, ok := strings.Cut(rest, " - ")
		kind, _, more := strings.Cut(rest, " ")
		if !ok || !more || point == "" {
			return nil, errors.New("a line is not understood")
		}
		list = append(list, Mount{Point: unescape(point), Type: kind})
	}
	return list, nil
}

// unescape undoes the kernel's octal escapes of space, tab, newline and backslash.
func unescape(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) && octal(s[i+1]) && octal(s[i+2]) && octal(s[i+3]) {
			out.WriteByte((s[i+1]-'0')<<6 | (s[i+2]-'0')<<3 | (s[i+3] - '0'))
			i += 3
			continue
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

func octal(c byte) bool { return c >= '0' && c <= '7' }
