package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gobox/selftest/attempt"
)

// Outcome is one line of the probe's report.
type Outcome = attempt.Outcome

// Report is what one probe said, in order.
type Report []Outcome

// Of gives the outcome of an attempt as it was asked for.
func (r Report) Of(t *testing.T, attempt string) Outcome {
	t.Helper()
	for _, o := range r {
		if o.Attempt == attempt {
			return o
		}
	}
	t.Fatalf("probe said nothing about %q", attempt)
	return Outcome{}
}

// Refused fails the test for each attempt that succeeded or failed with another errno than one of want.
func (r Report) Refused(t *testing.T, want []string, attempts ...string) {
	t.Helper()
	for _, a := range attempts {
		if o := r.Of(t, a); !slices.Contains(want, o.Errno) {
			t.Errorf("%s: got ret %d errno %q detail %.200q, want one of %v", a, o.Ret, o.Errno, o.Detail, want)
		}
	}
}

// Allowed fails the test for each attempt that did not succeed.
func (r Report) Allowed(t *testing.T, attempts ...string) {
	t.Helper()
	for _, a := range attempts {
		if o := r.Of(t, a); o.Errno != "" {
			t.Errorf("%s: got errno %s detail %.200q, want success", a, o.Errno, o.Detail)
		}
	}
}

// Parse reads the probe's output and fails on anything else in it.
func Parse(t *testing.T, out []byte) Report {
	t.Helper()
	var rep Report
	for line := range bytes.Lines(out) {
		var o Outcome
		if err := json.Unmarshal(line, &o); err != nil {
			t.Fatalf("not a line of the probe: %q", line)
		}
		rep = append(rep, o)
	}
	return rep
}

// batch is the probe's argument vector for several attempts.
func (b *Box) batch(attempts []string) []string {
	argv := []string{b.Probe}
	for i, a := range attempts {
		if i > 0 {
			argv = append(argv, "+")
		}
		argv = append(argv, strings.Fields(a)...)
	}
	return argv
}

// Inside makes the attempts in a sandbox with the flags and fails the test when the run itself fails.
func (b *Box) Inside(t *testing.T, flags []string, attempts ...string) Report {
	t.Helper()
	return b.InsideRun(t, Run{Flags: flags}, attempts...)
}

// InsideRun is Inside with everything else of a Run.
func (b *Box) InsideRun(t *testing.T, r Run, attempts ...string) Report {
	t.Helper()
	r.Argv = b.batch(attempts)
	res := b.Run(t, r)
	if res.Code != 0 {
		t.Fatalf("gobox run %v: %v", r.Flags, res)
	}
	rep := Parse(t, res.Stdout)
	if len(rep) != len(attempts) {
		t.Fatalf("%d attempts, %d answers: %v", len(attempts), len(rep), res)
	}
	return rep
}

// Outside is the positive control: the same attempts by the same identity without a sandbox.
func (b *Box) Outside(t *testing.T, attempts ...string) Report {
	t.Helper()
	return b.outside(t, &syscall.SysProcAttr{}, attempts)
}

// OutsideAlone makes the attempts as root of fresh namespaces, with every capability there and without
// any filter: what is refused here is refused by this kernel anyway and proves nothing.
func (b *Box) OutsideAlone(t *testing.T, attempts ...string) Report {
	t.Helper()
	attr := &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	return b.outside(t, attr, attempts)
}

func (b *Box) outside(t *testing.T, attr *syscall.SysProcAttr, attempts []string) Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	argv := b.batch(attempts)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = b.Environ()
	cmd.Dir = b.Work
	cmd.SysProcAttr = attr
	b.become(attr)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("control %v: %v\n%s", attempts, err, stderr.String())
	}
	return Parse(t, out)
}
