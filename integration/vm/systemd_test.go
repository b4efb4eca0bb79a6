package vm

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const systemd = "/lib/systemd/systemd"

// libraries are those that a dynamic program needs.
func libraries(t *testing.T, program string) map[string]string {
	t.Helper()
	out, err := exec.Command("ldd", program).Output()
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for _, m := range regexp.MustCompile(`(/\S+) \(0x`).FindAllStringSubmatch(string(out), -1) {
		files[m[1]] = m[1]
		// Where the loader looks without a cache.
		if !strings.Contains(m[1], "ld-linux") {
			files["/usr/lib/"+filepath.Base(m[1])] = m[1]
		}
	}
	return files
}

// systemdFiles are systemd, its libraries and the units a user's instance cannot do without.
func systemdFiles(t *testing.T) map[string]string {
	t.Helper()
	if _, err := os.Stat(systemd); err != nil {
		t.Skip("no systemd on this machine to copy: ", err)
	}
	files := libraries(t, systemd)
	files[systemd] = systemd
	for _, unit := range []string{"app.slice", "basic.target", "default.target", "exit.target", "shutdown.target", "sockets.target", "timers.target", "paths.target", "systemd-exit.service"} {
		p := "/usr/lib/systemd/user/" + unit
		if _, err := os.Stat(p); err == nil {
			files[p] = p
		}
	}
	return files
}

// A user's systemd gives gobox a scope, from a cgroup where gobox may make nothing itself.
func TestScope(t *testing.T) {
	files := systemdFiles(t)
	files["/cgroup.test"] = testBinary(t, "gobox/rlimit/cgroup")
	out := boot(t, Config{Files: files, Memory: 768, Script: `
cgroup2 || exit 90
mkdir -p /run/systemd/system /run/user/1000 && chown 1000:1000 /run/user/1000
export XDG_RUNTIME_DIR=/run/user/1000 LD_LIBRARY_PATH=/usr/lib TMPDIR=/tmp
up=
for d in user.slice user-1000.slice; do
	up=$up/$d
	mkdir /sys/fs/cgroup$up
	echo '+memory +pids +cpu' >/sys/fs/cgroup$up/cgroup.subtree_control
done
delegate $up/user@1000.service
in_cgroup $up/user@1000.service as_user /lib/systemd/systemd --user >/tmp/log 2>&1 &
n=0
while [ ! -S /run/user/1000/systemd/private ]; do
	n=$((n + 1))
	[ $n -lt 100 ] || { cat /tmp/log; exit 91; }
	sleep 0.2
done
sleep 1
mkdir $(dirname /sys/fs/cgroup$up/user@1000.service/x)/gobox-test.scope
chown -R 1000:1000 /sys/fs/cgroup$up/user@1000.service/gobox-test.scope
in_cgroup $up/user@1000.service/gobox-test.scope as_user /cgroup.test -test.v -test.run TestScope || cat /tmp/log
find /sys/fs/cgroup -name '*gobox*'
`}, "6.1")
	t.Log(out)
	if !strings.Contains(out, "--- PASS: TestScope") {
		t.Error("no scope")
	}
}
