package vm

import (
	"encoding/json"
	"strings"
	"testing"

	"gobox/record"
)

// sections are the parts of an output that begin with lines "== HEAD".
func sections(out string) map[string]string {
	parts := map[string]string{}
	for _, part := range strings.Split(out, "== ")[1:] {
		head, body, _ := strings.Cut(part, "\n")
		parts[strings.TrimSpace(head)] = body
	}
	return parts
}

// resultIn decodes the result that a section begins with.
func resultIn(t *testing.T, parts map[string]string, head string) *record.Result {
	t.Helper()
	body, ok := parts[head]
	rec := new(record.Result)
	if err := json.NewDecoder(strings.NewReader(body)).Decode(rec); !ok || err != nil {
		t.Errorf("%s: %v in %q", head, err, body)
	}
	return rec
}

// enforcedBy gives what enforces each limit.
func enforcedBy(rec *record.Result) map[string]string {
	by := map[string]string{}
	for _, l := range rec.Limits {
		by[l.Name] = l.EnforcedBy
	}
	return by
}

// Hosts with both versions of cgroups, as systemd's hybrid mode makes them, and with the controllers shared out between the
// two: the limits hold, the result says by what, and nothing is left.
func TestHybrid(t *testing.T) {
	files := map[string]string{"/bin/gobox": goboxBinary(t), "/bin/probe": probeBinary(t)}
	out := boot(t, Config{Files: files, Memory: 1024, Script: `
v1() {
	mkdir -p /sys/fs/cgroup/$1 && mount -t cgroup -o $1 cgroup /sys/fs/cgroup/$1 || exit 90
}
one() {
	cd $1 || exit 91
	who=$2
	shift 2
	r() {
		name=$1; shift
		"$@" >out 2>err
		s=$?
		echo "== $who $name $s"
		cat result.json
		cat err out
		rm -f result.json
	}
	r memory "$@" gobox run --quiet --result $PWD/result.json --memory 96M --timeout 60s -- /bin/probe raw eat-together 2 shared 268435456
	r pids "$@" gobox run --quiet --result $PWD/result.json --pids 30 --timeout 60s -- /bin/probe spawns 300
	r require "$@" gobox run --quiet --result $PWD/result.json --require cgroup --cpus 0.5 --timeout 60s -- /bin/probe raw exit 5
}
mount -t tmpfs cgroup /sys/fs/cgroup
for c in memory pids cpu,cpuacct freezer; do v1 $c; done
mkdir /sys/fs/cgroup/unified
mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified || exit 92
mkdir /tmp/r /tmp/u && chown 1000:1000 /tmp/u
one /tmp/r root env
one /tmp/u user as_user
for c in memory pids cpu,cpuacct freezer; do umount /sys/fs/cgroup/$c || exit 93; done
# The controllers go over once nothing of theirs is left.
v1 memory
n=0
until grep -q pids /sys/fs/cgroup/unified/cgroup.controllers; do
	n=$((n + 1))
	[ $n -lt 100 ] || exit 94
	sleep 0.1
done
for c in $(cat /sys/fs/cgroup/unified/cgroup.controllers); do echo "+$c" >/sys/fs/cgroup/unified/cgroup.subtree_control; done
one /tmp/r shared env
echo "== left"
find /sys/fs/cgroup -name 'gobox-2*'
`}, "6.1")
	t.Log(out)
	parts := sections(out)
	for _, who := range []string{"root", "user", "shared"} {
		rec := resultIn(t, parts, who+" memory 137")
		if rec.Outcome != record.MemoryLimit {
			t.Errorf("%s: outcome %s", who, rec.Outcome)
		}
		pids := resultIn(t, parts, who+" pids 0")
		if pids.Outcome != record.Exited || !strings.Contains(parts[who+" pids 0"], "EAGAIN") {
			t.Errorf("%s: %+v", who, pids)
		}
		by, version := enforcedBy(rec), rec.Layers.Cgroup.Version
		switch who {
		case "root":
			if version != 1 || by["memory"] != "cgroup" || by["pids"] != "cgroup" {
				t.Errorf("%s: version %d, %v", who, version, by)
			}
			if all := resultIn(t, parts, who+" require 5"); all.Layers.Cgroup.Version != 1 || enforcedBy(all)["cpus"] != "cgroup" {
				t.Errorf("%s: %+v", who, all)
			}
		case "user":
			if version != 0 || by["memory"] != "init" || by["pids"] != "rlimit" {
				t.Errorf("%s: version %d, %v", who, version, by)
			}
			if refused := resultIn(t, parts, who+" require 125"); refused.Outcome != record.SetupFailed {
				t.Errorf("%s: %+v", who, refused)
			}
		case "shared":
			// All that a run has comes from one version.
			if version != 1 || by["memory"] != "cgroup" || by["pids"] != "rlimit" {
				t.Errorf("%s: version %d, %v", who, version, by)
			}
			if refused := resultIn(t, parts, who+" require 125"); refused.Outcome != record.SetupFailed {
				t.Errorf("%s: %+v", who, refused)
			}
		}
	}
	if _, left, _ := strings.Cut(out, "== left\n"); left != "" {
		t.Errorf("left behind: %q", left)
	}
}

// The clock of the wall jumps by years, there and back, while a command runs and while it does not: times are those of the monotonic
// clock, and records stay readable.
func TestClockJumps(t *testing.T) {
	files := map[string]string{"/bin/gobox": goboxBinary(t)}
	out := boot(t, Config{Files: files, Script: `
cd /tmp
for to in 203501010000 200101010000 202601010000; do
	gobox run --workspace-mode none --audit /tmp/state --result /tmp/$to --timeout 3s --grace 100ms -- /bin/busybox sleep 1000 2>/dev/null &
	sleep 1
	date -s $to >/dev/null || exit 90
	wait $!
	echo "== $to $?"
	cat /tmp/$to
	gobox run --workspace-mode none --audit /tmp/state --cpu-time 5s -- /bin/busybox true || exit 91
done
echo "== list"
gobox runs list --audit /tmp/state --json | grep -c '"outcome": *"timeout"'
gobox runs gc --audit /tmp/state --json
`}, "6.12")
	t.Log(out)
	parts := sections(out)
	for _, to := range []string{"203501010000", "200101010000", "202601010000"} {
		rec := resultIn(t, parts, to+" 124")
		if rec.Outcome != record.TimedOut || rec.WallMS < 2900 || rec.WallMS > 10_000 || !rec.Teardown.Destroyed || rec.Teardown.DurationMS > 5000 {
			t.Errorf("%s: %+v", to, rec)
		}
	}
	if strings.Contains(parts["list"], `"crashed":["`) {
		t.Errorf("%s", parts["list"])
	}
}
