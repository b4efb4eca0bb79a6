package fsguard

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// utimensat sets the times of what an O_PATH descriptor refers to: AT_EMPTY_PATH, since Linux 5.8. x/sys takes
// no flags together with an empty path.
func utimensat(fd int, ts *[2]unix.Timespec) error {
	empty := [1]byte{}
	_, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), uintptr(unsafe.Pointer(&empty[0])),
		uintptr(unsafe.Pointer(ts)), unix.AT_EMPTY_PATH, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
