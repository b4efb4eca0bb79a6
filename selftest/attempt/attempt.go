// Package attempt is what can be tried from inside of a sandbox: each attempt is a name with arguments, and answers with what the
// kernel said. `gobox selftest` and the isolation suite make the same ones.
//
// Attempts that would do harm if they succeeded are made with bad pointers or descriptors: a call that a filter lets
// through answers EFAULT or EBADF and changes nothing. What only the suite tries is in integration/probe and not in the binary.
package attempt

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Outcome is what came of an attempt. Errno is the symbolic name, empty on success.
type Outcome struct {
	Attempt string `json:"attempt"`
	Ret     int64  `json:"ret"`
	Errno   string `json:"errno"`
	Detail  string `json:"detail"`
}

// Func makes one try. A string without an error is detail of a success.
type Func func(args []string) (int64, string, error)

// Lookup finds an attempt by its name; nil when there is none. Some start this program again: self are the arguments
// with which it makes the attempt that follows them.
func Lookup(name string, self ...string) Func {
	for _, find := range []func(string) Func{fileAttempt, metadataAttempt, kernelAttempt, networkAttempt, stdioAttempt, boundedAttempt} {
		if a := find(name); a != nil {
			return a
		}
	}
	return processAttempt(name, self)
}

// Tell makes an Outcome of what an attempt gave.
func Tell(name string, ret int64, detail string, err error) Outcome {
	o := Outcome{Attempt: name, Ret: ret, Detail: detail}
	if err != nil {
		o.Ret = -1
		o.Errno = ErrnoName(err)
		if o.Detail == "" {
			o.Detail = err.Error()
		}
	}
	return o
}

// ErrnoName is the symbolic name of the errno in err.
func ErrnoName(err error) string {
	var e syscall.Errno
	for {
		if n, ok := err.(syscall.Errno); ok {
			e = n
			break
		}
		u, ok := err.(interface{ Unwrap() error })
		if !ok {
			return "ERROR"
		}
		err = u.Unwrap()
	}
	if name := unix.ErrnoName(e); name != "" {
		return name
	}
	return fmt.Sprintf("E%d", int(e))
}

// BadPointer is below vm.mmap_min_addr and so never mapped.
const BadPointer = 1

// Number reads an argument of an attempt: "bad" is BadPointer. It panics on what is no number.
func Number(s string) uintptr {
	if s == "bad" {
		return BadPointer
	}
	n, err := strconv.ParseInt(s, 0, 64)
	if err != nil {
		u, err := strconv.ParseUint(s, 0, 64)
		if err != nil {
			panic(err)
		}
		return uintptr(u)
	}
	return uintptr(n)
}

// Pointer is the address of b, which the caller keeps alive.
func Pointer(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// Call makes a raw system call; the runtime's wrappers would retry and translate.
func Call(nr uintptr, args ...uintptr) (int64, error) {
	var a [6]uintptr
	copy(a[:], args)
	r, _, e := syscall.RawSyscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
	if e != 0 {
		return -1, e
	}
	return int64(r), nil
}

// Syscall turns "NAME ARG..." into the attempt that makes that call. It panics on a name that [Sysno] does not know.
func Syscall(call string) string {
	name, args, _ := strings.Cut(call, " ")
	return strings.TrimSpace("syscall " + Sysno(name) + " " + args)
}

func stdioAttempt(name string) Func {
	switch name {
	case "environ":
		return func([]string) (int64, string, error) {
			return int64(len(os.Environ())), strings.Join(os.Environ(), "\n"), nil
		}
	case "hold":
		// Waits for the end of its input.
		return func([]string) (int64, string, error) {
			n, err := io.Copy(io.Discard, os.Stdin)
			return n, "", err
		}
	case "tty-inject":
		return ttyInject
	case "tty-ioctl":
		return func(a []string) (int64, string, error) {
			r, err := Call(unix.SYS_IOCTL, Number(a[0]), Number(a[1]), Number(a[2]))
			return r, "", err
		}
	}
	return nil
}

// ttyInject FD: TIOCSTI of one harmless letter
func ttyInject(a []string) (int64, string, error) {
	c := []byte{'x'}
	r, err := Call(unix.SYS_IOCTL, Number(a[0]), Number(a[1]), Pointer(c))
	return r, string(c[:0]), err
}
