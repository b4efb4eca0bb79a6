package main

import (
	"errors"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gobox/policy"
)

// descriptor is a flag that takes one of the caller's.
func descriptor(to *uint64) *value {
	return &value{kind: "N", parse: parsed(to, func(text string) (uint64, error) {
		n, err := policy.ParseCount(text)
		if err == nil && n < 3 {
			err = valueError{errors.New("0, 1 and 2 are the command's"), "open another one: --status-fd 3 3>FILE, --control-fd 3 3< <(sleep 60)"}
		}
		return n, err
	})}
}

// givenDescriptors are those that the caller has opened, when a flag names one. It is called before gobox opens any of its
// own. The Go runtime has some by then (cpu.max, epoll), but unlike them what was inherited is never close-on-exec.
func givenDescriptors(args []string) []int {
	if !namesDescriptor(args) {
		return nil
	}
	dir, err := unix.Open("/proc/self/fd", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(dir)
	var given []int
	buf := make([]byte, 8192)
	for {
		n, err := unix.ReadDirent(dir, buf)
		if err != nil || n <= 0 {
			return given
		}
		_, _, names := unix.ParseDirent(buf[:n], -1, nil)
		for _, name := range names {
			fd, err := strconv.Atoi(name)
			if err != nil || fd == dir {
				continue
			}
			if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
				given = append(given, fd)
			}
		}
	}
}

func namesDescriptor(args []string) bool {
	for _, a := range args {
		if a == "--" {
			return false
		}
		if strings.HasPrefix(a, "--status-fd") || strings.HasPrefix(a, "--control-fd") || strings.Contains(a, "=fd:") {
			return true
		}
	}
	return false
}
