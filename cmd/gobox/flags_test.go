package main

import (
	"testing"
	"time"

	"github.com/spf13/pflag"

	"gobox/policy"
)

func finish(t *testing.T, terminal bool, args ...string) policy.Policy {
	t.Helper()
	flags := runFlags{policy: policy.Default()}
	set := pflag.NewFlagSet("run", pflag.ContinueOnError)
	flags.define(set)
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	p, err := flags.finish(set, []string{"true"}, terminal, policy.CurrentHost())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A person at a terminal is not cut off, unless they asked for it.
func TestTimeoutAtTerminal(t *testing.T) {
	for _, tt := range []struct {
		terminal bool
		args     []string
		want     time.Duration
	}{
		{false, nil, 30 * time.Second},
		{true, nil, 0},
		{true, []string{"--timeout", "30s"}, 30 * time.Second},
		{false, []string{"--timeout", "0"}, 0},
	} {
		if got := finish(t, tt.terminal, tt.args...).Timeout; got != tt.want {
			t.Errorf("terminal %v, %q: timeout %v, want %v", tt.terminal, tt.args, got, tt.want)
		}
	}
}

// What the flags show as their defaults is what the built-in policy says.
func TestDefaults(t *testing.T) {
	shown := runFlags{policy: policy.Default()}
	set := pflag.NewFlagSet("run", pflag.ContinueOnError)
	shown.define(set)
	want := policy.Default()
	for _, name := range []string{"workspace-mode", "timeout", "grace", "memory", "pids", "nofile", "disk", "net"} {
		text := set.Lookup(name).DefValue
		if text == "" {
			t.Errorf("--%s shows no default", name)
			continue
		}
		if err := set.Set(name, text); err != nil {
			t.Errorf("--%s %s: %v", name, text, err)
		}
	}
	got := shown.policy
	if got.Timeout != want.Timeout || got.Grace != want.Grace || got.Memory != want.Memory || got.Pids != want.Pids || got.Nofile != want.Nofile ||
		got.Disk != want.Disk || policy.Mode(shown.mode) != want.Workspace.Mode {
		t.Errorf("flags show %+v, the policy is %+v", got, want)
	}
}

func TestFsizeFollowsDisk(t *testing.T) {
	if got := finish(t, false, "--disk", "1G").Fsize; got != 1<<30 {
		t.Errorf("file size limit %d", got)
	}
	if got := finish(t, false, "--disk", "1G", "--fsize", "7").Fsize; got != 7 {
		t.Errorf("file size limit %d", got)
	}
}
