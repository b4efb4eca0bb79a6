package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gobox/integration/harness"
	"gobox/record"

	"golang.org/x/sys/unix"
)

// TestDenialsCounted makes calls that the filter refuses: those that no ordinary program makes count as attempts to get out,
// and what runtimes try by habit does not.
func TestDenialsCounted(t *testing.T) {
	const tiocsti = "0x5412"
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for _, c := range []struct {
			calls  []string
			escape bool
			what   string // the denial's
		}{
			{[]string{"mount bad bad bad 0 0", "umount2 bad 0"}, true, "mount"},
			{[]string{"ptrace 16 1 0 0"}, true, "ptrace"},
			{[]string{"setns -1 0"}, true, "setns"},
			{[]string{"unshare 0x10000000"}, true, "unshare"},
			{[]string{"bpf 0 bad 0"}, true, "bpf"},
			{[]string{"init_module bad 0 bad", "finit_module -1 bad 0"}, true, "init_module"},
			{[]string{"socket 2 3 1", "socket 10 3 1"}, true, "socket"},  // raw
			{[]string{"socket 40 1 0"}, true, "socket"},                  // vsock
			{[]string{"socket 0x100000028 1 0"}, true, "socket"},         // the same to the kernel
			{[]string{"socket 17 3 0", "socket 38 5 0"}, true, "socket"}, // packet, alg
			{[]string{"ioctl 0 " + tiocsti + " bad"}, true, "ioctl"},
			{[]string{"open_by_handle_at -1 bad 0"}, true, "open_by_handle_at"},
			{[]string{"keyctl 0 0 0", "add_key bad bad bad 0 0"}, true, "keyctl"},
			{[]string{"process_vm_readv 1 bad 0 bad 0 0"}, true, "process_vm_readv"},
			{[]string{"clone 0x10000011"}, true, "clone"},

			{[]string{"io_uring_setup 0 bad", "io_uring_enter -1 0 0 0 bad", "io_uring_register -1 0 bad 0"}, false, ""},
			{[]string{"clone3 bad 0"}, false, ""},
			{[]string{"clone 0x10000", "close_range 2 1 2"}, false, ""},
			{[]string{"syscall " + itoa(unix.SYS_RSEQ) + " bad 0 0 0"}, false, ""},
			{[]string{"perf_event_open bad 0 0 0 0"}, false, ""},
			{[]string{"ioctl 0 0x40049409 -1"}, false, ""}, // FICLONE, of cp
		} {
			var attempts []string
			for _, call := range c.calls {
				if !strings.HasPrefix(call, "syscall ") {
					call = systry(call)
				}
				attempts = append(attempts, call)
			}
			argv := strings.Fields(b.Probe + " " + strings.Join(attempts, " + "))
			res, rec := recorded(t, b, harness.Run{Argv: argv})
			judged(t, res, rec, 0, record.Exited, "")
			want := uint64(0)
			if c.escape {
				want = uint64(len(c.calls))
			}
			if rec.Counters.EscapeAttempts != want {
				t.Errorf("%v: %d escape attempts, want %d", c.calls, rec.Counters.EscapeAttempts, want)
			}
			if !c.escape {
				continue
			}
			i := slices.IndexFunc(rec.Denials, func(d record.Denial) bool { return d.What == c.what })
			if i < 0 || rec.Counters.DeniedSyscalls < want {
				t.Errorf("%v: denials %+v, %+v", c.calls, rec.Denials, rec.Counters)
				continue
			}
			if d := rec.Denials[i]; d.Layer != "seccomp" || d.Count == 0 || d.FirstMS < 0 || d.Rule == "" || !strings.Contains(d.Fix, c.what) {
				t.Errorf("%+v", d)
			}
		}
	})
}

// TestOrdinaryProgramsTryNothing: what every day's programs do is no attempt to get out.
func TestOrdinaryProgramsTryNothing(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		b.File(t, b.Work+"/file", "content\n")
		res, rec := recorded(t, b, harness.Run{Argv: []string{"/bin/sh", "-c", "cp file /tmp/copy && ls -la /tmp /proc /dev >/dev/null && ps ax >/dev/null; tar cf /tmp/t.tar file && sort file | uniq | wc -l; id >/dev/null; df >/dev/null 2>&1; python3 -c 'import subprocess, socket, multiprocessing; subprocess.run([\"true\"])' 2>/dev/null; true"}})
		judged(t, res, rec, 0, record.Exited, "")
		if rec.Counters.EscapeAttempts != 0 {
			t.Errorf("%+v, %+v", rec.Counters, rec.Denials)
		}
	})
}

// TestDenialFlood: each refusal is counted, few are stored, and only who floods has to wait.
func TestDenialFlood(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		const n = 20_000
		file := resultFile(t, b)
		cmd := b.Command(t.Context(), harness.Run{
			Flags: []string{"--result", file, "--timeout", "40s"},
			Argv:  strings.Fields(fmt.Sprintf("%s refused %d %s bad bad bad 0 0", b.Probe, n, sysno("mount"))),
		})
		begin := time.Now()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		peak := largest(cmd.Process.Pid)
		_ = cmd.Wait()
		rec := readResult(t, file, time.Since(begin))
		if code := harness.ExitCode(cmd.ProcessState); code != 0 {
			t.Errorf("exit %d, %+v", code, rec)
		}
		if c := rec.Counters; c.EscapeAttempts != n || c.DeniedSyscalls != n || len(rec.Denials) != 1 || rec.Denials[0].Count != n {
			t.Errorf("%+v, %+v", c, rec.Denials)
		}
		if got := <-peak; got > 64<<10 {
			t.Errorf("gobox grew to %d KiB", got)
		}
	})
}

// TestDenialsOfManyKinds: the list is bounded, the sum is not.
func TestDenialsOfManyKinds(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		var attempts []string
		for family := 14; family < 46; family++ {
			for typ := range 20 {
				attempts = append(attempts, systry(fmt.Sprintf("socket %d %d 0", family, typ)))
			}
		}
		res, rec := recorded(t, b, harness.Run{Argv: strings.Fields(b.Probe + " " + strings.Join(attempts, " + "))})
		if res.Code != 0 || rec.Counters.DeniedSyscalls < 500 || len(rec.Denials) == 0 || len(rec.Denials) > 300 {
			t.Errorf("exit %d, %+v, %d denials", res.Code, rec.Counters, len(rec.Denials))
		}
	})
}

// TestNetworkRefusalIsOneEvent: a host that was refused is told of when it happens, and not once more at the end; the time of the
// first is the command's.
func TestNetworkRefusalIsOneEvent(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		const asked = "other.example.net:7000"
		audit := filepath.Join(b.Dir, "audit")
		b.Mkdir(t, audit)
		try := connectTo(asked)
		argv := append([]string{b.Probe, "sleep", "200ms", "+"}, strings.Fields(try)...)
		res, rec := recorded(t, b, harness.Run{Flags: []string{"--audit", audit, "--run-id", "refused", "--allow-net", "web.example.org"}, Argv: argv})
		judged(t, res, rec, 0, record.Exited, "")
		if n := len(rec.Denials); n != 1 || rec.Denials[0].Object != asked || rec.Denials[0].FirstMS < 200 || rec.Denials[0].FirstMS > rec.WallMS {
			t.Errorf("after %d ms: %+v", rec.WallMS, rec.Denials)
		}
		log, err := os.ReadFile(filepath.Join(audit, "runs/refused/events.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for line := range strings.Lines(string(log)) {
			if strings.Contains(line, asked) {
				found = append(found, line)
			}
		}
		if len(found) != 1 || !strings.Contains(found[0], `"kind":"connection"`) || !strings.Contains(found[0], `"verdict":"refused"`) {
			t.Errorf("%q", found)
		}
	})
}

// TestKilledCallIsDenied: a command that the filter ends is one that was refused something.
func TestKilledCallIsDenied(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		run := func(argv ...string) (harness.Result, *record.Result) {
			return recorded(t, b, harness.Run{Argv: argv})
		}
		// The signal is what gobox sees, and hosts without a 32-bit entry have no such call.
		res, rec := run("/bin/sh", "-c", "kill -SYS $$")
		judged(t, res, rec, 159, record.Signaled, "")
		d := rec.Denials
		if len(d) != 1 || d[0].Layer != "seccomp" || d[0].What != "killed call" || d[0].Count != 1 || d[0].Rule == "" || rec.Counters.DeniedSyscalls != 1 || rec.Counters.EscapeAttempts != 0 {
			t.Errorf("denials %+v, %+v", d, rec.Counters)
		}
		if !strings.Contains(string(res.Stderr), "hint: SIGSYS ended the command") {
			t.Errorf("no hint: %v", res)
		}
		res, rec = run("/bin/sh", "-c", "kill -SEGV $$")
		if len(rec.Denials) != 0 || rec.Counters.DeniedSyscalls != 0 || strings.Contains(string(res.Stderr), "SIGSYS") {
			t.Errorf("another signal: denials %+v, %v", rec.Denials, res)
		}
		if strings.Contains(b.Outside(t, "child int80")[0].Detail, `"errno":""`) {
			if res, rec := run(b.Probe, "int80"); len(rec.Denials) != 1 || rec.Denials[0].What != "killed call" {
				t.Errorf("int80: denials %+v, %v", rec.Denials, res)
			}
		}
	})
}
