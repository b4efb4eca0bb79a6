package main

import (
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"gobox/selftest/attempt"
)

// modeAttempt are the ways to give a regular file a mode: NAME-mode PATH MODE.
func modeAttempt(name string) attempt.Func {
	how, ok := strings.CutSuffix(name, "-mode")
	if !ok {
		return nil
	}
	return func(a []string) (int64, string, error) {
		path, mode := append([]byte(a[0]), 0), number(a[1])
		defer runtime.KeepAlive(path)
		at := ^uintptr(99) // AT_FDCWD
		switch how {
		case "chmod", "fchmod", "fchmodat", "fchmodat2", "tmpfile":
			return giveMode(how, a[0], path, mode)
		case "open", "creat", "mknod":
			return oldCreate(how, a[0], mode)
		case "openat":
			return made(unix.SYS_OPENAT, at, pointer(path), unix.O_CREAT|unix.O_WRONLY, mode)
		case "openat2":
			open := unix.OpenHow{Flags: unix.O_CREAT | unix.O_WRONLY, Mode: uint64(mode)}
			return made(unix.SYS_OPENAT2, at, pointer(path), uintptr(unsafe.Pointer(&open)), unsafe.Sizeof(open))
		case "mknodat":
			return made(unix.SYS_MKNODAT, at, pointer(path), mode|unix.S_IFREG, 0)
		}
		panic("way " + how)
	}
}

func made(nr uintptr, args ...uintptr) (int64, string, error) {
	r, err := call(nr, args...)
	return r, "", err
}

// giveMode changes the mode of a file that is there already.
func giveMode(how, name string, path []byte, mode uintptr) (int64, string, error) {
	flags := unix.O_CREAT | unix.O_WRONLY
	if how == "tmpfile" {
		name, flags = name[:strings.LastIndexByte(name, '/')], unix.O_TMPFILE|unix.O_WRONLY
	}
	created := uint32(0o644)
	if how == "tmpfile" {
		created = uint32(mode)
	}
	fd, err := unix.Open(name, flags|unix.O_CLOEXEC, created)
	if err != nil {
		return -1, "open", err
	}
	defer unix.Close(fd)
	at := ^uintptr(99)
	switch how {
	case "chmod":
		return oldChmod(name, mode)
	case "fchmod":
		return made(unix.SYS_FCHMOD, uintptr(fd), mode)
	case "fchmodat":
		return made(unix.SYS_FCHMODAT, at, pointer(path), mode)
	case "fchmodat2":
		return made(452, at, pointer(path), mode, 0)
	default:
		self := append([]byte("/proc/self/fd/"+strconv.Itoa(fd)), 0)
		defer runtime.KeepAlive(self)
		return made(unix.SYS_LINKAT, at, pointer(self), at, pointer(path), unix.AT_SYMLINK_FOLLOW)
	}
}
