package policy

import (
	"time"

	"gobox/landlock"
	"gobox/namespaces"
	"gobox/rlimit"
	"gobox/seccomp"
)

// Plan is one run, decided. It is data: printed by --dry-run, sent to init, executed in the order of
// its fields, and never changed after Resolve made it.
type Plan struct {
	Identity namespaces.Identity
	Hostname string
	Tree     namespaces.Tree
	Landlock landlock.Ruleset
	Rlimits  []rlimit.Limit
	Filter   seccomp.Program
	Exec     Exec
	Limits   Limits
	Network  Network
	// RequireCgroup refuses the run where a limit cannot be enforced by cgroup.
	RequireCgroup bool
	// Missing names the layers that this host lacks and the caller accepted with --allow-missing.
	Missing []Layer
	// Workspace is for the reader of the plan; its mount is one of Tree.Steps.
	Workspace Workspace
	// Output is where what the command leaves in its output folder goes.
	Output Output
	// Guards are the folders to look through for new protected files when the command has ended.
	Guards []Guard
	// NoOverlay is why the workspace is read-only, where an overlay would be the default.
	NoOverlay string
	// Notes are remarks for the reader, one sentence each, on what was asked for and done differently.
	Notes []string
}

// Exec is the command: an argument vector, never a shell line.
type Exec struct {
	Path string   // absolute, inside the sandbox
	Argv []string // Argv[0] is what the caller typed
	Env  []string // NAME=VALUE
	// Secrets are further variables, sorted by name. Their values are no part of the plan, and so of no print, digest or
	// record of it.
	Secrets []Secret
	Dir     string // working directory, inside the sandbox
}

// Limits are those that the supervisor and init enforce themselves.
type Limits struct {
	Timeout time.Duration // wall clock from the start of the command; 0 for none
	Grace   time.Duration // between TERM and KILL
	Output  uint64        // bytes that stdout and stderr may have together; 0 for any number

	// Of all the command's processes together, 0 for none: by cgroup where there is one to be had, else by
	// rlimit, tmpfs and init's watch.
	Memory  uint64        // bytes
	Pids    uint64        // processes and threads
	CPUs    float64       // seconds of CPU time per second
	CPUTime time.Duration // in total
}

// Layer is one wall. The names are those of --allow-missing and --require.
type Layer string

const (
	LayerNamespaces Layer = "namespaces"
	LayerLandlock   Layer = "landlock"
	LayerSeccomp    Layer = "seccomp"
	LayerRlimits    Layer = "rlimits"
	LayerCgroup     Layer = "cgroup" // can be required; without it limits are enforced by the next best means
)
