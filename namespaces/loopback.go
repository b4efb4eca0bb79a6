package namespaces

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// LoopbackUp sets the interface lo of the current network namespace up, and with it 127.0.0.1 and ::1
// (netdevice(7), SIOCSIFFLAGS).
func LoopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr); err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	return nil
}

// settings are sysctls of a sandbox's own.
//
// user: limits below the current user namespace (namespaces(7), inotify(7)). Nested user
// namespaces cannot be had even with the system call filter off; and inotify instances, of which a user has
// few, are the caller's too. Events that nobody reads are in no account but a cgroup's: up to fs.inotify.max_queued_events
// for each instance, some 10 MiB with the kernel's 16384.
//
// net: the ports below 1024 of the command's own network are for it, which has no capability that they are kept for (ip(7)).
// Only where that network is its own: init as root would change the host's, whose file belongs to root.
var settings = [...]struct {
	name, value string
	optional    bool // depends on the kernel's configuration
	network     bool
}{
	{"user/max_user_namespaces", "0", false, false},
	{"user/max_inotify_instances", "32", true, false},
	{"user/max_inotify_watches", "65536", true, false},
	{"net/ipv4/ip_unprivileged_port_start", "0", true, true},
}

// adjust writes the settings. proc is a procfs mount that is still writable.
func adjust(proc int, ownNetwork bool) error {
	for _, l := range settings {
		if l.network && !ownNetwork {
			continue
		}
		fd, err := unix.Openat(proc, "sys/"+l.name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err == unix.ENOENT && l.optional {
			continue
		}
		if err == nil {
			_, err = unix.Write(fd, []byte(l.value))
			unix.Close(fd)
		}
		if err != nil {
			return fmt.Errorf("set %s to %s: %w", l.name, l.value, err)
		}
	}
	return nil
}
