package cgroup

import (
	"bytes"
	"errors"
	"strconv"

	"golang.org/x/sys/unix"
)

// read returns the first bytes of a small kernel file, as many as fit into buf. Such files are made anew by
// every first read, so one call is one consistent state.
func read(path string, buf []byte) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	n, err := retry(func() (int, error) { return unix.Read(fd, buf) })
	if err != nil {
		return nil, err
	}
	return buf[:n], nil
}

// readAll is read for a file of any length up to limit bytes.
func readAll(path string, limit int) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var all []byte
	buf := make([]byte, 4096)
	for len(all) < limit {
		n, err := retry(func() (int, error) { return unix.Read(fd, buf) })
		if err != nil {
			return nil, err
		}
		if n == 0 {
			break
		}
		all = append(all, buf[:n]...)
	}
	return all, nil
}

func write(path, value string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = retry(func() (int, error) { return unix.Write(fd, []byte(value)) })
	return err
}

func retry(f func() (int, error)) (int, error) {
	for {
		n, err := f()
		if err != unix.EINTR {
			return n, err
		}
	}
}

func exists(path string) bool { return unix.Access(path, unix.F_OK) == nil }

// writable asks with the effective ids, and sees read-only mounts too.
func writable(path string) error {
	return unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK, unix.AT_EACCESS)
}

// number reads a file of one number; "max" is ^uint64(0).
func number(path string) (uint64, error) {
	var buf [64]byte
	data, err := read(path, buf[:])
	if err != nil {
		return 0, err
	}
	data = bytes.TrimSpace(data)
	if string(data) == "max" {
		return ^uint64(0), nil
	}
	return strconv.ParseUint(string(data), 10, 64)
}

// field is the value of key in a flat keyed file ("key value" per line).
func field(data []byte, key string) (uint64, bool) {
	for line := range bytes.Lines(data) {
		k, v, ok := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		if ok && string(k) == key {
			n, err := strconv.ParseUint(string(v), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// pids reads a cgroup's cgroup.procs. A process of another pid namespace appears as 0.
func pids(dir string) ([]int, error) {
	data, err := readAll(dir+"/cgroup.procs", 1<<20)
	if err != nil {
		return nil, err
	}
	var list []int
	for f := range bytes.FieldsSeq(data) {
		pid, err := strconv.Atoi(string(f))
		if err != nil {
			return nil, err
		}
		list = append(list, pid)
	}
	return list, nil
}

// occupied says whether processes are in the cgroup itself; one byte is enough to know.
func occupied(dir string) bool {
	var buf [1]byte
	data, err := read(dir+"/cgroup.procs", buf[:])
	return err != nil || len(data) > 0
}

func gone(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) }
