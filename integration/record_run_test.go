package integration

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"gobox/integration/harness"
	"gobox/record"
)

// events parses lines of events, whose clock must not go back.
func events(t *testing.T, data []byte) []record.Event {
	t.Helper()
	var list []record.Event
	for line := range bytes.Lines(data) {
		var e record.Event
		if err := json.Unmarshal(line, &e); err != nil || !bytes.HasSuffix(line, []byte("\n")) || len(line) > 4096 {
			t.Fatalf("%v: %q", err, line)
		}
		if e.MS < 0 || len(list) > 0 && e.MS < list[len(list)-1].MS {
			t.Errorf("time went back: %q", line)
		}
		list = append(list, e)
	}
	return list
}

// kinds are those of the events, the noted cgroups left out.
func kinds(list []record.Event) string {
	var names []string
	for _, e := range list {
		if e.Kind != record.Prepared || e.What != record.HoldsCgroup {
			names = append(names, string(e.Kind))
		}
	}
	return strings.Join(names, " ")
}

// audited makes a state folder for the identity.
func audited(t *testing.T, b *harness.Box, name string) string {
	t.Helper()
	dir := filepath.Join(b.Dir, name)
	b.Mkdir(t, dir)
	return dir
}

// only gives the one run's folder of a state folder.
func only(t *testing.T, state string) string {
	t.Helper()
	found, _ := filepath.Glob(filepath.Join(state, "runs", "*"))
	if len(found) != 1 {
		t.Fatalf("runs in %s: %v", state, found)
	}
	return found[0]
}

// TestStatusEvents: the descriptor and the log have the same events, in order.
func TestStatusEvents(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for name, c := range map[string]struct {
			flags []string
			argv  []string
			want  string
		}{
			"plain":   {nil, []string{"/bin/true"}, "prepared started ended destroyed"},
			"denied":  {nil, strings.Fields(b.Probe + " " + systry("mount bad bad bad 0 0")), "prepared started ended denial destroyed"},
			"output":  {[]string{"--output", "1k"}, []string{b.Probe, "raw", "pour", "stdout", "100000000"}, "prepared started limit ended destroyed"},
			"timeout": {[]string{"--timeout", "500ms", "--grace", "5s"}, []string{"/bin/sleep", "60"}, "prepared started limit signal ended destroyed"},
			"stubborn": {
				[]string{"--timeout", "500ms", "--grace", "100ms"}, []string{"/bin/sh", "-c", "trap '' TERM; sleep 60"},
				"prepared started limit signal signal ended destroyed",
			},
		} {
			state := audited(t, b, "state-"+name)
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			res := b.Run(t, harness.Run{Files: []*os.File{w}, Flags: append([]string{"--status-fd", "3", "--audit", state}, c.flags...), Argv: c.argv})
			w.Close()
			status, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			log, err := os.ReadFile(filepath.Join(only(t, state), "events.jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			list := events(t, status)
			if kinds(list) != c.want || !bytes.Equal(status, log) {
				t.Errorf("%s: events %q, want %q\nstatus %s\nlog %s\n%v", name, kinds(list), c.want, status, log, res)
			}
			rec := readResult(t, filepath.Join(only(t, state), "result.json"), res)
			if len(list) == 0 || list[0].Time == "" {
				t.Errorf("%s: no time in the first event of %+v", name, list)
			}
			for _, e := range list {
				if e.RunID != rec.RunID {
					t.Errorf("%s: event %+v of run %s", name, e, rec.RunID)
				}
			}
		}
	})
}

// TestStatusReader: one that is gone, or does not read, holds nothing up.
func TestStatusReader(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for _, gone := range []bool{true, false} {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			if gone {
				r.Close()
			} else {
				fillPipe(t, w)
			}
			res := b.Run(t, harness.Run{Files: []*os.File{w}, Flags: []string{"--status-fd", "3"}, Argv: []string{"/bin/sh", "-c", "exit 4"}})
			if res.Code != 4 || res.Duration > 5*time.Second {
				t.Errorf("gone %v: %v", gone, res)
			}
			w.Close()
			r.Close()
		}
	})
}

func fillPipe(t *testing.T, w *os.File) {
	t.Helper()
	raw, err := w.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.Control(func(fd uintptr) {
		_ = syscall.SetNonblock(int(fd), true)
		for {
			if _, err := syscall.Write(int(fd), make([]byte, 4096)); err != nil {
				break
			}
		}
		_ = syscall.SetNonblock(int(fd), false)
	})
}

// TestRecordOfOddNames: what no JSON can hold, or a terminal would obey, is in the record in another form.
func TestRecordOfOddNames(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		state := audited(t, b, "state")
		argv := []string{"/bin/true", "\xff\xfe", "a\x1b[31m\u202eb", "new\nline", "\"quoted\\", "\u2028", strings.Repeat("long", 20_000)}
		res := b.Run(t, harness.Run{
			Flags: []string{"--audit", state, "--label", "model=m/1 \"x\"", "--label", "empty=", "--label", "odd=\x1b]0;t\x07=\xff"}, Argv: argv,
		})
		if res.Code != 0 {
			t.Fatalf("%v", res)
		}
		rec := readResult(t, filepath.Join(only(t, state), "result.json"), res)
		if len(rec.ArgvBase64) != len(argv) || len(rec.Argv) != len(argv) {
			t.Fatalf("%d and %d arguments of %d", len(rec.Argv), len(rec.ArgvBase64), len(argv))
		}
		for i, text := range rec.ArgvBase64 {
			if exact, err := base64.StdEncoding.DecodeString(text); err != nil || string(exact) != argv[i] {
				t.Errorf("argument %d: %.100q, %v", i, exact, err)
			}
			if want := strings.ToValidUTF8(argv[i], "\ufffd"); i != 1 && rec.Argv[i] != want {
				t.Errorf("argument %d: %.100q", i, rec.Argv[i])
			}
		}
		if want := map[string]string{"model": "m/1 \"x\"", "empty": "", "odd": "\x1b]0;t\x07=\ufffd"}; fmt.Sprint(rec.Labels) != fmt.Sprint(want) {
			t.Errorf("labels %q", rec.Labels)
		}
		for _, name := range []string{"request.json", "result.json", "events.jsonl"} {
			data, err := os.ReadFile(filepath.Join(only(t, state), name))
			if err != nil || !utf8.Valid(data) || bytes.ContainsAny(data, "\x1b\x07\u202e\u2028") {
				t.Errorf("%s: %v %.300q", name, err, data)
			}
		}
		for _, args := range [][]string{{"runs", "show", "last"}, {"runs", "list"}, {"runs", "show", "last", "--events"}} {
			res := b.Run(t, harness.Run{Args: append(args, "--audit", state)})
			if res.Code != 0 || bytes.ContainsAny(res.Stdout, "\x1b\x07\u202e") {
				t.Errorf("%v: %v", args, res)
			}
		}
		for _, label := range []string{"novalue", "=x", ""} {
			if res := b.Run(t, harness.Run{Flags: []string{"--label", label}, Argv: []string{"/bin/true"}}); res.Code != 125 {
				t.Errorf("--label %q: %v", label, res)
			}
		}
	})
}

// TestRunIDs: a name that is taken, or leads elsewhere, is refused before anything runs.
func TestRunIDs(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		state := audited(t, b, "state")
		run := func(id string) harness.Result {
			return b.Run(t, harness.Run{Flags: []string{"--audit", state, "--run-id", id}, Argv: []string{"/bin/echo", "ran"}})
		}
		if res := run("mine.1"); res.Code != 0 {
			t.Errorf("%v", res)
		}
		for _, id := range []string{"mine.1", "../x", "a/b", ".", "..", ".hidden", "-dash", strings.Repeat("x", 65), "a b", "a\n"} {
			if res := run(id); res.Code != 125 || len(res.Stdout) > 0 {
				t.Errorf("%q: %v", id, res)
			}
		}
		only(t, state)
	})
}

// TestRunsCommands: what runs list, show and stats say agrees with what was run.
func TestRunsCommands(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		state := audited(t, b, "state")
		for _, r := range []harness.Run{
			{Argv: []string{"/bin/true"}},
			{Argv: []string{"/bin/false"}},
			{Argv: strings.Fields(b.Probe + " " + systry("ptrace 16 1 0 0") + " + " + systry("mount bad bad bad 0 0"))},
			{Flags: []string{"--timeout", "300ms", "--grace", "100ms"}, Argv: []string{"/bin/sleep", "60"}},
			{Flags: []string{"--output", "1k", "--quiet"}, Argv: []string{b.Probe, "raw", "pour", "stdout", "5000"}},
		} {
			r.Flags = append(r.Flags, "--audit", state)
			b.Run(t, r)
		}
		var list struct {
			Runs []struct {
				RunID string `json:"run_id"`
				State string `json:"state"`
			} `json:"runs"`
		}
		res := b.Run(t, harness.Run{Args: []string{"runs", "list", "--json", "--audit", state}})
		if err := json.Unmarshal(res.Stdout, &list); err != nil || len(list.Runs) != 5 || !slices.IsSortedFunc(list.Runs, func(a, b struct {
			RunID string `json:"run_id"`
			State string `json:"state"`
		}) int {
			return strings.Compare(b.RunID, a.RunID)
		}) {
			t.Errorf("%v, %+v", err, list)
		}
		res = b.Run(t, harness.Run{Args: []string{"runs", "stats", "--json", "--audit", state}})
		var stats record.Stats
		if err := json.Unmarshal(res.Stdout, &stats); err != nil {
			t.Fatalf("%v, %v", err, res)
		}
		if stats.Runs != 5 || stats.Outcomes["exited"] != 3 || stats.Outcomes["timeout"] != 1 || stats.Outcomes["output"] != 1 ||
			stats.Counters.EscapeAttempts != 2 || stats.Limits["timeout"] != 1 || stats.Limits["output"] != 1 || stats.Teardown.Count != 5 || stats.Survivors != 0 {
			t.Errorf("%+v", stats)
		}
		res = b.Run(t, harness.Run{Args: []string{"runs", "stats", "--prometheus", "--audit", state}})
		for line := range strings.Lines(string(res.Stdout)) {
			if fields := strings.Fields(line); !strings.HasPrefix(line, "#") && len(fields) != 2 {
				t.Errorf("not a sample: %q", line)
			}
		}
		if gate := b.Run(t, harness.Run{Args: []string{"runs", "gate", "--json", "--audit", state}}); gate.Code != 0 {
			t.Errorf("%v", gate)
		}
	})
}
