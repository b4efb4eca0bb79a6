package cgroup

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Of hold's.
const (
	mappingsHeld = 60000
	pipesHeld    = 800
	netlinkHeld  = 200
	pendingHeld  = 300
)

// hold is a helper that takes memory and waits: its parent looks at it meanwhile.
func hold(kind string) {
	switch kind {
	case "anon":
		filled(unix.MAP_PRIVATE)
	case "leader":
		filled(unix.MAP_PRIVATE)
		go waiting()
		// The process goes on without its first thread, which this one is.
		_, _, _ = unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
	case "borrowed":
		filled(unix.MAP_PRIVATE)
		lend()
	case "unmapped":
		// The pages stay the mapping's.
		_ = unix.Madvise(filled(unix.MAP_SHARED), unix.MADV_DONTNEED)
	case "unopened":
		if fd, err := unix.MemfdCreate("hold", 0); err == nil {
			_ = unix.Fallocate(fd, 0, 0, greed)
			_, _ = unix.Mmap(fd, 0, greed, unix.PROT_READ, unix.MAP_SHARED)
			unix.Close(fd)
		}
	case "private file":
		if fd, err := unix.MemfdCreate("hold", 0); err == nil {
			_ = unix.Fallocate(fd, 0, 0, greed)
			_, _ = unix.Mmap(fd, 0, 4096, unix.PROT_READ, unix.MAP_PRIVATE)
			unix.Close(fd)
		}
	case "pending":
		name := &unix.SockaddrUnix{Name: "@hold"}
		listener, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil || unix.Bind(listener, name) != nil || unix.Listen(listener, 4096) != nil {
			break
		}
		block := make([]byte, 100<<10)
		for range pendingHeld {
			if fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0); err == nil {
				_ = unix.Connect(fd, name)
				_, _ = unix.Write(fd, block)
				unix.Close(fd)
			}
		}
	case "netlink":
		request := make([]byte, 60<<10)
		binary.NativeEndian.PutUint32(request, uint32(len(request)))
		binary.NativeEndian.PutUint16(request[4:], 0x3ff0) // no such request: the answer has it in it
		binary.NativeEndian.PutUint16(request[6:], unix.NLM_F_REQUEST|unix.NLM_F_ACK)
		for range netlinkHeld {
			fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)
			if err != nil {
				break
			}
			for range 8 {
				_ = unix.Sendto(fd, request, unix.MSG_DONTWAIT, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
			}
		}
	case "memfd":
		fd, err := unix.MemfdCreate("hold", 0)
		if err == nil {
			_ = unix.Fallocate(fd, 0, 0, greed)
		}
	case "sysv":
		id, err := unix.SysvShmGet(unix.IPC_PRIVATE, greed, unix.IPC_CREAT|0o600)
		if err == nil {
			b, _ := unix.SysvShmAttach(id, 0, 0)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			// Not marked for removal: it goes with the ipc namespace.
			_ = unix.SysvShmDetach(b)
		}
	case "sockets":
		block := make([]byte, 32<<10)
		for held := 0; held < greed; {
			p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
			if err != nil {
				break
			}
			for {
				n, err := unix.Write(p[0], block)
				if err != nil {
					break
				}
				held += n
			}
		}
	case "semaphores":
		for held := 0; held < greed; held += 16 << 10 * semaphoreBytes {
			_, _, _ = unix.Syscall(unix.SYS_SEMGET, 0, 16<<10, unix.IPC_CREAT|0o600)
		}
	case "page-tables":
		// One page of each table is read, which is the kernel's page of zeroes.
		const each = 2 * mib
		b, err := unix.Mmap(-1, 0, greed/4096*each, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
		if err == nil {
			_ = unix.Madvise(b, unix.MADV_NOHUGEPAGE)
			sum := byte(0)
			for i := 0; i < len(b); i += each {
				sum += b[i]
			}
			if sum != 0 {
				os.Exit(1)
			}
		}
	case "mappings":
		b, err := unix.Mmap(-1, 0, mappingsHeld*4096, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		for at := 0; err == nil && at < len(b); at += 2 * 4096 {
			err = unix.Mprotect(b[at:at+4096], unix.PROT_READ)
		}
	case "pipes":
		block := make([]byte, 64<<10)
		for range pipesHeld {
			var p [2]int
			if unix.Pipe2(p[:], unix.O_NONBLOCK) != nil {
				break
			}
			for {
				if n, err := unix.Write(p[1], block); err != nil || n < len(block) {
					break
				}
			}
			unix.Close(p[1])
		}
	case "spin":
		var used unix.Rusage
		for used.Utime.Nano()+used.Stime.Nano() < int64(300*time.Millisecond) {
			_ = unix.Getrusage(unix.RUSAGE_SELF, &used)
		}
	}
	waiting()
}

// waiting lasts until the parent has looked.
func waiting() {
	fmt.Println("ready")
	_, _ = bufio.NewReader(os.Stdin).ReadByte()
	if leased > 0 {
		_, _ = unix.FcntlInt(uintptr(leased), unix.F_SETLEASE, unix.F_UNLCK)
	}
	os.Exit(0)
}

func filled(flags int) []byte {
	b, err := unix.Mmap(-1, 0, greed, unix.PROT_READ|unix.PROT_WRITE, flags|unix.MAP_ANONYMOUS)
	for i := 0; err == nil && i < len(b); i += 4096 {
		b[i] = 1
	}
	return b
}

// sendMax is what a socket can have to send at the most.
func sendMax(t *testing.T) uint64 {
	t.Helper()
	text, err := os.ReadFile("/proc/sys/net/core/wmem_max")
	if err != nil {
		t.Fatal(err)
	}
	n, _ := nextNumber(text)
	return 2 * n
}

func copyFile(to, from string) error {
	r, err := os.Open(from)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return errors.Join(err, w.Close())
}

var leased int

// lend starts a child that has this process's memory until it executes a file, and keeps it from that by a lease (fcntl(2)).
func lend() {
	dir, err := os.MkdirTemp("", "lent")
	if err != nil {
		return
	}
	path := dir + "/lent"
	// Piece by piece, so that it is not in this process's memory.
	if copyFile(path, "/proc/self/exe") != nil {
		os.RemoveAll(dir)
		return
	}
	signal.Ignore(syscall.SIGIO)
	fd, err := unix.Open(path, unix.O_RDONLY, 0)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_WRLCK)
	}
	if err != nil {
		os.RemoveAll(dir)
		return
	}
	leased = fd
	go func() { _ = exec.Command(path).Start() }()
	time.Sleep(200 * time.Millisecond)
	os.RemoveAll(dir)
}

// watched is the helper as init of new namespaces: it starts one more and reports what a scan says.
func watched(kind string) {
	proc, err := os.MkdirTemp("", "proc")
	if err == nil {
		err = unix.Mount("proc", proc, "proc", 0, "")
	}
	if err != nil {
		fmt.Println("skip", err)
		return
	}
	defer func() { unix.Unmount(proc, 0); os.Remove(proc) }()
	exe, _ := os.Readlink("/proc/self/exe")
	fd, err := unix.Open(proc, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		fmt.Println("skip", err)
		return
	}
	s := &Scanner{Proc: fd, Sockets: true}
	before, _ := s.Scan()
	cmd := exec.Command(exe)
	// More than one, since the runtime lets go of none while a child borrows the memory.
	cmd.Env = append(os.Environ(), helperEnv+"=hold:"+kind, "GOMAXPROCS=4")
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		fmt.Println("skip", err)
		return
	}
	bufio.NewReader(out).ReadString('\n')
	after, err := s.Scan()
	if err != nil {
		fmt.Println("skip", err)
	}
	low, err := s.Confirm()
	fmt.Println("report", before.Processes, after.Processes, after.Bytes, low.Bytes, low.Unseen+low.Pending, after.Private, int64(after.CPU), err)
	in.Close()
	cmd.Wait()
}

func TestScan(t *testing.T) {
	for _, kind := range []string{"nothing", "anon", "leader", "borrowed", "unmapped", "unopened", "private file", "pending", "memfd", "sysv", "netlink", "sockets", "semaphores", "page-tables", "mappings", "pipes", "spin"} {
		t.Run(kind, func(t *testing.T) {
			cmd := helperCommand(t, "watched:"+kind)
			cmd.SysProcAttr = &syscall.SysProcAttr{
				Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWNET,
				UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
				GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
			}
			out, err := cmd.Output()
			if err != nil {
				t.Skipf("no user namespace: %v", err)
			}
			if why, ok := strings.CutPrefix(string(out), "skip "); ok {
				t.Skip(why)
			}
			var before, after int
			var high, low, unseen, private, cpu uint64
			if _, err := fmt.Sscanf(string(out), "report %d %d %d %d %d %d %d", &before, &after, &high, &low, &unseen, &private, &cpu); err != nil {
				t.Fatalf("%q: %v", out, err)
			}
			processes := 1
			if kind == "borrowed" {
				processes = 2
			}
			if before != 0 || after != processes {
				t.Errorf("%d, then %d processes", before, after)
			}
			const slack = 32 * mib
			expect := uint64(0)
			hidden := map[string]uint64{"unmapped": greed, "unopened": greed, "private file": privateFile, "pending": pendingHeld * sendMax(t)}
			if unseen != hidden[kind] {
				t.Errorf("%d bytes that nobody sees, want %d", unseen, hidden[kind])
			}
			own := slices.Contains([]string{"anon", "leader", "borrowed"}, kind)
			if own != (private >= greed) || private > greed+slack {
				t.Errorf("%d bytes of its own", private)
			}
			switch kind {
			case "nothing", "spin", "unmapped", "unopened", "private file", "pending":
			case "borrowed":
				// The cheap figure has it twice.
				expect, high = greed, high/2
			case "netlink":
				// Some answers fill a socket.
				expect = netlinkHeld * 64 << 10
				if low > expect {
					low, high = expect, min(high, expect)
				}
			case "sockets":
				// With what goes along with the bytes.
				if expect = greed; low > 2*greed {
					t.Errorf("confirmed %d bytes", low)
				}
				low, high = min(low, greed), min(high, greed)
			case "page-tables":
				if expect = greed; !zeroPage(t) {
					expect += greed // and a page for each
				}
			case "mappings":
				expect = mappingsHeld * mappingBytes
			case "pipes":
				// Two pages each, or sixteen, as long as the user has few.
				expect = pipesHeld * (pipeBytes + 8<<10)
				low = min(low, expect+slack)
			default:
				expect = greed
			}
			if low < expect || low > expect+slack {
				t.Errorf("confirmed %d bytes, want %d", low, expect)
			}
			// These are for Confirm to find.
			if !slices.Contains([]string{"memfd", "mappings", "pipes"}, kind) && (high < expect || high > expect+slack) {
				t.Errorf("scanned %d bytes, want %d", high, expect)
			}
			if kind == "spin" && (cpu < uint64(200*time.Millisecond) || cpu > uint64(10*time.Second)) {
				t.Errorf("%v of CPU time", time.Duration(cpu))
			}
		})
	}
}

// Confirm falls back on less when the kernel lacks this, so that it is there is worth a test.
func TestRollup(t *testing.T) {
	fd, err := unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	s := &Scanner{Proc: fd}
	s.prepare()
	self := []byte(strconv.Itoa(os.Getpid()))
	rollup := s.read(self, "/smaps_rollup")
	if rollup == nil {
		t.Skip("no smaps_rollup")
	}
	if kilobytes(rollup, "Pss_Anon:") == 0 {
		t.Errorf("no Pss_Anon in %q", rollup)
	}
}

func TestScanAllocates(t *testing.T) {
	fd, err := unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	s := &Scanner{Proc: fd}
	sample, err := s.Scan()
	if err != nil || sample.Processes == 0 || sample.Bytes == 0 {
		t.Fatalf("%+v, %v", sample, err)
	}
	// One byte slice per opened path is what unix.Openat makes.
	per := testing.AllocsPerRun(3, func() { sample, _ = s.Scan() }) / float64(max(sample.Processes, 1))
	if per > 8 {
		t.Errorf("%.1f allocations per process", per)
	}
}

func BenchmarkScan(b *testing.B) {
	fd, err := unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer unix.Close(fd)
	s := &Scanner{Proc: fd}
	n := 0
	for b.Loop() {
		t, _ := s.Scan()
		n = t.Processes
	}
	b.ReportMetric(float64(n), "processes")
}

// zeroPage tells whether pages that are only read are all the kernel's one page of zeroes, as almost everywhere.
func zeroPage(t *testing.T) bool {
	t.Helper()
	anon := func() uint64 {
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Fatal(err)
		}
		return kilobytes(status, "RssAnon:")
	}
	before := anon()
	b, err := unix.Mmap(-1, 0, greed, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(b)
	_ = unix.Madvise(b, unix.MADV_NOHUGEPAGE)
	for i := 0; i < len(b); i += 4096 {
		if b[i] != 0 {
			t.Fatal("a fresh page is not empty")
		}
	}
	return anon() < before+greed/2
}
