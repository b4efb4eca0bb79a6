package policy

import "time"

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
)

// Default is the built-in policy `default`, on the current directory. The wall clock is the caller's
// to lift when a person sits at a terminal.
func Default() Policy {
	return Policy{
		Name:      "default",
		Workspace: Workspace{Path: ".", Mode: ModeOverlay, OrReadOnly: true},
		Timeout:   30 * time.Second,
		Grace:     time.Second,
		Memory:    1 * gib,
		Pids:      128,
		Nofile:    1024,
		Fsize:     512 * mib,
		Disk:      512 * mib,
		Output:    64 * mib,
	}
}
