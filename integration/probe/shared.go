package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"gobox/selftest/attempt"
)

// sharedAttempt is about what two processes may meet in that is no file: IPC, keys, locks, the page cache.
func sharedAttempt(name string) attempt.Func {
	switch name {
	case "shm-make":
		return func(a []string) (int64, string, error) {
			r, err := call(unix.SYS_SHMGET, number(a[0]), 4096, unix.IPC_CREAT|unix.IPC_EXCL|0o666)
			return r, "", err
		}
	case "shm-find":
		return func(a []string) (int64, string, error) {
			r, err := call(unix.SYS_SHMGET, number(a[0]), 0, 0)
			return r, "", err
		}
	case "mq-make":
		return messageQueue(unix.O_RDWR | unix.O_CREAT | unix.O_EXCL)
	case "mq-find":
		return messageQueue(unix.O_RDWR)
	case "key-find":
		return keyFind
	case "ioctl":
		// ioctl PATH COMMAND, with eight bytes of its own to answer into
		return func(a []string) (int64, string, error) {
			fd, err := unix.Open(a[0], unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
			if err != nil {
				return -1, "open", err
			}
			defer unix.Close(fd)
			var answer [8]byte
			r, err := call(unix.SYS_IOCTL, uintptr(fd), number(a[1]), uintptr(unsafe.Pointer(&answer)))
			return r, "", err
		}
	case "lease":
		// lease PATH COMMAND ARG: F_SETLEASE (1024) or F_NOTIFY (1026)
		return func(a []string) (int64, string, error) {
			fd, err := unix.Open(a[0], unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return -1, "open", err
			}
			defer unix.Close(fd)
			r, err := unix.FcntlInt(uintptr(fd), int(number(a[1])), int(number(a[2])))
			return int64(r), "", err
		}
	case "memfd-run":
		return memfdRun
	case "dirty-pipe":
		return dirtyPipe
	}
	return nil
}

// messageQueue NAME: POSIX, without the leading slash that only the C library wants
func messageQueue(flags int) attempt.Func {
	return func(a []string) (int64, string, error) {
		name := append([]byte(a[0]), 0)
		fd, err := call(unix.SYS_MQ_OPEN, pointer(name), uintptr(flags), 0o666, 0)
		runtime.KeepAlive(name)
		if err == nil {
			unix.Close(int(fd))
		}
		return fd, "", err
	}
}

// key-find NAME: a key of type "user" in the keyring of the caller's session, and what is in it
func keyFind(a []string) (int64, string, error) {
	id, err := unix.KeyctlSearch(unix.KEY_SPEC_SESSION_KEYRING, "user", a[0], 0)
	if err != nil {
		return -1, "", err
	}
	buf := make([]byte, 64)
	n, err := unix.KeyctlBuffer(unix.KEYCTL_READ, id, buf, 0)
	return int64(id), string(buf[:min(max(n, 0), len(buf))]), err
}

// memfd-run ATTEMPT ARG...: made by this program run from memory, from no file of any mount
func memfdRun(a []string) (int64, string, error) {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return -1, "read itself", err
	}
	defer self.Close()
	fd, err := unix.MemfdCreate("copy", 0)
	if err != nil {
		return -1, "memfd_create", err
	}
	defer unix.Close(fd)
	// Through a duplicate that can be closed: a file that is open for writing cannot be executed.
	w, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, "open again", err
	}
	out := os.NewFile(uintptr(w), "copy")
	_, err = io.Copy(out, self)
	out.Close()
	if err != nil {
		return -1, "copy", err
	}
	// Executed by a read-only description, for the same reason.
	r, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY, 0)
	if err != nil {
		return -1, "open to execute", err
	}
	defer unix.Close(r)
	unix.Close(fd)
	cmd := exec.Command(fmt.Sprintf("/proc/self/fd/%d", r), a...)
	text, err := cmd.Output()
	return 0, string(text), err
}

// dirty-pipe FILE: CVE-2022-0847. Fills and drains a pipe, so that its buffers have the flag that lets them be
// appended to, puts a page of the file into one by splice(2), and writes.
func dirtyPipe(a []string) (int64, string, error) {
	fd, err := unix.Open(a[0], unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, "open", err
	}
	defer unix.Close(fd)
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return -1, "pipe", err
	}
	defer unix.Close(p[0])
	defer unix.Close(p[1])
	size, err := unix.FcntlInt(uintptr(p[1]), unix.F_GETPIPE_SZ, 0)
	if err != nil {
		return -1, "pipe size", err
	}
	page := make([]byte, 4096)
	for n := 0; n < size; n += len(page) {
		if _, err := unix.Write(p[1], page); err != nil {
			return -1, "fill", err
		}
	}
	for n := 0; n < size; {
		k, err := unix.Read(p[0], page)
		if err != nil || k == 0 {
			return -1, "drain", err
		}
		n += k
	}
	offset := int64(0)
	if n, err := unix.Splice(fd, &offset, p[1], nil, 1, 0); err != nil || n != 1 {
		if err == nil {
			err = syscall.EIO
		}
		return -1, "splice", err
	}
	n, err := unix.Write(p[1], []byte("DIRTY"))
	return int64(n), "", err
}

// flying N D: N descriptors in flight over sockets that nobody reads (unix(7)), for a time. It says so on stderr.
func flying(n int, d string) int {
	limit, err := time.ParseDuration(d)
	if err != nil {
		return 2
	}
	for n > 0 {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		some := make([]int, min(n, 200))
		n -= len(some)
		if err := unix.Sendmsg(pair[0], []byte("x"), unix.UnixRights(some...), nil, 0); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	fmt.Fprintln(os.Stderr, "flying")
	time.Sleep(limit)
	return 0
}
