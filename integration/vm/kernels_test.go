package vm

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// costly are the rows that the short form leaves out: what floods, races or fills by the thousand takes an emulated processor minutes, and shows
// nothing that depends on the kernel's version. The long form has all, on request of [TestKernels]' GOBOX_VM_LONG.
var costly = []string{
	"E07",               // looks as long as the command writes
	"F16", "F40", "P10", // races by the hundred, files by the thousand
	"P12", "P13", "R03", "R04", "R10", // orphans, zombies, pipes, kernel memory, output without end
	"R01R02", "R08", // memory and scratch in every form, of which the self-test and single rows have the first
	"P19Records", "P08P09P13", // waits of seconds that single rows have too
}

// rows are those of the isolation suite for [TestKernels], as patterns of go test -run, and of -skip for root and for the user: every row of the catalogue
// and every wall alone. In the short form these are not the costly ones, and root tries them as root only and leaves the rest to the user.
// GOBOX_VM_RUN, a row's id, chooses that one.
func rows() (run, skipRoot, skipUser string) {
	if row := os.Getenv("GOBOX_VM_RUN"); row != "" {
		return "^Test.*" + row, "^$", "^$"
	}
	run = "^Test([A-Z][0-9][0-9]|Wall)"
	if long() {
		// And what cgroup version 2 makes of many runs at once, ended or killed.
		return run + "|^Test(ManyRuns|KilledRuns)", "^$", "^$"
	}
	skip := "^Test(" + strings.Join(costly, "|") + ")"
	// The identity is the second or the third part of a name.
	return run, skip + "|./^user$|././^user$", skip
}

// static builds a program or a package's tests for a guest without libraries; they need cgo for libseccomp.
func static(t *testing.T, name string, args ...string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), name)
	cmd := exec.Command("go", append([]string{args[0], "-o", bin, "-buildvcs=false", "-ldflags", "-s -w -linkmode external -extldflags -static"}, args[1:]...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	return bin
}

const tags = "netgo,osusergo,landlocktsync"

// suiteFiles are the isolation suite and what it runs.
func suiteFiles(t *testing.T) map[string]string {
	files := libraries(t, "/bin/bash")
	files["/bin/bash"] = "/bin/bash"
	files["/bin/gobox"] = goboxBinary(t)
	files["/suite/wall"] = static(t, "wall", "build", "-tags="+tags+",gobox_walltest", "gobox/cmd/gobox")
	files["/suite/suite"] = static(t, "suite", "test", "-c", "-tags="+tags, "gobox/integration")
	files["/suite/probe"] = probeBinary(t)
	files["/suite/testnet"] = static(t, "testnet", "build", "gobox/integration/testnet")
	return files
}

const suiteScript = `
cgroup2 || exit 90
# Beyond those of a sandbox, so that the two can be told apart.
echo 5000 >/proc/sys/kernel/ns_last_pid
# Programs that look for these do without; the test's internet covers them.
mkdir -p /etc/ssl/certs
for f in resolv.conf hosts nsswitch.conf ssl/certs/ca-certificates.crt; do : >/etc/$f; done
export TMPDIR=/tmp GOBOX_SLOW=1 GOBOX_BIN=/bin/gobox GOBOX_WALL_BIN=/suite/wall GOBOX_PROBE=/suite/probe GOBOX_TESTNET=/suite/testnet
# A file system that has idmapped mounts, which tmpfs has since Linux 6.3 only.
mke2fs /dev/ram0 >/dev/null && mkdir -p /disk /var/tmp && mount -t ext4 /dev/ram0 /disk || exit 91
for d in /tmp /var/tmp; do mkdir -p /disk$d && chmod 1777 /disk$d && mount --bind /disk$d $d || exit 92; done
# A cgroup for each, since gobox makes room in its own, and then nothing else can enter.
delegate box1 && delegate box2
mkdir /sys/fs/cgroup/own1 /sys/fs/cgroup/own2
mkdir /tmp/root /tmp/user && chown 1000:1000 /tmp/user
cd /tmp/root
echo "== selftest root"
in_cgroup own1 gobox selftest --json
echo "== suite root"
in_cgroup own2 /suite/suite -test.v=test2json -test.timeout 12h -test.run 'ROWS' -test.skip 'NOT-AS-ROOT'
cd /tmp/user
echo "== selftest user"
in_cgroup box1 as_user gobox selftest --json
echo "== suite user"
in_cgroup box2 as_user /suite/suite -test.v=test2json -test.timeout 12h -test.run 'ROWS' -test.skip 'NOT-AS-USER'
echo "== end"
`

// TestKernels runs gobox's own self-test and the isolation suite on other kernels, with cgroup version 2: as root, which in the
// long form has the suite do everything as uid 65534 too, and as a user with a delegated cgroup. Each verdict of the guest's is a subtest here.
func TestKernels(t *testing.T) {
	files := suiteFiles(t)
	run, skipRoot, skipUser := rows()
	script := strings.NewReplacer("ROWS", run, "NOT-AS-ROOT", skipRoot, "NOT-AS-USER", skipUser).Replace(suiteScript)
	for _, series := range series {
		t.Run(series, func(t *testing.T) {
			t.Parallel()
			out := boot(t, Config{Files: files, Memory: 2048, Modules: append([]string{"overlay", "veth", "brd rd_size=524288"}, diagModules...), Script: script, Patience: 20 * time.Minute}, series)
			for _, who := range []string{"root", "user"} {
				t.Run(who, func(t *testing.T) {
					replaySelftest(t, section(out, "selftest "+who))
					v, err := parseVerdicts(section(out, "suite "+who))
					if err != nil {
						t.Fatal(err)
					}
					if len(v.order) == 0 {
						t.Errorf("no test ran: %s", section(out, "suite "+who))
					}
					v.replay(t)
					t.Logf("Linux %s as %s: %s", series, who, v.count())
				})
			}
			if !strings.HasSuffix(out, "== end\n") {
				t.Errorf("the script did not end: %s", tail([]byte(out), 4000))
			}
		})
	}
}

func section(out, head string) string {
	_, text, _ := strings.Cut(out, "== "+head+"\n")
	text, _, _ = strings.Cut(text, "\n== ")
	return text + "\n"
}

// replaySelftest makes each row of a self-test's report a subtest.
func replaySelftest(t *testing.T, text string) {
	t.Helper()
	var report struct {
		Landlock int `json:"landlock_abi"`
		Rows     []struct {
			ID, Layer, State, Reason string
			Attempts                 int
			Problems                 []string
		}
	}
	if err := json.NewDecoder(strings.NewReader(text)).Decode(&report); err != nil || len(report.Rows) == 0 {
		t.Errorf("self-test: %v: %s", err, text)
		return
	}
	t.Logf("Landlock ABI %d", report.Landlock)
	for _, row := range report.Rows {
		t.Run("selftest/"+row.Layer+"/"+row.ID, func(t *testing.T) {
			switch row.State {
			case "held":
			case "untested":
				t.Skip(row.Reason)
			default:
				t.Errorf("%s: %s %q", row.State, row.Reason, row.Problems)
			}
		})
	}
}
