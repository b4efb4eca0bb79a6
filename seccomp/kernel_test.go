package seccomp

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"gobox/seccomp/bpfsim"
)

// probeEnv makes the test binary load the filter and probe it.
const probeEnv = "GOBOX_SECCOMP_PROBE"

func TestMain(m *testing.M) {
	switch os.Getenv(probeEnv) {
	case "":
		os.Exit(m.Run())
	case "policy":
		os.Exit(probePolicy())
	case "foreign":
		os.Exit(probeForeign())
	}
	os.Exit(99)
}

// load binds every thread of this process to the program, by seccomp(2) with TSYNC: the probes run in goroutines.
func load(program Program) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	filter := make([]unix.SockFilter, len(program.BPF)/8)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&filter[0])), len(program.BPF)), program.BPF)
	fprog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&fprog)))
	if errno != 0 {
		return fmt.Errorf("load filter: %w", errno)
	}
	return nil
}

// probePolicy makes calls with arguments that do no harm when they reach the kernel.
func probePolicy() int {
	runtime.LockOSThread()
	if err := load(Embedded()); err != nil {
		fmt.Println(err)
		return 1
	}
	const bad = ^uintptr(0) - 4095 // no address a process has
	bit32 := uintptr(1) << 32
	failed := 0
	for _, tt := range []struct {
		name string
		nr   uintptr
		args [5]uintptr
		want unix.Errno
	}{
		{"mount", unix.SYS_MOUNT, [5]uintptr{bad, bad, bad}, unix.EPERM},
		{"umount2", unix.SYS_UMOUNT2, [5]uintptr{bad}, unix.EPERM},
		{"chroot", unix.SYS_CHROOT, [5]uintptr{bad}, unix.EPERM},
		{"open_tree", unix.SYS_OPEN_TREE, [5]uintptr{bad, bad}, unix.EPERM},
		{"bpf", unix.SYS_BPF, [5]uintptr{0, bad, 8}, unix.EPERM},
		{"ptrace", unix.SYS_PTRACE, [5]uintptr{unix.PTRACE_ATTACH, 0}, unix.EPERM},
		{"unshare", unix.SYS_UNSHARE, [5]uintptr{0}, unix.EPERM},
		{"setns", unix.SYS_SETNS, [5]uintptr{bad}, unix.EPERM},
		{"keyctl", unix.SYS_KEYCTL, [5]uintptr{bad}, unix.EPERM},
		{"userfaultfd", unix.SYS_USERFAULTFD, [5]uintptr{bad}, unix.EPERM},
		{"perf_event_open", unix.SYS_PERF_EVENT_OPEN, [5]uintptr{bad}, unix.EPERM},
		{"clone3", unix.SYS_CLONE3, [5]uintptr{bad, 64}, unix.ENOSYS},
		{"io_uring_setup", unix.SYS_IO_URING_SETUP, [5]uintptr{1, bad}, unix.ENOSYS},
		{"io_uring_enter", unix.SYS_IO_URING_ENTER, [5]uintptr{bad}, unix.ENOSYS},
		{"number 9999", 9999, [5]uintptr{}, unix.ENOSYS},
		{"number -1", ^uintptr(0), [5]uintptr{}, unix.ENOSYS},
		// The kernel would refuse these flags together with EINVAL before it does anything.
		{"clone newuser", unix.SYS_CLONE, [5]uintptr{unix.CLONE_NEWUSER | unix.CLONE_FS}, unix.EPERM},
		{"clone newuser, bit 32", unix.SYS_CLONE, [5]uintptr{unix.CLONE_NEWUSER | unix.CLONE_FS | bit32}, unix.EPERM},
		{"clone allowed", unix.SYS_CLONE, [5]uintptr{unix.CLONE_SIGHAND}, unix.EINVAL},
		{"clone of a thread without files", unix.SYS_CLONE, [5]uintptr{unix.CLONE_THREAD}, unix.EPERM},
		{"clone of a thread without files, bit 32", unix.SYS_CLONE, [5]uintptr{unix.CLONE_THREAD | bit32}, unix.EPERM},
		{"clone of a thread", unix.SYS_CLONE, [5]uintptr{unix.CLONE_THREAD | unix.CLONE_FILES}, unix.EINVAL},
		{"close_range unshare", unix.SYS_CLOSE_RANGE, [5]uintptr{2, 1, unix.CLOSE_RANGE_UNSHARE}, unix.ENOSYS},
		{"close_range unshare, bit 32", unix.SYS_CLOSE_RANGE, [5]uintptr{2, 1, unix.CLOSE_RANGE_UNSHARE | unix.CLOSE_RANGE_CLOEXEC | bit32}, unix.ENOSYS},
		{"close_range", unix.SYS_CLOSE_RANGE, [5]uintptr{2, 1, unix.CLOSE_RANGE_CLOEXEC}, unix.EINVAL},
		{"socket alg", unix.SYS_SOCKET, [5]uintptr{unix.AF_ALG, unix.SOCK_SEQPACKET, 0}, unix.EPERM},
		{"socket alg, bit 32", unix.SYS_SOCKET, [5]uintptr{unix.AF_ALG | bit32, unix.SOCK_SEQPACKET, 0}, unix.EPERM},
		{"socket raw", unix.SYS_SOCKET, [5]uintptr{unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP}, unix.EPERM},
		{"socket mptcp", unix.SYS_SOCKET, [5]uintptr{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, unix.EPERM},
		{"socket tcp, bits 32", unix.SYS_SOCKET, [5]uintptr{unix.AF_INET | bit32, unix.SOCK_STREAM | unix.SOCK_CLOEXEC | bit32, bit32}, 0},
		{"socket unix", unix.SYS_SOCKET, [5]uintptr{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_NONBLOCK, 0}, 0},
		{"socket route", unix.SYS_SOCKET, [5]uintptr{unix.AF_NETLINK, unix.SOCK_RAW | unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE}, 0},
		{"socket audit", unix.SYS_SOCKET, [5]uintptr{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT}, unix.EPROTONOSUPPORT},
		{"socketpair tipc", unix.SYS_SOCKETPAIR, [5]uintptr{unix.AF_TIPC, unix.SOCK_STREAM, 0, bad}, unix.EPERM},
		{"ioctl tcgets", unix.SYS_IOCTL, [5]uintptr{bad, unix.TCGETS}, unix.EBADF},
		{"ioctl tiocsti", unix.SYS_IOCTL, [5]uintptr{bad, unix.TIOCSTI}, unix.EPERM},
		{"ioctl tiocsti, bit 32", unix.SYS_IOCTL, [5]uintptr{bad, unix.TIOCSTI | bit32}, unix.EPERM},
		{"ioctl ficlone", unix.SYS_IOCTL, [5]uintptr{bad, unix.FICLONE}, unix.ENOTTY},
		{"personality query", unix.SYS_PERSONALITY, [5]uintptr{0xFFFFFFFF}, 0},
		{"personality no random", unix.SYS_PERSONALITY, [5]uintptr{addrNoRandomize}, unix.EPERM},
		{"prctl ptracer", unix.SYS_PRCTL, [5]uintptr{unix.PR_SET_PTRACER, 0}, unix.EPERM},
		{"prctl unknown", unix.SYS_PRCTL, [5]uintptr{4242}, unix.EINVAL},
		{"prctl dumpable", unix.SYS_PRCTL, [5]uintptr{unix.PR_GET_DUMPABLE}, 0},
		{"seccomp listener", unix.SYS_SECCOMP, [5]uintptr{unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, bad}, unix.EPERM},
		{"seccomp filter", unix.SYS_SECCOMP, [5]uintptr{unix.SECCOMP_SET_MODE_FILTER, 0, bad}, unix.EFAULT},
		{"fcntl lease", unix.SYS_FCNTL, [5]uintptr{bad, unix.F_SETLEASE}, unix.EPERM},
		{"fcntl getfd", unix.SYS_FCNTL, [5]uintptr{bad, unix.F_GETFD}, unix.EBADF},
		{"mknodat device", unix.SYS_MKNODAT, [5]uintptr{bad, bad, unix.S_IFBLK}, unix.EPERM},
		{"mknodat pipe", unix.SYS_MKNODAT, [5]uintptr{bad, bad, unix.S_IFIFO}, unix.EFAULT},
		{"setsockopt ulp", unix.SYS_SETSOCKOPT, [5]uintptr{bad, unix.IPPROTO_TCP, unix.TCP_ULP}, unix.ENOPROTOOPT},
		{"setsockopt nodelay", unix.SYS_SETSOCKOPT, [5]uintptr{bad, unix.IPPROTO_TCP, unix.TCP_NODELAY}, unix.EBADF},
		{"pidfd_open", unix.SYS_PIDFD_OPEN, [5]uintptr{0}, unix.EINVAL},
	} {
		_, _, errno := unix.Syscall6(tt.nr, tt.args[0], tt.args[1], tt.args[2], tt.args[3], tt.args[4], 0)
		if errno != tt.want {
			fmt.Printf("%s: %v, want %v\n", tt.name, errno, tt.want)
			failed++
		}
	}

	failed += sweep(bad)

	var wait sync.WaitGroup
	for range 32 {
		wait.Go(func() {
			runtime.LockOSThread() // a thread each
			unix.Gettid()
		})
	}
	wait.Wait()
	if out, err := exec.Command("/bin/sh", "-c", "echo a b | tr a-z A-Z; (exit 3); echo $?").CombinedOutput(); err != nil || string(out) != "A B\n3\n" {
		fmt.Printf("sh: %q %v\n", out, err)
		failed++
	}
	return min(failed, 1)
}

// sweep makes every call that the simulator says is refused, and compares the kernel's answer (catalogue K09). All
// arguments are bad addresses, which are bad descriptors and flags too, should a call get through.
func sweep(bad uintptr) (failed int) {
	program, err := bpfsim.Decode(Embedded().BPF)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	data := bpfsim.Data{Arch: auditArch(runtime.GOARCH)}
	for i := range data.Args {
		data.Args[i] = uint64(bad)
	}
	tried := 0
	for nr := range numbersChecked {
		data.NR = int32(nr)
		verdict := Action(program.Run(&data))
		// vhangup has no argument that could make it harmless. uretprobe and uprobe of amd64 are the kernel's own: Linux
		// 6.14 and later let them past every filter, and anyone who calls them by hand gets SIGILL.
		if verdict.Permits() || nr == unix.SYS_VHANGUP || runtime.GOARCH == "amd64" && (nr == 335 || nr == 336) {
			continue
		}
		tried++
		_, _, errno := unix.RawSyscall6(uintptr(nr), bad, bad, bad, bad, bad, bad)
		if Errno(errno) != verdict {
			fmt.Printf("number %d: %v, the simulator says %s\n", nr, errno, verdict)
			failed++
		}
	}
	if tried < numbersChecked/2 {
		fmt.Printf("only %d numbers are refused\n", tried)
		failed++
	}
	return failed
}

func probe(t *testing.T, what string) ([]byte, error) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), probeEnv+"="+what)
	return cmd.CombinedOutput()
}

func TestKernelObeysPolicy(t *testing.T) {
	out, err := probe(t, "policy")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestKernelKillsForeignCalls is catalogue K07.
func TestKernelKillsForeignCalls(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("x32 is a way to call amd64 kernels")
	}
	out, err := probe(t, "foreign")
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("a process that makes an x32 call ends with %v: %s", err, out)
	}
	if status := exit.Sys().(interface{ Signal() unix.Signal }); status.Signal() != unix.SIGSYS {
		t.Fatalf("a process that makes an x32 call ends with %v: %s", err, out)
	}
}

func probeForeign() int {
	if err := load(Embedded()); err != nil {
		fmt.Println(err)
		return 1
	}
	_, _, errno := unix.Syscall(x32Bit|unix.SYS_GETPID, 0, 0, 0)
	fmt.Println("x32 getpid:", errno)
	return 2
}
