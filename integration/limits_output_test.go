package integration

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gobox/integration/harness"
	"gobox/record"
)

// TestR10Flood: 1 GiB without a newline that are no text, through a gobox that stays small; 64 MiB on an emulated processor (GOBOX_SLOW).
func TestR10Flood(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		flood := uint64(1 << 30)
		if os.Getenv("GOBOX_SLOW") != "" {
			flood = 64 << 20
		}
		for _, c := range []struct {
			stream string
			limit  string
			flags  []string
			to     func(t *testing.T) *os.File // what reads it
		}{
			{"stdout", "0", nil, devNull},
			{"both", "0", nil, devNull},
			{"both", "0", nil, drained},
			{"stderr", "1M", nil, drained},
			{"both", "1M", []string{"--capture"}, drained},
		} {
			t.Run(c.stream+c.limit, func(t *testing.T) {
				file, to := resultFile(t, b), c.to(t)
				ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
				defer cancel()
				cmd := b.Command(ctx, harness.Run{
					Flags: append([]string{"--result", file, "--output", c.limit, "--timeout", "50s"}, c.flags...),
					Argv:  []string{b.Probe, "raw", "pour", c.stream, fmt.Sprint(flood)},
				})
				cmd.Stdout, cmd.Stderr = to, to
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				peak := largest(cmd.Process.Pid)
				_ = cmd.Wait()
				res := harness.Result{Code: harness.ExitCode(cmd.ProcessState)}
				rec := readResult(t, file, res)
				if c.limit == "0" {
					judged(t, res, rec, 0, record.Exited, "")
					if n := rec.Usage.StdoutBytes + rec.Usage.StderrBytes; n != flood || rec.Usage.Truncated {
						t.Errorf("%d bytes: %+v", n, rec.Usage)
					}
				} else {
					judged(t, res, rec, 137, record.OutputLimit, "output")
					if !rec.Usage.Truncated {
						t.Errorf("%+v", rec.Usage)
					}
				}
				if got := <-peak; got > 64<<10 {
					t.Errorf("gobox grew to %d KiB", got)
				}
			})
		}
	})
}

// largest gives the resident peak of a process in KiB, once it has ended.
func largest(pid int) <-chan int {
	peak := make(chan int, 1)
	go func() {
		seen := 0
		for {
			data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			_, rest, ok := strings.Cut(string(data), "VmHWM:")
			if err != nil || !ok { // gone, or a zombie
				peak <- seen
				return
			}
			var now int
			_, _ = fmt.Sscan(rest, &now)
			seen = max(seen, now)
			time.Sleep(10 * time.Millisecond)
		}
	}()
	return peak
}

// drained is a pipe that is read to its end.
func drained(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { _, _ = io.Copy(io.Discard, r); close(done) }()
	t.Cleanup(func() { w.Close(); <-done; r.Close() })
	return w
}

// TestOutputToTheByte: what the limit allows arrives, the rest does not, and a command that keeps to it is no offender.
func TestOutputToTheByte(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for bytes, want := range map[int]struct {
			code    int
			outcome record.Outcome
			limit   string
		}{
			65536: {0, record.Exited, ""},
			65537: {137, record.OutputLimit, "output"},
		} {
			for _, stream := range []string{"stdout", "both"} {
				res, rec := recorded(t, b, harness.Run{Flags: []string{"--output", "64k", "--quiet"}, Argv: []string{b.Probe, "raw", "pour", stream, fmt.Sprint(bytes)}})
				judged(t, res, rec, want.code, want.outcome, want.limit)
				message, _, _ := strings.Cut(string(res.Stderr), "gobox: error:")
				if n := len(res.Stdout) + len(message); n != 65536 {
					t.Errorf("%d bytes to %s: %d arrived", bytes, stream, n)
				}
			}
		}
	})
}

// TestCapture: the record has what the command wrote, also when it wrote too much or the reader is gone.
func TestCapture(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		audit := filepath.Join(b.Dir, "audit")
		b.Mkdir(t, audit)
		capture := func(id, stream string) string {
			data, err := os.ReadFile(filepath.Join(audit, "runs", id, stream))
			if err != nil {
				t.Error(err)
			}
			return string(data)
		}
		res, rec := recorded(t, b, harness.Run{
			Flags: []string{"--audit", audit, "--capture"}, Argv: []string{"/usr/bin/printf", `out\0\377\033[31m`},
		})
		judged(t, res, rec, 0, record.Exited, "")
		if out := capture(rec.RunID, "stdout"); out != "out\x00\xff\x1b[31m" || out != string(res.Stdout) {
			t.Errorf("captured %q of %v", out, res)
		}
		res, rec = recorded(t, b, harness.Run{Flags: []string{"--audit", audit, "--capture"}, Argv: []string{b.Probe, "raw", "both", "out", "err\r\n"}})
		if out, err := capture(rec.RunID, "stdout"), capture(rec.RunID, "stderr"); out != "out" || err != "err\r\n" || err != string(res.Stderr) {
			t.Errorf("captured %q and %q of %v", out, err, res)
		}
		res, rec = recorded(t, b, harness.Run{
			Flags: []string{"--audit", audit, "--capture", "--output", "1000", "--quiet"}, Argv: []string{b.Probe, "raw", "pour", "stdout", "5000"},
		})
		judged(t, res, rec, 137, record.OutputLimit, "output")
		if out := capture(rec.RunID, "stdout"); out != string(res.Stdout) || len(out) != 1000 {
			t.Errorf("captured %d bytes, passed on %d", len(out), len(res.Stdout))
		}
	})
}

// TestF31 puts things where gobox reads and writes that are no files: nothing hangs.
func TestF31SpecialFiles(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		res, rec := recorded(t, b, harness.Run{
			Flags: []string{"--workspace-mode", "rw", "--timeout", "10s"},
			Argv:  []string{"/bin/sh", "-c", "mkfifo fifo; ln -s fifo link; exec 3<>fifo; exit 5"},
		})
		judged(t, res, rec, 5, record.Exited, "")
		if res.Duration > 5*time.Second {
			t.Errorf("%v", res)
		}
		// Where gobox reads in the end: the overlay's layer and an output folder.
		b.File(t, filepath.Join(b.Work, "file"), "old")
		out := filepath.Join(b.Dir, "place/out")
		b.Mkdir(t, filepath.Dir(out))
		res, rec = recorded(t, b, harness.Run{
			Flags: append(overlayFlags(t, b), "--output-dir", out, "--timeout", "10s"),
			Argv:  []string{"/bin/sh", "-c", "mkfifo new; rm file; mkfifo file; mkdir d; mkfifo d/deep; mkfifo " + out + "/fifo; ln -s fifo " + out + "/link; echo x >" + out + "/plain; echo x >plain"},
		})
		judged(t, res, rec, 0, record.Exited, "")
		if res.Duration > 10*time.Second {
			t.Errorf("%v", res)
		}
		for _, name := range []string{"new", "file", "d/deep"} {
			found := false
			for _, a := range rec.Anomalies {
				found = found || a.Kind == record.NotKept && strings.HasSuffix("/"+a.Object, "/"+name)
			}
			if !found {
				t.Errorf("%s is not told: %+v", name, rec.Anomalies)
			}
		}
		if got := names(t, out); got != "link plain" {
			t.Errorf("in the output folder: %s", got)
		}
		if got := string(b.Run(t, harness.Run{Args: []string{"diff", "last", "--name-only", "--audit", filepath.Join(b.Home, ".local/state/gobox")}}).Stdout); strings.Contains(got, "new") {
			t.Errorf("a FIFO is a change: %s", got)
		}
		// As the result's place: a fifo that nobody reads, and one that somebody does.
		res = b.Run(t, harness.Run{Flags: []string{"--result", filepath.Join(b.Work, "fifo"), "--timeout", "10s"}, Argv: []string{"/bin/true"}})
		if res.Code != 125 || res.Duration > 10*time.Second {
			t.Errorf("%v", res)
		}
	})
}
