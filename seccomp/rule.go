package seccomp

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Action is what the kernel does with a system call: a SECCOMP_RET_* value of <linux/seccomp.h>, an errno in its low
// 16 bits. The zero value kills the thread, so a forgotten action fails closed.
type Action uint32

const (
	KillProcess Action = unix.SECCOMP_RET_KILL_PROCESS
	KillThread  Action = unix.SECCOMP_RET_KILL_THREAD
	Trap        Action = unix.SECCOMP_RET_TRAP // SIGSYS
	Log         Action = unix.SECCOMP_RET_LOG  // allowed, and logged by the host
	Allow       Action = unix.SECCOMP_RET_ALLOW

	denyEPERM  = Action(unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM))
	denyENOSYS = Action(unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS))
)

// maxErrno is the largest errno the kernel hands out, MAX_ERRNO of <linux/err.h>; seccomp(2) clamps to it.
const maxErrno = 4095

// Errno is the action that makes a call fail with e and do nothing.
func Errno(e unix.Errno) Action {
	return Action(unix.SECCOMP_RET_ERRNO | uint32(e)&unix.SECCOMP_RET_DATA)
}

// Permits reports whether the call goes on to the kernel.
func (a Action) Permits() bool { return a == Allow || a == Log }

// kind is the action without its data.
func (a Action) kind() Action { return a & unix.SECCOMP_RET_ACTION_FULL }

// stricter reports whether a outranks b, in the kernel's order (seccomp(2), "return values in decreasing precedence").
func (a Action) stricter(b Action) bool { return int32(a.kind()) < int32(b.kind()) }

// String gives "allow", "log", "kill process", "kill thread", "trap" or the errno's name.
func (a Action) String() string {
	switch a.kind() {
	case KillProcess:
		return "kill process"
	case KillThread:
		return "kill thread"
	case Trap:
		return "trap"
	case Log:
		return "log"
	case Allow:
		return "allow"
	case unix.SECCOMP_RET_ERRNO:
		if name := unix.ErrnoName(unix.Errno(a & unix.SECCOMP_RET_DATA)); name != "" {
			return name
		}
		return fmt.Sprintf("errno %d", a&unix.SECCOMP_RET_DATA)
	}
	return fmt.Sprintf("action %#x", uint32(a))
}

// Op compares a system call argument, all 64 bits of it, with a value.
type Op uint8

const (
	NotEqual Op = iota
	Less
	LessEqual
	Equal
	GreaterEqual
	Greater
	MaskedEqual // argument & Mask == Value
)

func (o Op) String() string {
	switch o {
	case NotEqual:
		return "!="
	case Less:
		return "<"
	case LessEqual:
		return "<="
	case Equal:
		return "=="
	case GreaterEqual:
		return ">="
	case Greater:
		return ">"
	case MaskedEqual:
		return "&=="
	}
	return fmt.Sprintf("op %d", uint8(o))
}

// Cond is one comparison. The kernel takes only the low half of an argument that C declares int, while a filter sees
// all 64 bits: comparing with anything but MaskedEqual then lets a caller slip past with a bit set above the 31st.
type Cond struct {
	Arg   uint8 // 0 to 5
	Op    Op
	Mask  uint64 // MaskedEqual only
	Value uint64
}

// Matches applies the comparison to the argument's value.
func (c Cond) Matches(v uint64) bool {
	switch c.Op {
	case NotEqual:
		return v != c.Value
	case Less:
		return v < c.Value
	case LessEqual:
		return v <= c.Value
	case Equal:
		return v == c.Value
	case GreaterEqual:
		return v >= c.Value
	case Greater:
		return v > c.Value
	case MaskedEqual:
		return v&c.Mask == c.Value
	}
	return false
}

func (c Cond) String() string {
	if c.Op != MaskedEqual {
		return fmt.Sprintf("arg%d %s %#x", c.Arg, c.Op, c.Value)
	}
	if c.Mask == low32 {
		return fmt.Sprintf("arg%d == %#x", c.Arg, c.Value)
	}
	return fmt.Sprintf("arg%d & %#x == %#x", c.Arg, c.Mask, c.Value)
}

// low32 selects what the kernel takes of an int argument.
const low32 = 0xFFFFFFFF

// Rule gives Action to a call whose arguments match every condition. Rules for the same call are alternatives.
type Rule struct {
	Name   string // of the system call
	Action Action
	Conds  []Cond
	Why    string // what a normal program needs the call for, or why it is refused; may be empty
}

func (r Rule) matches(args *[6]uint64) bool {
	for _, c := range r.Conds {
		if !c.Matches(args[c.Arg]) {
			return false
		}
	}
	return true
}

// Rest gives Action to those calls of Name that match none of its rules, in place of the profile's default. Without it
// a refused ioctl would claim that ioctl itself does not exist.
type Rest struct {
	Name   string
	Action Action
}
