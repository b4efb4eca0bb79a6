package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// eat KIND BYTES takes memory of a kind step by step, says "had N" when it got all of it, and stays.
func eat(a []string) int {
	take, err := eater(a[0], int(number(a[1])))
	if err != nil {
		return refusal(err)
	}
	for i := 0; i < int(number(a[1])); i += mib {
		if err := take(i); err != nil {
			return refusal(err)
		}
	}
	fmt.Println("had", a[1])
	for {
		time.Sleep(time.Hour)
	}
}

// unread leaves a netlink socket with answers that nobody reads, each as long as its request, which the kernel refuses.
func unread(int) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, mib)
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, mib)
	request := make([]byte, 60<<10)
	binary.NativeEndian.PutUint32(request, uint32(len(request)))
	binary.NativeEndian.PutUint16(request[4:], 0x3ff0)
	binary.NativeEndian.PutUint16(request[6:], unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	for range 32 {
		_ = unix.Sendto(fd, request, unix.MSG_DONTWAIT, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	}
	return nil
}

// reserve BYTES asks for memory of its own and uses none of it.
func reserve(a []string) int {
	m, err := unix.Mmap(-1, 0, int(number(a[0])), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return refusal(err)
	}
	fmt.Println("had", len(m))
	return 0
}

func refusal(err error) int {
	fmt.Println("refused", errnoName(err))
	return 3
}

// eater gives a function that takes one MiB more, at an offset.
func eater(kind string, size int) (func(int) error, error) {
	touch := func(m []byte) func(int) error {
		return func(at int) error {
			for i := at; i < at+mib; i += 4096 {
				m[i] = 1
			}
			return nil
		}
	}
	block := make([]byte, mib)
	written := func(fd int) func(int) error {
		return func(at int) error {
			_, err := unix.Pwrite(fd, block, int64(at))
			return err
		}
	}
	const rw = unix.PROT_READ | unix.PROT_WRITE
	switch kind {
	case "anon":
		// In pieces, as allocators do.
		return func(int) error {
			m, err := unix.Mmap(-1, 0, mib, rw, unix.MAP_PRIVATE|unix.MAP_ANON)
			if err != nil {
				return err
			}
			return touch(m)(0)
		}, nil
	case "anon-whole":
		m, err := unix.Mmap(-1, 0, size, rw, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			return nil, err
		}
		return touch(m), nil
	case "unmapped":
		// Shared memory whose pages are in no page table any more, and still there.
		m, err := unix.Mmap(-1, 0, size, rw, unix.MAP_SHARED|unix.MAP_ANON)
		if err != nil {
			return nil, err
		}
		return func(at int) error {
			if err := touch(m)(at); err != nil {
				return err
			}
			return unix.Madvise(m[at:at+mib], unix.MADV_DONTNEED)
		}, nil
	case "netlink":
		return unread, nil
	case "populate":
		// While one thread fills memory by a single call, another one waits to change the list of mappings, and everybody else behind it.
		go func() {
			for {
				if m, err := unix.Mmap(-1, 0, mib, rw, unix.MAP_PRIVATE|unix.MAP_ANON); err == nil {
					_ = unix.Munmap(m)
				}
			}
		}()
		m, err := unix.Mmap(-1, 0, size, rw, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			return nil, err
		}
		return func(at int) error {
			if at > 0 {
				return nil
			}
			return unix.Madvise(m, unix.MADV_POPULATE_WRITE)
		}, nil
	case "shared":
		m, err := unix.Mmap(-1, 0, size, rw, unix.MAP_SHARED|unix.MAP_ANON)
		if err != nil {
			return nil, err
		}
		return touch(m), nil
	case "memfd", "memfd-mapped":
		fd, err := unix.MemfdCreate("eaten", 0)
		if err != nil || kind == "memfd" {
			return written(fd), err
		}
		if err := unix.Ftruncate(fd, int64(size)); err != nil {
			return nil, err
		}
		m, err := unix.Mmap(fd, 0, size, rw, unix.MAP_SHARED)
		if err != nil {
			return nil, err
		}
		return touch(m), nil
	case "sysv":
		id, err := unix.SysvShmGet(unix.IPC_PRIVATE, size, unix.IPC_CREAT|0o600)
		if err != nil {
			return nil, err
		}
		m, err := unix.SysvShmAttach(id, 0, 0)
		if err != nil {
			return nil, err
		}
		return touch(m), nil
	case "page-tables":
		// One page of each table is read, which is the kernel's one page of zeroes: nothing but tables is taken, 4 KiB for 2 MiB.
		return func(int) error {
			m, err := unix.Mmap(-1, 0, 512*mib, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
			if err != nil {
				return err
			}
			_ = unix.Madvise(m, unix.MADV_NOHUGEPAGE)
			sum := byte(0)
			for i := 0; i < len(m); i += 2 * mib {
				sum += m[i]
			}
			if sum != 0 {
				return errors.New("memory that is not zero")
			}
			return nil
		}, nil
	case "semaphores":
		// A cache line each.
		return func(int) error {
			_, err := call(unix.SYS_SEMGET, unix.IPC_PRIVATE, 16<<10, unix.IPC_CREAT|0o600)
			return err
		}, nil
	case "messages":
		return messages, nil
	case "tcp":
		return tcpBuffers()
	case "pipes":
		return pipeBuffers(), nil
	case "locks":
		return fileLocks, nil
	case "mappings":
		return manyMappings, nil
	}
	// A path below which to write.
	fd, err := unix.Open(kind, unix.O_CREAT|unix.O_RDWR, 0o600)
	return written(fd), err
}

// messages takes a MiB in queues of 16 KiB (kernel.msgmnb).
func messages(int) error {
	msg := struct {
		kind int64
		text [4 << 10]byte
	}{kind: 1}
	for range 64 {
		id, err := call(unix.SYS_MSGGET, unix.IPC_PRIVATE, unix.IPC_CREAT|0o600)
		if err != nil {
			return err
		}
		for range 4 {
			if _, err := call(unix.SYS_MSGSND, uintptr(id), uintptr(unsafe.Pointer(&msg)), unsafe.Sizeof(msg.text), unix.IPC_NOWAIT); err != nil {
				return err
			}
		}
	}
	return nil
}

// pipeBuffers gives a function that fills pipes until a MiB more is in them. The reading ends alone hold it.
func pipeBuffers() func(int) error {
	block := make([]byte, 64<<10)
	held, want := 0, 0
	return func(int) error {
		for want += mib; held < want; {
			var p [2]int
			if err := unix.Pipe2(p[:], unix.O_NONBLOCK); err != nil {
				return err
			}
			for {
				n, err := unix.Write(p[1], block)
				if err != nil {
					break
				}
				held += n
			}
			unix.Close(p[1])
		}
		return nil
	}
}

// fileLocks takes a MiB of struct file_lock, 192 bytes each, in several files: the kernel looks at all of one file's for each.
func fileLocks(int) error {
	const files = 6
	for range files {
		f, err := os.CreateTemp("", "locks")
		if err != nil {
			return err
		}
		keptFiles = append(keptFiles, f)
		for i := range int64(mib / 192 / files) {
			if err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Start: 2 * i, Len: 1}); err != nil {
				return err
			}
		}
	}
	return nil
}

// manyMappings takes a MiB of struct vm_area_struct, 192 bytes each, and no memory: pages that may be read and pages that may not, by turns.
func manyMappings(int) error {
	m, err := unix.Mmap(-1, 0, mib/192*4096, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return err
	}
	for i := 0; i+4096 <= len(m); i += 2 * 4096 {
		if err := unix.Mprotect(m[i:i+4096], unix.PROT_READ); err != nil {
			return err
		}
	}
	return nil
}

// tcpBuffers gives a function that fills connections of the loopback's until about a MiB more is in them.
func tcpBuffers() (func(int) error, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	block := make([]byte, 64<<10)
	held, want := 0, 0
	return func(int) error {
		for want += mib; held < want; {
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				return err
			}
			other, err := l.Accept()
			if err != nil {
				return err
			}
			kept = append(kept, c, other)
			before := held
			for {
				_ = c.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
				n, err := c.Write(block)
				held += n
				if err != nil {
					break
				}
			}
			if held-before < 4*len(block) {
				return unix.ENOBUFS
			}
		}
		return nil
	}, nil
}

// kept are connections that must not be collected, keptFiles files.
var (
	kept      []net.Conn
	keptFiles []*os.File
)

// eatTogether N KIND BYTES: by N children, each its part
func eatTogether(a []string) int {
	n := int(number(a[0]))
	part := fmt.Sprint(int(number(a[2])) / n / mib * mib)
	for range n {
		cmd := exec.Command("/proc/self/exe", "raw", "eat", a[1], part)
		cmd.Stdout = os.Stdout
		if err := cmd.Start(); err != nil {
			return refusal(err)
		}
	}
	for {
		time.Sleep(time.Hour)
	}
}
