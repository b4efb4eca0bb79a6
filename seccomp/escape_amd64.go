package seccomp

import "golang.org/x/sys/unix"

// escapeOfArch holds the calls that only this architecture has.
func escapeOfArch(nr int) bool {
	switch nr {
	case unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_MKNOD, unix.SYS_CREATE_MODULE:
		return true
	}
	return false
}
