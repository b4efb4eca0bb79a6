package vm

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// goboxBinary is the one under test: what make built, or one built here.
func goboxBinary(t *testing.T) string {
	t.Helper()
	if bin := os.Getenv("GOBOX_BIN"); bin != "" {
		if _, err := os.Stat(bin); err == nil {
			return bin
		}
	}
	bin := filepath.Join(t.TempDir(), "gobox")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-tags=netgo,osusergo,landlocktsync",
		"-ldflags", "-s -w -linkmode external -extldflags -static", "-o", bin, "gobox/cmd/gobox")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build gobox: %v\n%s", err, out)
	}
	return bin
}

// gobox itself on kernels with less of what it uses: as root and as an ordinary user a command runs, has its own
// pids, cannot write outside its scratch, and has Landlock, a filter and no capability.
func TestGobox(t *testing.T) {
	bin := goboxBinary(t)
	for _, series := range series {
		t.Run(series, func(t *testing.T) {
			out := boot(t, Config{Files: map[string]string{"/bin/gobox": bin}, Script: `
cgroup2 || exit 90
echo canary >/home/user/canary
cat >/tmp/inside <<'END'
echo hi
[ $$ -gt 1 ] && [ $$ -lt 50 ] && echo few pids
awk '/^(CapEff|Seccomp|NoNewPrivs):/ { print $1 $2 }' /proc/self/status
ls /home/user/canary 2>&1
echo x 2>/dev/null >/bin/written || echo refused
END
one() {
	cd "$1" || exit 91
	shift
	"$@" gobox run --ro /tmp/inside -- /bin/busybox sh /tmp/inside
	echo "status $?"
	"$@" gobox run -- /bin/busybox sh -c 'exit 3'
	echo "status $?"
	"$@" gobox run --timeout 500ms -- /bin/busybox sleep 100
	echo "status $?"
}
mkdir /tmp/r /tmp/u && chown 1000:1000 /tmp/u
echo == root; one /tmp/r env
echo == user; one /tmp/u as_user
echo == left
mount | grep -c gobox
ps | grep -v grep | grep -c 'sleep 100'
ls /bin/written 2>/dev/null
cat /home/user/canary
`}, series)
			t.Log(out)
			for _, part := range []string{"root", "user"} {
				_, text, _ := strings.Cut(out, "== "+part+"\n")
				text, _, _ = strings.Cut(text, "== ")
				for _, want := range []string{
					"hi\n", "few pids\n", "CapEff:0000000000000000\n", "Seccomp:2\n", "NoNewPrivs:1\n", "canary: No such file",
					"refused\n", "status 0\n", "status 3\n", "status 124\n",
				} {
					if !strings.Contains(text, want) {
						t.Errorf("%s: no %q in\n%q", part, want, text)
					}
				}
			}
			if _, left, _ := strings.Cut(out, "== left\n"); left != "0\n0\ncanary\n" {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}
