package policy

import (
	"time"

	"gobox/egress"
)

// Mode is how the workspace is seen by the command.
type Mode string

const (
	ModeOverlay   Mode = "overlay" // writable to the command, and untouched on the host
	ModeReadOnly  Mode = "ro"
	ModeReadWrite Mode = "rw"
	ModeNone      Mode = "none"
)

// Workspace is the folder the command works on.
type Workspace struct {
	Path     string // absolute; empty with ModeNone
	Mode     Mode
	Explicit bool // named by the caller, and not just the current directory
	// OrReadOnly makes ModeReadOnly of ModeOverlay where this host cannot have an overlay, since nobody has asked for one.
	OrReadOnly bool
}

// Grant is one --ro, --rox, --rw or --rwx.
type Grant struct {
	Flag   string // "--ro", for messages
	Source string
	Dest   string // empty: same path as Source
	Write  bool
	Exec   bool
}

// Tmpfs is one --tmpfs DEST[:SIZE].
type Tmpfs struct {
	Dest string
	Size uint64 // bytes; 0: the scratch size
}

// Policy is everything a caller can ask for, after flags and files are parsed and before it meets a
// host. Sizes are bytes.
type Policy struct {
	Name      string
	Argv      []string
	Workspace Workspace
	Grants    []Grant
	Deny      []string
	AllowPath []string // protected paths that the command may change
	Tmpfs     []Tmpfs
	Rootfs    string
	OutputDir string // of the host, for what the command leaves in its own of the same path; empty for none
	Scratch   string // folder for the upper layer of the workspace's overlay; empty for one on the root's tmpfs
	TTY       bool   // the command has a terminal of its own

	Env     []string // NAME=VALUE, set
	EnvPass []string // names passed from the caller's environment
	Secrets []Secret // variables whose values only the supervisor and the command know

	Net           NetMode  // empty: NetNone
	RefuseHostNet bool     // nothing gives the run NetHost
	AllowNet      []string // what the command may reach: rules, and @NAME for a group's
	Groups        []NetGroup
	NetLimits     egress.Limits
	Credentials   []egress.Credential
	Publish       []Publish

	Timeout time.Duration // 0: none
	Grace   time.Duration
	CPUTime time.Duration // 0: none
	Memory  uint64        // of all processes together; 0: none
	Address uint64        // RLIMIT_AS; 0: not set
	Pids    uint64        // 0: none
	CPUs    float64       // seconds of CPU time per second; 0: none
	Nofile  uint64        // 0: none
	Fsize   uint64        // 0: none
	Disk    uint64        // total of all scratch; 0: none
	Output  uint64        // stdout and stderr together; 0: none

	AllowSyscall []string
	DenySyscall  []string
	SeccompFile  string

	Keep []Kept // files that say what the run is held to

	AllowMissing []Layer
	Require      []Layer

	AuditRequired bool     // the run needs a record that is synced to disk
	Gate          Gate     // what the runs under this name may not exceed
	Labels        []string // NAME=VALUE, for the record
}

// Gate has the fields of record.Thresholds, which it is converted to. A nil maximum is no threshold.
type Gate struct {
	Window            time.Duration // 0 for all runs since the gate was cleared
	MaxEscapeAttempts *uint64
	MaxLimitHits      *uint64
	MaxTeardown       *time.Duration
	MaxQuarantined    *uint64
}
