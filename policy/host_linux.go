package policy

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"gobox/landlock"
	"gobox/policy/toolchain"
	"gobox/rlimit"
	"gobox/seccomp"
)

// CurrentHost describes this host for the calling process. It costs a few system calls; the file
// system is read only as far as a plan asks.
func CurrentHost() Host {
	// Without Landlock the version is 0, and Resolve says so.
	abi, landlockLack := landlock.ABI()
	seccompLack := seccompAvailable()
	return Host{
		EUID:        uint32(os.Geteuid()),
		EGID:        uint32(os.Getegid()),
		Environ:     os.Environ(),
		Dir:         currentDir(),
		FS:          toolchain.HostFS(),
		Mounts:      currentMounts,
		LandlockABI: abi,
		Kernel:      seccomp.RunningKernel,
		Seccomp:     seccompLack == nil,
		HardLimit:   hardLimit,

		LandlockLack: landlockLack,
		SeccompLack:  seccompLack,
	}
}

// currentDir prefers $PWD, when it names the same directory, since the caller's arguments use that
// name. A $PWD in /proc would name whatever the reader's own process has there.
func currentDir() string {
	if pwd := os.Getenv("PWD"); strings.HasPrefix(pwd, "/") && !within("/proc", pwd) {
		var named, here unix.Stat_t
		if unix.Stat(pwd, &named) == nil && unix.Stat(".", &here) == nil && named.Dev == here.Dev && named.Ino == here.Ino {
			return pwd
		}
	}
	var buf [unix.PathMax]byte
	n, err := unix.Getcwd(buf[:])
	if err != nil || n < 2 || buf[0] != '/' {
		return ""
	}
	return string(buf[:n-1])
}

// currentMounts reads /proc/self/mountinfo, which takes some tens of microseconds for as many mounts. A read
// ends between two lines.
func currentMounts() ([]Mount, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, plainCause(err)
	}
	defer f.Close()
	text := make([]byte, 0, 16<<10)
	for {
		n, err := f.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		if err == io.EOF {
			return parseMounts(string(text))
		}
		if err != nil {
			return nil, plainCause(err)
		}
		text = slices.Grow(text, 8<<10)
	}
}

// seccompAvailable asks for the newest that gobox needs of seccomp(2), notifications; nil when they can be had.
func seccompAvailable() error {
	action := uint32(unix.SECCOMP_RET_USER_NOTIF)
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	switch errno {
	case 0:
		return nil
	case unix.ENOSYS:
		return fmt.Errorf("the kernel has no seccomp filters, or an outer filter hides them: %w", errno)
	case unix.EPERM, unix.EACCES:
		return fmt.Errorf("an outer filter refuses seccomp(2): %w", errno)
	}
	return fmt.Errorf("the kernel's seccomp filters have no notifications: %w", errno)
}

// hardLimit is none where the kernel gives no answer: a limit above the real one is then refused by setrlimit(2), which tells; any lower one
// would end the command for nothing.
func hardLimit(resource int) uint64 {
	hard, err := rlimit.Hard(resource)
	if err != nil {
		return rlimit.Unlimited
	}
	return hard
}
