package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// finished makes a record with what change does to a plain result.
func finished(t *testing.T, state, id string, change func(*Result)) string {
	t.Helper()
	r, err := Open(state, Request{RunID: id})
	if err != nil {
		t.Fatal(err)
	}
	code := 0
	res := &Result{Outcome: Exited, ExitCode: &code, StartedAt: Timestamp(r.StartedAt()), Policy: Policy{Name: "default"}}
	if change != nil {
		change(res)
	}
	if err := r.Finish(res); err != nil {
		t.Fatal(err)
	}
	return r.ID()
}

func ids(t *testing.T, s *Store, q Query) (all []string) {
	t.Helper()
	err := s.Walk(q, func(e Entry) bool {
		all = append(all, e.RunID+" "+string(e.State))
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestEmptyStore(t *testing.T) {
	s := openStore(t, t.TempDir()+"/none")
	if got := ids(t, s, Query{}); len(got) != 0 {
		t.Errorf("runs: %v", got)
	}
	st, err := s.Stats(Query{})
	if err != nil || st.Runs != 0 {
		t.Errorf("stats %+v, %v", st, err)
	}
	if _, err := s.Find("last"); ReasonOf(err) != Removed {
		t.Errorf("find: %v", err)
	}
	if c, err := s.Clean(Cleanup{OlderThan: time.Hour}); err != nil || len(c.Problems) != 0 {
		t.Errorf("gc: %+v, %v", c, err)
	}
	if _, err := os.Stat(s.Path()); err == nil {
		t.Error("reading made the directory")
	}
}

func TestOrderAndFind(t *testing.T) {
	state := t.TempDir()
	var made []string
	for range 5 {
		made = append(made, finished(t, state, "", nil))
	}
	s := openStore(t, state)
	got := ids(t, s, Query{})
	for i := range got {
		if got[i] != made[len(made)-1-i]+" finished" {
			t.Fatalf("order %v, made %v", got, made)
		}
	}
	if got := ids(t, s, Query{Limit: 2}); len(got) != 2 || !strings.HasPrefix(got[0], made[4]) {
		t.Errorf("limit: %v", got)
	}
	if got := ids(t, s, Query{Since: time.Now().Add(time.Minute)}); len(got) != 0 {
		t.Errorf("since: %v", got)
	}
	finished(t, state, "alpha-1", nil)
	finished(t, state, "alpha-2", nil)
	finished(t, state, "beta", nil)
	for text, want := range map[string]string{"alpha-1": "alpha-1", "b": "beta", "alpha": "", "": "", "zz": "", "../runs": ""} {
		if got, err := s.Find(text); got != want || (err == nil) != (want != "") {
			t.Errorf("find %q: %q, %v", text, got, err)
		}
	}
}

func TestRunningRun(t *testing.T) {
	state := t.TempDir()
	r := mustOpen(t, state, Request{RunID: "now"})
	s := openStore(t, state)
	if e, err := s.Load("now"); err != nil || e.State != Running {
		t.Errorf("%+v, %v", e, err)
	}
	c, err := s.Clean(Cleanup{OlderThan: time.Nanosecond, Now: time.Now().Add(time.Hour)})
	if err != nil || len(c.Crashed)+len(c.Removed) != 0 {
		t.Errorf("gc touched a run under way: %+v, %v", c, err)
	}
	r.Close()
	if e, _ := s.Load("now"); e.State != CrashedRun {
		t.Errorf("after the writer's end: %+v", e)
	}
}

// TestReadersDisturbNobody lists in a loop while runs begin: a reader looks at the lock that a writer needs.
func TestReadersDisturbNobody(t *testing.T) {
	state := t.TempDir()
	mustOpen(t, state, Request{})
	s := openStore(t, state)
	stop, done := make(chan struct{}), make(chan int)
	go func() {
		crashed := 0
		for {
			select {
			case <-stop:
				done <- crashed
				return
			default:
				s.Walk(Query{Limit: 3}, func(e Entry) bool {
					if e.State == CrashedRun || e.State == Unreadable {
						crashed++
					}
					return true
				})
			}
		}
	}()
	for range 300 {
		r, err := Open(state, Request{})
		if err != nil {
			t.Error(err)
			break
		}
		if err := r.Finish(&Result{Outcome: Exited}); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	if n := <-done; n != 0 {
		t.Errorf("a run that was well looked crashed %d times", n)
	}
}

// TestHostileEntries puts into the state directory what does not belong there: it is reported, and nothing else
// suffers.
func TestHostileEntries(t *testing.T) {
	state := t.TempDir()
	outside := t.TempDir()
	os.WriteFile(outside+"/canary", []byte("x"), 0o600)
	good := finished(t, state, "", nil)
	runs := state + "/runs/"
	bad := func(id string, fill func(dir string)) {
		os.Mkdir(runs+id, 0o700)
		fill(runs + id)
	}
	os.Symlink(outside, runs+"link")
	os.WriteFile(runs+"file", nil, 0o600)
	unix.Mkfifo(runs+"fifo", 0o600)
	os.Mkdir(runs+"bad name", 0o700)
	bad("result-link", func(d string) { os.Symlink(runs+good+"/result.json", d+"/result.json") })
	bad("result-fifo", func(d string) { unix.Mkfifo(d+"/result.json", 0o600) })
	bad("result-dir", func(d string) { os.Mkdir(d+"/result.json", 0o700) })
	bad("result-huge", func(d string) {
		os.WriteFile(d+"/result.json", nil, 0o600)
		os.Truncate(d+"/result.json", 1<<40)
	})
	bad("result-half", func(d string) { os.WriteFile(d+"/result.json", full().AppendJSON(nil)[:200], 0o600) })
	bad("result-empty", func(d string) { os.WriteFile(d+"/result.json", nil, 0o600) })
	bad("result-other", func(d string) { os.WriteFile(d+"/result.json", full().AppendJSON(nil), 0o600) })
	bad("result-deep", func(d string) {
		os.WriteFile(d+"/result.json", []byte(strings.Repeat(`{"a":`, 100_000)), 0o600)
	})
	bad("request-fifo", func(d string) { unix.Mkfifo(d+"/request.json", 0o600) })
	bad("open", func(d string) { os.Chmod(d, 0o777) })

	s := openStore(t, state)
	states := map[string]State{}
	for _, line := range ids(t, s, Query{}) {
		id, st, _ := strings.Cut(line, " ")
		states[id] = State(st)
	}
	if states[good] != Finished {
		t.Errorf("the good one: %s", states[good])
	}
	for _, id := range []string{"link", "file", "fifo", "result-link", "result-fifo", "result-dir", "result-huge", "result-half", "result-empty", "result-other", "result-deep", "open"} {
		if states[id] != Unreadable {
			t.Errorf("%s: %q", id, states[id])
		}
	}
	if states["request-fifo"] != CrashedRun {
		t.Errorf("request-fifo: %q", states["request-fifo"])
	}
	st, err := s.Stats(Query{})
	if err != nil || st.Outcomes[Exited] != 1 || st.Unreadable != 13 || st.Crashed != 1 {
		t.Errorf("stats %+v, %v", st, err)
	}
	c, err := s.Clean(Cleanup{OlderThan: time.Nanosecond, Now: time.Now().Add(time.Hour)})
	if err != nil || len(c.Problems) != 13 || len(c.Removed) != 2 {
		t.Errorf("gc %+v, %v", c, err)
	}
	if _, err := os.Stat(outside + "/canary"); err != nil {
		t.Errorf("gc left the state directory: %v", err)
	}
}

// TestRemoveTree removes what a command may have put into a change set.
func TestRemoveTree(t *testing.T) {
	state := t.TempDir()
	outside := t.TempDir()
	os.WriteFile(outside+"/canary", nil, 0o600)
	id := finished(t, state, "", nil)
	deep := state + "/runs/" + id + "/upper"
	os.Mkdir(deep, 0o700)
	os.Symlink(outside, deep+"/link")
	os.MkdirAll(deep+"/closed/inner", 0o700)
	os.WriteFile(deep+"/closed/inner/f", nil, 0o400)
	os.Chmod(deep+"/closed/inner", 0)
	os.Chmod(deep+"/closed", 0o500)
	// Deeper than a path can be long and than a process may have files open.
	fd, err := unix.Open(deep, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 1200 {
		if err := unix.Mkdirat(fd, "ddd", 0o700); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(fd, "ddd", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
		fd = next
	}
	unix.Close(fd)
	c, err := openStore(t, state).Clean(Cleanup{OlderThan: time.Nanosecond, Now: time.Now().Add(time.Hour)})
	if err != nil || len(c.Problems) != 0 || len(c.Removed) != 1 {
		t.Fatalf("gc %+v, %v", c, err)
	}
	if entries, _ := os.ReadDir(state + "/runs"); len(entries) != 0 {
		t.Errorf("left: %v", entries)
	}
	if _, err := os.Stat(outside + "/canary"); err != nil {
		t.Error("a link was followed")
	}
}

func TestQuantiles(t *testing.T) {
	var hundred []float64
	for i := range 100 {
		hundred = append(hundred, float64(100-i))
	}
	for name, test := range map[string]struct {
		values []float64
		want   Quantiles
	}{
		"none":    {nil, Quantiles{}},
		"one":     {[]float64{7}, Quantiles{1, 7, 7, 7, 7, 7}},
		"two":     {[]float64{9, 1}, Quantiles{2, 10, 1, 9, 9, 9}},
		"hundred": {hundred, Quantiles{100, 5050, 50, 90, 99, 100}},
		"ten":     {[]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 100}, Quantiles{10, 145, 5, 9, 100, 100}},
	} {
		if got := quantiles(test.values); got != test.want {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
	}
}

func TestStats(t *testing.T) {
	state := t.TempDir()
	for i := range 10 {
		finished(t, state, "", func(r *Result) {
			r.Teardown.DurationMS = float64(i + 1)
			r.Counters = Counters{EscapeAttempts: 2, LimitsTriggered: 1, DeniedSyscalls: 3, DeniedConnections: 4}
			r.Limits = []Limit{{Name: "memory", Triggered: i < 3}, {Name: "pids"}}
			if i == 0 {
				r.Outcome = "odd\"\\\nname"
				r.Teardown.Survivors = []string{"pid 1"}
			}
		})
	}
	s := openStore(t, state)
	st, err := s.Stats(Query{})
	if err != nil {
		t.Fatal(err)
	}
	if st.Runs != 10 || st.Outcomes[Exited] != 9 || st.Counters != (Counters{20, 10, 30, 40}) || st.Limits["memory"] != 3 || st.Limits["pids"] != 0 ||
		st.Survivors != 1 || st.Teardown.P50 != 5 || st.Teardown.Max != 10 {
		t.Errorf("%+v", st)
	}
	var out bytes.Buffer
	if err := st.WritePrometheus(&out); err != nil {
		t.Fatal(err)
	}
	samples := checkPrometheus(t, out.String())
	if samples[`gobox_runs{outcome="exited"}`] != "9" || samples["gobox_escape_attempts"] != "20" || samples[`gobox_teardown_duration_seconds{quantile="0.5"}`] != "0.005" {
		t.Errorf("samples: %v", samples)
	}
	empty := Stats{}
	out.Reset()
	empty.WritePrometheus(&out)
	checkPrometheus(t, out.String())
}

// checkPrometheus holds the text to the exposition format: every family has one HELP and one TYPE line before its
// samples, which stand together, and no sample comes twice.
func checkPrometheus(t *testing.T, text string) map[string]string {
	t.Helper()
	sample := regexp.MustCompile(`^([a-z_]+)(\{[a-z]+="(?:[^"\\\n]|\\["\\n])*"(?:,[a-z]+="(?:[^"\\\n]|\\["\\n])*")*\})? ([0-9.e+-]+)$`)
	head := regexp.MustCompile(`^# (HELP|TYPE) ([a-z_]+) (.+)$`)
	if !strings.HasSuffix(text, "\n") {
		t.Error("the last line does not end")
	}
	samples, seen := map[string]string{}, map[string]bool{}
	family := ""
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if m := head.FindStringSubmatch(line); m != nil {
			if m[1] == "HELP" {
				if seen[m[2]] {
					t.Errorf("family %s comes twice", m[2])
				}
				family, seen[m[2]] = m[2], true
			} else if family != m[2] || m[3] != "gauge" && m[3] != "summary" {
				t.Errorf("type line %q", line)
			}
			continue
		}
		m := sample.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("no sample: %q", line)
			continue
		}
		if m[1] != family && m[1] != family+"_sum" && m[1] != family+"_count" {
			t.Errorf("sample of %s among those of %s", m[1], family)
		}
		if _, twice := samples[m[1]+m[2]]; twice {
			t.Errorf("twice: %s", line)
		}
		samples[m[1]+m[2]] = m[3]
	}
	return samples
}

func TestQuarantine(t *testing.T) {
	state := t.TempDir()
	r := mustOpen(t, state, Request{RunID: "stuck"})
	sleeper := child(t, "")
	sleeper.Path, sleeper.Args = "/bin/sleep", []string{"sleep", "30"}
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan error, 1)
	go func() { gone <- sleeper.Wait() }()
	leftover := filepath.Join(t.TempDir(), "no\xfftext", ScratchPrefix+"stuck-1")
	os.MkdirAll(leftover+"/a", 0o700)
	p := ProcessOf(sleeper.Process.Pid)
	// The process of this test has an id that matches and a start that does not.
	if err := r.Quarantine(Quarantined{Reason: "pid namespace not empty", Processes: []Process{p, {os.Getpid(), 1}}, Paths: []string{leftover}}); err != nil {
		t.Fatal(err)
	}
	if err := r.Finish(&Result{Outcome: Exited}); err != nil {
		t.Fatal(err)
	}
	os.WriteFile(state+"/quarantine/odd.json", []byte("no json"), 0o600)
	s := openStore(t, state)
	all, err := s.Quarantined()
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	c, err := s.Clean(Cleanup{})
	if err != nil || len(c.Destroyed) != 1 || c.Destroyed[0] != "stuck" || len(c.Quarantined) != 1 || c.Quarantined[0] != "odd" {
		t.Errorf("gc %+v, %v", c, err)
	}
	select {
	case <-gone:
	case <-time.After(5 * time.Second):
		t.Error("the process lives")
		sleeper.Process.Kill()
	}
	if _, err := os.Stat(leftover); err == nil {
		t.Error("the directory is there")
	}
}

// TestQuarantineOfOthers: whatever a note says, gc removes no folder but one of the run's own.
func TestQuarantineOfOthers(t *testing.T) {
	state, other := t.TempDir(), t.TempDir()
	os.MkdirAll(state+"/quarantine", 0o700)
	note := fmt.Sprintf(`{"run_id":"stuck","created_at":"2026-11-29T13:55:01Z","paths":[%q]}`, other)
	os.WriteFile(state+"/quarantine/stuck.json", []byte(note), 0o600)
	c, err := openStore(t, state).Clean(Cleanup{})
	if err != nil || len(c.Quarantined) != 1 || len(c.Problems) != 1 {
		t.Errorf("gc %+v, %v", c, err)
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
}

// TestDestroyCgroup ends a process that quarantine only knows by its cgroup, a frozen one of version 1 too.
func TestDestroyCgroup(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a cgroup without a delegation")
	}
	tried := 0
	for _, parent := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/pids", "/sys/fs/cgroup/freezer"} {
		path := fmt.Sprintf("%s/gobox-test-%s", parent, random(6))
		if _, err := os.Stat(parent + "/cgroup.procs"); err != nil || os.Mkdir(path, 0o755) != nil {
			continue
		}
		tried++
		defer unix.Rmdir(path)
		sleeper := child(t, "")
		sleeper.Path, sleeper.Args = "/bin/sleep", []string{"sleep", "30"}
		if err := sleeper.Start(); err != nil {
			t.Fatal(err)
		}
		gone := make(chan error, 1)
		go func() { gone <- sleeper.Wait() }()
		if err := os.WriteFile(path+"/cgroup.procs", []byte(fmt.Sprint(sleeper.Process.Pid)), 0); err != nil {
			sleeper.Process.Kill()
			t.Logf("%s takes no process: %v", parent, err)
			continue
		}
		os.WriteFile(path+"/freezer.state", []byte("FROZEN"), 0)
		if err := Destroy(Quarantined{Cgroups: []string{path}}); err != nil {
			t.Errorf("%s: %v", path, err)
			sleeper.Process.Kill()
		}
		select {
		case <-gone:
		case <-time.After(5 * time.Second):
			t.Errorf("the process of %s lives", path)
			sleeper.Process.Kill()
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is there", path)
		}
	}
	if tried == 0 {
		t.Skip("no writable cgroup on this host")
	}
	for _, bad := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/../../etc", "/tmp", "", "relative"} {
		if err := Destroy(Quarantined{Cgroups: []string{bad}}); err == nil {
			t.Errorf("%q was taken for a cgroup of gobox's", bad)
		}
	}
}

// TestCrashLeftovers has gc destroy what a killed gobox noted.
func TestCrashLeftovers(t *testing.T) {
	state := t.TempDir()
	r := mustOpen(t, state, Request{RunID: "killed"})
	r.Event(Holding(HoldsCgroup, "/sys/fs/cgroup/gobox/killed"))
	r.Event(Event{Kind: Started})
	r.Close()
	var got Quarantined
	fail := true
	do := Cleanup{Destroy: func(q Quarantined) error {
		got = q
		if fail {
			return fmt.Errorf("still busy")
		}
		return nil
	}}
	s := openStore(t, state)
	if c, _ := s.Clean(do); len(c.Problems) != 1 || len(got.Cgroups) != 1 || got.Cgroups[0] != "/sys/fs/cgroup/gobox/killed" {
		t.Errorf("gc %+v, asked for %+v", c, got)
	}
	fail = false
	if c, _ := s.Clean(do); len(c.Problems) != 0 || len(c.Crashed) != 1 {
		t.Errorf("the second gc did not try again: %+v", c)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(full().AppendJSON(nil))
	f.Add([]byte(`{"schema_version":1,"outcome":"exited","later":{"a":[1]}}`))
	f.Add((&Event{Kind: Denied, Object: "\x00"}).appendLine(nil))
	f.Add([]byte("{}\n{\"ms\":1}\n{"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := DecodeResult(b); err == nil {
			// What was read can be written and read again.
			var again Result
			if err := json.Unmarshal(r.AppendJSON(nil), &again); err != nil {
				t.Fatalf("%v\n%s", err, r.AppendJSON(nil))
			}
			if again.Outcome != r.Outcome || again.RunID != r.RunID || len(again.Labels) != len(r.Labels) {
				t.Errorf("got %+v, want %+v", again, r)
			}
			r.ExactArgv()
		}
		events, _, err := DecodeEvents(b)
		if err != nil && ReasonOf(err) != Invalid {
			t.Errorf("error %v", err)
		}
		for _, ev := range events {
			if line := ev.appendLine(nil); !json.Valid(line) || len(line) > maxLine {
				t.Errorf("line %q", line)
			}
		}
		decodeRequest(b)
	})
}
