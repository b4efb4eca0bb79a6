package integration

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gobox/integration/harness"
	"gobox/record"
)

// TestLimitEvents: a limit that the result calls reached has one event, whoever holds it and whenever that is known.
func TestLimitEvents(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for _, c := range []struct{ flags, script, want string }{
			{"--timeout 500ms", "sleep 60", "timeout"},
			{"--timeout 500ms --grace 0", "sleep 60", "timeout"},
			{"--cpu-time 1s --timeout 20s", "while :; do :; done", "cpu_time"},
			{"--disk 4M", "head -c 9m /dev/zero >/tmp/fill; exit 3", "disk"},
			{"--disk 4M", "head -c 9m /dev/zero >/tmp/fill; exit 0", "disk"},
			{"--tmpfs /more:1M", "head -c 2m /dev/zero >/more/fill", "tmpfs"},
			{"--fsize 1M", "exec head -c 2m /dev/zero >/tmp/x", "fsize"},
			{"--output 1k", "head -c 100000 /dev/zero", "output"},
			{"", "exit 3", ""},
		} {
			state := audited(t, b, "state")
			res := b.Run(t, harness.Run{Flags: append(strings.Fields(c.flags), "--audit", state), Argv: []string{"/bin/sh", "-c", c.script}})
			rec := readResult(t, filepath.Join(only(t, state), "result.json"), res)
			log, err := os.ReadFile(filepath.Join(only(t, state), "events.jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			var told, reached []string
			for _, e := range events(t, log) {
				if e.Kind == record.LimitHit {
					told = append(told, e.What)
				}
			}
			for _, l := range rec.Limits {
				if l.Triggered {
					reached = append(reached, l.Name)
				}
			}
			if slices.Sort(told); strings.Join(told, " ") != c.want || strings.Join(reached, " ") != c.want {
				t.Errorf("%s %s: told %q, reached %q, want %q: %v\n%s", c.flags, c.script, told, reached, c.want, res, log)
			}
			if err := os.RemoveAll(state); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestSignalEvents: what gobox sends of its own is told apart from what it got, and each is told once.
func TestSignalEvents(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for _, c := range []struct{ flags, script, want string }{
			{"--timeout 500ms --grace 5s", "exec sleep 60", "sent TERM"},
			{"--timeout 500ms --grace 100ms", "trap '' TERM; sleep 60", "sent TERM, sent KILL"},
			{"--timeout 500ms --grace 0", "sleep 60", "sent KILL"},
			{"", "kill -TERM $$", ""},
		} {
			state := audited(t, b, "state")
			b.Run(t, harness.Run{Flags: append(strings.Fields(c.flags), "--audit", state), Argv: []string{"/bin/sh", "-c", c.script}})
			log, err := os.ReadFile(filepath.Join(only(t, state), "events.jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range events(t, log) {
				if e.Kind == record.Signalled {
					got = append(got, strings.TrimSpace(e.What+" "+e.Signal[len("SIG"):]))
				}
			}
			if strings.Join(got, ", ") != c.want {
				t.Errorf("%s %s: signals %q, want %q", c.flags, c.script, got, c.want)
			}
			if err := os.RemoveAll(state); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestHungUpSignalEvent: when the caller is gone, gobox sends a signal that it did not get.
func TestHungUpSignalEvent(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		control, hold, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer hold.Close()
		tell, status, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer tell.Close()
		log := make(chan []byte)
		go func() {
			var all []byte
			for lines := bufio.NewReader(tell); ; {
				line, err := lines.ReadBytes('\n')
				if all = append(all, line...); err != nil {
					log <- all
					return
				}
				if bytes.Contains(line, []byte(`"started"`)) {
					hold.Close()
				}
			}
		}()
		res := b.Run(t, harness.Run{
			Files: []*os.File{control, status}, Flags: []string{"--control-fd", "3", "--status-fd", "4", "--timeout", "20s"},
			Argv: []string{"/bin/sleep", "60"},
		})
		control.Close()
		status.Close()
		list := events(t, <-log)
		i := slices.IndexFunc(list, func(e record.Event) bool { return e.Kind == record.Signalled })
		if kinds(list) != "prepared started signal ended destroyed" || list[i].What != record.Sent || list[i].Signal != "SIGTERM" {
			t.Errorf("events %+v: %v", list, res)
		}
	})
}
