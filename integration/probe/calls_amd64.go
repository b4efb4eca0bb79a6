package main

import (
	"encoding/binary"
	"runtime"

	"golang.org/x/sys/unix"
)

// int80call enters the kernel by the 32-bit gate.
func int80call(nr, a, b uint32) uint32

// socketcall FAMILY: socket(2) by the multiplexer that only 32-bit callers have, whose arguments lie in memory where
// no filter sees them
func socketcall(a []string) (int64, string, error) {
	const (
		nrSocketcall = 102 // __NR_socketcall of i386
		sysSocket    = 1   // SYS_SOCKET of <linux/net.h>
	)
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_32BIT)
	if err != nil {
		return -1, "page", err
	}
	defer unix.Munmap(page)
	for i, arg := range []uint32{uint32(number(a[0])), unix.SOCK_SEQPACKET, 0} {
		binary.LittleEndian.PutUint32(page[4*i:], arg)
	}
	r := int32(int80call(nrSocketcall, sysSocket, uint32(pointer(page))))
	if r < 0 {
		return -1, "", unix.Errno(-r)
	}
	return int64(r), "", unix.Close(int(r))
}

// oldCreate and oldChmod make the calls that newer architectures have only in the form with a directory.
func oldCreate(how, name string, mode uintptr) (int64, string, error) {
	path := append([]byte(name), 0)
	defer runtime.KeepAlive(path)
	switch how {
	case "creat":
		return made(unix.SYS_CREAT, pointer(path), mode)
	case "mknod":
		return made(unix.SYS_MKNOD, pointer(path), mode|unix.S_IFREG, 0)
	default:
		return made(unix.SYS_OPEN, pointer(path), unix.O_CREAT|unix.O_WRONLY, mode)
	}
}

func oldChmod(name string, mode uintptr) (int64, string, error) {
	path := append([]byte(name), 0)
	defer runtime.KeepAlive(path)
	return made(unix.SYS_CHMOD, pointer(path), mode)
}
