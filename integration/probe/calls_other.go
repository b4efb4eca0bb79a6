//go:build !amd64

package main

import "golang.org/x/sys/unix"

func socketcall([]string) (int64, string, error) {
	return -1, "no 32-bit entry on this architecture", unix.ENOSYS
}

func oldCreate(string, string, uintptr) (int64, string, error) { return -1, "", unix.ENOSYS }

func oldChmod(string, uintptr) (int64, string, error) { return -1, "", unix.ENOSYS }
