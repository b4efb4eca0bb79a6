package cgroup

import (
	"bytes"
	"fmt"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Without a cgroup, init watches the processes of its pid namespace itself. [Scanner.Scan] is the cheap question,
// some 10 microseconds per process, and counts a page once for each process that has it mapped, so it is never too
// low for memory that is mapped or in a file of the scratch tmpfs; to it comes what can be known of the kernel's own. When it is over the limit, [Scanner.Confirm]
// asks the kernel for shares of pages, which walks page tables, and is never too high. Only that is a reason to kill.
//
// Between two looks a command can take what it wants, and CPU time of a process whose parent ignores SIGCHLD is
// accounted nowhere after its death: a watch bounds the damage and is no limit like a cgroup's.

// Sample is the state of a pid namespace, without its init.
type Sample struct {
	Processes int           // zombies too
	Threads   int           // of all processes together
	Bytes     uint64        // mapped, in files of the scratch, and held by the kernel
	Largest   uint64        // bytes that the largest process has mapped
	CPU       time.Duration // of the living and of the children they have waited for
	System    time.Duration // what of it was spent in the kernel
	Truncated bool          // there were more processes than scanLimit
}

const (
	scanLimit = 8192  // processes looked at in one scan
	fileLimit = 65536 // descriptors looked at in one Confirm
)

// Scanner looks at one pid namespace. Its buffers are kept from one look to the next.
type Scanner struct {
	Proc    int   // a directory descriptor of a procfs of the namespace; stays the caller's
	Scratch []int // a descriptor in each tmpfs the command can write to; stay the caller's
	Sockets bool  // count the buffers of the caller's own network namespace too

	entries []byte
	file    []byte
	path    []byte
	memfds  map[uint64]uint64 // inode -> bytes
	pipes   map[pipe]uint64   // the same
	pageSz  uint64
	shmDev  uint64 // where the kernel keeps memfds

	diag     int // of sock_diag(7); 0 before the first use, -1 when there is none
	reply    []byte
	sequence uint32
}

// clockTick is USER_HZ: 100 on every architecture Go knows on Linux (getconf CLK_TCK).
const clockTick = time.Second / 100

func (s *Scanner) prepare() {
	if s.entries != nil {
		return
	}
	s.entries = make([]byte, 32<<10)
	s.file = make([]byte, 4096)
	s.path = make([]byte, 0, 64)
	s.pageSz = uint64(unix.Getpagesize())
}

// Scan adds up what /proc/PID/stat and statm say.
func (s *Scanner) Scan() (Sample, error) {
	s.prepare()
	var t Sample
	err := s.each(scanLimit, func(pid []byte) {
		if t.Processes == scanLimit {
			t.Truncated = true
			return
		}
		if !s.stat(pid, &t) {
			return
		}
		if statm := s.read(pid, "/statm"); statm != nil {
			space, rest := nextNumber(statm)
			resident, _ := nextNumber(rest)
			t.Bytes += resident * s.pageSz
			if space*s.pageSz > wideSpace {
				t.Bytes += s.pageTables(pid)
			}
		}
	})
	if err != nil {
		return t, err
	}
	t.Bytes += s.scratch() + s.ipc() + s.sockets()
	return t, nil
}

// Tally is Scan for what the processes have taken so far, and says nothing of Bytes.
func (s *Scanner) Tally() (Sample, error) {
	s.prepare()
	var t Sample
	err := s.each(scanLimit, func(pid []byte) { s.stat(pid, &t) })
	return t, err
}

// stat adds a process to t, unless it is gone.
func (s *Scanner) stat(pid []byte, t *Sample) bool {
	stat := s.read(pid, "/stat")
	if stat == nil {
		return false
	}
	t.Processes++
	// Fields 14 to 17 are utime, stime, cutime and cstime, 20 is num_threads, 24 rss (proc_pid_stat(5)); the name,
	// field 2, may hold anything.
	stat = stat[bytes.LastIndexByte(stat, ')')+1:]
	var user, system uint64
	for i := 3; i <= 24 && len(stat) > 0; i++ {
		var n uint64
		n, stat = nextNumber(stat)
		switch i {
		case 14, 16:
			user += n
		case 15, 17:
			system += n
		case 20:
			t.Threads += int(n)
		case 24:
			t.Largest = max(t.Largest, n*s.pageSz)
		}
	}
	t.CPU += time.Duration(user+system) * clockTick
	t.System += time.Duration(system) * clockTick
	return true
}

// Waited is the CPU time of the children that process pid, as seen from here, has waited for, and what of it was spent in the
// kernel; zero when it is gone.
func Waited(pid int) (cpu, system time.Duration) {
	var buf [1024]byte
	stat, err := read(fmt.Sprintf("/proc/%d/stat", pid), buf[:])
	if err != nil {
		return 0, 0
	}
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(f) < 15 {
		return 0, 0
	}
	cutime, _ := nextNumber(f[13])
	cstime, _ := nextNumber(f[14])
	return time.Duration(cutime+cstime) * clockTick, time.Duration(cstime) * clockTick
}

// Confirm is a lower bound for the memory the namespace's processes use: private and shared pages by their
// shares (Pss of proc_pid_smaps(5)), what tmpfs files, memfds and SysV segments hold beyond what is mapped, page tables and
// lists of mappings, and what sockets and pipes hold.
// A memfd that is neither mapped nor open anywhere but in a socket's queue escapes it.
func (s *Scanner) Confirm() (uint64, error) {
	s.prepare()
	if s.memfds == nil {
		s.memfds, s.pipes = make(map[uint64]uint64), make(map[pipe]uint64)
		if fd, err := unix.MemfdCreate("", unix.MFD_CLOEXEC); err == nil {
			var st unix.Stat_t
			if unix.Fstat(fd, &st) == nil {
				s.shmDev = st.Dev
			}
			unix.Close(fd)
		}
	}
	clear(s.memfds)
	clear(s.pipes)
	var anonymous, mapped, kernel uint64
	files := 0
	err := s.each(scanLimit, func(pid []byte) {
		if rollup := s.read(pid, "/smaps_rollup"); rollup != nil {
			anonymous += kilobytes(rollup, "Pss_Anon:") + kilobytes(rollup, "SwapPss:")
			mapped += kilobytes(rollup, "Pss_Shmem:")
		} else if statm := s.read(pid, "/statm"); statm != nil {
			_, rest := nextNumber(statm)
			resident, rest := nextNumber(rest)
			shared, _ := nextNumber(rest)
			anonymous += (resident - min(shared, resident)) * s.pageSz
		}
		kernel += s.pageTables(pid) + s.mappings(pid)
		files += s.countFiles(pid, fileLimit-files)
	})
	if err != nil {
		return 0, err
	}
	inFiles := s.scratch() + s.ipc()
	for _, n := range s.memfds {
		inFiles += n
	}
	for _, n := range s.pipes {
		kernel += n
	}
	return anonymous + max(mapped, inFiles) + kernel + s.sockets(), nil
}

// each calls f with the name of every process but init, of which at most limit+1.
func (s *Scanner) each(limit int, f func(pid []byte)) error {
	if _, err := unix.Seek(s.Proc, 0, unix.SEEK_SET); err != nil {
		return err
	}
	for {
		n, err := retry(func() (int, error) { return unix.Getdents(s.Proc, s.entries) })
		if err != nil || n == 0 {
			return err
		}
		for rest := s.entries[:n]; len(rest) > 0; {
			var name []byte
			if name, rest = nextEntry(rest); name == nil {
				break
			}
			if name[0] < '1' || name[0] > '9' || len(name) == 1 && name[0] == '1' {
				continue
			}
			f(name)
			if limit--; limit < 0 {
				return nil
			}
		}
	}
}

// nextEntry takes one struct linux_dirent64 (getdents(2)).
func nextEntry(b []byte) (name, rest []byte) {
	const header = int(unsafe.Offsetof(unix.Dirent{}.Name))
	if len(b) <= header {
		return nil, nil
	}
	size := int(b[16]) | int(b[17])<<8
	if size <= header || size > len(b) {
		return nil, nil
	}
	name = b[header:size]
	if i := bytes.IndexByte(name, 0); i >= 0 {
		name = name[:i]
	}
	if len(name) == 0 {
		return nil, nil
	}
	return name, b[size:]
}

// read gives the beginning of one of a process's files until the next call, or nil when it is gone.
func (s *Scanner) read(pid []byte, file string) []byte {
	s.path = append(append(s.path[:0], pid...), file...)
	// The buffer of the path is reused, and so needs no allocation; Openat copies it once more.
	fd, err := unix.Openat(s.Proc, unsafe.String(&s.path[0], len(s.path)), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	n, err := retry(func() (int, error) { return unix.Read(fd, s.file) })
	if err != nil || n <= 0 {
		return nil
	}
	return s.file[:n]
}

// nextNumber takes a blank-separated field; one that is no number is 0.
func nextNumber(b []byte) (n uint64, rest []byte) {
	b = bytes.TrimLeft(b, " \t")
	i := 0
	for ; i < len(b) && b[i] != ' ' && b[i] != '\n'; i++ {
		if c := b[i]; c >= '0' && c <= '9' {
			n = n*10 + uint64(c-'0')
		}
	}
	return n, b[i:]
}

func kilobytes(data []byte, key string) uint64 {
	for line := range bytes.Lines(data) {
		if rest, ok := bytes.CutPrefix(line, []byte(key)); ok {
			n, _ := nextNumber(rest)
			return n << 10
		}
	}
	return 0
}

// scratch is what the files of the tmpfs take.
func (s *Scanner) scratch() uint64 {
	var bytes uint64
	for _, fd := range s.Scratch {
		var fs unix.Statfs_t
		if unix.Fstatfs(fd, &fs) == nil {
			bytes += (fs.Blocks - fs.Bfree) * uint64(fs.Bsize)
		}
	}
	return bytes
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
