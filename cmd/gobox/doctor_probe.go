package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"gobox/landlock"
	"gobox/policy"
	"gobox/record"
	"gobox/sandbox"
)

// The probes of `gobox doctor --inside`.
const (
	probeWalls    = "walls"
	probeWrite    = "write"
	probeTerminal = "terminal"
	probeNetwork  = "network"

	// Nobody has a name in .invalid (RFC 2606), or an address of TEST-NET-1 (RFC 5737).
	probeAllowed = "gobox-doctor.invalid"
	probeOther   = "gobox-doctor-other.invalid"
	probeAddress = "192.0.2.1:443"

	probeName    = "gobox-doctor-probe"
	probeScratch = "/gobox-doctor" // mounted writable, and not granted by Landlock
	probeFiles   = 64
)

// facts are what the command saw. An errno's name is empty for success.
type facts struct {
	Namespaces     map[string]string `json:"namespaces,omitempty"`
	Interfaces     string            `json:"interfaces,omitempty"`
	Capabilities   string            `json:"capabilities,omitempty"`
	NoNewPrivs     bool              `json:"no_new_privs,omitempty"`
	SeccompMode    string            `json:"seccomp_mode,omitempty"`
	WriteSystem    string            `json:"write_system,omitempty"`
	WriteWorkspace string            `json:"write_workspace,omitempty"`
	WriteTmp       string            `json:"write_tmp,omitempty"`
	WriteUngranted string            `json:"write_ungranted,omitempty"`
	SetHostname    string            `json:"set_hostname,omitempty"`
	Unshare        string            `json:"unshare,omitempty"`
	IoUring        string            `json:"io_uring,omitempty"`
	OpenFiles      int               `json:"open_files,omitempty"`
	OpenError      string            `json:"open_error,omitempty"`
	Terminal       bool              `json:"terminal,omitempty"`
	ResolveAllowed string            `json:"resolve_allowed,omitempty"`
	ResolveOther   string            `json:"resolve_other,omitempty"`
	DialOther      string            `json:"dial_other,omitempty"`

	HostSees bool `json:"-"`
}

func namespaceNames() []string {
	return []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"}
}

// doctorInside is the command in the sandbox. Everything it tries is harmless where it is not refused.
func doctorInside(out io.Writer, probe string) int {
	var f facts
	switch probe {
	case probeWalls:
		f.lookAround()
		f.WriteSystem = writeTo("/usr/" + probeName)
		f.WriteWorkspace = writeTo(probeName)
		dir, _ := os.Getwd()
		f.WriteTmp = writeTo(probeInTmp(dir))
		f.WriteUngranted = writeTo(probeScratch + "/" + probeName)
		f.SetHostname = errnoName(unix.Sethostname([]byte("gobox")))
		f.Unshare = errnoName(unix.Unshare(0))
		_, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 0, 0, 0)
		f.IoUring = errnoName(errno)
		f.openMany()
	case probeWrite:
		f.WriteWorkspace = writeTo(probeName)
	case probeNetwork:
		f.tryNetwork()
	case probeTerminal:
		f.Terminal = term.IsTerminal(0)
	}
	if err := json.NewEncoder(out).Encode(f); err != nil {
		return policy.ExitFailed
	}
	return 0
}

func (f *facts) tryNetwork() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	look := func(name string) string {
		if _, err := net.DefaultResolver.LookupHost(ctx, name); err != nil {
			return err.Error()
		}
		return ""
	}
	f.ResolveAllowed, f.ResolveOther = look(probeAllowed), look(probeOther)
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", probeAddress)
	if err == nil {
		// Accepted by the gateway, to be reset.
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		_, err = c.Read(make([]byte, 1))
		c.Close()
	}
	if err != nil {
		f.DialOther = err.Error()
	}
}

func (f *facts) lookAround() {
	f.Namespaces = map[string]string{}
	for _, name := range namespaceNames() {
		f.Namespaces[name], _ = os.Readlink("/proc/self/ns/" + name)
	}
	var names []string
	interfaces, _ := net.Interfaces()
	for _, i := range interfaces {
		names = append(names, i.Name)
	}
	f.Interfaces = strings.Join(names, " ")
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		value = strings.TrimSpace(value)
		switch name {
		case "CapEff":
			f.Capabilities = value
		case "NoNewPrivs":
			f.NoNewPrivs = value == "1"
		case "Seccomp":
			f.SeccompMode = value
		}
	}
}

// openMany opens files up to the limit, and then gives them back.
func (f *facts) openMany() {
	var files []*os.File
	for range 4 * probeFiles {
		file, err := os.Open("/dev/null")
		if err != nil {
			f.OpenError = errnoName(err)
			break
		}
		files = append(files, file)
	}
	f.OpenFiles = len(files)
	for _, file := range files {
		file.Close()
	}
}

// probeInTmp is a name that nobody else's file has.
func probeInTmp(dir string) string { return "/tmp/" + filepath.Base(dir) + ".probe" }

func writeTo(path string) string {
	return errnoName(os.WriteFile(path, []byte("gobox doctor\n"), 0o600))
}

func errnoName(err error) string {
	var errno unix.Errno
	switch {
	case err == nil, errors.As(err, &errno) && errno == 0:
		return ""
	case errno != 0:
		return unix.ErrnoName(errno)
	}
	return err.Error()
}

// policy is that of a probe: little of everything.
func (d *doctor) policy(dir string, mode policy.Mode, probe string) policy.Policy {
	p := policy.Default()
	p.Name = "doctor"
	p.Argv = []string{d.exe, "doctor", "--inside", probe}
	p.Workspace = policy.Workspace{Path: dir, Mode: mode, Explicit: true}
	p.Grants = []policy.Grant{{Flag: "--rox", Source: d.exe, Exec: true}}
	p.Timeout, p.Nofile = 10*time.Second, probeFiles
	if probe == probeWalls {
		p.Tmpfs = []policy.Tmpfs{{Dest: probeScratch, Size: 1 << 20}}
	}
	return p
}

// withoutScratchRule leaves a mount that Landlock alone keeps closed.
func withoutScratchRule(plan *policy.Plan) {
	plan.Landlock.Rules = slices.DeleteFunc(plan.Landlock.Rules, func(r landlock.Rule) bool { return r.Path == probeScratch })
}

// try runs a probe in a sandbox of its own.
func (d *doctor) try(p policy.Policy, change func(*policy.Plan), terminal bool) (facts, sandbox.Result, error) {
	var f facts
	p.TTY = terminal
	plan, err := policy.Resolve(p, d.host)
	if err != nil {
		return f, sandbox.Result{}, err
	}
	if change != nil {
		change(plan)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return f, sandbox.Result{}, err
	}
	defer null.Close()
	read, write, err := os.Pipe()
	if err != nil {
		return f, sandbox.Result{}, err
	}
	defer read.Close()
	told := make(chan []byte, 1)
	go func() {
		text, _ := io.ReadAll(io.LimitReader(read, 1<<20))
		told <- text
	}()
	res, err := sandbox.Launch().Run(context.Background(), sandbox.Spec{
		ID: record.NewID(time.Now()), Plan: plan,
		Stdio: sandbox.Stdio{In: null, Out: write, Err: write, ForceTerminal: terminal},
	})
	write.Close()
	text := <-told
	if err != nil {
		return f, res, err
	}
	if res.Outcome != sandbox.Exited || res.ExitCode != 0 {
		return f, res, fmt.Errorf("the probe %s ended: %s %d: %s", p.Argv[len(p.Argv)-1], res.Outcome, res.Status(), bytes.TrimSpace(text))
	}
	if err := json.Unmarshal(text, &f); err != nil {
		return f, res, fmt.Errorf("the probe %s said %q", p.Argv[len(p.Argv)-1], text)
	}
	f.HostSees = exists(probeInTmp(p.Workspace.Path))
	return f, res, nil
}
