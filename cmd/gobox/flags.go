package main

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"gobox/policy"
)

// value is a flag that is read by parse. parse is called once for each time the flag is given.
type value struct {
	kind  string // what help calls it
	text  string // the default, as help shows it
	parse func(string) error
	dash  bool // may begin with a dash
}

func (v *value) String() string { return v.text }
func (v *value) Type() string   { return v.kind }

// Set refuses an empty value in all flags: a variable that a script forgot to set must not mean "all" or "none".
func (v *value) Set(text string) error {
	switch {
	case text == "":
		return errors.New("the value is empty")
	case strings.IndexByte(text, 0) >= 0:
		return errors.New("the value contains a NUL byte")
	case text[0] == '-' && !v.dash:
		// Most likely the next flag, or the -- before the command.
		refusal := valueError{err: errors.New("the value is missing: none begins with a dash"), hint: takes(v.kind)}
		if v.isPath() {
			refusal.hint += "; a path that begins with a dash is written ./-NAME"
		}
		return refusal
	}
	return v.parse(text)
}

// takes says what a flag's value is.
func takes(kind string) string {
	for _, example := range [][2]string{{"SIZE", "512MiB"}, {"D", "30s"}, {"N", "64"}, {"K=V", "LANG=C"}} {
		if kind == example[0] {
			return "the flag takes " + kind + ", such as " + example[1]
		}
	}
	return "the flag takes " + kind
}

func (v *value) isPath() bool {
	switch v.kind {
	case "DIR", "FILE", "NAME|FILE", "P", "P[:DEST]":
		return true
	}
	return false
}

// valueError is a refusal of a flag's value that knows what to do about it.
type valueError struct {
	err  error
	hint string
}

func (e valueError) Error() string { return e.err.Error() }
func (e valueError) Unwrap() error { return e.err }

func size(to *uint64, text string) *value {
	return &value{kind: "SIZE", text: text, parse: parsed(to, policy.ParseSize)}
}

func count(to *uint64, text string) *value {
	return &value{kind: "N", text: text, parse: parsed(to, policy.ParseCount)}
}

func duration(to *time.Duration, text string) *value {
	return &value{kind: "D", text: text, parse: parsed(to, policy.ParseDuration)}
}

func word(to *string, kind, text string) *value {
	return &value{kind: kind, text: text, parse: parsed(to, func(s string) (string, error) { return s, nil })}
}

// once is for what must not change silently because somebody else has given the flag before.
func once(to *string, kind string) *value {
	given := false
	return &value{kind: kind, parse: func(s string) error {
		if given && s != *to {
			return valueError{errors.New("the flag was already given, with " + *to), "give one of them"}
		}
		*to, given = s, true
		return nil
	}}
}

// words is for flags that repeat.
func words[T ~string](to *[]T, kind string) *value {
	return &value{kind: kind, parse: func(s string) error {
		*to = append(*to, T(s))
		return nil
	}}
}

func grant(to *[]policy.Grant, name string, write, exec bool) *value {
	return &value{kind: "P[:DEST]", parse: func(text string) error {
		source, dest, err := policy.ParseGrant(text)
		if err != nil {
			return err
		}
		if dest == "" && strings.Contains(text, ":") && !strings.Contains(text, `\:`) {
			// A name may have a colon, but rarely has.
			if _, err := os.Lstat(source); errors.Is(err, fs.ErrNotExist) {
				return valueError{errors.New("there is no such file, and a DEST must be an absolute path"), "--" + name + " P:/DEST; a colon in a name is written \\:"}
			}
		}
		*to = append(*to, policy.Grant{Flag: "--" + name, Source: source, Dest: dest, Write: write, Exec: exec})
		return nil
	}}
}

func parsed[T any](to *T, parse func(string) (T, error)) func(string) error {
	return func(text string) error {
		got, err := parse(text)
		if err != nil {
			return err
		}
		*to = got
		return nil
	}
}

// runFlags are the flags of `gobox run`, the only place where they are defined.
type runFlags struct {
	policy policy.Policy
	net    string
	mode   string
	folder string
	dryRun bool
	json   bool
	quiet  bool
	tty    bool
	record recordFlags
	output inspectFlags

	named           string // the policy
	noWorkspaceFile bool
	sources         []string // of the policy, once combined
}

func (f *runFlags) define(set *pflag.FlagSet) {
	p := &f.policy
	set.SortFlags = false
	add := func(v *value, name, usage string) { set.VarPF(v, name, "", usage) }

	add(word(&f.named, "NAME|FILE", ""), "policy", "a built-in policy (gobox policy list) or a policy file; flags come on top")
	set.BoolVar(&f.noWorkspaceFile, "no-workspace-policy", false, "leave out the "+policy.WorkspaceFile+" that the workspace has")
	add(once(&f.folder, "DIR"), "workspace", "the folder the command works on (default: the current directory)")
	add(word(&f.mode, "MODE", "overlay"), "workspace-mode", "overlay: what it writes is kept apart for gobox diff and apply, ro: read and execute, rw: change it, none: no workspace")
	add(once(&p.Scratch, "DIR"), "scratch", "keep an overlay's layer in a folder on disk, until the end of the run (default: in memory)")
	add(grant(&p.Grants, "ro", false, false), "ro", "grant a path: read")
	add(grant(&p.Grants, "rox", false, true), "rox", "grant a path: read and execute")
	add(grant(&p.Grants, "rw", true, false), "rw", "grant a path: read and write")
	add(grant(&p.Grants, "rwx", true, true), "rwx", "grant a path: read, write and execute")
	add(grant(&p.Grants, "input", false, false), "input", "an input: read, and under no name written")
	add(once(&p.OutputDir, "DIR"), "output-dir", "an empty folder to write to, whose content goes to the host's of that path when the command exits")
	add(words(&p.Deny, "P"), "deny", "hide a path inside a granted one")
	add(words(&p.AllowPath, "P"), "allow-path", "let the command change a protected path (gobox explain lists them) and what is beneath")
	add(&value{kind: "DEST[:SIZE]", parse: func(text string) error {
		t, err := policy.ParseTmpfs(text)
		if err == nil {
			p.Tmpfs = append(p.Tmpfs, t)
		}
		return err
	}}, "tmpfs", "empty scratch at a place inside")
	add(once(&p.Rootfs, "DIR"), "rootfs", "use an unpacked image as the read-only system")
	add(words(&p.Env, "K=V"), "env", "set a variable")
	add(words(&p.EnvPass, "NAME"), "env-pass", "pass a variable of the caller's")
	add(f.output.secret(), "secret", "a variable for this run only, in no record: NAME=file:P, NAME=env:V or NAME=fd:N")
	add(word(&f.net, "none|host", "none"), "net", "none: no network but a loopback of its own, host: the host's, all of it")
	add(netRule(&p.AllowNet), "allow-net", "a host that the command may reach: HOST[:PORTS], *.NAME, an address or CIDR, @GROUP; port 443 unless named")
	add(credential(&p.Credentials), "credential", "a header for plain requests to a host, sent on over TLS, from a variable the command never sees: HOST=header:NAME:env:VAR")
	add(publish(&p.Publish), "publish", "a port of the host that leads to one inside; ADDR is 127.0.0.1 unless named")
	add(&value{kind: "N", parse: parsed(&p.NetLimits.Connections, netCount)}, "net-connections", "connections of the network at once")
	add(&value{kind: "N", parse: parsed(&p.NetLimits.Rate, policy.ParseRate)}, "net-rate", "new connections per second")
	add(size(&p.NetLimits.BytesIn, ""), "net-bytes-in", "bytes that the command gets from the network")
	add(size(&p.NetLimits.BytesOut, ""), "net-bytes-out", "bytes that it sends")
	add(duration(&p.NetLimits.Idle, ""), "net-idle", "how long a connection may carry nothing")
	add(duration(&p.NetLimits.Total, ""), "net-total", "how long a connection may last")
	add(duration(&p.Timeout, "30s"), "timeout", "wall clock; no limit when stdin is a terminal and the flag is not given")
	add(duration(&p.Grace, "1s"), "grace", "time between TERM and KILL")
	add(duration(&p.CPUTime, ""), "cpu-time", "CPU time of all processes together")
	add(size(&p.Memory, "1GiB"), "memory", "memory of all processes together")
	add(size(&p.Address, ""), "address-space", "address space of one process")
	add(count(&p.Pids, "128"), "pids", "processes and threads")
	add(&value{kind: "N", parse: parsed(&p.CPUs, policy.ParseCPUs)}, "cpus", "CPU time per second, such as 0.5 or 2 (needs a cgroup)")
	add(count(&p.Nofile, "1024"), "nofile", "open files of one process")
	add(size(&p.Fsize, ""), "fsize", "size of one file (default: that of --disk)")
	add(size(&p.Disk, "512MiB"), "disk", "all scratch together")
	add(size(&p.Output, "64MiB"), "output", "stdout and stderr together, other than of a terminal")
	add(words(&p.AllowSyscall, "NAME"), "allow-syscall", "allow a system call")
	add(words(&p.DenySyscall, "NAME"), "deny-syscall", "deny a system call")
	add(once(&p.SeccompFile, "FILE"), "seccomp", "use an OCI or Docker seccomp profile instead of the built-in one")
	add(words(&p.Require, "LAYER"), "require", "fail without a layer: namespaces, landlock, seccomp, rlimits, cgroup")
	add(words(&p.AllowMissing, "LAYER"), "allow-missing", "run without a layer that this host lacks: landlock, seccomp")
	f.record.define(set)
	f.output.define(set)
	set.BoolVar(&f.dryRun, "dry-run", false, "print the plan and run nothing")
	set.BoolVar(&f.json, "json", false, "with --dry-run: print JSON")
	set.BoolVar(&f.quiet, "quiet", false, "no hints")
	set.BoolVarP(&f.tty, "tty", "t", false, "give the command a terminal of its own in any case")
}

// finish turns what the flags say together into the policy, and refuses what contradicts itself.
func (f *runFlags) finish(set *pflag.FlagSet, argv []string, stdinTerminal bool, host policy.Host) (policy.Policy, error) {
	p := &f.policy
	refuse := func(flag, cause, hint string) (policy.Policy, error) {
		return policy.Policy{}, &policy.Error{Step: "usage", Object: flag, Err: errors.New(cause), Hint: hint}
	}
	switch mode := policy.NetMode(f.net); mode {
	case "", policy.NetNone, policy.NetHost:
		p.Net = mode
	default:
		return refuse("--net "+f.net, "no such network", "--net none or host; single hosts with --allow-net HOST:PORT")
	}
	if set.Changed("net") && len(p.AllowNet) > 0 {
		return refuse("--net "+f.net, "contradicts --allow-net "+p.AllowNet[0], "leave --net out: --allow-net alone allows the hosts that it names and no other")
	}
	if f.json && !f.dryRun {
		return refuse("--json", "goes with --dry-run only", "gobox run --dry-run --json -- COMMAND")
	}
	if err := f.output.parse(p, argv); err != nil {
		return policy.Policy{}, err
	}
	if err := f.shared(p.Secrets); err != nil {
		return policy.Policy{}, err
	}
	if f.folder != "" {
		p.Workspace.Path, p.Workspace.Explicit = f.folder, true
	}
	if f.mode != "" {
		p.Workspace.Mode, p.Workspace.OrReadOnly = policy.Mode(f.mode), false
	}
	p.Argv = argv
	return f.combine(set, stdinTerminal, host)
}
