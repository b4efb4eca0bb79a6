package integration

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gobox/integration/harness"
	"gobox/record"
)

// soak is how many bytes go through gobox in the TestSoak tests: short, unless `make soak` asks for all of it.
func soak() (bytes int64, long bool) {
	if os.Getenv("GOBOX_SOAK") != "" {
		return 10 << 30, true
	}
	return 256 << 20, false
}

// flat is what gobox may take at most while anything goes through it, in KiB: no function of how much that is.
const flat = 32 << 10

// pattern is what the probe's pour writes, over and over.
func pattern() []byte {
	buf := make([]byte, 64<<10)
	for i := range buf {
		buf[i] = byte(i*7) | 0x80
	}
	return buf
}

// sink reads what is written to the file that it gives until want bytes have come or nobody writes any more, and gives how many there
// were. Each piece must be what the probe pours.
func sink(t *testing.T, pause time.Duration, want int64) (*os.File, <-chan int64) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan int64, 1)
	go func() {
		defer r.Close()
		unit := pattern()
		buf := make([]byte, 256<<10)
		seen := int64(0)
		for seen < want {
			n, err := r.Read(buf)
			for piece := buf[:n]; len(piece) > 0; {
				at := int(seen % int64(len(unit)))
				k := min(len(piece), len(unit)-at)
				if !bytes.Equal(piece[:k], unit[at:at+k]) {
					t.Errorf("other bytes than the command's near byte %d", seen)
					got <- seen
					return
				}
				seen += int64(k)
				piece = piece[k:]
			}
			if err != nil {
				break
			}
			if pause > 0 {
				time.Sleep(pause)
			}
		}
		got <- seen
	}()
	t.Cleanup(func() { w.Close() })
	return w, got
}

// TestSoakOutput: any amount of binary output without a newline goes through a gobox that stays as small as it was, whole and in
// order: passed on, captured, under a limit that is higher, to a reader that is slow, and to one that is gone.
func TestSoakOutput(t *testing.T) {
	size, long := soak()
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		if long { // one at a time, with the machine for itself
			crowded.Lock()
			defer crowded.Unlock()
		}
		for _, c := range []struct {
			name    string
			flags   []string
			pause   time.Duration
			read    int64 // by the reader, which then is gone
			code    int
			outcome record.Outcome
		}{
			{"passed on", []string{"--output", "0"}, 0, size + 1, 0, record.Exited},
			{"limit raised", []string{"--output", fmt.Sprint(size)}, 0, size + 1, 0, record.Exited},
			{"captured", []string{"--output", fmt.Sprint(size), "--capture"}, 0, size + 1, 0, record.Exited},
			{"slow reader", []string{"--output", "0"}, 500 * time.Microsecond, size + 1, 0, record.Exited},
			{"reader gone", []string{"--output", "0"}, 0, size / 2, 3, record.Exited}, // of EPIPE
		} {
			t.Run(c.name, func(t *testing.T) {
				audit := filepath.Join(b.Dir, "audit")
				b.Mkdir(t, audit)
				defer os.RemoveAll(audit)
				file := resultFile(t, b)
				to, got := sink(t, c.pause, c.read)
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
				defer cancel()
				cmd := b.Command(ctx, harness.Run{
					Flags: append([]string{"--result", file, "--audit", audit, "--run-id", "soak", "--timeout", "19m"}, c.flags...),
					Argv:  []string{b.Probe, "raw", "pour", "stdout", fmt.Sprint(size)},
				})
				var stderr bytes.Buffer
				cmd.Stdout, cmd.Stderr = to, &stderr
				begin := time.Now()
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				to.Close()
				peak := largest(cmd.Process.Pid)
				_ = cmd.Wait()
				took, arrived := time.Since(begin), <-got
				res := harness.Result{Code: harness.ExitCode(cmd.ProcessState), Stderr: stderr.Bytes()}
				rec := readResult(t, file, res)
				judged(t, res, rec, c.code, c.outcome, "")
				if want := min(size, c.read); arrived != want || rec.Usage.Truncated {
					t.Errorf("%d bytes arrived of %d: %+v", arrived, want, rec.Usage)
				}
				if st, err := os.Stat(filepath.Join(audit, "runs/soak/stdout")); len(c.flags) == 3 && (err != nil || st.Size() != size) {
					t.Errorf("captured: %v, %v", st, err)
				}
				hwm := <-peak
				t.Logf("%d MiB in %v, the supervisor's VmHWM %d KiB", arrived>>20, took.Round(10*time.Millisecond), hwm)
				if hwm > flat {
					t.Errorf("gobox grew to %d KiB", hwm)
				}
			})
		}
	})
}
