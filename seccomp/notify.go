package seccomp

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"gobox/seccomp/bpfsim"
	"gobox/seccomp/sysnum"
)

// Notifying gives p with every refusal worth a record turned into a notification (seccomp_unotify(2)),
// whose receiver answers with the errno of p itself ([Listener.Answer]). Not worth one are the answers
// to probes: ENOSYS, ENOTTY and EINVAL, by which programs find out what a kernel has, and which some give
// at every start of a process.
func (p Program) Notifying() (Program, error) {
	code, err := bpfsim.Decode(p.BPF)
	if err != nil {
		return Program{}, err
	}
	for i, in := range code {
		if in.Code == retK && notable(Action(in.K)) {
			code[i].K = unix.SECCOMP_RET_USER_NOTIF
		}
	}
	return Program{Name: p.Name, BPF: code.Encode()}, nil
}

// retK is BPF_RET|BPF_K of <linux/bpf_common.h>.
const retK = 0x06

func notable(a Action) bool {
	if a.kind() != unix.SECCOMP_RET_ERRNO {
		return false
	}
	switch unix.Errno(a & unix.SECCOMP_RET_DATA) {
	case 0, unix.ENOSYS, unix.ENOTTY, unix.EINVAL:
		return false
	}
	return true
}

// Listener receives a filter's notifications. It never lets a call continue: the decision was the
// filter's, and what its arguments point to can change (seccomp_unotify(2), "Design goals; use of
// SECCOMP_USER_NOTIF_FLAG_CONTINUE").
type Listener struct {
	fd   int
	code bpfsim.Program
}

// NewListener reads the listener fd of a filter that came of p.Notifying. fd stays the caller's.
func NewListener(fd int, p Program) (*Listener, error) {
	code, err := bpfsim.Decode(p.BPF)
	if err != nil {
		return nil, fmt.Errorf("decode the filter of a listener: %w", err)
	}
	return &Listener{fd: fd, code: code}, nil
}

// Refusal is a system call that was refused.
type Refusal struct {
	NR    int
	Args  [6]uint64
	Errno unix.Errno // what the caller got
}

// notification and response are struct seccomp_notif and struct seccomp_notif_resp of
// <linux/seccomp.h>.
type notification struct {
	id    uint64
	pid   uint32
	flags uint32
	data  bpfsim.Data
}

type response struct {
	id    uint64
	val   int64
	error int32
	flags uint32
}

const (
	ioctlRecv = unix.SECCOMP_IOCTL_NOTIF_RECV
	ioctlSend = unix.SECCOMP_IOCTL_NOTIF_SEND
)

// Answer waits for one refused call, answers it as the filter would have, and says which it was. ok is
// false for one whose caller died meanwhile. An error means that no call can come any more.
func (l *Listener) Answer() (r Refusal, ok bool, err error) {
	fds := [...]unix.PollFd{{Fd: int32(l.fd), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(fds[:], -1); err != nil && err != unix.EINTR {
			return Refusal{}, false, err
		}
		if fds[0].Revents&unix.POLLIN != 0 {
			break
		}
		if fds[0].Revents != 0 {
			return Refusal{}, false, unix.EPIPE
		}
	}
	var n notification
	if errno := ioctl(l.fd, ioctlRecv, unsafe.Pointer(&n)); errno != 0 {
		if errno == unix.ENOENT || errno == unix.EINTR {
			return Refusal{}, false, nil
		}
		return Refusal{}, false, errno
	}
	verdict := Action(l.code.Run(&n.data))
	errno := unix.EPERM
	if verdict.kind() == unix.SECCOMP_RET_ERRNO {
		errno = unix.Errno(verdict & unix.SECCOMP_RET_DATA)
	}
	resp := response{id: n.id, error: -int32(errno)}
	if e := ioctl(l.fd, ioctlSend, unsafe.Pointer(&resp)); e != 0 && e != unix.ENOENT {
		return Refusal{}, false, e
	}
	return Refusal{NR: int(n.data.NR), Args: n.data.Args, Errno: errno}, true, nil
}

func ioctl(fd int, req uint, arg unsafe.Pointer) unix.Errno {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(req), uintptr(arg))
	return errno
}

// Name is the system call's name on this architecture, or "syscall N" for one that has none here.
func (r Refusal) Name() string {
	if name := sysnum.Name(r.NR, runtime.GOARCH); name != "" {
		return name
	}
	return fmt.Sprintf("syscall %d", r.NR)
}

// Detail is the argument that the verdict was about, where one tells more than the name; else empty.
func (r Refusal) Detail() string {
	arg := func(i int) uint32 { return uint32(r.Args[i]) }
	switch r.NR {
	case unix.SYS_SOCKET, unix.SYS_SOCKETPAIR:
		return fmt.Sprintf("family %d, type %d, protocol %d", arg(0), arg(1)&0xf, arg(2))
	case unix.SYS_CLONE, unix.SYS_UNSHARE:
		return fmt.Sprintf("flags %#x", arg(0))
	case unix.SYS_CLOSE_RANGE:
		return fmt.Sprintf("flags %#x", arg(2))
	case unix.SYS_IOCTL:
		return fmt.Sprintf("command %#x", arg(1))
	case unix.SYS_PRCTL:
		return fmt.Sprintf("option %d", arg(0))
	case unix.SYS_PERSONALITY:
		return fmt.Sprintf("persona %#x", arg(0))
	case unix.SYS_FCNTL:
		return fmt.Sprintf("command %d", arg(1))
	}
	return ""
}
