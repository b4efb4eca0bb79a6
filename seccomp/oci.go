package seccomp

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Kernel is a Linux version, as far as profiles ask for it.
type Kernel struct{ Major, Minor int }

// RunningKernel is the version that uname(2) gives.
func RunningKernel() (Kernel, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return Kernel{}, fmt.Errorf("ask for kernel version: %w", err)
	}
	release := unix.ByteSliceToString(u.Release[:])
	k, ok := parseKernel(release, true)
	if !ok {
		return Kernel{}, fmt.Errorf("ask for kernel version: %q is none", release)
	}
	return k, nil
}

// parseKernel reads "major.minor", and ignores what follows where a tail is expected.
func parseKernel(s string, tail bool) (Kernel, bool) {
	major, rest, ok := strings.Cut(s, ".")
	if !ok {
		return Kernel{}, false
	}
	if end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' }); tail && end >= 0 {
		rest = rest[:end]
	}
	a, err1 := strconv.ParseUint(major, 10, 16)
	b, err2 := strconv.ParseUint(rest, 10, 16)
	return Kernel{int(a), int(b)}, err1 == nil && err2 == nil
}

func (k Kernel) atLeast(o Kernel) bool {
	return k.Major > o.Major || k.Major == o.Major && k.Minor >= o.Minor
}

// ParseOCI reads a seccomp profile: the linux.seccomp object of the OCI runtime specification, or the file form that
// Docker and Podman take, whose conditions are decided for a process without capabilities on this architecture and the
// given kernel. name is the file's, for messages and as the profile's name.
//
// Anything that would not be honoured is refused with a *SyntaxError that has its place: unknown keys and values, the
// actions NOTIFY and TRACE, filter flags, a profile for other architectures only, one that denies execve. Names of calls
// that this machine lacks are left out where the profile denies by default, and refused where it allows by default.
func ParseOCI(data []byte, name string, kernel Kernel) (Profile, error) {
	return parseOCI(data, name, kernel, runtime.GOARCH)
}

func parseOCI(data []byte, name string, kernel Kernel, arch string) (Profile, error) {
	r := ociReader{document: document{file: name, data: data}, kernel: kernel, arch: arch}
	r.profile.Name = name
	root, err := r.parse()
	if err != nil {
		return Profile{}, err
	}
	if err := r.readProfile(root); err != nil {
		return Profile{}, err
	}
	if err := r.profile.checkRunnable(); err != nil {
		return Profile{}, r.errorAt(root.offset, "%v", err)
	}
	return r.profile, nil
}

// ociReader fills in a profile from a document.
type ociReader struct {
	document
	kernel  Kernel
	arch    string
	profile Profile
}

func (r *ociReader) readProfile(root node) error {
	members, ok := root.value.([]member)
	if !ok {
		return r.errorAt(root.offset, "a profile must be an object")
	}
	var action, errno, errnoName, archMap, architectures, syscalls *member
	for i := range members {
		m := &members[i]
		switch m.key {
		case "defaultAction":
			action = m
		case "defaultErrnoRet":
			errno = m
		case "defaultErrno":
			errnoName = m
		case "architectures":
			architectures = m
		case "archMap":
			archMap = m
		case "syscalls":
			syscalls = m
		case "flags":
			if err := r.readFlags(m.node); err != nil {
				return err
			}
		case "listenerPath", "listenerMetadata":
			return r.errorAt(m.keyOffset, "%s: gobox hands no calls to a listener", m.key)
		case "ociVersion", "process", "linux", "root":
			return r.errorAt(m.keyOffset, "this is a whole runtime configuration; give the object under linux.seccomp alone")
		default:
			return r.errorAt(m.keyOffset, "unknown key %q", m.key)
		}
	}
	if action == nil {
		return r.errorAt(root.offset, "defaultAction is missing")
	}
	var err error
	if r.profile.Default, err = r.readAction(action, errno, errnoName); err != nil {
		return err
	}
	if archMap != nil && architectures != nil {
		return r.errorAt(archMap.keyOffset, "archMap and architectures are given both")
	}
	if architectures != nil {
		if err := r.readArchitectures(architectures.node); err != nil {
			return err
		}
	}
	if archMap != nil {
		if err := r.readArchMap(archMap.node); err != nil {
			return err
		}
	}
	if syscalls == nil {
		return nil
	}
	entries, err := r.list(syscalls.node, "syscalls")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := r.readEntry(entry); err != nil {
			return err
		}
	}
	return nil
}

// readFlags lets pass what is true anyway: the filter binds a process of one thread.
func (r *ociReader) readFlags(n node) error {
	items, flags, err := r.texts(n, "flags")
	if err != nil {
		return err
	}
	for i, flag := range flags {
		switch flag {
		case "SECCOMP_FILTER_FLAG_TSYNC":
		case "SECCOMP_FILTER_FLAG_LOG", "SECCOMP_FILTER_FLAG_SPEC_ALLOW", "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV":
			return r.errorAt(items[i].offset, "flag %s is not supported", flag)
		default:
			return r.errorAt(items[i].offset, "unknown flag %q", flag)
		}
	}
	return nil
}

// readAction combines an action with its errno, given as a number (OCI) or a name (Podman).
func (r *ociReader) readAction(action, errno, errnoName *member) (Action, error) {
	word, err := r.text(action.node, action.key)
	if err != nil {
		return 0, err
	}
	var a Action
	switch word {
	case "SCMP_ACT_ALLOW":
		a = Allow
	case "SCMP_ACT_LOG":
		a = Log
	case "SCMP_ACT_ERRNO":
		a = denyEPERM
	case "SCMP_ACT_KILL", "SCMP_ACT_KILL_THREAD":
		a = KillThread
	case "SCMP_ACT_KILL_PROCESS":
		a = KillProcess
	case "SCMP_ACT_TRAP":
		a = Trap
	case "SCMP_ACT_NOTIFY", "SCMP_ACT_TRACE":
		return 0, r.errorAt(action.offset, "action %s needs a second process that decides, gobox has none", word)
	default:
		return 0, r.errorAt(action.offset, "unknown action %q", word)
	}
	return r.withErrno(a, word, errno, errnoName)
}

func (r *ociReader) withErrno(a Action, word string, errno, errnoName *member) (Action, error) {
	if errno != nil && errno.value == nil {
		errno = nil
	}
	for _, m := range []*member{errno, errnoName} {
		if m != nil && a.kind() != denyEPERM.kind() {
			return 0, r.errorAt(m.keyOffset, "%s has no meaning with action %s", m.key, word)
		}
	}
	if errno != nil {
		v, err := r.number(errno.node, errno.key, maxErrno)
		if err != nil {
			return 0, err
		}
		a = Errno(unix.Errno(v))
	}
	if errnoName != nil {
		text, err := r.text(errnoName.node, errnoName.key)
		if err != nil {
			return 0, err
		}
		named, ok := errnoByName(text)
		if !ok {
			return 0, r.errorAt(errnoName.offset, "unknown errno %q", text)
		}
		if errno != nil && a != Errno(named) {
			return 0, r.errorAt(errnoName.offset, "%s is %s but %s is %s", errno.key, a, errnoName.key, text)
		}
		a = Errno(named)
	}
	return a, nil
}

func errnoByName(name string) (unix.Errno, bool) {
	for e := unix.Errno(1); e <= maxErrno; e++ {
		if n := unix.ErrnoName(e); n != "" && n == name {
			return e, true
		}
	}
	return 0, false
}

func (r *ociReader) note(format string, args ...any) {
	r.profile.Notes = append(r.profile.Notes, fmt.Sprintf(format, args...))
}
