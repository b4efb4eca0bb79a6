package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"gobox/integration/harness"
	"gobox/record"
)

// results numbers the files of --result.
var results atomic.Int64

// resultFile is a new place for one that the identity may write to and no sandbox shows.
func resultFile(t *testing.T, b *harness.Box) string {
	t.Helper()
	dir := filepath.Join(b.Dir, "results")
	b.Mkdir(t, dir)
	return filepath.Join(dir, fmt.Sprintf("%d.json", results.Add(1)))
}

// recorded runs gobox and gives its result as --result has it.
func recorded(t *testing.T, b *harness.Box, r harness.Run) (harness.Result, *record.Result) {
	t.Helper()
	file := resultFile(t, b)
	r.Flags = append([]string{"--result", file}, r.Flags...)
	res := b.Run(t, r)
	return res, readResult(t, file, res)
}

// readResult reads a result that must be there, whole, and agree with itself.
func readResult(t *testing.T, file string, said any) *record.Result {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("no result: %v\n%v", err, said)
	}
	var rec record.Result
	if err := json.Unmarshal(data, &rec); err != nil {
		t.Fatalf("result is no JSON: %v\n%s", err, data)
	}
	if rec.SchemaVersion != 1 || rec.RunID == "" || rec.WallMS < 0 || rec.Teardown.DurationMS < 0 {
		t.Errorf("result: %s", data)
	}
	triggered := uint64(0)
	for _, l := range rec.Limits {
		if l.Triggered {
			triggered++
		}
	}
	if rec.Counters.LimitsTriggered != triggered {
		t.Errorf("%d limits triggered by the counter, %d by the list: %s", rec.Counters.LimitsTriggered, triggered, data)
	}
	return &rec
}

// judged judges how a run ended: status, outcome, the one limit that was reached ("" for none), and that nothing is left.
func judged(t *testing.T, res harness.Result, rec *record.Result, code int, outcome record.Outcome, limit string) {
	t.Helper()
	var hit []string
	for _, l := range rec.Limits {
		if l.Triggered {
			hit = append(hit, l.Name)
		}
	}
	if res.Code != code || rec.Outcome != outcome || strings.Join(hit, " ") != limit {
		t.Errorf("exit %d outcome %s limits reached %q, want %d, %s, %q\n%v", res.Code, rec.Outcome, hit, code, outcome, limit, res)
	}
	destroyed(t, rec)
}

func destroyed(t *testing.T, rec *record.Result) {
	t.Helper()
	if d := rec.Teardown; !d.Destroyed || d.Quarantined || len(d.Survivors) > 0 {
		t.Errorf("not all was destroyed: %+v", d)
	}
}

// limitOf is the entry of a limit, which must be there once.
func limitOf(t *testing.T, rec *record.Result, name string) record.Limit {
	t.Helper()
	var found []record.Limit
	for _, l := range rec.Limits {
		if l.Name == name {
			found = append(found, l)
		}
	}
	if len(found) != 1 {
		t.Fatalf("limit %s: %v in %v", name, found, rec.Limits)
	}
	return found[0]
}

// enforcers are those of the limits that a cgroup can be the one of, as they must be with the one that the run had.
func enforcers(t *testing.T, rec *record.Result) {
	t.Helper()
	with := map[string][2]string{ // without a cgroup, with
		"memory": {"init", "cgroup"}, "pids": {"rlimit", "cgroup"}, "cpus": {"", "cgroup"},
		"cpu_time": {"init+rlimit", "supervisor+rlimit"}, "timeout": {"supervisor+init", "supervisor+init"},
		"disk": {"tmpfs", "tmpfs"}, "inodes": {"tmpfs", "tmpfs"}, "tmpfs": {"tmpfs", "tmpfs"}, "output": {"supervisor", "supervisor"}, "nofile": {"rlimit", "rlimit"}, "fsize": {"rlimit", "rlimit"},
	}
	which := min(rec.Layers.Cgroup.Version, 1)
	for _, l := range rec.Limits {
		if want := with[l.Name][which]; l.EnforcedBy != want {
			t.Errorf("%s is enforced by %q with cgroup %+v, want %q", l.Name, l.EnforcedBy, rec.Layers.Cgroup, want)
		}
	}
}
