package record

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func mustOpen(t *testing.T, state string, q Request) *Run {
	t.Helper()
	r, err := Open(state, q)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func TestRunWritesRecord(t *testing.T) {
	for _, durable := range []bool{false, true} {
		state := filepath.Join(t.TempDir(), "a/b")
		r := mustOpen(t, state, Request{Argv: []string{"true"}, Durable: durable, Capture: true, Labels: map[string]string{"k": "v"}})
		if !ValidID(r.ID()) || r.Dir() != filepath.Join(state, "runs", r.ID()) {
			t.Fatalf("id %q, dir %q", r.ID(), r.Dir())
		}
		for _, k := range []Kind{Prepared, Started, Ended, Destroyed} {
			if err := r.Event(Event{Kind: k}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := r.Stdout().WriteString("out"); err != nil {
			t.Fatal(err)
		}
		dir := r.Dir()
		if _, err := os.Stat(dir + "/result.json"); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("a result before the end: %v", err)
		}
		if err := r.Finish(full()); err != nil {
			t.Fatal(err)
		}
		// Nothing else is there, and nobody else can read it.
		names := map[string]bool{}
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			names[e.Name()] = true
			if info, _ := e.Info(); info.Mode() != 0o600 {
				t.Errorf("%s has mode %v", e.Name(), info.Mode())
			}
		}
		if len(names) != 5 || !names["request.json"] || !names["events.jsonl"] || !names["stdout"] || !names["stderr"] || !names["result.json"] {
			t.Errorf("files: %v", names)
		}
		for _, d := range []string{state, state + "/runs", dir} {
			if info, _ := os.Stat(d); info.Mode().Perm() != 0o700 {
				t.Errorf("%s has mode %v", d, info.Mode())
			}
		}
		var events []Event
		f, _ := os.Open(dir + "/events.jsonl")
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			var ev Event
			if err := json.Unmarshal(s.Bytes(), &ev); err != nil {
				t.Fatal(err)
			}
			events = append(events, ev)
		}
		if len(events) != 4 || events[0].Time == "" || events[1].Time != "" || events[0].RunID != r.ID() || events[3].RunID != r.ID() || events[3].Kind != Destroyed || events[0].MS > events[3].MS {
			t.Errorf("events: %+v", events)
		}
		var result Result
		b, _ := os.ReadFile(dir + "/result.json")
		if err := json.Unmarshal(b, &result); err != nil || result.RunID != r.ID() {
			t.Errorf("result %+v, %v", result, err)
		}
	}
}

func TestRunID(t *testing.T) {
	state := t.TempDir()
	mustOpen(t, state, Request{RunID: "mine"})
	if _, err := Open(state, Request{RunID: "mine"}); ReasonOf(err) != Exists {
		t.Errorf("a taken id: %v", err)
	}
	for _, id := range []string{"..", ".", "a/b", ".x", "-x", "a b", "a\x00", strings.Repeat("a", 65), "é"} {
		if _, err := Open(state, Request{RunID: id}); ReasonOf(err) != Invalid {
			t.Errorf("id %q: %v", id, err)
		}
	}
	if entries, _ := os.ReadDir(state + "/runs"); len(entries) != 1 {
		t.Errorf("entries left: %v", entries)
	}
}

func TestOpenRefuses(t *testing.T) {
	tests := map[string]struct {
		make func(t *testing.T, dir string) string
		want Reason
	}{
		"writable for others": {func(t *testing.T, d string) string {
			os.Chmod(d, 0o777)
			return d
		}, Untrusted},
		"runs is a link": {func(t *testing.T, d string) string {
			os.Mkdir(d+"/x", 0o700)
			os.Symlink("x", d+"/runs")
			return d
		}, Untrusted},
		"a file": {func(t *testing.T, d string) string {
			os.WriteFile(d+"/f", nil, 0o600)
			return d + "/f"
		}, Untrusted},
		"links without end": {func(t *testing.T, d string) string {
			os.Symlink("l", d+"/l")
			return d + "/l"
		}, Untrusted},
		"empty": {func(t *testing.T, d string) string { return "" }, Invalid},
		"read-only": {func(t *testing.T, d string) string {
			if os.Geteuid() == 0 {
				return "/proc/sys/gobox" // where root cannot make anything either
			}
			os.Chmod(d, 0o500)
			return d
		}, Forbidden},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Open(test.make(t, t.TempDir()), Request{})
			got := ReasonOf(err)
			if name == "read-only" && (got == ReadOnly || got == Removed) {
				got = Forbidden
			}
			if err == nil || got != test.want {
				t.Errorf("got %v (%s), want %s", err, got, test.want)
			}
		})
	}
}

// TestForeignOwner makes what another user would have prepared.
func TestForeignOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of another user")
	}
	dir := t.TempDir()
	os.Mkdir(dir+"/theirs", 0o700)
	os.Chown(dir+"/theirs", 65534, 65534)
	os.Mkdir(dir+"/ours", 0o700)
	os.Symlink(dir+"/ours", dir+"/link")
	os.Lchown(dir+"/link", 65534, 65534)
	for _, path := range []string{dir + "/theirs", dir + "/link", dir + "/link/deeper"} {
		if _, err := Open(path, Request{}); ReasonOf(err) != Untrusted {
			t.Errorf("%s: %v", path, err)
		}
	}
	if entries, _ := os.ReadDir(dir + "/ours"); len(entries) != 0 {
		t.Errorf("redirected to %v", entries)
	}
	// A link of one's own is fine.
	os.Symlink("ours", dir+"/mine")
	mustOpen(t, dir+"/mine", Request{})
}

func TestRemovedMidway(t *testing.T) {
	for name, remove := range map[string]func(state, dir string){
		"run directory":   func(state, dir string) { os.RemoveAll(dir) },
		"state directory": func(state, dir string) { os.RemoveAll(state) },
		"events":          func(state, dir string) { os.Remove(dir + "/events.jsonl") },
		"moved":           func(state, dir string) { os.Rename(dir, dir+".away") },
		"replaced": func(state, dir string) {
			os.Rename(dir, dir+".away")
			os.Mkdir(dir, 0o700)
		},
	} {
		for _, durable := range []bool{false, true} {
			state := t.TempDir() + "/s"
			r := mustOpen(t, state, Request{Durable: durable})
			remove(state, r.Dir())
			r.Event(Event{Kind: Ended})
			if err := r.Finish(&Result{}); ReasonOf(err) != Removed || err == nil {
				t.Errorf("%s, durable %v: %v", name, durable, err)
			}
		}
	}
}

func TestLock(t *testing.T) {
	state := t.TempDir()
	r := mustOpen(t, state, Request{})
	fd, err := unix.Open(r.Dir(), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != unix.EWOULDBLOCK {
		t.Errorf("the lock is free during the run: %v", err)
	}
	r.Finish(&Result{})
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Errorf("the lock is held after the run: %v", err)
	}
}

func TestNilRun(t *testing.T) {
	var r *Run
	if r.Event(Event{}) != nil || r.Finish(&Result{}) != nil || r.ID() != "" || r.Stdout() != nil || r.DirFD() != -1 || r.Err() != nil {
		t.Error("a nil Run does something")
	}
	r.Close()
}

// cpuTime is that of this thread in microseconds: what a record costs when the machine has other things to do.
func cpuTime() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts)
	return ts.Nano() / 1000
}

func BenchmarkRun(b *testing.B) {
	for name, durable := range map[string]bool{"plain": false, "durable": true} {
		b.Run(name, func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			state := b.TempDir()
			var open, rest, openCPU, restCPU int64
			for b.Loop() {
				cpu := cpuTime()
				r, err := Open(state, Request{Argv: []string{"/bin/true"}, Durable: durable})
				if err != nil {
					b.Fatal(err)
				}
				open += int64(r.clock.ms() * 1000)
				opened := cpuTime()
				openCPU += opened - cpu
				for _, k := range []Kind{Prepared, Started, Ended, Destroyed} {
					r.Event(Event{Kind: k})
				}
				if err := r.Finish(full()); err != nil {
					b.Fatal(err)
				}
				rest += int64(r.clock.ms() * 1000)
				restCPU += cpuTime() - opened
			}
			b.ReportMetric(float64(open)/float64(b.N), "µs-open")
			b.ReportMetric(float64(rest-open)/float64(b.N), "µs-rest")
			b.ReportMetric(float64(openCPU)/float64(b.N), "µs-open-cpu")
			b.ReportMetric(float64(restCPU)/float64(b.N), "µs-rest-cpu")
		})
	}
}

// A record that cannot be opened must leave every descriptor alone: 0 is the caller's stdin.
func TestOpenFailureKeepsDescriptors(t *testing.T) {
	var before, after unix.Stat_t
	if err := unix.Fstat(0, &before); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", file, file + "/below", "/proc/self/nothing", "/dev/null"} {
		if r, err := Open(path, Request{}); err == nil {
			r.Close()
			t.Errorf("%q: a record there", path)
		}
		if s, err := OpenStore(path); err == nil {
			s.Close() // none yet, which is no error
		}
		if err := unix.Fstat(0, &after); err != nil || before.Ino != after.Ino || before.Dev != after.Dev {
			t.Fatalf("%q: descriptor 0 is another: %v", path, err)
		}
	}
}

// TestUmask: a umask that takes the owner's rights away costs no record.
func TestUmask(t *testing.T) {
	for _, mask := range []int{0o777, 0o700, 0o277, 0o177} {
		state := filepath.Join(t.TempDir(), "not/there")
		old := unix.Umask(mask)
		r, err := Open(state, Request{RunID: "masked", Capture: true, Argv: []string{"true"}})
		if err == nil {
			err = r.Finish(&Result{Outcome: "exited"})
		}
		unix.Umask(old)
		if err != nil {
			t.Errorf("%o: %v", mask, err)
		}
		for _, name := range []string{requestName, eventsName, resultName, stdoutName} {
			if info, err := os.Stat(filepath.Join(state, "runs/masked", name)); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%o: %s: %v %v", mask, name, info, err)
			}
		}
	}
}
