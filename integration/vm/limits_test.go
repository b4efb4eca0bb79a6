package vm

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gobox/record"
)

// probeBinary is the suite's probe.
func probeBinary(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "probe")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", bin, "gobox/integration/probe")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build probe: %v\n%s", err, out)
	}
	return bin
}

// Limits by cgroup version 2, as root and as an ordinary user with a delegated cgroup: the whole tree is ended for its
// memory, its number of processes is held, its CPU time is shared out, and no cgroup is left, also when gobox is killed.
func TestLimits(t *testing.T) {
	files := map[string]string{"/bin/gobox": goboxBinary(t), "/bin/probe": probeBinary(t)}
	for _, series := range series {
		t.Run(series, func(t *testing.T) {
			out := boot(t, Config{Files: files, Memory: 1024, Script: `
cgroup2 || exit 90
cat >/tmp/one <<'END'
cd "$1" || exit 91
who=$2
r() {
	name=$1; shift
	gobox run --quiet --require cgroup --result $PWD/result.json "$@" >out 2>err
	echo "== $who $name $?"
	[ ! -e result.json ] || cat result.json
	cat err
	tail -n 20 out
	rm -f result.json
}
r plain -- /bin/probe raw exit 5
r memory --memory 96M --timeout 20s -- /bin/probe raw eat-together 2 shared 268435456
r anon --memory 96M --timeout 20s -- /bin/probe raw eat-together 16 anon 268435456
r sockets --memory 96M --timeout 20s -- /bin/probe sockets 512 + sleep 60s
r pids --pids 30 -- /bin/probe spawns 300
r cpus --cpus 0.2 --timeout 2s --grace 100ms -- /bin/probe raw spin 2
r cputime --cpu-time 1s --timeout 20s -- /bin/probe raw relay
r bomb --pids 30 --timeout 1s --grace 100ms -- /bin/probe raw bomb
gobox run --require cgroup --audit $PWD/state -- /bin/probe sleep 60s &
n=0
until cat /dev/null $(find /sys/fs/cgroup -path '*/gobox-2*' -name cgroup.procs) | grep -q .; do
	n=$((n + 1))
	[ $n -lt 100 ] || break
	sleep 0.2
done
kill -9 $!
wait $!
sleep 0.5
killed=$(find /sys/fs/cgroup -name 'gobox-2*' | wc -l)
gobox runs gc --audit $PWD/state >gc
echo "== $who gc $killed $?"
cat gc
END
mkdir /tmp/r /tmp/u && chown 1000:1000 /tmp/u
delegate box
sh /tmp/one /tmp/r root
in_cgroup box as_user sh /tmp/one /tmp/u user
echo "== left"
find /sys/fs/cgroup -name 'gobox-2*'
ps | grep -c '[p]robe ' || :
`}, series)
			type section struct{ status, body string }
			sections := map[string]section{} // by "who name"
			for _, part := range strings.Split(out, "== ")[1:] {
				head, body, _ := strings.Cut(part, "\n")
				name, status, _ := cutLast(head, " ")
				sections[name] = section{status, body}
			}
			for _, who := range []string{"root", "user"} {
				for _, c := range []struct {
					name, status string
					outcome      record.Outcome
					limit        string
				}{
					{"plain", "5", record.Exited, ""},
					{"memory", "137", record.MemoryLimit, "memory"},
					{"anon", "137", record.MemoryLimit, "memory"},
					{"sockets", "137", record.MemoryLimit, "memory"},
					{"pids", "0", record.Exited, "pids"},
					{"cpus", "124", record.TimedOut, "cpus"},
					{"cputime", "124", record.CPUTime, "cpu_time"},
					{"bomb", "124", record.TimedOut, "pids"},
				} {
					got := sections[who+" "+c.name]
					body := got.body
					var rec record.Result
					if err := json.NewDecoder(strings.NewReader(body)).Decode(&rec); got.status != c.status || err != nil {
						t.Errorf("%s %s: exit status %q, not %s, %v:\n%s", who, c.name, got.status, c.status, err, body)
						continue
					}
					if rec.Outcome != c.outcome || rec.Layers.Cgroup.Version != 2 || !rec.Teardown.Destroyed {
						t.Errorf("%s %s: %s", who, c.name, body)
					}
					for _, l := range rec.Limits {
						switch {
						case l.Name == "memory" || l.Name == "pids" || l.Name == "cpus":
							if l.EnforcedBy != "cgroup" {
								t.Errorf("%s %s: %+v", who, c.name, l)
							}
						}
						if l.Name == c.limit && !l.Triggered {
							t.Errorf("%s %s: not triggered: %+v:\n%s", who, c.name, l, body)
						}
					}
				}
				if gc := sections[who+" gc 1"]; gc.status != "0" {
					t.Errorf("%s: a killed gobox left no cgroup, or gc failed: %q", who, gc)
				}
			}
			if _, left, _ := strings.Cut(out, "== left\n"); left != "0\n" {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
