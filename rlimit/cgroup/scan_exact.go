package cgroup

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// Confirmed is what [Scanner.Confirm] found.
type Confirmed struct {
	// Bytes is what there is. It is too high when processes that share memory begin or end meanwhile, as their shares are then of
	// different times: one answer proves little, and several in a row do.
	Bytes uint64
	// Certain is the part of it that is there in any case: what the kernel has, and what is in files or what a single process has for its share.
	Certain uint64
	// Gone is what processes had of their own when they were found that were gone when it was their turn.
	Gone uint64
	// Unseen is what there may be besides: the size of the shared memory that is mapped and of which no descriptor tells how much of it there is.
	// A page of it that no process has in its page tables is in no figure of the kernel's that a user may read.
	Unseen uint64
	// Pending is what local connections may have in them, besides, that nobody has accepted.
	Pending uint64
}

// Confirm finds the memory the namespace's processes use, as far as it can be known: private and shared pages by their
// shares (Pss of proc_pid_smaps(5)), what tmpfs files, memfds and SysV segments hold beyond what is mapped, page tables and
// lists of mappings, and what sockets and pipes hold. Processes that share their memory, as after vfork(2), are one, where kcmp(2) tells.
// A memfd that is neither mapped nor open anywhere but in a socket's queue escapes it.
//
// It can take long: the kernel lets it wait while a process changes or fills its memory.
func (s *Scanner) Confirm() (Confirmed, error) {
	s.prepare()
	if s.memfds == nil {
		s.memfds, s.pipes, s.shared = make(map[uint64]uint64), make(map[pipe]uint64), make(map[uint64]uint64)
		if fd, err := unix.MemfdCreate("", unix.MFD_CLOEXEC); err == nil {
			var st unix.Stat_t
			if unix.Fstat(fd, &st) == nil {
				s.shmDev = st.Dev
				s.shmName = fmt.Appendf(nil, "%02x:%02x", unix.Major(st.Dev), unix.Minor(st.Dev))
			}
			unix.Close(fd)
		}
	}
	clear(s.memfds)
	clear(s.pipes)
	clear(s.shared)
	var anonymous, mapped, most, kernel uint64
	var found []process
	files := 0
	_, err := s.each(func(pid []byte) {
		at := s.find(pid, new(Sample))
		if at == nil {
			return
		}
		task, _ := strconv.Atoi(string(at[bytes.LastIndexByte(at, '/')+1:]))
		found = append(found, process{string(at), task, s.own(at)})
		files += s.countFiles(at, fileLimit-files)
	})
	if err != nil {
		return Confirmed{}, err
	}
	var c Confirmed
	for _, p := range distinct(found) {
		at := []byte(p.folder)
		if rollup := s.read(at, "/smaps_rollup"); rollup != nil {
			own, shared := kilobytes(rollup, "Pss_Anon:")+kilobytes(rollup, "SwapPss:"), kilobytes(rollup, "Pss_Shmem:")
			anonymous += own
			mapped += shared
			most = max(most, own+shared)
		} else if status := s.read(at, "/status"); status != nil && kilobytes(status, "VmRSS:") > 0 {
			// A program that may be executed and not read is not to be looked at either, but for this.
			anonymous += kilobytes(status, "RssAnon:")
			mapped += kilobytes(status, "RssShmem:")
		} else {
			c.Gone += p.own
		}
		kernel += s.pageTables(at) + s.mappings(p.folder)
	}
	inFiles := s.scratch() + s.ipc()
	for _, n := range s.memfds {
		inFiles += n
	}
	for _, n := range s.pipes {
		kernel += n
	}
	s.pending = 0
	kernel += s.sockets()
	c.Bytes, c.Certain = anonymous+max(mapped, inFiles)+kernel, max(inFiles, most)+kernel
	c.Pending = s.pending * s.sendMax
	for inode, n := range s.shared {
		if _, open := s.memfds[inode]; !open {
			c.Unseen += n
		}
	}
	return c, nil
}

// process is one that Confirm looks at.
type process struct {
	folder string // in the procfs
	task   int    // the thread that it is of
	own    uint64 // bytes of its own, when it was found
}

// own is how much memory of its own a process has.
func (s *Scanner) own(at []byte) uint64 {
	_, rest := nextNumber(s.read(at, "/statm"))
	resident, rest := nextNumber(rest)
	shared, _ := nextNumber(rest)
	return (resident - min(shared, resident)) * s.pageSz
}

// HostMemory is what proc_meminfo(5) says, in bytes; 0 for what it does not.
type HostMemory struct {
	Available uint64 // MemAvailable
	Shared    uint64 // Shmem: in shared memory and tmpfs
}

// Host looks at the host.
func (s *Scanner) Host() HostMemory {
	s.prepare()
	text := s.read([]byte("meminfo"), "")
	return HostMemory{kilobytes(text, "MemAvailable:"), kilobytes(text, "Shmem:")}
}

// distinct leaves one of those that share their memory, or all where the kernel does not tell (CONFIG_KCMP, a filter around gobox).
func distinct(all []process) []process {
	const kcmpVM = 1 // KCMP_VM of <linux/kcmp.h>
	same := func(a, b process) int {
		order, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(a.task), uintptr(b.task), kcmpVM, 0, 0, 0)
		switch {
		case errno != 0 || order > 2: // gone meanwhile, or no such call
			return a.task - b.task
		case order == 1:
			return -1
		}
		return int(order) / 2
	}
	slices.SortFunc(all, same)
	return slices.CompactFunc(all, func(a, b process) bool { return same(a, b) == 0 })
}

// countFiles notes the memfds and pipes a process has open, each once for all processes, and says how many descriptors
// it has looked at.
func (s *Scanner) countFiles(pid []byte, budget int) int {
	if budget <= 0 {
		return 0
	}
	dir, err := unix.Openat(s.Proc, string(pid)+"/fd", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(dir)
	pidfd := -1
	defer func() {
		if pidfd >= 0 {
			unix.Close(pidfd)
		}
	}()
	var buf [4096]byte
	looked := 0
	for looked < budget {
		n, err := retry(func() (int, error) { return unix.Getdents(dir, buf[:]) })
		if err != nil || n == 0 {
			break
		}
		for rest := buf[:n]; len(rest) > 0 && looked < budget; {
			var name []byte
			if name, rest = nextEntry(rest); name == nil {
				break
			}
			number, err := strconv.Atoi(string(name))
			if err != nil {
				continue
			}
			looked++
			var st unix.Stat_t
			if unix.Fstatat(dir, string(name), &st, 0) != nil {
				continue
			}
			switch st.Mode & unix.S_IFMT {
			case unix.S_IFREG:
				if st.Dev == s.shmDev && s.shmDev != 0 {
					s.memfds[st.Ino] = uint64(st.Blocks) * 512
				}
			case unix.S_IFIFO:
				id := pipe{st.Dev, st.Ino}
				if _, known := s.pipes[id]; known {
					continue
				}
				if pidfd < 0 {
					p, _ := nextNumber(pid)
					if pidfd, err = unix.PidfdOpen(int(p), 0); err != nil {
						pidfd = -1
						continue
					}
				}
				s.pipes[id] = held(pidfd, number)
			}
		}
	}
	return looked
}
