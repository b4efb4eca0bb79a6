package record

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func openStore(t *testing.T, state string) *Store {
	t.Helper()
	s, err := OpenStore(state)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// TestCrashPoints kills the writer between its steps: a result is there whole or not at all, and the reader can tell.
func TestCrashPoints(t *testing.T) {
	for point := range crashPoints {
		t.Run(fmt.Sprint(point), func(t *testing.T) {
			t.Parallel()
			state := t.TempDir()
			if err := child(t, fmt.Sprintf("crash %d %s", point, state)).Run(); err == nil || !strings.Contains(err.Error(), "killed") {
				t.Fatalf("the writer was not killed: %v", err)
			}
			s := openStore(t, state)
			e, err := s.Load("crash")
			if err != nil {
				t.Fatal(err)
			}
			want := CrashedRun
			if point == crashPoints-1 {
				want = Finished
			}
			if e.State != want || e.Request == nil || e.Request.PID == 0 || e.Problem != "" {
				t.Errorf("entry %+v, want state %s", e, want)
			}
			if (e.Result != nil) != (want == Finished) {
				t.Errorf("result: %+v", e.Result)
			}
			events, whole, err := s.Events("crash")
			if err != nil || whole != (point != 2) || len(events) != min(point, 1) {
				t.Errorf("events %v, whole %v, %v", events, whole, err)
			}
			c, err := s.Clean(Cleanup{})
			if err != nil || len(c.Problems) != 0 || (len(c.Crashed) == 1) != (want == CrashedRun) {
				t.Errorf("gc: %+v, %v", c, err)
			}
			if _, err := os.Stat(filepath.Join(state, "runs/crash", resultTemp)); err == nil {
				t.Error("gc left the temporary result")
			}
			if c, _ := s.Clean(Cleanup{}); len(c.Crashed) != 0 {
				t.Errorf("gc found the crash again: %+v", c)
			}
		})
	}
}

// TestFileSizeLimit has the kernel refuse writes as an ordinary user can.
func TestFileSizeLimit(t *testing.T) {
	state := t.TempDir()
	out, err := child(t, "limited "+state).Output()
	if err != nil || string(out) != "full\nfull\nfull\n" {
		t.Fatalf("%v, %q", err, out)
	}
	if _, err := os.Stat(state + "/runs/refused"); err == nil {
		t.Error("a run that was refused left its directory")
	}
	if _, err := os.Stat(state + "/runs/midway/result.json"); err == nil {
		t.Error("a result was written in part")
	}
	s := openStore(t, state)
	if events, whole, err := s.Events("midway"); err != nil || !whole || len(events) < 2 {
		t.Errorf("events %v, whole %v, %v", events, whole, err)
	}
}

// TestFullDisk fills a small tmpfs, in a mount namespace of its own.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small tmpfs here; TestFileSizeLimit is for users")
	}
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		t.Skip("no unshare on this host")
	}
	if os.Getenv("RECORD_FULL_DISK") == "" {
		cmd := exec.Command(unshare, "-m", os.Args[0], "-test.run=^TestFullDisk$", "-test.v")
		cmd.Env = append(os.Environ(), "RECORD_FULL_DISK=1")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	state := t.TempDir()
	if err := unix.Mount("tmpfs", state, "tmpfs", 0, "size=1m,mode=700"); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(state, unix.MNT_DETACH)
	fill := func() {
		f, _ := os.OpenFile(state+"/fill", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		defer f.Close()
		for b := make([]byte, 4096); ; {
			if _, err := f.Write(b); err != nil {
				return
			}
		}
	}
	plain := mustOpen(t, state, Request{RunID: "plain"})
	durable := mustOpen(t, state, Request{RunID: "durable", Durable: true})
	fill()
	// A disk that the run filled costs a plain record, and tells; a durable one has its space.
	for i := range 200 {
		if err := durable.Event(Event{Kind: Ended, Detail: strings.Repeat("x", 500)}); err != nil {
			t.Fatalf("event %d of the durable record: %v", i, err)
		}
	}
	if err := durable.Finish(full()); err != nil {
		t.Errorf("durable record: %v", err)
	}
	fill()
	if err := plain.Finish(full()); ReasonOf(err) != Full {
		t.Errorf("plain record: %v", err)
	}
	if _, err := os.Stat(state + "/runs/plain/result.json"); err == nil {
		t.Error("a result was written in part")
	}
	// And a full disk refuses before the run.
	if _, err := Open(state, Request{RunID: "late", Durable: true}); ReasonOf(err) != Full {
		t.Errorf("open on a full disk: %v", err)
	}
	if _, err := os.Stat(state + "/runs/late"); err == nil {
		t.Error("a run that was refused left its directory")
	}
	if err := unix.Mount("", state, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Logf("remount: %v", err)
	} else if _, err := Open(state, Request{RunID: "ro", Durable: true}); ReasonOf(err) != ReadOnly {
		t.Errorf("open on a read-only disk: %v", err)
	}
}

// TestSweepNeverBegun: a run whose maker was killed before it had a request leaves nothing behind gc, and a maker whose
// directory gc has taken makes it again.
func TestSweepNeverBegun(t *testing.T) {
	state := t.TempDir()
	os.MkdirAll(state+"/runs/dead", 0o700)
	clean := func() Cleaned {
		s, err := OpenStore(state)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		done, err := s.Clean(Cleanup{})
		if err != nil || len(done.Problems) > 0 {
			t.Errorf("%v %+v", err, done)
		}
		return done
	}
	if done := clean(); len(done.Removed) != 1 {
		t.Errorf("%+v", done)
	}
	stop, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		for {
			select {
			case <-stop:
				return
			default:
				clean()
			}
		}
	}()
	for range 200 {
		r, err := Open(state, Request{})
		if err != nil {
			t.Error(err)
			break
		}
		if err := r.Finish(full()); err != nil {
			t.Error(err)
			break
		}
	}
	close(stop)
	<-over
}

// TestBeneath: the way to a place counts, not only its end, and by whatever name.
func TestBeneath(t *testing.T) {
	top := t.TempDir()
	os.MkdirAll(top+"/work/out", 0o700)
	os.Mkdir(top+"/other", 0o700)
	os.Symlink(top+"/other", top+"/work/away")
	os.Symlink("work", top+"/alias")
	for path, in := range map[string]bool{
		"/work": true, "/work/out": true, "/work/out/not/there": true, "/work/away": true, "/alias/out": true,
		"/other": false, "": false, "/none": false, "/workshop": false,
	} {
		got, err := Beneath(top+path, []string{top + "/work"})
		if err != nil || (got != "") != in {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	if got, err := Beneath("/tmp", []string{"/"}); got != "/" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// TestAnswerThatLacksOutput: a record without all of the output answers for nothing.
func TestAnswerThatLacksOutput(t *testing.T) {
	state := t.TempDir()
	r, err := Open(state, Request{RunID: "r"})
	if err != nil {
		t.Fatal(err)
	}
	res := full()
	res.Anomalies = []Anomaly{{Kind: CaptureLost, Object: "stdout"}}
	if err := r.Finish(res); err != nil {
		t.Fatal(err)
	}
	if _, err := replayOf(state, "r"); ReasonOf(err) != Crashed {
		t.Error(err)
	}
}

func TestSignalNames(t *testing.T) {
	for n := 1; n <= 64; n++ {
		res := Result{Outcome: Signaled, Signal: SignalName(unix.Signal(n))}
		if got := res.ExitStatus(); got != 128+n {
			t.Errorf("signal %d is %q, exit %d", n, res.Signal, got)
		}
	}
	for _, bad := range []string{"", "signal ", "signal x", "signal -1", "signal 200", "34"} {
		if n := signalNumber(bad); n != 0 {
			t.Errorf("%q: %d", bad, n)
		}
	}
}
