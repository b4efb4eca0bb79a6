package seccomp

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	libseccomp "github.com/seccomp/libseccomp-golang"
	"golang.org/x/sys/unix"

	"gobox/seccomp/bpfsim"
	"gobox/seccomp/decision"
)

var update = flag.Bool("update", false, "rewrite testdata/*.golden")

// Flags of personality(2), <linux/personality.h>.
const (
	addrNoRandomize = 0x0040000
	readImpliesExec = 0x0400000
)

// embeddedFor reads the committed filter of any architecture.
func embeddedFor(t *testing.T, arch string) bpfsim.Program {
	t.Helper()
	raw, err := os.ReadFile("default_" + arch + ".bpf")
	if err != nil {
		t.Fatal(err)
	}
	program, err := bpfsim.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// generatedBy is the libseccomp that the committed filters come from.
const generatedBy = "2.5.4"

func TestEmbeddedIsWhatTheTablesSay(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		t.Run(arch, func(t *testing.T) {
			stored := embeddedFor(t, arch)
			// The meaning is compared always, so that another libseccomp's other code for the same policy passes.
			if err := verify(Default(), arch, stored); err != nil {
				t.Fatalf("default_%s.bpf is not the built-in policy: %v; run go generate ./seccomp", arch, err)
			}
			fresh, err := CompileFor(Default(), arch)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(fresh.BPF, stored.Encode()) {
				if major, minor, micro := libseccomp.GetLibraryVersion(); fmt.Sprintf("%d.%d.%d", major, minor, micro) == generatedBy {
					t.Fatalf("default_%s.bpf is not what libseccomp %s makes of the tables; run go generate ./seccomp", arch, generatedBy)
				}
				t.Logf("bytes differ from those this libseccomp makes (%d and %d); the meaning is the same", len(stored.Encode()), len(fresh.BPF))
			}
		})
	}
}

func TestEmbeddedIsForThisMachine(t *testing.T) {
	if want := embeddedFor(t, runtime.GOARCH).Encode(); !bytes.Equal(Embedded().BPF, want) {
		t.Fatalf("Embedded() is not default_%s.bpf", runtime.GOARCH)
	}
}

// TestVerifyNotices proves that the comparison TestEmbeddedIsWhatTheTablesSay rests on can fail.
func TestVerifyNotices(t *testing.T) {
	program := embeddedFor(t, "amd64")
	for _, tt := range []struct {
		name   string
		change func(p *Profile)
	}{
		{"a call more", func(p *Profile) { *p, _ = p.Allow("mount") }},
		{"a call less", func(p *Profile) { *p, _ = p.Deny("getrandom") }},
		{"another errno", func(p *Profile) { p.Default = denyEPERM }},
		{"a command more", func(p *Profile) {
			p.Rules = append(p.Rules, Rule{Name: "ioctl", Action: Allow, Conds: []Cond{{1, MaskedEqual, low32, 0xAE01}}})
		}},
		{"64-bit comparison", func(p *Profile) {
			for i, r := range p.Rules {
				if r.Name == "socketpair" {
					p.Rules[i].Conds = []Cond{{0, Equal, 0, unix.AF_UNIX}}
				}
			}
		}},
		{"another rest", func(p *Profile) { p.Rests = p.Rests[1:] }},
	} {
		p := Default()
		tt.change(&p)
		if err := verify(p, "amd64", program); err == nil {
			t.Errorf("%s: not noticed", tt.name)
		}
	}
	killed := append(bpfsim.Program{}, program...)
	for i, in := range killed {
		if in.Code == unix.BPF_RET && Action(in.K) == KillProcess {
			killed[i].K = uint32(Allow)
		}
	}
	if err := verify(Default(), "amd64", killed); err == nil {
		t.Error("foreign architectures allowed: not noticed")
	}
}

// TestK22Golden keeps a readable account of what the committed filters answer, so that a change of policy shows in review.
func TestK22Golden(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		t.Run(arch, func(t *testing.T) {
			got := account(embeddedFor(t, arch), arch)
			path := filepath.Join("testdata", "default_"+arch+".golden")
			if *update {
				if err := os.WriteFile(path, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Equal(got, want) {
				return
			}
			gotLines, wantLines := bytes.Split(got, []byte("\n")), bytes.Split(want, []byte("\n"))
			for i := range min(len(gotLines), len(wantLines)) {
				if !bytes.Equal(gotLines[i], wantLines[i]) {
					t.Fatalf("%s:%d: have %q, want %q; if meant, run go test ./seccomp -run TestK22Golden -update", path, i+1, gotLines[i], wantLines[i])
				}
			}
			t.Fatalf("%s has %d lines, want %d", path, len(wantLines), len(gotLines))
		})
	}
}

// account has a line for every system call number from 0 to 1023, with the cases that arguments make, and for the
// numbers and architectures outside.
func account(program bpfsim.Program, arch string) []byte {
	var b bytes.Buffer
	names := namesByNumber(arch)
	p := Default()
	run := func(a uint32, nr int32, args [6]uint64) Action {
		return Action(program.Run(&bpfsim.Data{NR: nr, Arch: a, Args: args}))
	}
	native := auditArch(arch)
	fmt.Fprintf(&b, `# What the built-in filter answers on %s, by running it. "else" is for arguments that fit none of the cases
# above it; a case counts only where none of a stricter answer fits too (kill, errno, allow). Arguments are compared by
# their low 32 bits, as the kernel takes them: each case was tried with each of the bits 32 to 63 set as well.
`, arch)
	for nr := range numbersChecked {
		name := names[nr]
		if name == "" {
			name = "?"
		}
		rules := p.rulesFor(name)
		if len(rules) == 0 || len(rules[0].Conds) == 0 {
			fmt.Fprintf(&b, "%4d %s: %s\n", nr, name, allArguments(program, arch, nr))
			continue
		}
		fmt.Fprintf(&b, "%4d %s\n", nr, name)
		for _, r := range rules {
			args := satisfying([6]uint64{}, r)
			fmt.Fprintf(&b, "\t%v: %s%s (%s)\n", r.Conds, run(native, int32(nr), args), highBits(program, native, nr, args), r.Why)
		}
		none := [6]uint64{}
		for args := range argumentCases(rules, fullProduct) {
			if !slices.ContainsFunc(rules, func(r Rule) bool { return r.matches(&args) }) {
				none = args
				break
			}
		}
		fmt.Fprintf(&b, "\telse: %s%s\n", run(native, int32(nr), none), highBits(program, native, nr, none))
	}
	for _, nr := range []int32{1024, 9999, 0x3fffffff, 0x7fffffff, -1, -2, -0x80000000} {
		fmt.Fprintf(&b, "number %#x: %s\n", uint32(nr), run(native, nr, [6]uint64{}))
	}
	foreign := []struct {
		name  string
		arch  uint32
		first int
	}{
		{"x32", 0xC000003E, 0x40000000}, {"x86-64", 0xC000003E, 0}, {"i386", 0x40000003, 0}, {"arm", 0x40000028, 0},
		{"arm64", 0xC00000B7, 0}, {"riscv64", 0xC00000F3, 0}, {"none", 0, 0},
	}
	for _, f := range foreign {
		if f.arch == native && f.first == 0 {
			continue
		}
		answers := map[Action]bool{}
		for nr := f.first; nr < f.first+numbersChecked; nr++ {
			answers[run(f.arch, int32(nr), [6]uint64{})] = true
		}
		fmt.Fprintf(&b, "numbers %#x to %#x of %s (architecture %#x): %v\n", f.first, f.first+numbersChecked-1, f.name, f.arch, slices.Sorted(maps.Keys(answers)))
	}
	return b.Bytes()
}

// allArguments is the one answer to the call whatever its arguments, or says that there are several.
func allArguments(program bpfsim.Program, arch string, nr int) string {
	set := decision.New(decision.MaxNodes)
	d, err := program.Decide(set, int32(nr), auditArch(arch))
	if err != nil {
		return err.Error()
	}
	if answer := program.Run(&bpfsim.Data{NR: int32(nr), Arch: auditArch(arch)}); d == set.Value(answer) {
		return Action(answer).String()
	}
	return "depends on arguments, and no rule says so"
}

// highBits is empty when the answer stays the same with each of the bits 32 to 63 of each argument set, as it must.
func highBits(program bpfsim.Program, arch uint32, nr int, args [6]uint64) string {
	data := bpfsim.Data{NR: int32(nr), Arch: arch, Args: args}
	plain := program.Run(&data)
	for arg := range args {
		for bit := 32; bit < 64; bit++ {
			data.Args = args
			data.Args[arg] ^= 1 << bit
			if got := program.Run(&data); got != plain {
				return fmt.Sprintf(", but %s with bit %d of argument %d", Action(got), bit, arg)
			}
		}
	}
	return ""
}

// TestK08HighBits is catalogue K08: the kernel drops bits 32 to 63 of an int, so they may not change a verdict.
func TestK08HighBits(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		program := embeddedFor(t, arch)
		cases := 0
		for _, f := range filtered {
			nr, err := Number(f.name, arch)
			if err != nil {
				continue
			}
			p := Default()
			rules := p.rulesFor(f.name)
			compared := map[uint8]bool{}
			for _, r := range rules {
				for _, c := range r.Conds {
					compared[c.Arg] = true
				}
			}
			for args := range argumentCases(rules, fullProduct) {
				data := bpfsim.Data{NR: int32(nr), Arch: auditArch(arch), Args: args}
				for arg := range compared {
					data.Args[arg] &= low32
				}
				plain := program.Run(&data)
				for bit := 32; bit < 64; bit++ {
					for arg := range compared {
						high := data
						high.Args[arg] |= 1 << bit
						cases++
						if got := program.Run(&high); got != plain {
							t.Fatalf("%s %s: %s for arguments %#x, %s with bit %d of argument %d set", arch, f.name, Action(plain), data.Args, Action(got), bit, arg)
						}
					}
				}
			}
		}
		t.Logf("%s: %d cases", arch, cases)
	}
}

// TestMustNot lists by hand what no edit of the tables may ever let through.
func TestMustNot(t *testing.T) {
	never := []string{
		"mount", "umount2", "pivot_root", "chroot", "fsopen", "fsconfig", "fsmount", "fspick", "open_tree", "open_tree_attr",
		"move_mount", "mount_setattr", "setns", "unshare", "clone3", "ptrace", "process_vm_readv", "process_vm_writev",
		"process_madvise", "pidfd_getfd", "kcmp", "bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter",
		"io_uring_register", "keyctl", "add_key", "request_key", "kexec_load", "kexec_file_load", "init_module",
		"finit_module", "delete_module", "reboot", "swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "settimeofday",
		"clock_settime", "clock_adjtime", "adjtimex", "syslog", "lookup_dcookie", "iopl", "ioperm", "modify_ldt", "mbind",
		"set_mempolicy", "set_mempolicy_home_node", "move_pages", "migrate_pages", "fanotify_init", "vhangup", "uselib",
		"nfsservctl", "lsm_set_self_attr", "open_by_handle_at", "name_to_handle_at", "sethostname", "setdomainname",
		"file_setattr", "setxattrat", "memfd_secret", "vmsplice",
	}
	for _, arch := range []string{"amd64", "arm64"} {
		program := embeddedFor(t, arch)
		for _, name := range never {
			nr, err := Number(name, arch)
			if err != nil {
				continue
			}
			for _, args := range [][6]uint64{{}, {1, 1, 1, 1, 1, 1}, {^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}} {
				got := Action(program.Run(&bpfsim.Data{NR: int32(nr), Arch: auditArch(arch), Args: args}))
				if got != denyEPERM && got != denyENOSYS {
					t.Errorf("%s %s: %s", arch, name, got)
				}
			}
		}
	}
	amd64 := embeddedFor(t, "amd64")
	for _, tt := range []struct {
		name string
		args [6]uint64
	}{
		{"clone", [6]uint64{unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)}},
		{"clone", [6]uint64{unix.CLONE_NEWNS}},
		{"clone", [6]uint64{unix.CLONE_NEWCGROUP}},
		{"clone", [6]uint64{unix.CLONE_NEWUTS}},
		{"clone", [6]uint64{unix.CLONE_NEWIPC}},
		{"clone", [6]uint64{unix.CLONE_NEWPID}},
		{"clone", [6]uint64{unix.CLONE_NEWNET | unix.CLONE_VM}},
		{"clone", [6]uint64{unix.CLONE_NEWNET | unix.CLONE_FILES}},
		{"clone", [6]uint64{unix.CLONE_VM | unix.CLONE_SIGHAND | unix.CLONE_THREAD}},
		{"clone", [6]uint64{unix.CLONE_THREAD}},
		{"clone", [6]uint64{^uint64(unix.CLONE_FILES | cloneNamespaces)}},
		{"close_range", [6]uint64{3, low32, unix.CLOSE_RANGE_UNSHARE}},
		{"close_range", [6]uint64{3, 3, unix.CLOSE_RANGE_UNSHARE | unix.CLOSE_RANGE_CLOEXEC}},
		{"close_range", [6]uint64{0, 0, low32}},
		{"socket", [6]uint64{unix.AF_ALG, unix.SOCK_SEQPACKET, 0}},
		{"socket", [6]uint64{unix.AF_VSOCK, unix.SOCK_STREAM, 0}},
		{"socket", [6]uint64{unix.AF_PACKET, unix.SOCK_RAW, 3}},
		{"socket", [6]uint64{unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_TCP}},
		{"socket", [6]uint64{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP}},
		{"socket", [6]uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}},
		{"socket", [6]uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP}},
		{"socket", [6]uint64{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE}},
		{"socket", [6]uint64{unix.AF_INET6, unix.SOCK_SEQPACKET, unix.IPPROTO_SCTP}},
		{"socket", [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER}},
		{"socket", [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_XFRM}},
		{"socket", [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT}},
		{"socketpair", [6]uint64{unix.AF_TIPC, unix.SOCK_STREAM}},
		{"ioctl", [6]uint64{0, unix.TIOCSTI}},
		{"ioctl", [6]uint64{0, unix.TIOCSTI | 1<<32}},
		{"ioctl", [6]uint64{0, unix.TIOCLINUX}},
		{"ioctl", [6]uint64{0, unix.TIOCCONS}},
		{"ioctl", [6]uint64{0, unix.TIOCSETD}},
		{"ioctl", [6]uint64{0, unix.FS_IOC_SETFLAGS}},
		{"ioctl", [6]uint64{0, unix.FICLONE}},
		{"ioctl", [6]uint64{0, 0xC0045877}}, // FIFREEZE
		{"ioctl", [6]uint64{0, 0xB701}},     // NS_GET_USERNS
		{"ioctl", [6]uint64{0, unix.LOOP_CTL_GET_FREE}},
		{"ioctl", [6]uint64{0, unix.TUNSETIFF}},
		{"ioctl", [6]uint64{0, unix.SIOCSIFFLAGS}},
		{"ioctl", [6]uint64{0, unix.BLKGETSIZE64}},
		{"personality", [6]uint64{addrNoRandomize}},
		{"personality", [6]uint64{readImpliesExec}},
		{"prctl", [6]uint64{unix.PR_SET_MM, unix.PR_SET_MM_EXE_FILE}},
		{"prctl", [6]uint64{unix.PR_SET_SECUREBITS}},
		{"prctl", [6]uint64{unix.PR_SET_PTRACER, ^uint64(0)}},
		{"prctl", [6]uint64{unix.PR_CAPBSET_DROP}},
		{"prctl", [6]uint64{unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE}},
		{"seccomp", [6]uint64{unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER}},
		{"fcntl", [6]uint64{0, unix.F_SETLEASE}},
		{"fcntl", [6]uint64{0, unix.F_NOTIFY}},
		{"mknod", [6]uint64{0, unix.S_IFCHR | 0o600}},
		{"mknod", [6]uint64{0, unix.S_IFBLK | 0o600}},
		{"mknodat", [6]uint64{0, 0, unix.S_IFBLK | 0o600}},
		{"setsockopt", [6]uint64{0, unix.IPPROTO_TCP, unix.TCP_ULP}},
	} {
		nr, err := Number(tt.name, "amd64")
		if err != nil {
			t.Fatal(err)
		}
		if got := Action(amd64.Run(&bpfsim.Data{NR: int32(nr), Arch: unix.AUDIT_ARCH_X86_64, Args: tt.args})); got.Permits() {
			t.Errorf("%s %#x is allowed", tt.name, tt.args)
		}
	}
}

// TestK10K11Sockets is catalogue K10 and K11: every family, type and protocol against what is meant, written another way.
func TestK10K11Sockets(t *testing.T) {
	meant := func(family, kind, protocol uint64) bool {
		switch family {
		case unix.AF_UNIX:
			return protocol == 0 && (kind == unix.SOCK_STREAM || kind == unix.SOCK_DGRAM || kind == unix.SOCK_SEQPACKET)
		case unix.AF_INET, unix.AF_INET6:
			return kind == unix.SOCK_STREAM && (protocol == 0 || protocol == unix.IPPROTO_TCP) ||
				kind == unix.SOCK_DGRAM && (protocol == 0 || protocol == unix.IPPROTO_UDP)
		case unix.AF_NETLINK:
			return protocol == unix.NETLINK_ROUTE && (kind == unix.SOCK_RAW || kind == unix.SOCK_DGRAM)
		}
		return false
	}
	for _, arch := range []string{"amd64", "arm64"} {
		program := embeddedFor(t, arch)
		socket, _ := Number("socket", arch)
		pair, _ := Number("socketpair", arch)
		for family := uint64(0); family < 64; family++ {
			for kind := uint64(0); kind < 16; kind++ {
				for _, flags := range []uint64{0, unix.SOCK_CLOEXEC, unix.SOCK_NONBLOCK, unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK, 1 << 32, 1 << 4, 1 << 31} {
					for protocol := uint64(0); protocol < 264; protocol++ {
						data := bpfsim.Data{NR: int32(socket), Arch: auditArch(arch), Args: [6]uint64{family, kind | flags, protocol}}
						want := meant(family, kind, protocol) && flags != 1<<4 && flags != 1<<31
						if got := Action(program.Run(&data)); got.Permits() != want {
							t.Fatalf("%s socket(%d, %#x, %d): %s", arch, family, kind|flags, protocol, got)
						}
					}
				}
				data := bpfsim.Data{NR: int32(pair), Arch: auditArch(arch), Args: [6]uint64{family, kind}}
				if got := Action(program.Run(&data)); got.Permits() != (family == unix.AF_UNIX) {
					t.Fatalf("%s socketpair(%d): %s", arch, family, got)
				}
			}
		}
	}
}

// TestCommands tries command numbers by the million, and finds as many allowed as are listed.
func TestCommands(t *testing.T) {
	program := embeddedFor(t, "amd64")
	// The high halves in use: plain numbers, ioctls with a direction and size, and prctl's words of four letters.
	full := []uint64{0, 0x4004, 0x8004, 0x402C, 0x802C, 0x5356, 0x4155, 0x2, 0xFFFF}
	for _, f := range filtered {
		if len(f.values) == 0 {
			continue
		}
		want := 0
		for _, v := range f.values {
			if v.action.orAllow().Permits() {
				want++
			}
		}
		nr, _ := Number(f.name, "amd64")
		passed := 0
		for high := uint64(0); high < 1<<16; high++ {
			step := uint64(1)
			if !slices.Contains(full, high) {
				step = 0x3FFF
			}
			for low := uint64(0); low < 1<<16; low += step {
				data := bpfsim.Data{NR: int32(nr), Arch: unix.AUDIT_ARCH_X86_64}
				data.Args[f.arg] = high<<16 | low
				if Action(program.Run(&data)).Permits() {
					passed++
				}
			}
		}
		if passed != want {
			t.Errorf("%s: %d values pass, %d are listed", f.name, passed, want)
		}
	}
}

// TestTables finds misspelt names, calls listed twice and reasons left out.
func TestTables(t *testing.T) {
	whole := map[string]bool{}
	for _, r := range Default().Rules {
		if r.Why == "" {
			t.Errorf("%s %v has no reason", r.Name, r.Conds)
		}
		_, amd64 := Number(r.Name, "amd64")
		_, arm64 := Number(r.Name, "arm64")
		if amd64 != nil && arm64 != nil {
			t.Errorf("%v", amd64)
		}
		if len(r.Conds) == 0 && whole[r.Name] {
			t.Errorf("%s is listed twice", r.Name)
		}
		whole[r.Name] = whole[r.Name] || len(r.Conds) == 0
		for _, c := range r.Conds {
			if c.Op != MaskedEqual || c.Mask>>32 != 0 {
				t.Errorf("%s: %s looks at more than an int", r.Name, c)
			}
			if whole[r.Name] {
				t.Errorf("%s is both listed and filtered", r.Name)
			}
		}
	}
}
