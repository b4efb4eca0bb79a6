package vm

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// series are the kernels gobox is tried on: Landlock ABI 2 and 6.
var series = []string{"6.1", "6.12"}

// boot runs a script or explains: what the machine lacks is a failure in CI and a reason to skip elsewhere.
func boot(t *testing.T, c Config, series string) string {
	t.Helper()
	ctx := t.Context()
	var out string
	var err error
	if c.Kernel, err = Find(ctx, series); err == nil {
		out, err = Run(ctx, c)
	}
	if errors.Is(err, ErrUnavailable) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return out
}

// diagModules are what a host loads when it is asked for the buffers of sockets; the guest has no modprobe.
var diagModules = []string{"unix_diag", "inet_diag", "tcp_diag", "udp_diag"}

func TestMachine(t *testing.T) {
	out := boot(t, Config{Script: `
uname -r
cgroup2 && delegate box && in_cgroup box as_user cat /proc/self/cgroup
as_user id -u
mount | grep ' / '
`}, "6.1")
	for _, want := range []string{"6.1.", "0::/box\n", "\n1000\n", "root on / type tmpfs"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %q", want, out)
		}
	}
}

func TestExitStatus(t *testing.T) {
	ctx := t.Context()
	k, err := Find(ctx, "6.1")
	if errors.Is(err, ErrUnavailable) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	out, err := Run(ctx, Config{Kernel: k, Script: "echo words; exit 7"})
	if errors.Is(err, ErrUnavailable) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	var exit *ExitError
	if !errors.As(err, &exit) || exit.Status != 7 || out != "words\n" {
		t.Errorf("got %q, %v", out, err)
	}
}

// testBinary compiles the tests of a package, without cgo, for a guest without libraries.
func testBinary(t *testing.T, pkg string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "test")
	cmd := exec.Command("go", "test", "-c", "-o", bin, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("compile tests of %s: %v\n%s", pkg, err, out)
	}
	return bin
}

// The package's own tests on cgroup version 2: as root in the real root cgroup, as root in a cgroup with other
// processes, and as an ordinary user in a delegated cgroup, alone and beside a shell.
func TestCgroup2(t *testing.T) {
	bin := testBinary(t, "gobox/rlimit/cgroup")
	for _, series := range series {
		t.Run(series, func(t *testing.T) {
			out := boot(t, Config{Files: map[string]string{"/cgroup.test": bin}, Memory: 1024, Modules: diagModules, Script: `
export TMPDIR=/tmp
cgroup2 || exit 90
t() { "$@" -test.v -test.timeout 90s -test.run "$only" >/tmp/out 2>&1 || { cat /tmp/out; echo FAILED; }; grep -E '^ *--- (PASS|SKIP)' /tmp/out; }
only=.
echo == root; t /cgroup.test
delegate box
echo == user; t in_cgroup box as_user /cgroup.test
only='TestPids|TestMemoryGroup|TestLeftovers|TestFrom'
delegate beside
in_cgroup beside sleep 1000 &
echo == beside; t in_cgroup beside as_user /cgroup.test
echo == parallel
delegate crowd
for i in 1 2 3 4 5 6; do
	in_cgroup crowd as_user /cgroup.test -test.run 'TestPids|TestMemoryWithin' >/tmp/crowd.$i 2>&1 &
	crowd="$crowd $!"
done
for p in $crowd; do wait $p && echo passed; done
cat /tmp/crowd.* | grep -v ^PASS
echo == left; find /sys/fs/cgroup -name 'gobox-*' | sort
`}, series)
			t.Log(out)
			for _, part := range []string{"root", "user", "beside"} {
				_, text, _ := strings.Cut(out, "== "+part+"\n")
				text, _, _ = strings.Cut(text, "== ")
				for _, want := range []string{"PASS: TestPids", "PASS: TestMemoryGroup", "PASS: TestLeftovers", "PASS: TestFromNamespaces"} {
					if !strings.Contains(text, want) {
						t.Errorf("%s: no %s", part, want)
					}
				}
				if strings.Contains(text, "FAILED") {
					t.Errorf("%s: %s", part, text)
				}
			}
			if n := strings.Count(out, "passed\n"); n != 6 {
				t.Errorf("%d of 6 at the same time passed", n)
			}
			if _, left, _ := strings.Cut(out, "== left\n"); strings.TrimSpace(left) !=
				"/sys/fs/cgroup/beside/gobox-caller\n/sys/fs/cgroup/box/gobox-caller\n/sys/fs/cgroup/crowd/gobox-caller" {
				t.Errorf("left behind: %s", left)
			}
		})
	}
}

// A guest that does nothing any more is ended, and tells what it waits for.
func TestStuck(t *testing.T) {
	k, err := Find(t.Context(), "6.1")
	if errors.Is(err, ErrUnavailable) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	out, err := Run(t.Context(), Config{Kernel: k, Script: "echo words; mkfifo /tmp/never; cat /tmp/never", Patience: 30 * time.Second})
	if errors.Is(err, ErrUnavailable) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	if err == nil || !strings.Contains(out, "words\n") {
		t.Fatalf("got %q, %v", out, err)
	}
	for _, want := range []string{"stuck: nothing came from it for 30s", "RIP=", "cat /tmp/never", "wait_for_partner"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}
