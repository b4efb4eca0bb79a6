package attempt

import (
	"runtime"
	"strconv"

	"gobox/seccomp/sysnum"
)

// Sysno gives a system call's number as the probe's argument. It panics on what is no call of this architecture.
func Sysno(name string) string {
	nr, err := sysnum.Number(name, runtime.GOARCH)
	if err != nil {
		panic(err)
	}
	return strconv.Itoa(nr)
}

// CallOf is the name of the system call that an attempt makes, as far as it makes a certain one; "" else.
func CallOf(words []string) string {
	switch words[0] {
	case "clone", "chroot", "setns", "ptrace":
		return words[0]
	case "tty-ioctl", "tty-inject":
		return "ioctl"
	case "listener", "loosen":
		return "seccomp"
	case "vmread":
		return "process_vm_readv"
	case "vmwrite":
		return "process_vm_writev"
	case "syscall":
		return sysnum.Name(int(Number(words[1])), runtime.GOARCH)
	}
	return ""
}
