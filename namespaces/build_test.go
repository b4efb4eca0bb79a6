package namespaces

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The tests of Build run it for real: the test binary executes itself as PID 1 of new namespaces, gets a
// tree over a socket, builds it, looks at the outcome and answers.

const childName = "namespaces-test-child"

type order struct {
	Tree Tree
	ID   Identity
	Look []string // paths to read, list or write to; see look
	Host string   // a folder that is mounted on itself, shared with others, with a tmpfs on its "below"; empty for none

	Network *Network // instead of a tree: its gateway is made and looked at
	Shared  bool     // as where the kernel has no veth
}

type answer struct {
	Index int // of the failed step; -2 when none failed
	Err   string
	Errno unix.Errno
	Seen  map[string]string
}

func TestMain(m *testing.M) {
	if os.Args[0] == childName {
		child()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func child() {
	buf := make([]byte, 64<<10)
	n, err := unix.Read(3, buf)
	if err != nil {
		panic(err)
	}
	var o order
	if err := json.Unmarshal(buf[:n], &o); err != nil {
		panic(err)
	}
	a := answer{Index: -2, Seen: map[string]string{}}
	if err := LoopbackUp(); err != nil {
		a.Err = err.Error()
	}
	unix.Umask(0)
	if o.Host != "" {
		mountBelow(o.Host)
	}
	if o.Network != nil {
		lookAtGateway(&a, o)
	} else if _, err := Build(o.Tree, o.ID, nil); err != nil {
		var se *StepError
		errors.As(err, &se)
		a.Index, a.Err = se.Index, err.Error()
		errors.As(err, &a.Errno)
	} else {
		for _, l := range o.Look {
			a.Seen[l] = look(l)
		}
	}
	b, err := json.Marshal(a)
	if err != nil {
		panic(err)
	}
	if _, err := unix.Write(3, b); err != nil {
		panic(err)
	}
}

// mountBelow makes dir a mount that passes on what is mounted below it, and mounts a tmpfs there.
func mountBelow(dir string) {
	for _, err := range []error{
		unix.Mount(dir, dir, "", unix.MS_BIND, ""),
		unix.Mount("", dir, "", unix.MS_SHARED, ""),
		unix.Mount("none", dir+"/below", "tmpfs", 0, ""),
	} {
		if err != nil {
			panic(err)
		}
	}
}

// look does "read PATH", "list PATH", "write PATH", "mode PATH" or "flags PATH" and says what came of it.
func look(what string) string {
	verb, p, _ := strings.Cut(what, " ")
	switch verb {
	case "read":
		b, err := os.ReadFile(p)
		if err != nil {
			return errName(err)
		}
		return string(b)
	case "list":
		es, err := os.ReadDir(p)
		if err != nil {
			return errName(err)
		}
		var names []string
		for _, e := range es {
			names = append(names, e.Name())
		}
		return strings.Join(names, " ")
	case "write":
		return errName(os.WriteFile(p, []byte("written"), 0o600))
	case "mode":
		fi, err := os.Lstat(p)
		if err != nil {
			return errName(err)
		}
		return fi.Mode().String()
	case "flags":
		var fs unix.Statfs_t
		if err := unix.Statfs(p, &fs); err != nil {
			return errName(err)
		}
		var flags []string
		for _, f := range []struct {
			bit  int64
			name string
		}{{unix.ST_RDONLY, "ro"}, {unix.ST_NOSUID, "nosuid"}, {unix.ST_NODEV, "nodev"}, {unix.ST_NOEXEC, "noexec"}} {
			if int64(fs.Flags)&f.bit != 0 {
				flags = append(flags, f.name)
			}
		}
		return strings.Join(flags, ",")
	}
	return "unknown verb"
}

func errName(err error) string {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return unix.ErrnoName(errno)
	}
	if err != nil {
		return err.Error()
	}
	return "ok"
}

// build has a child build the tree, with a final pivot added, and returns its answer.
func build(t *testing.T, steps []Step, looks ...string) answer {
	t.Helper()
	return inChild(t, order{
		Tree: Tree{Root: Root{Size: 1 << 20, Inodes: 200}, Steps: append(steps, Step{Op: OpPivot, Target: "/"})}, Look: looks,
	})
}

// inChild has a child carry out the order and returns its answer.
func inChild(t *testing.T, o order) answer {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	pid, pidfd, err := Clone(Flags, "/proc/self/exe", []string{childName}, nil, pair[1])
	unix.Close(pair[1])
	if err != nil {
		t.Fatalf("clone: %v (user namespaces are needed for this test)", err)
	}
	defer func() {
		_ = unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0)
		_, _ = unix.Wait4(pid, nil, 0, nil)
		unix.Close(pidfd)
	}()
	id := Identity{UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), HostUID: uint32(os.Getuid()), HostGID: uint32(os.Getgid())}
	if os.Getuid() == 0 {
		id = Identity{UID: 1000, GID: 1000, HostUID: 65534, HostGID: 65534, Root: true}
	}
	if err := id.WriteMaps(pid); err != nil {
		t.Fatal(err)
	}
	o.ID = id
	b, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Write(pair[0], b); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64<<10)
	n, err := unix.Read(pair[0], buf)
	if err != nil || n == 0 {
		t.Fatalf("no answer from the child: %v", err)
	}
	var a answer
	if err := json.Unmarshal(buf[:n], &a); err != nil {
		t.Fatal(err)
	}
	return a
}

func hostDir(t *testing.T) string {
	t.Helper()
	d, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d+"/file", []byte("of the host"), 0o644); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestBuild(t *testing.T) {
	host := hostDir(t)
	a := build(t, []Step{
		{Op: OpBind, Source: host, Target: "/data", Attr: ReadOnly | NoSuid | NoDev},
		{Op: OpBind, Source: host + "/file", Target: "/deep/er/file", Attr: ReadOnly},
		{Op: OpBind, Source: host + "/missing", Target: "/missing", Optional: true},
		{Op: OpFile, Target: "/etc/passwd", Content: []byte("text")},
		{Op: OpCopy, Source: host + "/file", Target: "/etc/copy"},
		{Op: OpCopy, Source: host + "/missing", Target: "/etc/none", Optional: true},
		{Op: OpSymlink, Source: "data/file", Target: "/link"},
		{Op: OpSymlink, Source: "data/file", Target: "/link"},
		{Op: OpDevice, Source: "/dev/null", Target: "/dev/null", Attr: NoSuid | NoExec},
		{Op: OpProc, Target: "/proc", Attr: ReadOnly | NoSuid | NoDev | NoExec},
		{Op: OpScratch, Target: "/tmp", Mode: 0o1777, Attr: NoSuid | NoDev},
		{Op: OpTmpfs, Target: "/extra", Size: 4096, Inodes: 3, Attr: NoSuid | NoDev},
		{Op: OpDir, Target: "/tmp/hidden"},
		{Op: OpMask, Target: "/tmp/hidden"},
		{Op: OpFile, Target: "/tmp/secret", Content: []byte("secret")},
		{Op: OpMask, Target: "/tmp/secret"},
		{Op: OpMask, Target: "/tmp/not-there", Optional: true},
	},
		"read /data/file", "write /data/new", "read /deep/er/file", "write /deep/er/file", "read /missing",
		"read /etc/passwd", "read /etc/copy", "mode /etc/none", "write /etc/passwd", "write /new",
		"read /link", "read /dev/null", "write /dev/null", "mode /tmp", "write /tmp/new", "read /tmp/new",
		"write /extra/1", "write /extra/2", "write /extra/3", "list /",
		"read /proc/sys/user/max_user_namespaces", "write /proc/sys/user/max_user_namespaces", "list "+host,
		"write /tmp/hidden/x", "write /tmp/secret", "mode /tmp/secret",
	)
	if a.Index != -2 {
		t.Fatalf("step %d: %s", a.Index, a.Err)
	}
	for look, want := range map[string]string{
		"read /data/file":     "of the host",
		"write /data/new":     "EROFS",
		"read /deep/er/file":  "of the host",
		"write /deep/er/file": "EROFS",
		"read /missing":       "ENOENT",
		"read /etc/passwd":    "text",
		"read /etc/copy":      "of the host",
		"mode /etc/none":      "ENOENT",
		"write /etc/passwd":   "EROFS",
		"write /new":          "EROFS",
		"read /link":          "of the host",
		"read /dev/null":      "",
		"write /dev/null":     "ok",
		"mode /tmp":           "dtrwxrwxrwx",
		"write /tmp/new":      "ok",
		"read /tmp/new":       "written",
		"write /extra/1":      "ok",
		"write /extra/3":      "ENOSPC",
		"list /":              "data deep dev etc extra link proc tmp",
		"read /proc/sys/user/max_user_namespaces":  "0\n",
		"write /proc/sys/user/max_user_namespaces": "EROFS",
		"list " + host:        "ENOENT",
		"write /tmp/hidden/x": "ENOENT",
		"write /tmp/secret":   "EROFS",
		"mode /tmp/secret":    "----------",
	} {
		if got := a.Seen[look]; got != want {
			t.Errorf("%s: got %q, want %q", look, got, want)
		}
	}
	if b, err := os.ReadFile(host + "/file"); err != nil || string(b) != "of the host" {
		t.Errorf("the host's file is now %q, %v", b, err)
	}
}

// What is mounted below a folder comes along with all attributes of the folder's own mount, and nothing that the host mounts
// there later does.
func TestBuildMountsBelow(t *testing.T) {
	host := hostDir(t)
	if err := os.Mkdir(host+"/below", 0o755); err != nil {
		t.Fatal(err)
	}
	a := inChild(t, order{
		Host: host,
		Tree: Tree{Root: Root{Size: 1 << 20, Inodes: 200}, Steps: []Step{
			{Op: OpBind, Source: host, Target: "/data", Attr: ReadOnly | NoSuid | NoDev | NoExec},
			{Op: OpBind, Source: host, Target: "/open", Attr: NoSuid | NoDev},
			{Op: OpProc, Target: "/proc", Attr: ReadOnly | NoSuid | NoDev | NoExec},
			{Op: OpPivot, Target: "/"},
		}},
		Look: []string{"write /data/below/new", "flags /data/below", "write /open/below/new", "flags /open/below", "list /data/below", "read /proc/self/mountinfo"},
	})
	if a.Index != -2 {
		t.Fatalf("step %d: %s", a.Index, a.Err)
	}
	for look, want := range map[string]string{
		"write /data/below/new": "EROFS",
		"flags /data/below":     "ro,nosuid,nodev,noexec",
		"write /open/below/new": "ok",
		"flags /open/below":     "nosuid,nodev",
		"list /data/below":      "new",
	} {
		if got := a.Seen[look]; got != want {
			t.Errorf("%s: got %q, want %q", look, got, want)
		}
	}
	mounts := a.Seen["read /proc/self/mountinfo"]
	if !strings.Contains(mounts, " /data/below ") || strings.Contains(mounts, " shared:") || strings.Contains(mounts, " master:") {
		t.Errorf("a mount of the host's reaches the copies, or is not there:\n%s", mounts)
	}
}

// A link that stands where a mount goes must not lead out of the new root (CVE-2025-31133), and one that
// stands where a source was must not be followed at all (CVE-2021-30465).
func TestBuildLinks(t *testing.T) {
	host := hostDir(t)
	outside := hostDir(t)
	if err := os.Symlink(outside, host+"/link"); err != nil {
		t.Fatal(err)
	}
	t.Run("absolute target", func(t *testing.T) {
		a := build(t, []Step{
			{Op: OpSymlink, Source: outside, Target: "/place"},
			{Op: OpDir, Target: outside},
			{Op: OpTmpfs, Target: "/place"},
		}, "write /place/new", "list "+outside)
		if a.Index != -2 || a.Seen["write /place/new"] != "ok" || a.Seen["list "+outside] != "new" {
			t.Errorf("got %+v, want the link resolved inside the root", a)
		}
		if _, err := os.Lstat(outside + "/new"); err == nil {
			t.Error("the mount went to the host's folder")
		}
	})
	t.Run("dot-dot target", func(t *testing.T) {
		a := build(t, []Step{
			{Op: OpSymlink, Source: "../../../../../../.." + outside, Target: "/a/place"},
			{Op: OpDir, Target: "/a/place"},
		})
		if a.Index != 1 {
			t.Errorf("got %+v, want a failure, as the link leads nowhere inside", a)
		}
	})
	t.Run("magic link target", func(t *testing.T) {
		a := build(t, []Step{
			{Op: OpProc, Target: "/proc", Attr: NoSuid | NoDev | NoExec},
			{Op: OpSymlink, Source: "/proc/self/root", Target: "/place"},
			{Op: OpTmpfs, Target: "/place"},
		})
		if a.Index != 2 || a.Errno != unix.ELOOP {
			t.Errorf("got %+v, want ELOOP at step 2", a)
		}
	})
	for _, source := range []string{host + "/link", host + "/link/file"} {
		t.Run("source", func(t *testing.T) {
			a := build(t, []Step{{Op: OpBind, Source: source, Target: "/data"}})
			if a.Index != 0 || a.Errno != unix.ELOOP {
				t.Errorf("bind %s: got %+v, want ELOOP", source, a)
			}
			a = build(t, []Step{{Op: OpCopy, Source: source, Target: "/data"}})
			if a.Index != 0 || a.Errno != unix.ELOOP {
				t.Errorf("copy %s: got %+v, want ELOOP", source, a)
			}
		})
	}
}

func TestBuildFailures(t *testing.T) {
	host := hostDir(t)
	if err := unix.Mkfifo(host+"/fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	big, err := os.Create(host + "/big")
	if err != nil {
		t.Fatal(err)
	}
	if err := big.Truncate(copyLimit + 1); err != nil {
		t.Fatal(err)
	}
	big.Close()
	for _, tt := range []struct {
		name  string
		step  Step
		errno unix.Errno // 0: any other error
	}{
		{"missing source", Step{Op: OpBind, Source: host + "/missing", Target: "/x"}, unix.ENOENT},
		{"mask of what is gone", Step{Op: OpMask, Target: "/gone"}, unix.ENOENT},
		{"mask of a link", Step{Op: OpMask, Target: "/link"}, unix.ELOOP},
		{"mask below a link", Step{Op: OpMask, Target: "/link/first"}, unix.ELOOP},
		{"relative target", Step{Op: OpDir, Target: "x"}, 0},
		{"dot-dot target", Step{Op: OpDir, Target: "/x/../y"}, 0},
		{"root as a file", Step{Op: OpFile, Target: "/"}, 0},
		{"FIFO", Step{Op: OpCopy, Source: host + "/fifo", Target: "/x"}, 0},
		{"large file", Step{Op: OpCopy, Source: host + "/big", Target: "/x"}, 0},
		{"file as a device", Step{Op: OpDevice, Source: host + "/file", Target: "/x"}, 0},
		{"unknown", Step{Op: "unknown", Target: "/x"}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := build(t, []Step{{Op: OpDir, Target: "/first"}, {Op: OpSymlink, Source: "/", Target: "/link"}, tt.step})
			if a.Index != 2 || a.Err == "" || a.Errno != tt.errno {
				t.Errorf("got %+v, want step 2 to fail with %v", a, tt.errno)
			}
		})
	}
}

func TestSwapMap(t *testing.T) {
	for _, tt := range []struct{ a, b uint32 }{{0, 65534}, {65534, 0}, {1000, 65534}, {65534, 65534}, {65533, 65534}, {0, 1}, {70000, 65534}} {
		// Every id but the last is mapped exactly once, the two are exchanged and the rest stay.
		var total uint64
		find := func(id uint32) (uint32, bool) {
			for l := range strings.Lines(swapMap(tt.a, tt.b)) {
				var in, out, n uint32
				if _, err := fmt.Sscan(l, &in, &out, &n); err != nil {
					t.Fatal(err)
				}
				if id >= in && uint64(id) < uint64(in)+uint64(n) {
					return out + id - in, true
				}
			}
			return 0, false
		}
		for l := range strings.Lines(swapMap(tt.a, tt.b)) {
			var in, out, n uint64
			if _, err := fmt.Sscan(l, &in, &out, &n); err != nil {
				t.Fatal(err)
			}
			total += n
		}
		if total != 4294967295 {
			t.Errorf("%v: %d ids are mapped", tt, total)
		}
		for id, want := range map[uint32]uint32{tt.a: tt.b, tt.b: tt.a, 5: 5, 4294967294: 4294967294} {
			if got, ok := find(id); !ok || got != want {
				t.Errorf("%v: %d is mapped to %d, %v, want %d", tt, id, got, ok, want)
			}
		}
	}
}

// As root, the owner's files belong to the sandbox's host id in an idmapped mount, and what is made there
// belongs to the owner.
func TestIdmapped(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root makes idmapped mounts")
	}
	host := hostDir(t)
	if err := os.Chown(host+"/file", 1234, 1235); err != nil {
		t.Fatal(err)
	}
	m := Idmapper{Identity: Identity{UID: 1234, GID: 1235, HostUID: 65534, HostGID: 65534, Root: true}}
	defer m.Close()
	f, err := m.Open(host, NoSuid|NoDev, &Owner{1234, 1235}, true)
	if errors.Is(err, unix.EINVAL) {
		t.Skipf("the file system of %s allows no idmapped mounts", host)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstatat(int(f.Fd()), "file", &st, 0); err != nil {
		t.Fatal(err)
	}
	if st.Uid != 65534 || st.Gid != 65534 {
		t.Errorf("the owner's file belongs to %d:%d in the mount, want 65534:65534", st.Uid, st.Gid)
	}
	if err := unix.Fstatat(int(f.Fd()), ".", &st, 0); err != nil {
		t.Fatal(err)
	}
	if st.Uid != 0 {
		t.Errorf("another's folder belongs to %d in the mount, want 0", st.Uid)
	}
	if _, err := m.Open(host+"/missing", 0, &Owner{1234, 1235}, true); !errors.Is(err, unix.ENOENT) {
		t.Errorf("missing source: %v, want ENOENT", err)
	}
}

// What is mounted over a folder, or over one above it, gets what comes after, though the folder beneath is still at hand.
func TestMountOverAFolderInUse(t *testing.T) {
	tmpfs := func(target string) Step { return Step{Op: OpTmpfs, Target: target, Size: 1 << 20} }
	file := func(target string) Step { return Step{Op: OpFile, Target: target, Content: []byte(target)} }
	a := build(t, []Step{
		file("/a/x"), tmpfs("/a"), file("/a/y"),
		file("/b/c/x"), tmpfs("/b"), file("/b/c/y"),
	}, "list /a", "read /a/y", "list /b/c", "read /b/c/y")
	if a.Index != -2 {
		t.Fatalf("step %d: %s", a.Index, a.Err)
	}
	for what, want := range map[string]string{"list /a": "y", "read /a/y": "/a/y", "list /b/c": "y", "read /b/c/y": "/b/c/y"} {
		if got := a.Seen[what]; got != want {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}
}
