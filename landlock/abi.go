package landlock

import (
	"errors"
	"fmt"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// newestABI is the newest ABI with a right that Build handles. A newer kernel is used as this one.
const newestABI = 9

// ABI probes the kernel's Landlock ABI version, which starts at 1. Without Landlock it is 0 and the
// error wraps ENOSYS (not built into the kernel, or refused by an outer seccomp filter) or EOPNOTSUPP
// (built in, but not enabled at boot).
func ABI() (int, error) {
	v, err := ll.LandlockGetABIVersion()
	switch {
	case err == nil && v > 0:
		return v, nil
	case errors.Is(err, unix.ENOSYS):
		return 0, fmt.Errorf("landlock is not in this kernel or an outer filter hides it: %w", err)
	case errors.Is(err, unix.EOPNOTSUPP):
		return 0, fmt.Errorf("landlock is not among the security modules enabled at boot (lsm=): %w", err)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return 0, fmt.Errorf("an outer filter refuses landlock: %w", err)
	case err == nil:
		err = unix.EINVAL
	}
	return 0, fmt.Errorf("probe landlock: %w", err)
}

// The errata that LANDLOCK_CREATE_RULESET_ERRATA tells of are not asked for: none of them lowers the ABI that gobox uses, as
// handling a right with a defect keeps more out than not handling it, and the one on signals between threads concerns a process
// whose threads entered different domains, which the command's process, alone when it enters its domain, never is.

// Gaps says in words, the most costly first, what Landlock at this ABI leaves to the other walls
// although a newer kernel's would hold it. It is empty for the newest ABI known.
func Gaps(abi int) []string {
	if abi < 1 {
		return []string{"no path is held by landlock: only the mounts, the namespaces and seccomp stand"}
	}
	var gaps []string
	for _, g := range [...]struct {
		below int
		text  string
	}{
		{3, "truncate(2) is not held: only read-only mounts keep files from being emptied"},
		{5, "ioctl on devices is not held: only seccomp and the minimal /dev limit it"},
		{6, "signals and abstract unix sockets are not held: only the pid and network namespaces keep them inside"},
		{9, "connecting to unix sockets by path is not held: a host socket inside a granted directory can be used"},
		{2, "moving or linking files to another directory always fails with EXDEV: git, npm and pip may fail or copy"},
	} {
		if abi < g.below {
			gaps = append(gaps, g.text)
		}
	}
	return gaps
}
