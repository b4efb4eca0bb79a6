package harness

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gobox/integration/testnet/heard"
	"gobox/record"

	"golang.org/x/sys/unix"
)

// Heard is what the servers of the test's internet heard.
type Heard []heard.Entry

// Online is [Box.Run] in a network namespace of its own in which integration/testnet plays the internet, and gives what that
// heard. Nothing can reach a real address from there.
func (b *Box) Online(t *testing.T, r Run) (Result, Heard) {
	t.Helper()
	timeout := r.Timeout
	if timeout == 0 {
		timeout = 60 * time.Second
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	cmd, log := b.OnlineCommand(ctx, t, r)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	begin := time.Now()
	err := cmd.Run()
	if cmd.ProcessState == nil || ctx.Err() != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, stderr.String())
	}
	res := Result{Stdout: []byte(stdout.String()), Stderr: []byte(stderr.String()), Code: ExitCode(cmd.ProcessState), Duration: time.Since(begin)}
	if res.Code == 99 && strings.HasPrefix(stderr.String(), "testnet: ") {
		t.Fatalf("%s", stderr.String())
	}
	entries, err := heard.Read(log)
	if err != nil {
		t.Fatal(err)
	}
	return res, entries
}

// OnlineCommand is the command of Online, not started yet, and the file that [heard.Read] reads afterwards.
func (b *Box) OnlineCommand(ctx context.Context, t *testing.T, r Run) (cmd *exec.Cmd, log string) {
	t.Helper()
	inner := b.Command(ctx, r)
	f, err := os.CreateTemp(b.Dir, "heard-")
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	// Inner's Args have the program's path already.
	cmd = exec.CommandContext(ctx, b.Net, slices.Concat(b.NetFlags, []string{f.Name(), strconv.Itoa(b.UID)}, inner.Args)...)
	cmd.Env, cmd.Dir, cmd.Stdin, cmd.ExtraFiles, cmd.WaitDelay = inner.Env, inner.Dir, inner.Stdin, inner.ExtraFiles, inner.WaitDelay
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS}
	if os.Getuid() != 0 {
		own := func(id int) []syscall.SysProcIDMap {
			return []syscall.SysProcIDMap{{ContainerID: id, HostID: id, Size: 1}}
		}
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings, cmd.SysProcAttr.GidMappings = own(os.Getuid()), own(os.Getgid())
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN, unix.CAP_SYS_ADMIN, unix.CAP_NET_BIND_SERVICE}
	}
	return cmd, f.Name()
}

// At counts what was heard at an address and port, of one kind.
func (h Heard) At(kind, local string) (n int) {
	for _, e := range h {
		if e.Kind == kind && e.Local == local {
			n++
		}
	}
	return n
}

// Asked counts the queries for a name and for those below it.
func (h Heard) Asked(name string) (n int) {
	for _, e := range h {
		if e.Kind == heard.Query && (e.Name == name || strings.HasSuffix(e.Name, "."+name)) {
			n++
		}
	}
	return n
}

// Connections gives the addresses and ports at which there were any.
func (h Heard) Connections() (list []string) {
	for _, e := range h {
		if e.Kind == heard.Connection {
			list = append(list, e.Local)
		}
	}
	return list
}

// Events reads the events of a run of the identity's.
func (b *Box) Events(t *testing.T, id string) (list []record.Event) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(b.Home, ".local/state/gobox/runs", id, "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var e record.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}

// OnlineRecorded is [Box.Online] with the result that the run leaves.
func (b *Box) OnlineRecorded(t *testing.T, r Run) (Result, Heard, *record.Result) {
	t.Helper()
	dir, err := os.MkdirTemp(b.Dir, "result-")
	if err != nil {
		t.Fatal(err)
	}
	b.own(t, dir)
	file := filepath.Join(dir, "result.json")
	r.Flags = append([]string{"--result", file}, r.Flags...)
	res, said := b.Online(t, r)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("no result: %v\n%v", err, res)
	}
	rec := new(record.Result)
	if err := json.Unmarshal(text, rec); err != nil {
		t.Fatalf("result is no JSON: %v\n%s", err, text)
	}
	return res, said, rec
}
