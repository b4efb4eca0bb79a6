package record

import (
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func claim(t *testing.T, state, key, request, id string) (*Claim, *Replay, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	c, p, err := ClaimKey(ctx, state, key, request, id)
	t.Cleanup(c.Release)
	return c, p, err
}

func TestRacingCallersRunOnce(t *testing.T) {
	state := t.TempDir()
	var cmds []*exec.Cmd
	var outs []io.ReadCloser
	for range 4 {
		cmd := child(t, "keyed "+state+" same")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		cmds, outs = append(cmds, cmd), append(outs, out)
	}
	texts := map[string]bool{}
	for i := range cmds {
		b, _ := io.ReadAll(outs[i])
		if err := cmds[i].Wait(); err != nil {
			t.Error(err)
		}
		texts[string(b)] = true
	}
	if len(texts) != 1 {
		t.Errorf("answers differ: %v", texts)
	}
	if b, _ := os.ReadFile(state + "/ran"); string(b) != "ran\n" {
		t.Errorf("it ran so often: %q", b)
	}
}

func TestKey(t *testing.T) {
	state := t.TempDir()
	c, p, err := claim(t, state, "k", "r1", "one")
	if c == nil || p != nil || err != nil {
		t.Fatal(c, p, err)
	}
	// While it runs.
	if _, _, err := claim(t, state, "k", "r1", "two"); ReasonOf(err) != Busy {
		t.Errorf("during the run: %v", err)
	}
	if _, _, err := claim(t, state, "k", "r2", "two"); ReasonOf(err) != Conflict {
		t.Errorf("another request during the run: %v", err)
	}
	if c, p, err := claim(t, state, "other", "r2", "two"); c == nil || p != nil || err != nil {
		t.Errorf("another key: %v", err)
	}
	r := mustOpen(t, state, Request{RunID: "one", Capture: true})
	r.Stdout().WriteString("out")
	r.Stderr().WriteString("err")
	r.Finish(full())
	c.Release()
	// Afterwards.
	_, p, err = claim(t, state, "k", "r1", "two")
	if err != nil || p == nil || p.Result.RunID != "one" {
		t.Fatal(p, err)
	}
	defer p.Close()
	var out, errout strings.Builder
	if err := p.WriteOutput(&out, &errout); err != nil || out.String() != "out" || errout.String() != "err" {
		t.Errorf("replayed %q, %q, %v", out.String(), errout.String(), err)
	}
	if _, _, err := claim(t, state, "k", "r2", "two"); ReasonOf(err) != Conflict {
		t.Errorf("another request: %v", err)
	}
	// gc forgets keys with their runs, and by name.
	s := openStore(t, state)
	rep, err := s.Clean(Cleanup{OlderThan: time.Nanosecond, Now: time.Now().Add(time.Hour)})
	if err != nil || rep.Keys != 1 || len(rep.Removed) != 1 {
		t.Errorf("gc %+v, %v", rep, err)
	}
	if c, _, err := claim(t, state, "k", "r2", "three"); c == nil || err != nil {
		t.Errorf("after gc: %v", err)
	}
}

func TestKeyOfCrashedRun(t *testing.T) {
	state := t.TempDir()
	c, _, err := claim(t, state, "k", "r", "one")
	if err != nil {
		t.Fatal(err)
	}
	r := mustOpen(t, state, Request{RunID: "one"})
	r.Close()
	c.Release()
	if _, _, err := claim(t, state, "k", "r", "two"); ReasonOf(err) != Crashed || !strings.Contains(err.Error(), "one") {
		t.Errorf("crashed: %v", err)
	}
	s := openStore(t, state)
	if rep, err := s.Clean(Cleanup{Key: "k"}); err != nil || rep.Keys != 1 {
		t.Errorf("gc --key: %+v, %v", rep, err)
	}
	if rep, _ := s.Clean(Cleanup{Key: "k"}); len(rep.Problems) != 1 {
		t.Errorf("gc --key of no key: %+v", rep)
	}
	c, _, err = claim(t, state, "k", "r", "three")
	if c == nil || err != nil {
		t.Fatal(err)
	}
	// A key whose run is under way is kept.
	if rep, _ := s.Clean(Cleanup{Key: "k"}); rep.Keys != 0 || len(rep.Problems) != 1 {
		t.Errorf("gc --key during the run: %+v", rep)
	}
	c.Abandon()
	if c, _, err := claim(t, state, "k", "another", "four"); c == nil || err != nil {
		t.Errorf("after Abandon: %v", err)
	}
}

func TestTornKey(t *testing.T) {
	state := t.TempDir()
	c, _, err := claim(t, state, "k", "r", "one")
	if err != nil {
		t.Fatal(err)
	}
	c.Release()
	os.WriteFile(state+"/idempotency/"+keyName("k"), []byte(`{"schema_ve`), 0o600)
	if _, _, err := claim(t, state, "k", "r", "two"); ReasonOf(err) != Crashed {
		t.Errorf("torn entry: %v", err)
	}
}

func TestCallSHA256(t *testing.T) {
	base := Call{PolicySHA256: "p", Argv: []string{"a", "b"}, Env: []string{"X=1", "Y=2"}, Workspace: "/w", WorkspaceMode: "ro", Stdin: "none"}
	same := base
	same.Env = []string{"Y=2", "X=1"}
	if base.SHA256() != same.SHA256() {
		t.Error("the order of the environment matters")
	}
	for name, change := range map[string]func(*Call){
		"policy": func(c *Call) { c.PolicySHA256 = "q" }, "argv joined": func(c *Call) { c.Argv = []string{"ab"} },
		"argv moved": func(c *Call) { c.Argv, c.Env = []string{"a"}, []string{"b", "X=1", "Y=2"} }, "value": func(c *Call) { c.Env = []string{"X=1", "Y=3"} },
		"workspace": func(c *Call) { c.Workspace = "/v" }, "mode": func(c *Call) { c.WorkspaceMode = "rw" }, "stdin": func(c *Call) { c.Stdin = "" },
	} {
		other := base
		change(&other)
		if other.SHA256() == base.SHA256() {
			t.Errorf("%s makes no difference", name)
		}
	}
}

func TestDigestStdin(t *testing.T) {
	null, _ := os.Open("/dev/null")
	defer null.Close()
	if got, err := DigestStdin(null); got != "none" || err != nil {
		t.Errorf("/dev/null: %q, %v", got, err)
	}
	path := t.TempDir() + "/f"
	os.WriteFile(path, []byte("skipped rest"), 0o600)
	f, _ := os.Open(path)
	defer f.Close()
	f.Seek(8, io.SeekStart)
	one, err := DigestStdin(f)
	if err != nil {
		t.Fatal(err)
	}
	if at, _ := f.Seek(0, io.SeekCurrent); at != 8 {
		t.Errorf("the offset moved to %d", at)
	}
	f.Seek(0, io.SeekStart)
	if two, _ := DigestStdin(f); one == two {
		t.Error("the offset makes no difference")
	}
	r, w, _ := os.Pipe()
	defer r.Close()
	defer w.Close()
	if _, err := DigestStdin(r); ReasonOf(err) != Invalid {
		t.Errorf("a pipe: %v", err)
	}
}
