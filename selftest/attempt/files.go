package attempt

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

func fileAttempt(name string) Func {
	switch name {
	case "open":
		return open
	case "cat":
		return cat
	case "write":
		return write
	case "list":
		return list
	case "walkup":
		return walkUp
	case "reopen":
		return reopen
	case "connect-unix":
		return connectUnix
	case "getcwd":
		return func([]string) (int64, string, error) {
			var buf [4096]byte
			n, err := unix.Getcwd(buf[:])
			if err != nil {
				return -1, "", err
			}
			return int64(n), strings.TrimRight(string(buf[:n]), "\x00"), nil
		}
	case "fds":
		return descriptors
	}
	return nil
}

func openFlags(mode string) int {
	switch mode {
	case "r":
		return unix.O_RDONLY
	case "w":
		return unix.O_WRONLY
	case "rw":
		return unix.O_RDWR
	case "creat":
		return unix.O_WRONLY | unix.O_CREAT
	case "excl":
		return unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL
	case "trunc":
		return unix.O_WRONLY | unix.O_TRUNC
	case "rtrunc":
		return unix.O_RDONLY | unix.O_TRUNC
	case "path":
		return unix.O_PATH
	case "dir":
		return unix.O_RDONLY | unix.O_DIRECTORY
	}
	panic("mode " + mode)
}

// open MODE PATH
func open(args []string) (int64, string, error) {
	fd, err := unix.Open(args[1], openFlags(args[0])|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0o644)
	if err != nil {
		return -1, "", err
	}
	defer unix.Close(fd)
	return int64(fd), "", nil
}

// cat PATH: the first 64 KiB as detail
func cat(args []string) (int64, string, error) {
	fd, err := unix.Open(args[0], unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return -1, "", err
	}
	f := os.NewFile(uintptr(fd), args[0])
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 64<<10))
	return int64(len(data)), string(data), err
}

// write PATH TEXT: replaces the beginning, creating the file when missing
func write(args []string) (int64, string, error) {
	fd, err := unix.Open(args[0], unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NONBLOCK, 0o644)
	if err != nil {
		return -1, "open", err
	}
	defer unix.Close(fd)
	n, err := unix.Write(fd, []byte(args[1]))
	return int64(n), "", err
}

// list PATH: names as detail, one a line
func list(args []string) (int64, string, error) {
	entries, err := os.ReadDir(args[0])
	if err != nil {
		return -1, "", err
	}
	var b strings.Builder
	for _, e := range entries {
		fmt.Fprintln(&b, e.Name())
	}
	return int64(len(entries)), b.String(), nil
}

// walkup DIR PATH: opens PATH from 64 times ".." above DIR
func walkUp(args []string) (int64, string, error) {
	dir, err := unix.Open(args[0], unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, "directory", err
	}
	defer unix.Close(dir)
	fd, err := unix.Openat(dir, strings.Repeat("../", 64)+strings.TrimPrefix(args[1], "/"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, "", err
	}
	defer unix.Close(fd)
	return int64(fd), "", nil
}

// reopen FD MODE: opens an own descriptor again through /proc
func reopen(args []string) (int64, string, error) {
	return open([]string{args[1], "/proc/self/fd/" + args[0]})
}

// connect-unix stream|dgram PATH ("@name" is abstract)
func connectUnix(args []string) (int64, string, error) {
	typ := unix.SOCK_STREAM
	if args[0] == "dgram" {
		typ = unix.SOCK_DGRAM
	}
	fd, err := unix.Socket(unix.AF_UNIX, typ|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, "socket", err
	}
	defer unix.Close(fd)
	if typ == unix.SOCK_DGRAM {
		return 0, "", unix.Sendto(fd, []byte("probe"), 0, &unix.SockaddrUnix{Name: args[1]})
	}
	return 0, "", unix.Connect(fd, &unix.SockaddrUnix{Name: args[1]})
}

// descriptors asks the kernel about each number instead of reading /proc, which opens one itself. The
// runtime's own (epoll, eventfd, the cgroup's CPU quota) are told by what they are.
func descriptors([]string) (int64, string, error) {
	var b strings.Builder
	n := 0
	for fd := range 4096 {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil {
			continue
		}
		target, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		if fd > 2 && (strings.HasPrefix(target, "anon_inode:[event") || strings.HasPrefix(target, "/sys/fs/cgroup/")) {
			continue
		}
		n++
		fmt.Fprintf(&b, "%d %s\n", fd, target)
	}
	return int64(n), b.String(), nil
}
