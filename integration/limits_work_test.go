package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"gobox/integration/harness"
	"gobox/record"
)

// TestR05R06Processes: processes and threads are counted together, at every identity.
func TestR05R06Processes(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		const limit = 40
		res, rec := recorded(t, b, harness.Run{Flags: []string{"--pids", fmt.Sprint(limit)}, Argv: []string{b.Probe, "spawns", "400"}})
		rep := harness.Parse(t, res.Stdout)
		rep.Refused(t, []string{"EAGAIN"}, "spawns 400")
		destroyed(t, rec)
		enforcers(t, rec)
		var made int
		if _, err := fmt.Sscanf(rep.Of(t, "spawns 400").Detail, "after %d", &made); err != nil || made > limit || made < limit/2 {
			t.Errorf("%d processes with a limit of %d: %v", made, limit, err)
		}
		if l := limitOf(t, rec, "pids"); l.Value != limit || l.Unit != "processes" {
			t.Errorf("%+v", l)
		}
		// The Go runtime ends when it gets no thread.
		res, _ = recorded(t, b, harness.Run{Flags: []string{"--pids", fmt.Sprint(limit)}, Argv: []string{b.Probe, "threads", "200"}})
		if res.Code != 2 || !strings.Contains(string(res.Stderr), "failed to create new OS thread") {
			t.Errorf("threads: %v", res)
		}
	})
}

// TestR06Parallel: one run's processes take nothing from another's, with the same user.
func TestR06Parallel(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		b.Start(t, harness.Run{Flags: []string{"--pids", "40"}, Argv: []string{b.Probe, "raw", "zombies", "400", b.Marker}})
		waitFor(t, "the first run", func() bool { return inside(b, "raw zombies") > 0 })
		time.Sleep(200 * time.Millisecond)
		rep := b.Inside(t, []string{"--pids", "40"}, "spawns 20")
		rep.Allowed(t, "spawns 20")
	})
}

// inside counts the processes that run the probe with these words, gobox's own not among them.
func inside(b *harness.Box, words string) int {
	n := 0
	for _, line := range harness.Processes(b.Marker) {
		if strings.Contains(line, words) && !strings.Contains(line, " run ") {
			n++
		}
	}
	return n
}

// TestR08R09Disk: bytes and names of all scratch are limited together, and a single file by itself.
func TestR08R09Disk(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		heavy.Lock()
		defer heavy.Unlock()
		const disk = 16 << 20
		flags := []string{"--disk", fmt.Sprint(disk), "--fsize", "0"}
		for _, dir := range []string{"/tmp", "/dev/shm", b.Home} {
			attempt := "fill " + dir + "/x 67108864"
			res, rec := recorded(t, b, harness.Run{Flags: flags, Argv: strings.Fields(b.Probe + " " + attempt)})
			judged(t, res, rec, 0, record.Exited, "disk")
			enforcers(t, rec)
			o := harness.Parse(t, res.Stdout).Of(t, attempt)
			var held int
			if _, err := fmt.Sscanf(o.Detail, "after %d bytes", &held); err != nil || o.Errno != "ENOSPC" || held > disk || held < disk*3/4 {
				t.Errorf("%+v", o)
			}
			attempt = "inodes " + dir + " 200000"
			res, rec = recorded(t, b, harness.Run{Flags: flags, Argv: strings.Fields(b.Probe + " " + attempt)})
			judged(t, res, rec, 0, record.Exited, "inodes")
			harness.Parse(t, res.Stdout).Refused(t, []string{"ENOSPC"}, attempt)
		}
		// The places are one.
		res, rec := recorded(t, b, harness.Run{Flags: flags, Argv: []string{"/bin/sh", "-c", "head -c 9m /dev/zero >/tmp/a && head -c 9m /dev/zero >/dev/shm/b"}})
		judged(t, res, rec, 1, record.DiskLimit, "disk")
		// A second name for what --tmpfs made.
		res, rec = recorded(t, b, harness.Run{Flags: append(flags, "--tmpfs", "/scratch:1M"), Argv: []string{"/bin/sh", "-c", "head -c 2m /dev/zero >/scratch/a"}})
		judged(t, res, rec, 1, record.DiskLimit, "tmpfs")
	})
}

// TestLimitsThatAreMet: a command that meets a limit and goes on has the outcome of that limit when it fails, with its own exit
// status and code, and its own outcome when it does not.
func TestLimitsThatAreMet(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		fill := "dd if=/dev/zero of=/tmp/fill bs=64k 2>/dev/null; "
		crowd := "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do " + b.Probe + " raw zombies 1 >/dev/null & done 2>/dev/null; sleep 1; "
		for _, c := range []struct {
			flags   string
			script  string
			code    int
			outcome record.Outcome
			limit   string
			hint    string
		}{
			{"--disk 4M", fill + "exit 3", 3, record.DiskLimit, "disk", "--disk SIZE gives it more than 4MiB"},
			{"--disk 4M", fill + "exit 0", 0, record.Exited, "disk", ""},
			{"--disk 4M", fill + "sleep 1; rm /tmp/fill; exit 3", 3, record.DiskLimit, "disk", "--disk"},
			{"--disk 4M", fill + "kill -BUS $$", 135, record.DiskLimit, "disk", "--disk"},
			{"--disk 4M", fill + "kill -TERM $$", 143, record.Signaled, "disk", ""},
			{"--disk 4M", "exit 3", 3, record.Exited, "", ""},
			{"--tmpfs /more:1M", "head -c 2m /dev/zero >/more/fill", 1, record.DiskLimit, "tmpfs", "--tmpfs DEST:SIZE"},
			{"--fsize 1M", "head -c 2m /dev/zero >/tmp/x", 153, record.DiskLimit, "fsize", "--fsize SIZE"},
			{"--pids 12", "(" + crowd + ") 2>/dev/null; exit 4", 4, record.PidsLimit, "pids", "--pids N gives it more than 12"},
		} {
			res, rec := recorded(t, b, harness.Run{Flags: strings.Fields(c.flags), Argv: []string{"/bin/bash", "-c", c.script}})
			judged(t, res, rec, c.code, c.outcome, c.limit)
			if (c.hint != "") != strings.Contains(string(res.Stderr), "gobox: hint: ") || !strings.Contains(string(res.Stderr), c.hint) {
				t.Errorf("%s %s: %v", c.flags, c.script, res)
			}
			if res.Code <= 128 && (rec.ExitCode == nil || *rec.ExitCode != res.Code) {
				t.Errorf("%s %s: exit code %v", c.flags, c.script, rec.ExitCode)
			}
		}
	})
}

// TestFileSize: a file that is too large ends the command, unless it ignores the signal.
func TestFileSize(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		res, rec := recorded(t, b, harness.Run{Flags: []string{"--fsize", "1M"}, Argv: []string{"/usr/bin/head", "-c", "2m", "/dev/zero"}, Stdout: devNull(t)})
		judged(t, res, rec, 0, record.Exited, "")
		res, rec = recorded(t, b, harness.Run{Flags: []string{"--fsize", "1M"}, Argv: []string{"/bin/sh", "-c", "exec head -c 2m /dev/zero >/tmp/x"}})
		judged(t, res, rec, 137, record.DiskLimit, "fsize")
		// R11: apparent size counts as well.
		res, rec = recorded(t, b, harness.Run{Argv: []string{"/usr/bin/truncate", "-s", "1T", "/tmp/sparse"}})
		if res.Code != 137 && res.Code != 1 {
			t.Errorf("%v", res)
		}
		destroyed(t, rec)
		// In a writable workspace, which is the host's disk.
		res, rec = recorded(t, b, harness.Run{Flags: []string{"--workspace-mode", "rw", "--fsize", "1M"}, Argv: []string{"/bin/sh", "-c", "exec head -c 2m /dev/zero >big"}})
		judged(t, res, rec, 137, record.DiskLimit, "fsize")
		if st, err := os.Stat(filepath.Join(b.Work, "big")); err != nil || st.Size() != 1<<20 {
			t.Errorf("%v, %v", st, err)
		}
	})
}

func devNull(t *testing.T) *os.File {
	t.Helper()
	f, err := os.OpenFile("/dev/null", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// TestR12CPUTime: of the whole tree, on all cores and over any number of processes.
func TestR12CPUTime(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for _, form := range []string{"spin 4", "relay"} {
			res, rec := recorded(t, b, harness.Run{
				Flags: []string{"--cpu-time", "1s", "--timeout", "20s", "--grace", "100ms"},
				Argv:  append(append([]string{b.Probe, "raw"}, strings.Fields(form)...), b.Marker),
			})
			judged(t, res, rec, 124, record.CPUTime, "cpu_time")
			enforcers(t, rec)
			if l := limitOf(t, rec, "cpu_time"); l.Value != 1000 || l.Unit != "ms" {
				t.Errorf("%+v", l)
			}
			if res.Duration > 15*time.Second {
				t.Errorf("%s: %v", form, res)
			}
		}
		// The clock ends what computes without end.
		res, rec := recorded(t, b, harness.Run{Flags: []string{"--timeout", "500ms", "--grace", "100ms"}, Argv: []string{b.Probe, "raw", "spin", "4", b.Marker}})
		judged(t, res, rec, 124, record.TimedOut, "timeout")
		b.NoSurvivors(t)
	})
}

// mayMakeCgroups tells whether gobox has no excuse: root, on a host where a cgroup file system is mounted and can be written to.
func mayMakeCgroups(t *testing.T, b *harness.Box) bool {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	return b.UID == 0 && regexp.MustCompile(`(?m)^\S+ \S+ cgroup2? rw\b`).Match(mounts)
}

// TestCPUs: a share of the CPUs where there is a cgroup for it, and a refusal where there is none.
func TestCPUs(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		file := resultFile(t, b)
		res := b.Run(t, harness.Run{
			Flags: []string{"--result", file, "--cpus", "0.2", "--timeout", "2s", "--grace", "100ms"},
			Argv:  []string{b.Probe, "raw", "spin", "2"},
		})
		if res.Code == 125 {
			if !strings.HasPrefix(string(res.Stderr), "gobox: error: limit --cpus: ") || !strings.Contains(string(res.Stderr), "\ngobox: hint: ") || mayMakeCgroups(t, b) {
				t.Errorf("%v", res)
			}
			return
		}
		rec := readResult(t, file, res)
		if l := limitOf(t, rec, "cpus"); res.Code != 124 || !l.Triggered || l.Value != 200 || l.EnforcedBy != "cgroup" {
			t.Errorf("%+v, %v", l, res)
		}
		if used := rec.Usage.CPUUserMS + rec.Usage.CPUSystemMS; used > 1000 {
			t.Errorf("%d ms of CPU time in 2 s at a fifth of a CPU", used)
		}
	})
}

// TestR15Require: a caller who insists on a cgroup gets one or no run; who does not, is told.
func TestR15Require(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		canary := filepath.Join(b.Work, "ran")
		file := resultFile(t, b)
		res := b.Run(t, harness.Run{Flags: []string{"--result", file, "--require", "cgroup", "--workspace-mode", "rw"}, Argv: []string{"/usr/bin/touch", canary}})
		_, ran := os.Stat(canary)
		_, plain := recorded(t, b, harness.Run{Argv: []string{"/bin/true"}})
		enforcers(t, plain)
		switch res.Code {
		case 0:
			rec := readResult(t, file, res)
			if ran != nil || rec.Layers.Cgroup.Version == 0 || len(rec.Layers.Cgroup.Controllers) == 0 {
				t.Errorf("%+v, ran: %v", rec.Layers.Cgroup, ran)
			}
			enforcers(t, rec)
		case 125:
			if ran == nil || plain.Layers.Cgroup.Version != 0 || !strings.Contains(string(res.Stderr), "\ngobox: hint: ") {
				t.Errorf("ran: %v, without --require %+v, %v", ran, plain.Layers.Cgroup, res)
			}
		default:
			t.Errorf("%v", res)
		}
	})
}
