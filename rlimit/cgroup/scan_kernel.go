package cgroup

import (
	"bytes"
	"encoding/binary"
	"strconv"

	"golang.org/x/sys/unix"
)

// What the kernel holds on behalf of processes is in no process's resident memory. This is the part of it that can be
// found out without a cgroup: page tables and lists of mappings, SysV semaphores and messages, and what is in sockets and
// pipes. File locks are not: the kernel lists them (proc_locks(5)) from the beginning for each page that is read, and keeps all others
// from locking meanwhile. The sizes are below those of every kernel.

const (
	// semaphoreBytes is sizeof(struct sem), a cache line (ipc/sem.c).
	semaphoreBytes = 64
	// messageBytes is what a message takes besides its text: struct msg_msg, rounded up by the allocator (ipc/msgutil.c).
	messageBytes = 64
	// wideSpace is from how much address space on Scan looks at a process's page tables: a 512th of it, at most, is what
	// they take, as long as huge pages do not make it less.
	wideSpace = 512 << 20
	// mappingBytes is a struct vm_area_struct (mm/vma.c) without its place in the tree, pipeBytes the
	// inode of a pipe and its two ends (fs/pipe.c).
	mappingBytes = 152
	pipeBytes    = 1 << 10
	// connectionBytes is what a connection takes that nobody has accepted, a struct unix_sock with its file's parts.
	connectionBytes = 2 << 10
	// privateFile is what is assumed of a memfd that is mapped privately and open nowhere: how long it is nobody tells.
	privateFile = 64 << 20
	// fewSockets have no buffers worth a look.
	fewSockets = 4
)

// pageTables is what those of a process take (VmPTE of proc_pid_status(5)).
func (s *Scanner) pageTables(pid []byte) uint64 { return kilobytes(s.read(pid, "/status"), "VmPTE:") }

// pipe is the identity of one.
type pipe struct{ dev, inode uint64 }

// held is what the pipe takes that a process has under that number: pages that are not full count by their bytes, but for one. A copy
// of the descriptor tells, since opening the pipe anew would be a reader or writer more.
func held(pidfd, number int) uint64 {
	fd, err := unix.PidfdGetfd(pidfd, number, 0)
	if err != nil {
		return pipeBytes
	}
	defer unix.Close(fd)
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ) // FIONREAD
	if err != nil || n <= 0 {
		return pipeBytes
	}
	return pipeBytes + max(uint64(n), uint64(unix.Getpagesize()))
}

// sharedLimit is how much shared memory is told apart; more is added up, and counts once for each mapping.
const sharedLimit = 65536

// mappings is what the list of a process's mappings takes. It notes the size of the shared memory among them, each once for
// all processes.
func (s *Scanner) mappings(folder string) uint64 {
	n := uint64(0)
	s.lines(folder+"/maps", func(line []byte) {
		n++
		// address perms offset dev inode path (proc_pid_maps(5))
		at := bytes.IndexByte(line, ' ') + 4
		if at >= len(line) || !bytes.Contains(line, s.shmName) {
			return
		}
		f := bytes.Fields(line)
		if len(f) < 5 || !bytes.Equal(f[3], s.shmName) || len(f) > 5 && bytes.HasPrefix(f[5], []byte("/SYSV")) {
			return // the segments of SysV are counted as such
		}
		from, to, _ := bytes.Cut(f[0], []byte("-"))
		inode, err := strconv.ParseUint(string(f[4]), 10, 64)
		if err != nil {
			return
		}
		end := hex(f[2]) + hex(to) - hex(from)
		if line[at] == 'p' {
			end = max(end, privateFile)
		}
		if known, ok := s.shared[inode]; ok || len(s.shared) < sharedLimit {
			s.shared[inode] = max(known, end)
		} else {
			s.shared[0] += end
		}
	})
	return n * mappingBytes
}

// hex reads a number of the kernel's, 0 for none.
func hex(b []byte) uint64 {
	n, _ := strconv.ParseUint(string(b), 16, 64)
	return n
}

// Own is how many threads the calling process has.
func (s *Scanner) Own() int {
	s.prepare()
	stat := s.read([]byte("self"), "/stat")
	stat = stat[bytes.LastIndexByte(stat, ')')+1:]
	n := uint64(0)
	for i := 3; i <= 20; i++ {
		n, stat = nextNumber(stat)
	}
	return int(n)
}

// ipc is what the ipc namespace of the procfs holds (proc_sysvipc(5)): the pages of segments, attached or not, messages, and
// semaphores.
func (s *Scanner) ipc() uint64 {
	total := uint64(0)
	s.table("sysvipc/shm", func(column func(int) uint64) { total += column(14) + column(15) }) // rss, swap
	s.table("sysvipc/msg", func(column func(int) uint64) { total += column(3) + column(4)*messageBytes })
	s.table("sysvipc/sem", func(column func(int) uint64) { total += column(3) * semaphoreBytes })
	return total
}

// table calls f for each line of a file of procfs, with what gives a column's number.
func (s *Scanner) table(path string, f func(column func(int) uint64)) {
	s.lines(path, func(line []byte) {
		// The heading has no numbers.
		f(func(column int) (v uint64) {
			rest := line
			for range column + 1 {
				v, rest = nextNumber(rest)
			}
			return v
		})
	})
}

// lines calls f for each line of a file of procfs, which holds for the call.
func (s *Scanner) lines(path string, f func(line []byte)) {
	fd, err := unix.Openat(s.Proc, path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	kept := 0 // of a line whose end is in the next read
	for {
		n, err := retry(func() (int, error) { return unix.Read(fd, s.file[kept:]) })
		if err != nil || n <= 0 {
			return
		}
		data := s.file[:kept+n]
		for {
			i := bytes.IndexByte(data, '\n')
			if i < 0 {
				break
			}
			f(data[:i])
			data = data[i+1:]
		}
		if len(data) == len(s.file) {
			data = data[:0] // no line of the kernel's is as long, but for a path, and of that only the beginning counts
		}
		kept = copy(s.file, data)
	}
}

// Netlink is what waits to be read from the netlink sockets of the caller's own network namespace. No cgroup counts that: an answer is the
// kernel's own until it is read, and its size the asker's choice (netlink_ack of net/netlink/af_netlink.c).
func (s *Scanner) Netlink() (total uint64) {
	s.prepare()
	if s.socketsUsed() <= fewSockets {
		return 0
	}
	return s.netlink()
}

func (s *Scanner) netlink() (total uint64) {
	s.table("self/net/netlink", func(column func(int) uint64) { total += column(4) }) // Rmem
	return total
}

// sockets is what the buffers of the caller's network namespace hold, as sock_diag(7) tells: of local sockets what was sent
// and not yet received, of those of the internet both ways; and what netlink has answered. What a datagram's sender has left behind by closing its socket is
// not seen.
func (s *Scanner) sockets() uint64 {
	if !s.Sockets || s.socketsUsed() <= fewSockets {
		return 0
	}
	if s.diag == 0 {
		s.diag = -1
		if fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG); err == nil {
			s.diag = fd
			// A kernel that never answers must not stop the watch.
			_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1})
			// As much as net.core.wmem_max, which not every network namespace shows, and once more (socket(7)).
			_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 1<<30)
			if n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF); err == nil && n > 0 {
				s.sendMax = uint64(n)
			}
			s.reply = make([]byte, 32<<10)
		}
	}
	total := s.netlink()
	if s.diag < 0 {
		return total
	}
	total += s.localSockets()
	for _, family := range [...]byte{unix.AF_INET, unix.AF_INET6} {
		for _, protocol := range [...]byte{unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
			total += s.internetSockets(family, protocol)
		}
	}
	return total
}

// socketsUsed is how many sockets the network namespace has.
func (s *Scanner) socketsUsed() uint64 {
	line, ok := bytes.CutPrefix(s.read([]byte("self"), "/net/sockstat"), []byte("sockets: used "))
	if !ok {
		return 0
	}
	n, _ := nextNumber(line)
	return n
}

// Numbers of <linux/sock_diag.h>, <linux/unix_diag.h> and <linux/inet_diag.h>.
const (
	sockDiagByFamily  = 20
	unixShowRQLen     = 0x10
	unixShowMemInfo   = 0x20
	unixAttrRQLen     = 4
	unixAttrMemInfo   = 5
	inetAttrSkMemInfo = 7
	unixMessage       = 16 // sizeof(struct unix_diag_msg)
	inetMessage       = 72 // sizeof(struct inet_diag_msg)
	tcpListen         = 10 // TCP_LISTEN, which is udiag_state of a socket that listens

	// Of an array SK_MEMINFO_*.
	memRead, memWrite, memForward, memQueued, memOptions, memBacklog = 0, 2, 4, 5, 6, 7
)

func (s *Scanner) localSockets() uint64 {
	var req [24]byte // struct unix_diag_req
	req[0] = unix.AF_UNIX
	binary.NativeEndian.PutUint32(req[4:], ^uint32(0)) // all states
	binary.NativeEndian.PutUint32(req[12:], unixShowRQLen|unixShowMemInfo)
	var sent, waiting uint64
	s.dump(req[:], unixMessage, func(head []byte, kind uint16, value []byte) {
		switch {
		case kind == unixAttrMemInfo:
			sent += figure(value, memWrite) + figure(value, memOptions)
		case kind == unixAttrRQLen && head[2] == tcpListen:
			s.pending += figure(value, 0) // they are in no list themselves
		case kind == unixAttrRQLen:
			waiting += figure(value, 0)
		}
	})
	// Of a stream whose sender is gone only what waits to be read is known.
	return max(sent, waiting) + s.pending*connectionBytes
}

func (s *Scanner) internetSockets(family, protocol byte) (total uint64) {
	var req [56]byte // struct inet_diag_req_v2
	req[0], req[1], req[2] = family, protocol, 1<<(inetAttrSkMemInfo-1)
	binary.NativeEndian.PutUint32(req[4:], ^uint32(0)) // all states
	s.dump(req[:], inetMessage, func(_ []byte, kind uint16, value []byte) {
		if kind == inetAttrSkMemInfo {
			for _, i := range [...]int{memRead, memForward, memQueued, memOptions, memBacklog} {
				total += figure(value, i)
			}
		}
	})
	return total
}

// figure is number i of an array of 32-bit numbers, 0 where it ends before. The kernel keeps some of them as int, and what it has
// promised to a socket can be below zero for a moment.
func figure(value []byte, i int) uint64 {
	if len(value) < 4*i+4 {
		return 0
	}
	return uint64(max(int32(binary.NativeEndian.Uint32(value[4*i:])), 0))
}

// dump asks by req and calls f with each attribute that follows a header of the given size, and that (netlink(7)).
func (s *Scanner) dump(req []byte, header int, f func(head []byte, kind uint16, value []byte)) {
	s.sequence++
	msg := make([]byte, 0, unix.NLMSG_HDRLEN+64)
	msg = binary.NativeEndian.AppendUint32(msg, uint32(unix.NLMSG_HDRLEN+len(req)))
	msg = binary.NativeEndian.AppendUint16(msg, sockDiagByFamily)
	msg = binary.NativeEndian.AppendUint16(msg, unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	msg = binary.NativeEndian.AppendUint32(msg, s.sequence)
	msg = binary.NativeEndian.AppendUint32(msg, 0)
	msg = append(msg, req...)
	if err := unix.Sendto(s.diag, msg, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return
	}
	for {
		n, err := retry(func() (int, error) { n, _, err := unix.Recvfrom(s.diag, s.reply, 0); return n, err })
		if err != nil || n <= 0 {
			return
		}
		for data := s.reply[:n]; len(data) >= unix.NLMSG_HDRLEN; {
			size := int(binary.NativeEndian.Uint32(data))
			kind := binary.NativeEndian.Uint16(data[4:])
			if size < unix.NLMSG_HDRLEN || size > len(data) {
				return
			}
			if binary.NativeEndian.Uint32(data[8:]) == s.sequence {
				if kind == unix.NLMSG_DONE || kind == unix.NLMSG_ERROR {
					return
				}
				if kind == sockDiagByFamily && size > unix.NLMSG_HDRLEN+header {
					head := data[unix.NLMSG_HDRLEN : unix.NLMSG_HDRLEN+header]
					attributes(data[unix.NLMSG_HDRLEN+header:size], func(kind uint16, value []byte) { f(head, kind, value) })
				}
			}
			data = data[min(align4(size), len(data)):]
		}
	}
}

// attributes calls f with each struct nlattr of b.
func attributes(b []byte, f func(kind uint16, value []byte)) {
	for len(b) >= 4 {
		size := int(binary.NativeEndian.Uint16(b))
		if size < 4 || size > len(b) {
			return
		}
		f(binary.NativeEndian.Uint16(b[2:])&^uint16(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER), b[4:size])
		b = b[min(align4(size), len(b)):]
	}
}

func align4(n int) int { return (n + 3) &^ 3 }
