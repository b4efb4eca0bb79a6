package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gobox/integration/harness"
	"gobox/record"
)

// onDisk runs gobox as root with a small disk of its own at DIR, in a mount namespace that ends with it. script runs before it.
func onDisk(t *testing.T, b *harness.Box, dir, script string, r harness.Run) harness.Result {
	t.Helper()
	r.Flags = append(r.Flags, "--rox", filepath.Dir(b.Probe))
	args := append(append(append([]string{b.Gobox, "run"}, r.Flags...), "--"), r.Argv...)
	// What is left on the disk is copied out.
	whole := `set -e; d=$1; shift; mount -t tmpfs -o size=1m,mode=0755 disk "$d"; cd "$d"; ` + script + `; cd "$d/.."; set +e; "$@"; c=$?; cp -a "$d" "$d.kept"; exit $c`
	return b.Run(t, harness.Run{Bin: "/usr/bin/unshare", Args: append([]string{"-m", "--propagation", "private", "/bin/sh", "-c", whole, "sh", dir}, args...), Dir: r.Dir})
}

// TestFullDisk: a record that cannot be kept refuses the run, one that was begun is finished, and none is ever half there.
func TestFullDisk(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		if b.UID != 0 {
			t.Skip("only root mounts a disk of its own")
		}
		place := func(name string) string {
			dir := filepath.Join(b.Work, name)
			b.Mkdir(t, dir)
			return dir
		}
		const fill = "dd if=/dev/zero of=fill bs=4k 2>/dev/null || :"
		t.Run("before", func(t *testing.T) {
			d := place("before")
			res := onDisk(t, b, d, fill, harness.Run{Flags: []string{"--audit", d + "/state"}, Argv: []string{"/bin/echo", "ran"}})
			if res.Code != 125 || len(res.Stdout) > 0 || !strings.Contains(string(res.Stderr), "no space left") {
				t.Errorf("%v", res)
			}
		})
		t.Run("result", func(t *testing.T) {
			d := place("result")
			res := onDisk(t, b, d, fill, harness.Run{Flags: []string{"--result", d + "/result.json"}, Argv: []string{"/bin/echo", "ran"}})
			// Nothing was promised to be there before the end; but half of it must not be.
			data, err := os.ReadFile(d + ".kept/result.json")
			if res.Code != 125 || err == nil {
				t.Errorf("%q, %v, %v", data, err, res)
			}
		})
		t.Run("filled by the command", func(t *testing.T) {
			d := place("filled")
			res := onDisk(t, b, d, "mkdir w", harness.Run{
				Flags: []string{"--audit", d + "/state", "--workspace", d + "/w", "--workspace-mode", "rw"},
				Argv:  []string{"/bin/sh", "-c", "dd if=/dev/zero of=" + d + "/w/fill bs=4k 2>/dev/null; exit 3"},
			})
			rec := readResult(t, filepath.Join(only(t, d+".kept/state"), "result.json"), res)
			judged(t, res, rec, 3, record.Exited, "")
			log, err := os.ReadFile(filepath.Join(only(t, d+".kept/state"), "events.jsonl"))
			if list := events(t, log); err != nil || kinds(list) != "prepared started ended destroyed" {
				t.Errorf("%v %s", err, log)
			}
		})
		t.Run("read-only", func(t *testing.T) {
			d := place("read-only")
			res := onDisk(t, b, d, "cd ..; mount -o remount,ro "+d, harness.Run{Flags: []string{"--audit", d}, Argv: []string{"/bin/echo", "ran"}})
			if res.Code != 125 || len(res.Stdout) > 0 || !strings.Contains(string(res.Stderr), "read-only") {
				t.Errorf("%v", res)
			}
		})
		t.Run("nobody asked", func(t *testing.T) {
			d := place("unasked")
			res := onDisk(t, b, d, fill+"; export XDG_STATE_HOME="+d, harness.Run{Argv: []string{"/bin/echo", "ran"}})
			if res.Code != 0 || string(res.Stdout) != "ran\n" || !saysUnrecorded(res, "no space left") {
				t.Errorf("%v", res)
			}
		})
	})
}

// saysUnrecorded tells whether gobox has said that there is no record, and why.
func saysUnrecorded(res harness.Result, cause string) bool {
	return strings.Contains(string(res.Stderr), "gobox: hint: this run has no record, or not all of one: ") &&
		strings.Contains(string(res.Stderr), cause) && strings.Contains(string(res.Stderr), "--audit DIR")
}

// TestRecordTakenAway removes the folder, or all rights to it, while the command runs.
func TestRecordTakenAway(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for _, insist := range []bool{true, false} {
			state := audited(t, b, fmt.Sprintf("state-%v", insist))
			run := harness.Run{Argv: []string{"/bin/sh", "-c", b.Probe + " sleep 700ms " + b.Marker + "; exit 7"}}
			folder := state
			if insist {
				run.Flags = []string{"--audit", state}
			} else {
				run.Env = []string{"XDG_STATE_HOME=" + state}
				folder = filepath.Join(state, "gobox")
			}
			cmd := b.Start(t, run)
			waitFor(t, "the command", func() bool { return inside(b, "sleep 700ms") > 0 })
			// Unless it is insisted on, the record is begun while the command already runs.
			waitFor(t, "the record", func() bool {
				begun, _ := filepath.Glob(filepath.Join(folder, "runs", "*", "events.jsonl"))
				return len(begun) == 1
			})
			// A file may come while its folder is being emptied.
			waitFor(t, "the removal", func() bool { return os.RemoveAll(folder) == nil })
			_ = cmd.Wait()
			want := map[bool]int{true: 125, false: 7}[insist]
			if code := harness.ExitCode(cmd.ProcessState); code != want {
				t.Errorf("asked for %v: exit %d, want %d", insist, code, want)
			}
			if left, _ := os.ReadDir(folder); len(left) > 0 {
				t.Errorf("made again: %v", left)
			}
			b.NoSurvivors(t)
		}
		// Without rights from the start.
		if b.UID == 0 {
			return
		}
		state := audited(t, b, "locked")
		if err := os.Chmod(state, 0o500); err != nil {
			t.Fatal(err)
		}
		for flag, want := range map[string]int{"--audit=" + state: 125, "--quiet": 0, "--timeout=20s": 0} {
			res := b.Run(t, harness.Run{Flags: []string{flag}, Env: []string{"XDG_STATE_HOME=" + state}, Argv: []string{"/bin/echo", "ran"}})
			if res.Code != want || (want == 125) != (len(res.Stdout) == 0) || saysUnrecorded(res, "permission denied") != (flag == "--timeout=20s") {
				t.Errorf("%s: %v", flag, res)
			}
		}
	})
}

// TestFewDescriptors: with too few the run is refused, or recorded like any other.
func TestFewDescriptors(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		inFlight.RLock()
		defer inFlight.RUnlock()
		for n := 4; n <= 64; n += 2 {
			state := audited(t, b, fmt.Sprintf("state-%d", n))
			args := []string{"raw", "launch", fmt.Sprintf("nofile=%d", n), "--", b.Gobox, "run", "--audit", state, "--capture", "--rox", filepath.Dir(b.Probe), "--", b.Probe, "raw", "exit", "5"}
			res := b.Run(t, harness.Run{Bin: b.Probe, Args: args})
			found, _ := filepath.Glob(filepath.Join(state, "runs", "*", "result.json"))
			switch {
			case res.Code == 5 && len(found) == 1:
				readResult(t, found[0], res)
			case res.Code == 125 && strings.HasPrefix(string(res.Stderr), "gobox: error: "):
			case n < 12 && res.Code == 2: // the Go runtime itself
			default:
				t.Errorf("%d descriptors: %v, results %v", n, res, found)
			}
		}
	})
}

// inFlight keeps what has descriptors in flight from those that start gobox with few of its own.
var inFlight sync.RWMutex

// TestDescriptorsInFlight: what other processes of the user have in flight delays a run, and refuses it where that does not end.
func TestDescriptorsInFlight(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		// Root's supervisor gives itself and init 512, and is bound by none.
		limit, flying := 64, "100"
		if b.UID == 0 {
			flying = "600"
		}
		inFlight.Lock()
		defer inFlight.Unlock()
		start := func(d string) *exec.Cmd {
			cmd := b.Command(t.Context(), harness.Run{Bin: b.Probe, Args: []string{"raw", "flying", flying, d}})
			there := &watcher{want: "flying", seen: make(chan struct{})}
			cmd.Stderr = there
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			there.wait(t)
			return cmd
		}
		run := launched(b, []string{fmt.Sprintf("nofile=%d", limit)}, nil, "/bin/sh", "-c", "exit 5")
		first := start("1s")
		begin := time.Now()
		if res := b.Run(t, run); res.Code != 5 || time.Since(begin) < 300*time.Millisecond {
			t.Errorf("for a second: %v", res)
		}
		_ = first.Wait()
		second := start("20s")
		res, want := b.Run(t, run), 125
		if b.UID == 0 {
			// Of init only the listener of the filter is to be sent then, and the command runs already.
			run, want = launched(b, []string{fmt.Sprintf("nofile=%d", limit)}, []string{"--workspace-mode", "ro"}, "/bin/sh", "-c", "exit 5"), 137
			if res.Code != 125 {
				t.Errorf("for good, with an overlay: %v", res)
			}
			res = b.Run(t, run)
		}
		if res.Code != want || !strings.Contains(string(res.Stderr), "too many references") || !strings.Contains(string(res.Stderr), "in flight") {
			t.Errorf("for good: %v", res)
		}
		_ = second.Process.Kill()
		_ = second.Wait()
		b.NoSurvivors(t)
	})
}

// TestCaptureOnFullDisk: a capture that lacks something is none, and no answer to a repeated request.
func TestCaptureOnFullDisk(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		if b.UID != 0 {
			t.Skip("only root mounts a disk of its own")
		}
		t.Run("capture", func(t *testing.T) {
			d := filepath.Join(b.Work, "capture")
			b.Mkdir(t, d)
			res := onDisk(t, b, d, ":", harness.Run{
				Flags: []string{"--audit", d + "/state", "--capture"}, Argv: []string{b.Probe, "raw", "pour", "stdout", "4000000"},
			})
			if res.Code != 125 || !strings.Contains(string(res.Stderr), "gobox: error: ") {
				t.Errorf("exit %d, stderr %s", res.Code, res.Stderr)
			}
		})
		t.Run("capture of a key", func(t *testing.T) {
			d := filepath.Join(b.Work, "key")
			b.Mkdir(t, d)
			flags := "--audit " + d + "/state --idempotency-key k --quiet --rox " + filepath.Dir(b.Probe)
			again := fmt.Sprintf("%s run %s --rox %s -- %s raw pour stdout 4000000 </dev/null >/dev/null || :", b.Gobox, flags, filepath.Dir(b.Probe), b.Probe)
			res := onDisk(t, b, d, again, harness.Run{Flags: strings.Fields(flags), Argv: []string{b.Probe, "raw", "pour", "stdout", "4000000"}})
			if res.Code == 0 && len(res.Stdout) != 4000000 {
				t.Errorf("%d bytes of 4000000 were given as the answer, exit %d, %s", len(res.Stdout), res.Code, res.Stderr)
			}
		})
	})
}
