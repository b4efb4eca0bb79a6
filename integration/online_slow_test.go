package integration

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"gobox/integration/harness"
	"gobox/record"
)

// watched runs attempts on the test's internet, and gives the result, and the largest memory in KiB and table of descriptors of the
// supervisor.
func watched(t *testing.T, b *harness.Box, flags []string, attempts ...string) (res harness.Result, rec *record.Result, hwm, descriptors int) {
	t.Helper()
	file := resultFile(t, b)
	cmd, _ := b.OnlineCommand(t.Context(), t, harness.Run{
		Flags: append([]string{"--result", file, "--nofile", "4096"}, flags...), Argv: probes(b, attempts),
	})
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	pid := goboxBelow(cmd.Process.Pid, done)
	peak := largest(pid)
	for over := false; !over; {
		select {
		case <-done:
			over = true
		case <-time.After(20 * time.Millisecond):
		}
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if _, rest, ok := strings.Cut(string(text), "FDSize:"); ok {
			var n int
			_, _ = fmt.Sscan(rest, &n)
			descriptors = max(descriptors, n)
		}
	}
	res = harness.Result{Code: harness.ExitCode(cmd.ProcessState), Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), Duration: time.Since(begin)}
	return res, readResult(t, file, res), <-peak, descriptors
}

// A host with dozens of addresses that do not answer takes few descriptors for each connection to it, and leaves the supervisor
// and other connections what they need.
func TestManyDeadAddresses(t *testing.T) {
	const count = 200
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		flags := []string{"--allow-net", "many.example.org:7001", "--allow-net", "web.example.org:7000"}
		res, rec, _, descriptors := watched(t, b, flags, fmt.Sprintf("hold many.example.org:7001 %d x 1", count), "sleep 3s", "talk web.example.org:7000 hello")
		if res.Code != 0 {
			t.Fatalf("%v", res)
		}
		rep := harness.Parse(t, res.Stdout)
		says(t, rep, "talk web.example.org:7000 hello -> hello")
		// Two for each, and a store of some 250 for all together; the kernel's tables double.
		if descriptors > 1024 {
			t.Errorf("a table of %d descriptors", descriptors)
		}
		if rec.Network.Connections != 1 || rec.Network.Failed != count {
			t.Errorf("%+v", rec.Network)
		}
	})
}

// Connections that never complete their first message, whichever way they come in, keep no other one from its turn, nor the
// run from its end, and hold little memory.
func TestSlowConnections(t *testing.T) {
	const count = 300
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		const proxy = "10.0.2.2:3128"
		flags := []string{"--allow-net", "web.example.org:443,7000", "--timeout", "8s", "--grace", "0s"}
		hold := func(at, text string, size int) string {
			return fmt.Sprintf("hold %s %d %s %d", at, count, url.PathEscape(text), size)
		}
		res, rec, hwm, _ := watched(t, b, flags,
			hold(proxy, "GET http://web.example.org/ HTTP/1.1\r\nX: ", 60_000), hold(proxy, "\x05\x01", 0), hold("web.example.org:443", "\x16\x03\x01\x40\x00\x01\x00\x70\x00", 16_000),
			"talk web.example.org:7000 hello", "sleep 60s")
		judged(t, res, rec, 124, record.TimedOut, "timeout")
		says(t, harness.Parse(t, res.Stdout), "talk web.example.org:7000 hello -> hello")
		if res.Duration > 20*time.Second || !rec.Teardown.Destroyed {
			t.Errorf("%v, %+v", res, rec.Teardown)
		}
		if hwm > flat+24<<10 {
			t.Errorf("gobox grew to %d KiB", hwm)
		}
	})
}
