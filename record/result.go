package record

import "slices"

// SchemaVersion is that of [Result] and [Request]. Fields are only ever added, so it stays.
const SchemaVersion = 1

// Outcome says how a run ended.
type Outcome string

const (
	Exited      Outcome = "exited"
	Signaled    Outcome = "signaled"
	TimedOut    Outcome = "timeout"
	CPUTime     Outcome = "cpu_time"
	MemoryLimit Outcome = "memory"
	OutputLimit Outcome = "output"
	DiskLimit   Outcome = "disk"
	PidsLimit   Outcome = "pids"
	Cancelled   Outcome = "cancelled"
	ExecFailed  Outcome = "exec_failed"
	SetupFailed Outcome = "setup_failed"
)

// Result is the record of one run, the content of result.json. The zero value of a list is written as an
// empty list.
type Result struct {
	SchemaVersion  int    `json:"schema_version"` // set by the writer
	RunID          string `json:"run_id"`
	IdempotencyKey string `json:"idempotency_key,omitempty"`
	Version        string `json:"version"` // of gobox
	Policy         Policy `json:"policy"`
	// Argv has U+FFFD for each byte that is not UTF-8. ArgvBase64 is there only when that happened, and has
	// every argument as it was. Set both with [Result.SetArgv].
	Argv       []string          `json:"argv"`
	ArgvBase64 []string          `json:"argv_base64,omitempty"`
	Labels     map[string]string `json:"labels"`
	StartedAt  string            `json:"started_at"` // RFC 3339, UTC; see [Timestamp]
	Outcome    Outcome           `json:"outcome"`
	ExitCode   *int              `json:"exit_code,omitempty"` // of the command; absent when exec never happened or a signal ended it
	Signal     string            `json:"signal,omitempty"`    // that ended the command, such as SIGSEGV
	WallMS     int64             `json:"wall_ms"`
	Usage      Usage             `json:"usage"`
	Layers     Layers            `json:"layers"`
	Limits     []Limit           `json:"limits"`
	Denials    []Denial          `json:"denials"`
	Counters   Counters          `json:"counters"`
	Network    Network           `json:"network"`
	Workspace  Workspace         `json:"workspace"`
	OutputDir  *OutputDir        `json:"output_dir,omitempty"` // of a run with one
	Teardown   Teardown          `json:"teardown"`
	Anomalies  []Anomaly         `json:"anomalies"`
	Findings   []Finding         `json:"findings"`
	Error      *Failure          `json:"error,omitempty"`
}

// Policy names the policy of a run. SHA256 is that of its effective form, in hexadecimal.
type Policy struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
}

// Usage is what the process tree used. What could not be measured is 0.
type Usage struct {
	CPUUserMS       int64  `json:"cpu_user_ms"`
	CPUSystemMS     int64  `json:"cpu_system_ms"`
	MaxRSSBytes     uint64 `json:"max_rss_bytes"`     // of the largest process
	PeakMemoryBytes uint64 `json:"peak_memory_bytes"` // of all together
	PeakProcesses   uint64 `json:"peak_processes"`
	StdoutBytes     uint64 `json:"stdout_bytes"` // that the command wrote, dropped ones included
	StderrBytes     uint64 `json:"stderr_bytes"`
	Truncated       bool   `json:"truncated"` // some of it was dropped
}

// Layers are the walls that stood.
type Layers struct {
	Namespaces []string `json:"namespaces"`
	Landlock   Landlock `json:"landlock"`
	Seccomp    bool     `json:"seccomp"`
	Rlimits    bool     `json:"rlimits"`
	Cgroup     Cgroup   `json:"cgroup"`
	Missing    []string `json:"missing"` // accepted with --allow-missing
}

// Landlock is the ABI that the kernel has (0 for none), and whether a ruleset was in force.
type Landlock struct {
	ABI      int  `json:"abi"`
	Enforced bool `json:"enforced"`
}

// Cgroup is the version used (0 for none) and its controllers.
type Cgroup struct {
	Version     int      `json:"version"`
	Controllers []string `json:"controllers"`
}

// Limit is one limit of the run. Unit is bytes, ms, millicpus, processes, files, connections or per_1000s.
type Limit struct {
	Name       string `json:"name"`
	Value      uint64 `json:"value"`
	Unit       string `json:"unit"`
	EnforcedBy string `json:"enforced_by"` // cgroup, rlimit, tmpfs, supervisor, init
	Triggered  bool   `json:"triggered"`
}

// Denial is what a layer refused, once per kind and object.
type Denial struct {
	Layer   string `json:"layer"`
	What    string `json:"what"`
	Object  string `json:"object"`
	Count   uint64 `json:"count"`
	FirstMS int64  `json:"first_ms"` // after the command's start
	Rule    string `json:"rule"`
	Fix     string `json:"fix"` // the flag that would allow it
}

// Counters are sums over a run.
type Counters struct {
	EscapeAttempts    uint64 `json:"escape_attempts"`
	LimitsTriggered   uint64 `json:"limits_triggered"`
	DeniedSyscalls    uint64 `json:"denied_syscalls"`
	DeniedConnections uint64 `json:"denied_connections"`
}

// Network is what the command did with the hosts that it was allowed.
type Network struct {
	Mode        string `json:"mode"`        // none, allow, host
	Connections uint64 `json:"connections"` // that were made
	Failed      uint64 `json:"failed"`      // that were allowed, and could not be made
	BytesIn     uint64 `json:"bytes_in"`    // to the command
	BytesOut    uint64 `json:"bytes_out"`
}

// Workspace is what the command did to its workspace.
type Workspace struct {
	Mode     string `json:"mode"`
	Added    uint64 `json:"added"`
	Modified uint64 `json:"modified"`
	Deleted  uint64 `json:"deleted"`
	Bytes    uint64 `json:"bytes"`
	Hash     string `json:"hash"` // SHA-256 over the change set, hexadecimal; empty when there is none
}

// OutputDir is what came out into the output folder of the host.
type OutputDir struct {
	Path      string `json:"path"`
	Delivered bool   `json:"delivered"` // all of it; else nothing
	Entries   uint64 `json:"entries"`   // files, folders and links
	Bytes     uint64 `json:"bytes"`     // of files, holes included
}

// Teardown says whether anything of the sandbox is left.
type Teardown struct {
	Destroyed   bool     `json:"destroyed"`
	DurationMS  float64  `json:"duration_ms"` // to the microsecond
	Survivors   []string `json:"survivors"`   // what was still there: "pid 123", "cgroup /sys/fs/cgroup/..."
	Quarantined bool     `json:"quarantined"`
}

// Kinds of an [Anomaly], besides those that inspect has for a document that is no JSON. docs/records.md says what they mean.
const (
	CaptureLost    = "capture_lost" // the record lacks a part of the output, so that it answers for no key
	ChangesLost    = "changes_lost"
	ChangesRefused = "changes_refused"
	InputCut       = "input_cut"
	NotInspected   = "not_inspected"
	NotKept        = "not_kept"
	NoOverlay      = "no_overlay"
	OutputLost     = "output_lost"
)

// Kinds of an [Anomaly] by which what the command wrote is not where it put it.
const (
	SetAside     = "set_aside"     // a protected file that came during the run was renamed
	NotLookedAt  = "not_looked_at" // the search for those was not finished
	NotDelivered = "not_delivered" // the content of the output folder, and why
)

// Anomaly is something about the output that is not as the caller said it would be.
type Anomaly struct {
	Kind   string `json:"kind"`
	Object string `json:"object"` // stdout, stderr or a path
	Detail string `json:"detail"`
}

// Finding is a place in the output that looks like a secret. Its value is nowhere in the record.
type Finding struct {
	Kind   string `json:"kind"`
	Object string `json:"object"` // stdout, stderr or a path
	Offset uint64 `json:"offset"` // bytes
	Length uint64 `json:"length"` // bytes
}

// Failure is why gobox failed or refused; Step and Object are those of policy.Error.
type Failure struct {
	Step    string `json:"step"`
	Object  string `json:"object"`
	Errno   string `json:"errno"` // its name, such as ENOENT; empty when the cause is no errno
	Message string `json:"message"`
	Hint    string `json:"hint"`
}

// ExitStatus is the exit status that gobox gave for the run (docs/cli.md).
func (r *Result) ExitStatus() int {
	switch r.Outcome {
	case TimedOut, CPUTime:
		return 124
	case MemoryLimit, OutputLimit:
		return 137
	case DiskLimit, PidsLimit:
		if r.ExitCode == nil && r.Signal == "SIGXFSZ" {
			return 137
		}
	case SetupFailed, ExecFailed:
		return 125
	}
	if r.ExitCode != nil {
		// OutputLost is not among them: who asks again is given all of it.
		lost := func(a Anomaly) bool {
			return slices.Contains([]string{SetAside, NotLookedAt, NotDelivered, ChangesLost, ChangesRefused, InputCut}, a.Kind)
		}
		if *r.ExitCode == 0 && slices.ContainsFunc(r.Anomalies, lost) {
			return 74 // EX_IOERR of <sysexits.h>: not all that the command wrote is where it put it, or not all was there to be read
		}
		return *r.ExitCode
	}
	if n := signalNumber(r.Signal); n != 0 {
		return 128 + n
	}
	return 125
}
