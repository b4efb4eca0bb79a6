package landlock

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

const childEnv = "GOBOX_TEST_LANDLOCK_CHILD"

// order is what a test asks of its restricted child. With Free the child stays unrestricted, which
// shows that the test's action works where nothing holds it.
type order struct {
	Ruleset Ruleset
	Free    bool
	Regular string // a folder, in which regular files may be made, and nothing else anywhere
	Action  string
	Args    []string
}

func TestMain(m *testing.M) {
	text := os.Getenv(childEnv)
	if text == "" {
		os.Exit(m.Run())
	}
	if err := child(text); err != nil {
		var errno unix.Errno
		if errors.As(err, &errno) {
			fmt.Print(unix.ErrnoName(errno))
			os.Exit(0)
		}
		fmt.Print(err)
		os.Exit(2)
	}
	fmt.Print("ok")
	os.Exit(0)
}

func (o *order) build() (int, error) {
	if o.Regular == "" {
		return o.Ruleset.Build()
	}
	fd, err := ll.LandlockCreateRuleset(&ll.RulesetAttr{HandledAccessFS: ll.AccessFSMakeReg | ll.AccessFSMakeChar}, 0)
	if err != nil {
		return -1, err
	}
	dir, err := unix.Open(o.Regular, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(dir)
	return fd, ll.LandlockAddPathBeneathRule(fd, &ll.PathBeneathAttr{ParentFd: dir, AllowedAccess: ll.AccessFSMakeReg}, 0)
}

// child stands for the command's process: one thread enters the domain and acts.
func child(text string) error {
	runtime.LockOSThread()
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	if !o.Free {
		fd, err := o.build()
		if err != nil {
			return fmt.Errorf("build: %v", err)
		}
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("no_new_privs: %v", err)
		}
		if err := ll.LandlockRestrictSelf(fd, 0); err != nil {
			return fmt.Errorf("restrict: %v", err)
		}
		unix.Close(fd)
	}
	a := o.Args
	switch o.Action {
	case "read":
		_, err := os.ReadFile(a[0])
		return err
	case "list":
		_, err := os.ReadDir(a[0])
		return err
	case "write":
		return os.WriteFile(a[0], []byte("changed"), 0o600)
	case "append":
		f, err := os.OpenFile(a[0], os.O_WRONLY|os.O_APPEND, 0)
		if err == nil {
			_, err = f.WriteString("changed")
		}
		return err
	case "truncate":
		return unix.Truncate(a[0], 0)
	case "remove":
		return os.Remove(a[0])
	case "rename":
		return os.Rename(a[0], a[1])
	case "link":
		return os.Link(a[0], a[1])
	case "symlink":
		return os.Symlink(a[0], a[1])
	case "mkdir":
		return os.Mkdir(a[0], 0o700)
	case "fifo":
		return unix.Mkfifo(a[0], 0o600)
	case "bind":
		return withSocket(func(fd int) error { return unix.Bind(fd, &unix.SockaddrUnix{Name: a[0]}) })
	case "connect":
		return withSocket(func(fd int) error { return unix.Connect(fd, &unix.SockaddrUnix{Name: a[0]}) })
	case "mknod":
		// Device 0:0 is overlayfs's whiteout, the one device node that takes no privilege to make.
		return unix.Mknod(a[0], unix.S_IFCHR|0o600, 0)
	case "exec":
		return exec.Command(a[0]).Run()
	case "ioctl":
		fd, err := unix.Open(a[0], unix.O_RDWR|unix.O_NOCTTY, 0)
		if err != nil {
			return err
		}
		_, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
		return err
	case "signal":
		return unix.Kill(os.Getppid(), unix.SIGUSR2)
	case "ptrace":
		return unix.PtraceSeize(os.Getppid())
	}
	return fmt.Errorf("unknown action %q", o.Action)
}

func withSocket(act func(fd int) error) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	return act(fd)
}

// run gives "ok" or the name of the errno that the child's action met.
func run(t *testing.T, o order) string {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{childEnv + "=" + string(text)}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("child: %v: %s%s", err, out, stderr.Bytes())
	}
	return string(out)
}

func needABI(t *testing.T, least int) int {
	t.Helper()
	abi, err := ABI()
	if err != nil {
		t.Skip(err)
	}
	if abi < least {
		t.Skipf("kernel has landlock ABI %d, test needs %d", abi, least)
	}
	return abi
}

// tempDir is free of symbolic links, as a plan's paths are.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// Each action is tried free, where it must work, and under a rule on the directory it happens in, where
// it must do what is said. allowed lists the accesses that let it through.
func TestAccess(t *testing.T) {
	abi := needABI(t, 1)
	trueBin, err := exec.LookPath("true")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(trueBin)
	if err != nil {
		t.Fatal(err)
	}
	all := []Access{Read, List, Execute, Write, WriteExisting, Ioctl}
	const system = Read | Execute
	var whiteout []Access
	if whiteoutsAreFiles(t) {
		whiteout = []Access{Write}
	}
	for _, c := range []struct {
		action  string
		args    []string // beneath the directory unless absolute
		allowed []Access
		least   int // ABI from which the action is held at all
		changes bool
	}{
		{"read", []string{"file"}, []Access{Read}, 1, false},
		{"list", []string{"."}, []Access{Read, List}, 1, false},
		{"append", []string{"file"}, []Access{Write, WriteExisting}, 1, true},
		{"truncate", []string{"file"}, []Access{Write, WriteExisting}, 3, true},
		{"write", []string{"new"}, []Access{Write}, 1, true},
		{"remove", []string{"file"}, []Access{Write}, 1, true},
		{"remove", []string{"empty"}, []Access{Write}, 1, true},
		{"mkdir", []string{"new"}, []Access{Write}, 1, true},
		{"fifo", []string{"new"}, []Access{Write}, 1, true},
		{"bind", []string{"new"}, []Access{Write}, 1, true},
		{"symlink", []string{"file", "new"}, []Access{Write}, 1, true},
		{"rename", []string{"file", "renamed"}, []Access{Write}, 1, true},
		{"rename", []string{"file", "empty/moved"}, []Access{Write}, 2, true},
		{"link", []string{"file", "empty/linked"}, []Access{Write}, 2, true},
		{"mknod", []string{"new"}, whiteout, 1, true},
		{"exec", []string{"program"}, []Access{Execute}, 1, false},
	} {
		if c.least > abi {
			continue
		}
		for _, access := range append(all, 0) {
			name := fmt.Sprintf("%s %s/access %#x", c.action, strings.Join(c.args, " "), uint16(access))
			t.Run(name, func(t *testing.T) {
				dir := tempDir(t)
				os.Mkdir(filepath.Join(dir, "empty"), 0o700)
				os.WriteFile(filepath.Join(dir, "file"), []byte("content"), 0o600)
				if err := os.WriteFile(filepath.Join(dir, "program"), program, 0o700); err != nil {
					t.Fatal(err)
				}
				o := order{Action: c.action, Free: access == 0}
				for _, arg := range c.args {
					o.Args = append(o.Args, filepath.Join(dir, arg))
				}
				o.Ruleset = Ruleset{ABI: abi, Rules: []Rule{
					{Path: dir, Access: access},
					{Path: filepath.Join(dir, "program"), Access: Read}, // execve takes both
					{Path: os.DevNull, Access: Read | WriteExisting},    // os/exec opens it
				}}
				for _, lib := range []string{"/usr", "/lib", "/lib64"} {
					if real, err := filepath.EvalSymlinks(lib); err == nil {
						o.Ruleset.Rules = append(o.Ruleset.Rules, Rule{Path: real, Access: system})
					}
				}
				allowed := access == 0
				for _, a := range c.allowed {
					allowed = allowed || a == access
				}
				before := snapshot(t, dir)
				got := run(t, o)
				switch {
				case allowed && got != "ok":
					t.Errorf("refused with %s", got)
				case !allowed && got == "ok":
					t.Errorf("allowed")
				}
				if changed := snapshot(t, dir) != before; changed != (allowed && c.changes) {
					t.Errorf("directory changed: %v", changed)
				}
			})
		}
	}
}

// whiteoutsAreFiles tells whether this kernel takes a whiteout, device 0:0, for a regular file, as it does since 2026 and in the stable
// releases since then, or for a character device. That is by the rights alone, and so without this package.
func whiteoutsAreFiles(t *testing.T) bool {
	t.Helper()
	dir := tempDir(t)
	return run(t, order{Action: "mknod", Args: []string{filepath.Join(dir, "new")}, Regular: dir}) == "ok"
}

func snapshot(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		size := int64(0)
		if info.Mode().IsRegular() {
			size = info.Size()
		}
		fmt.Fprintln(&b, path, info.Mode(), size)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// What no rule names is refused, whoever asks.
func TestNoRuleNoAccess(t *testing.T) {
	abi := needABI(t, 1)
	dir := tempDir(t)
	file := filepath.Join(dir, "file")
	os.WriteFile(file, []byte("content"), 0o666)
	for _, action := range []string{"read", "append"} {
		if got := run(t, order{Action: action, Args: []string{file}, Ruleset: Ruleset{ABI: abi}}); got != "EACCES" {
			t.Errorf("%s: %s", action, got)
		}
	}
	if text, _ := os.ReadFile(file); string(text) != "content" {
		t.Errorf("file is now %q", text)
	}
}

// A move to where the file would gain rights is refused even though both sides allow writing.
func TestRenameGainsNothing(t *testing.T) {
	abi := needABI(t, 2)
	from, to := tempDir(t), tempDir(t)
	file := filepath.Join(from, "file")
	os.WriteFile(file, nil, 0o600)
	got := run(t, order{Action: "rename", Args: []string{file, filepath.Join(to, "file")}, Ruleset: Ruleset{ABI: abi, Rules: []Rule{
		{Path: from, Access: Read | Write}, {Path: to, Access: Read | Write | Execute},
	}}})
	if got != "EXDEV" {
		t.Errorf("rename into an executable hierarchy: %s", got)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}

func TestIoctl(t *testing.T) {
	abi := needABI(t, 5)
	const ptmx = "/dev/ptmx"
	o := order{Action: "ioctl", Args: []string{ptmx}, Free: true}
	if got := run(t, o); got != "ok" {
		t.Skipf("no usable %s here: %s", ptmx, got)
	}
	for access, want := range map[Access]string{
		Read | WriteExisting:         "EACCES",
		Read | WriteExisting | Ioctl: "ok",
	} {
		o := order{Action: "ioctl", Args: []string{ptmx}, Ruleset: Ruleset{ABI: abi, Rules: []Rule{{Path: ptmx, Access: access}}}}
		if got := run(t, o); got != want {
			t.Errorf("access %#x: %s, want %s", uint16(access), got, want)
		}
	}
}

func TestScopes(t *testing.T) {
	abi := needABI(t, 6)
	name := fmt.Sprintf("@gobox-landlock-test-%d", os.Getpid())
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	got := make(chan os.Signal, 8)
	signal.Notify(got, syscall.SIGUSR2)
	defer signal.Stop(got)
	for _, c := range []struct {
		o    order
		want string
	}{
		{order{Free: true}, "ok"},
		{order{Ruleset: Ruleset{ABI: abi}}, "ok"},
		{order{Ruleset: Ruleset{ABI: abi, Scoped: true}}, "EPERM"},
	} {
		before := len(got)
		for action, args := range map[string][]string{"connect": {name}, "signal": nil} {
			c.o.Action, c.o.Args = action, args
			if have := run(t, c.o); have != c.want {
				t.Errorf("%s, free %v, scoped %v: %s, want %s", action, c.o.Free, c.o.Ruleset.Scoped, have, c.want)
			}
		}
		if c.want == "EPERM" && len(got) != before {
			t.Error("the signal arrived")
		}
	}
}

// The command cannot trace init, since init is outside its domain. The unrestricted child is not the
// control here: Yama may forbid it to trace its parent anyway.
func TestPtraceOutside(t *testing.T) {
	abi := needABI(t, 1)
	if got := run(t, order{Action: "ptrace", Ruleset: Ruleset{ABI: abi}}); got != "EPERM" {
		t.Errorf("seize the parent: %s", got)
	}
}

func TestUnixSocketByPath(t *testing.T) {
	abi := needABI(t, 9)
	dir := tempDir(t)
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for p, want := range map[string]string{dir: "EACCES", path: "ok"} {
		o := order{Action: "connect", Args: []string{path}, Ruleset: Ruleset{ABI: abi, Rules: []Rule{{Path: p, Access: Read | Write}}}}
		if got := run(t, o); got != want {
			t.Errorf("rule on %s: %s, want %s", p, got, want)
		}
	}
}

// Every older ABI that this kernel can stand in for is accepted, so the table of rights per ABI holds
// nothing that a kernel of that ABI would not know.
func TestBuildEveryABI(t *testing.T) {
	abi := needABI(t, 1)
	dir := tempDir(t)
	rules := []Rule{
		{Path: dir, Access: Read | Write | Execute | List},
		{Path: "/dev/null", Access: Read | WriteExisting | Ioctl},
		{Path: "/dev/null", Access: Ioctl},
	}
	for v := 1; v <= abi; v++ {
		fd, err := Ruleset{ABI: v, Scoped: true, Rules: rules}.Build()
		if err != nil {
			t.Errorf("ABI %d: %v", v, err)
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("ABI %d: descriptor flags %#x, %v", v, flags, err)
		}
		unix.Close(fd)
	}
}

func TestHandledGrows(t *testing.T) {
	want := []uint64{1: 1<<13 - 1, 2: 1<<14 - 1, 3: 1<<15 - 1, 4: 1<<15 - 1, 5: 1<<16 - 1, 6: 1<<16 - 1, 7: 1<<16 - 1, 8: 1<<16 - 1, 9: 1<<17 - 1, 10: 1<<17 - 1}
	for abi := 1; abi < len(want); abi++ {
		fs, scopes := handled(abi)
		if fs != want[abi] || (scopes == 3) != (abi >= 6) {
			t.Errorf("ABI %d: fs %#x, scopes %#x", abi, fs, scopes)
		}
		for a := Access(1); a < List<<1; a++ {
			if r := a.rights(fs); r&^fs != 0 || r&(ll.AccessFSMakeChar|ll.AccessFSMakeBlock) != 0 {
				t.Errorf("ABI %d: access %#x has rights %#x", abi, uint16(a), r)
			}
		}
	}
}

func TestBuildErrors(t *testing.T) {
	abi := needABI(t, 1)
	dir := tempDir(t)
	os.Mkdir(filepath.Join(dir, "d"), 0o700)
	os.WriteFile(filepath.Join(dir, "f"), nil, 0o600)
	os.Symlink("d", filepath.Join(dir, "link"))
	at := func(name string) string { return filepath.Join(dir, name) }
	before := descriptors(t)
	for _, c := range []struct {
		name string
		rule Rule
		want error
	}{
		{"missing", Rule{at("none"), Read, false}, unix.ENOENT},
		{"missing optional", Rule{at("none"), Read, true}, nil},
		{"below a file, optional", Rule{at("f/x"), Read, true}, unix.ENOTDIR},
		{"symlink", Rule{at("link"), Read, false}, unix.ELOOP},
		{"symlink optional", Rule{at("link"), Read, true}, unix.ELOOP},
		{"through a symlink", Rule{at("link/x"), Read, true}, unix.ELOOP},
		{"magic link", Rule{"/proc/self/root", Read, true}, unix.ELOOP},
		{"relative", Rule{"d", Read, false}, unix.EINVAL},
		{"empty", Rule{"", Read, false}, unix.EINVAL},
		{"no access", Rule{at("d"), 0, false}, unix.EINVAL},
		{"unknown access", Rule{at("d"), 1 << 15, false}, unix.EINVAL},
		{"list a file", Rule{at("f"), List, false}, unix.ENOTDIR},
		{"directory rights on a file", Rule{at("f"), Read | Write | List, false}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			fd, err := Ruleset{ABI: abi, Rules: []Rule{{Path: "/", Access: List}, c.rule}}.Build()
			if err == nil {
				unix.Close(fd)
			}
			if !errors.Is(err, c.want) {
				t.Fatalf("error %v, want %v", err, c.want)
			}
			var e *Error
			if c.want != nil && (!errors.As(err, &e) || e.Index != 1 || e.Path != c.rule.Path) {
				t.Errorf("error %#v", err)
			}
		})
	}
	for abi, want := range map[int]error{0: unix.ENOSYS, -1: unix.ENOSYS} {
		_, err := Ruleset{ABI: abi}.Build()
		var e *Error
		if !errors.As(err, &e) || e.Index != NoRule || !errors.Is(err, want) {
			t.Errorf("ABI %d: %v", abi, err)
		}
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestGaps(t *testing.T) {
	if got := Gaps(newestABI); len(got) != 0 {
		t.Errorf("newest ABI has gaps: %q", got)
	}
	last := 6
	for abi := 1; abi <= newestABI; abi++ {
		n := len(Gaps(abi))
		if n > last {
			t.Errorf("ABI %d has more gaps than the one before", abi)
		}
		last = n
	}
	if len(Gaps(1)) != 5 || len(Gaps(7)) != 1 || len(Gaps(0)) != 1 {
		t.Errorf("%q", Gaps(1))
	}
}

func BenchmarkBuild(b *testing.B) {
	abi, err := ABI()
	if err != nil {
		b.Skip(err)
	}
	r := Ruleset{ABI: abi, Scoped: true}
	for range 20 {
		r.Rules = append(r.Rules, Rule{Path: "/usr/lib", Access: Read | Execute})
	}
	b.ReportAllocs()
	for b.Loop() {
		fd, err := r.Build()
		if err != nil {
			b.Fatal(err)
		}
		unix.Close(fd)
	}
}
