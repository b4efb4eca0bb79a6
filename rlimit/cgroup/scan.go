package cgroup

import (
	"bytes"
	"cmp"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Without a cgroup, init watches the processes of its pid namespace itself. [Scanner.Scan] is the cheap question,
// some 10 microseconds per process, and counts a page once for each process that has it mapped, so it is never too
// low for memory that is mapped or in a file of the scratch tmpfs; to it comes what can be known of the kernel's own. When it is over the limit, [Scanner.Confirm]
// asks the kernel for shares of pages, which walks page tables. That is the reason to kill, but for a single process with too much of its own.
//
// Between two looks a command can take what it wants, and CPU time of a process whose parent ignores SIGCHLD is
// accounted nowhere after its death: a watch bounds the damage and is no limit like a cgroup's.

// Sample is the state of a pid namespace, without its init.
type Sample struct {
	Processes int           // zombies too
	Threads   int           // of all processes together
	Bytes     uint64        // mapped, in files of the scratch, and held by the kernel
	Largest   uint64        // bytes that the largest process has mapped
	Private   uint64        // bytes of its own of the process that has most of them: never too high, but for what the kernel adds up late
	Exiting   uint64        // bytes of their own, when last seen, of processes that end: the kernel tells no more, and may take its time
	CPU       time.Duration // of the living and of the children they have waited for
	System    time.Duration // what of it was spent in the kernel
	Truncated bool          // there were more processes than may be looked at
}

const (
	largeBytes = 4 << 20 // a process of so much is remembered
	scanLimit  = 8192    // processes looked at in one scan
	fileLimit  = 65536   // descriptors looked at in one Confirm
)

// Scanner looks at one pid namespace. Its buffers are kept from one look to the next.
type Scanner struct {
	Proc    int   // a directory descriptor of a procfs of the namespace; stays the caller's
	Scratch []int // a descriptor in each tmpfs the command can write to; stay the caller's
	Limit   int   // processes looked at; 0 for 8192
	Sockets bool  // count the buffers of the caller's own network namespace too

	entries []byte
	threads []byte
	file    []byte
	path    []byte
	base    []byte
	exiting bool // find's last process ends
	large   map[uint64]uint64
	before  map[uint64]uint64 // large, as the last Scan left it: process -> bytes of its own
	pending uint64            // connections that nobody has accepted, of the last Confirm
	sendMax uint64            // bytes that a sender can have left in one
	memfds  map[uint64]uint64 // inode -> bytes
	pipes   map[pipe]uint64   // the same
	shared  map[uint64]uint64 // of shared memory that is mapped: inode -> size
	pageSz  uint64
	shmDev  uint64 // where the kernel keeps memfds and shared memory
	shmName []byte // the same as in a list of mappings

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
	s.threads = make([]byte, 4<<10)
	s.large, s.before = make(map[uint64]uint64), make(map[uint64]uint64)
	s.file = make([]byte, 4096)
	s.path = make([]byte, 0, 64)
	s.pageSz = uint64(unix.Getpagesize())
}

// Scan adds up what /proc/PID/stat and statm say.
func (s *Scanner) Scan() (Sample, error) {
	s.prepare()
	var t Sample
	s.large, s.before = s.before, s.large
	clear(s.large)
	whole, err := s.each(func(pid []byte) {
		at := s.find(pid, &t)
		if at == nil {
			return
		}
		number, _ := nextNumber(pid)
		if statm := s.read(at, "/statm"); statm != nil {
			space, rest := nextNumber(statm)
			resident, rest := nextNumber(rest)
			shared, _ := nextNumber(rest)
			t.Bytes += resident * s.pageSz
			t.Largest = max(t.Largest, resident*s.pageSz)
			own := (resident - min(shared, resident)) * s.pageSz
			if resident == 0 && s.exiting {
				own = s.before[number]
				t.Bytes += own
				t.Exiting += own
			} else {
				t.Private = max(t.Private, own)
			}
			if own >= largeBytes {
				s.large[number] = own
			}
			if space*s.pageSz > wideSpace {
				t.Bytes += s.pageTables(at)
			}
		}
	})
	if err != nil {
		return t, err
	}
	t.Truncated = !whole
	t.Bytes += s.scratch() + s.ipc() + s.sockets()
	return t, nil
}

// Tally is Scan for what the processes have taken so far, and says nothing of Bytes.
func (s *Scanner) Tally() (Sample, error) {
	s.prepare()
	var t Sample
	_, err := s.each(func(pid []byte) { s.find(pid, &t) })
	return t, err
}

// find adds what stat says of a process to t, and gives the folder that tells of its memory and descriptors: its own, or where its first
// thread has ended before the others, and has neither any more, that of one that lives. It is nil for a process that is gone, and
// holds until the next call.
func (s *Scanner) find(pid []byte, t *Sample) []byte {
	state, threads, ok := s.stat(pid, t)
	if !ok {
		return nil
	}
	s.exiting = s.exiting && state != 'Z' && state != 'X'
	if state != 'Z' && state != 'X' || threads < 2 {
		return pid
	}
	s.path = append(append(s.path[:0], pid...), "/task"...)
	dir, err := unix.Openat(s.Proc, string(s.path), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(dir)
	for {
		n, err := retry(func() (int, error) { return unix.Getdents(dir, s.threads) })
		if err != nil || n == 0 {
			return nil
		}
		for rest := s.threads[:n]; len(rest) > 0; {
			var name []byte
			if name, rest = nextEntry(rest); name == nil {
				break
			}
			s.base = append(append(append(s.base[:0], pid...), "/task/"...), name...)
			if space, _ := nextNumber(s.read(s.base, "/statm")); space > 0 {
				return s.base
			}
		}
	}
}

// pfExiting is PF_EXITING of the kernel's <linux/sched.h>, which field 9 of stat has.
const pfExiting = 4

// stat adds a process to t, unless it is gone.
func (s *Scanner) stat(pid []byte, t *Sample) (state byte, threads int, ok bool) {
	stat := s.read(pid, "/stat")
	if stat == nil {
		return 0, 0, false
	}
	t.Processes++
	// Fields 14 to 17 are utime, stime, cutime and cstime, 20 is num_threads, 24 rss (proc_pid_stat(5)); the name,
	// field 2, may hold anything.
	stat = stat[bytes.LastIndexByte(stat, ')')+1:]
	if len(stat) > 1 {
		state = stat[1]
	}
	var user, system uint64
	for i := 3; i <= 24 && len(stat) > 0; i++ {
		var n uint64
		n, stat = nextNumber(stat)
		switch i {
		case 9:
			s.exiting = n&pfExiting != 0
		case 14, 16:
			user += n
		case 15, 17:
			system += n
		case 20:
			threads = int(n)
			t.Threads += threads
		case 24:
			t.Largest = max(t.Largest, n*s.pageSz)
		}
	}
	t.CPU += time.Duration(user+system) * clockTick
	t.System += time.Duration(system) * clockTick
	return state, threads, true
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

// each calls f with the name of every process but init, as far as the limit allows; whole says that there are no more.
func (s *Scanner) each(f func(pid []byte)) (whole bool, err error) {
	if _, err := unix.Seek(s.Proc, 0, unix.SEEK_SET); err != nil {
		return false, err
	}
	limit := cmp.Or(s.Limit, scanLimit)
	for {
		n, err := retry(func() (int, error) { return unix.Getdents(s.Proc, s.entries) })
		if err != nil || n == 0 {
			return err == nil, err
		}
		for rest := s.entries[:n]; len(rest) > 0; {
			var name []byte
			if name, rest = nextEntry(rest); name == nil {
				break
			}
			if name[0] < '1' || name[0] > '9' || len(name) == 1 && name[0] == '1' {
				continue
			}
			if limit == 0 {
				return false, nil
			}
			limit--
			f(name)
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
