package policy

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"gobox/seccomp"
)

// field is one key of a policy file. The parser, the merge, the checks that a file only tightens, and the
// JSON Schema all go by this table, so that they cannot differ.
type field struct {
	path  string // "limits.timeout"
	flag  string // the flag that says the same, without dashes; empty for none
	about string
	kind  fieldKind
	words []string // the only ones, of fieldWord and fieldWords

	// read puts what the file says into p.
	read func(p *Policy, n *node) error
	// take puts what from says of it into p: in its place for a single value, on top of it for lists.
	take func(p, from *Policy)
	// looser says what of p allows more than the bound does, empty for nothing.
	looser func(p, bound *Policy) string
	// bounds is the same for the host's ceiling, where it is told otherwise. It may look at the host.
	bounds func(p, ceiling *Policy, h Host) string
	// where it may stand.
	notWorkspace, notCeiling bool
	// adds tells that take only ever tightens, so that it may stand anywhere.
	adds bool
}

type fieldKind int

const (
	fieldText fieldKind = iota
	fieldWord
	fieldWords
	fieldTexts
	fieldPairs
	fieldLists // of texts, by name
	fieldSize
	fieldCount
	fieldDecimal
	fieldDuration
	fieldBool
)

func (f *field) section() string {
	section, _, nested := strings.Cut(f.path, ".")
	if !nested {
		return ""
	}
	return section
}

func (f *field) key() string { return f.path[strings.LastIndexByte(f.path, '.')+1:] }

// fields is the table. A function: as a variable it would be built in every run.
func fields() []field {
	return []field{
		{path: "workspace.path", flag: "workspace", kind: fieldText, notWorkspace: true,
			about: "the folder the command works on; relative to the current directory",
			read: textOf(func(p *Policy, text string) error {
				p.Workspace.Path, p.Workspace.Explicit = text, cleanPath(text) != "."
				return nil
			}),
			take: func(p, from *Policy) {
				p.Workspace.Path, p.Workspace.Explicit = from.Workspace.Path, from.Workspace.Explicit
			},
			bounds: workspaceBeyond},
		{path: "workspace.mode", flag: "workspace-mode", kind: fieldWord, words: modes(),
			about: "none: no workspace, ro: read and execute, overlay: change a copy that is kept apart, rw: change it too",
			read: textOf(func(p *Policy, text string) error {
				p.Workspace.Mode = Mode(text)
				return oneOf(text, modes())
			}),
			take: func(p, from *Policy) {
				p.Workspace.Mode, p.Workspace.OrReadOnly = from.Workspace.Mode, from.Workspace.OrReadOnly
			},
			looser: func(p, bound *Policy) string {
				if slices.Index(modes(), string(p.Workspace.Mode)) > slices.Index(modes(), string(bound.Workspace.Mode)) {
					return fmt.Sprintf("%s allows more than %s", p.Workspace.Mode, bound.Workspace.Mode)
				}
				return ""
			}},

		grantField("read", "ro", "P or P:DEST to show, read-only", readBeyond),
		grantField("execute", "rox", "P or P:DEST to show, to read and execute", executeBeyond),
		inputField(),
		grantField("write", "rw", "P or P:DEST to show, to read and write; with the same line in execute, to do all", writeBeyond),
		{path: "filesystem.output_dir", flag: "output-dir", kind: fieldText, notWorkspace: true, notCeiling: true,
			about: "an empty folder to write to, whose content goes to the host's of that path; relative to the workspace",
			read:  textOf(func(p *Policy, text string) error { p.OutputDir = text; return nil }),
			take:  func(p, from *Policy) { p.OutputDir = from.OutputDir }},
		{path: "filesystem.deny", flag: "deny", kind: fieldTexts, adds: true, about: "paths to hide inside what is shown",
			read: textsOf(func(p *Policy, text string) error { p.Deny = append(p.Deny, text); return nil }),
			take: func(p, from *Policy) { p.Deny = appendNew(p.Deny, from.Deny) }},
		{path: "filesystem.allow_path", flag: "allow-path", kind: fieldTexts, about: "protected paths that the command may change, with all beneath",
			read: textsOf(func(p *Policy, text string) error { p.AllowPath = append(p.AllowPath, text); return nil }),
			take: func(p, from *Policy) { p.AllowPath = appendNew(p.AllowPath, from.AllowPath) },
			looser: func(p, bound *Policy) string {
				for _, path := range p.AllowPath {
					if !slices.ContainsFunc(bound.AllowPath, func(top string) bool { return within(cleanPath(top), cleanPath(path)) }) {
						return path + " is not allowed by the run's policy"
					}
				}
				return ""
			}},

		{path: "environment.pass", flag: "env-pass", kind: fieldTexts, about: "variables of the caller's to pass",
			read: textsOf(func(p *Policy, text string) error {
				if !envName(text) {
					return errEnvName
				}
				p.EnvPass = append(p.EnvPass, text)
				return nil
			}),
			take:   func(p, from *Policy) { p.EnvPass = appendNew(p.EnvPass, from.EnvPass) },
			looser: func(p, bound *Policy) string { return foreign(p.EnvPass, bound.EnvPass) }},
		{path: "environment.set", flag: "env", kind: fieldPairs, notWorkspace: true, notCeiling: true, about: "variables to set",
			read: pairsOf(func(p *Policy, name, value string) error {
				if !envName(name) {
					return errEnvName
				}
				p.Env = append(p.Env, name+"="+value)
				return nil
			}),
			take: func(p, from *Policy) { p.Env = append(slices.Clip(p.Env), from.Env...) }},

		{path: "network.mode", flag: "net", kind: fieldWord, words: netModes(), about: "none: no host but those of allow, host: the host's own network",
			read: textOf(func(p *Policy, text string) error {
				p.Net = NetMode(text)
				return oneOf(text, netModes())
			}),
			// Whichever it is, it takes the place of what was allowed before.
			take: func(p, from *Policy) { p.Net, p.AllowNet = from.Net, nil },
			looser: func(p, bound *Policy) string {
				if p.Net == NetHost && bound.Net != NetHost {
					return "host allows more than none"
				}
				return ""
			}},
		{path: "network.allow", flag: "allow-net", kind: fieldTexts, about: "hosts to allow: HOST[:PORTS], *.NAME[:PORTS], an address or CIDR, or @GROUP",
			read: textsOf(func(p *Policy, text string) error {
				p.AllowNet = append(p.AllowNet, text)
				return ParseNetRule(text)
			}),
			take:   func(p, from *Policy) { p.AllowNet = appendNew(p.AllowNet, from.AllowNet) },
			looser: netBeyond},
		{path: "network.refuse_host", kind: fieldBool, about: "no flag and no file gives the run the host's network",
			read: textOf(func(p *Policy, text string) (err error) { p.RefuseHostNet, err = parseBool(text); return err }),
			take: func(p, from *Policy) { p.RefuseHostNet = from.RefuseHostNet },
			looser: func(p, bound *Policy) string {
				if bound.RefuseHostNet && !p.RefuseHostNet {
					return "false allows more than true"
				}
				return ""
			}},
		{path: "groups", kind: fieldLists, notWorkspace: true, adds: true, about: "lists of hosts by name, for @NAME in network.allow and --allow-net",
			read: readGroups,
			take: func(p, from *Policy) {
				for _, g := range from.Groups {
					p.Groups = append(slices.DeleteFunc(slices.Clone(p.Groups), func(have NetGroup) bool { return have.Name == g.Name }), g)
				}
			}},

		limitField("timeout", "timeout", fieldDuration, "wall clock, such as 30s", ParseDuration, func(p *Policy) *time.Duration { return &p.Timeout }),
		{path: "limits.grace", flag: "grace", kind: fieldDuration, about: "time between TERM and KILL",
			read: textOf(func(p *Policy, text string) (err error) { p.Grace, err = ParseDuration(text); return err }),
			take: func(p, from *Policy) { p.Grace = from.Grace },
			looser: func(p, bound *Policy) string {
				if p.Grace > bound.Grace {
					return fmt.Sprintf("%v is more than %v", p.Grace, bound.Grace)
				}
				return ""
			}},
		limitField("cpu_time", "cpu-time", fieldDuration, "CPU time of all processes together, in whole seconds", parseSeconds, func(p *Policy) *time.Duration { return &p.CPUTime }),
		limitField("memory", "memory", fieldSize, "memory of all processes together", ParseSize, func(p *Policy) *uint64 { return &p.Memory }),
		limitField("processes", "pids", fieldCount, "processes and threads", ParseCount, func(p *Policy) *uint64 { return &p.Pids }),
		limitField("cpus", "cpus", fieldDecimal, "seconds of CPU time per second", ParseCPUs, func(p *Policy) *float64 { return &p.CPUs }),
		limitField("disk", "disk", fieldSize, "all scratch together", ParseSize, func(p *Policy) *uint64 { return &p.Disk }),
		limitField("output", "output", fieldSize, "stdout and stderr together", ParseSize, func(p *Policy) *uint64 { return &p.Output }),
		limitField("nofile", "nofile", fieldCount, "open files of one process", ParseCount, func(p *Policy) *uint64 { return &p.Nofile }),
		limitField("fsize", "fsize", fieldSize, "size of one file; by default that of disk", ParseSize, func(p *Policy) *uint64 { return &p.Fsize }),
		limitField("net_connections", "net-connections", fieldCount, "connections of the network at once", parseInt, func(p *Policy) *int { return &p.NetLimits.Connections }),
		limitField("net_rate", "net-rate", fieldDecimal, "new connections per second", ParseRate, func(p *Policy) *float64 { return &p.NetLimits.Rate }),
		limitField("net_bytes_in", "net-bytes-in", fieldSize, "bytes that the command gets from the network", ParseSize, func(p *Policy) *uint64 { return &p.NetLimits.BytesIn }),
		limitField("net_bytes_out", "net-bytes-out", fieldSize, "bytes that the command sends to the network", ParseSize, func(p *Policy) *uint64 { return &p.NetLimits.BytesOut }),
		limitField("net_idle", "net-idle", fieldDuration, "how long a connection may carry nothing", ParseDuration, func(p *Policy) *time.Duration { return &p.NetLimits.Idle }),
		limitField("net_total", "net-total", fieldDuration, "how long a connection may last", ParseDuration, func(p *Policy) *time.Duration { return &p.NetLimits.Total }),

		{path: "syscalls.allow", flag: "allow-syscall", kind: fieldTexts, about: "system calls to allow beyond the built-in list",
			read: textsOf(func(p *Policy, text string) error {
				p.AllowSyscall = append(p.AllowSyscall, text)
				return knownCall(text)
			}),
			take:   func(p, from *Policy) { p.AllowSyscall = appendNew(p.AllowSyscall, from.AllowSyscall) },
			looser: func(p, bound *Policy) string { return foreign(p.AllowSyscall, bound.AllowSyscall) },
			bounds: func(p, ceiling *Policy, h Host) string {
				return cmp.Or(profileBeyond(p, ceiling, h), foreign(p.AllowSyscall, ceiling.AllowSyscall))
			}},
		{path: "syscalls.deny", flag: "deny-syscall", kind: fieldTexts, adds: true, about: "system calls to deny",
			read: textsOf(func(p *Policy, text string) error {
				p.DenySyscall = append(p.DenySyscall, text)
				return knownCall(text)
			}),
			take:   func(p, from *Policy) { p.DenySyscall = appendNew(p.DenySyscall, from.DenySyscall) },
			bounds: profileBeyond},
		{path: "syscalls.profile", flag: "seccomp", kind: fieldText, notWorkspace: true, about: "an OCI or Docker seccomp profile instead of the built-in list",
			read:   textOf(func(p *Policy, text string) error { p.SeccompFile = text; return nil }),
			take:   func(p, from *Policy) { p.SeccompFile = from.SeccompFile },
			bounds: profileBeyond},

		{path: "require", flag: "require", kind: fieldWords, words: layerNames(), adds: true, about: "layers without which the run fails",
			read: textsOf(func(p *Policy, text string) error {
				p.Require = append(p.Require, Layer(text))
				return oneOf(text, layerNames())
			}),
			take: func(p, from *Policy) { p.Require = appendNew(p.Require, from.Require) }},
		{path: "audit.required", kind: fieldBool, about: "a record that is synced to disk, or no run",
			read: textOf(func(p *Policy, text string) (err error) { p.AuditRequired, err = parseBool(text); return err }),
			take: func(p, from *Policy) { p.AuditRequired = from.AuditRequired },
			looser: func(p, bound *Policy) string {
				if bound.AuditRequired && !p.AuditRequired {
					return "false allows more than true"
				}
				return ""
			}},

		{path: "gate.window", kind: fieldDuration, notWorkspace: true, about: "count the runs of the last so long; without it all since the gate was cleared",
			read: textOf(func(p *Policy, text string) (err error) { p.Gate.Window, err = ParseDuration(text); return err }),
			take: func(p, from *Policy) { p.Gate.Window = from.Gate.Window },
			looser: func(p, bound *Policy) string {
				if p.Gate.Window != 0 && (bound.Gate.Window == 0 || p.Gate.Window < bound.Gate.Window) {
					return fmt.Sprintf("%v is a shorter time to count over than %s", p.Gate.Window, cmp.Or(bound.Gate.Window, 0))
				}
				return ""
			}},
		gateField("max_escape_attempts", fieldCount, "calls that no ordinary program makes, in sum", ParseCount, func(p *Policy) **uint64 { return &p.Gate.MaxEscapeAttempts }),
		gateField("max_limit_hits", fieldCount, "limits that were hit, in sum", ParseCount, func(p *Policy) **uint64 { return &p.Gate.MaxLimitHits }),
		gateField("max_teardown", fieldDuration, "the slowest teardown", ParseDuration, func(p *Policy) **time.Duration { return &p.Gate.MaxTeardown }),
		gateField("max_quarantined", fieldCount, "environments that could not be destroyed", ParseCount, func(p *Policy) **uint64 { return &p.Gate.MaxQuarantined }),

		{path: "labels", flag: "label", kind: fieldPairs, notWorkspace: true, notCeiling: true, about: "labels for the record: model, prompt, tool-schema version and the like",
			read: pairsOf(func(p *Policy, name, value string) error { p.Labels = append(p.Labels, name+"="+value); return nil }),
			take: func(p, from *Policy) { p.Labels = append(slices.Clip(p.Labels), from.Labels...) }},
	}
}

func knownCall(name string) error {
	_, err := seccomp.Number(name, runtime.GOARCH)
	return err
}

// parseSeconds is for CPU time, which the kernel counts in whole seconds (setrlimit(2)).
func parseSeconds(text string) (time.Duration, error) {
	d, err := ParseDuration(text)
	if err == nil && d%time.Second != 0 {
		err = errors.New("CPU time is counted in whole seconds")
	}
	return d, err
}

// modes are those of the workspace, from the tightest on.
func modes() []string {
	return []string{string(ModeNone), string(ModeReadOnly), string(ModeOverlay), string(ModeReadWrite)}
}

func layerNames() []string {
	names := []string{string(LayerCgroup)}
	for _, layer := range Layers() {
		names = append(names, string(layer))
	}
	slices.Sort(names)
	return names
}

// limitField is for what 0 lifts and a larger number loosens.
func limitField[T cmp.Ordered](name, flag string, kind fieldKind, about string, parse func(string) (T, error), of func(*Policy) *T) field {
	var none T
	return field{path: "limits." + name, flag: flag, kind: kind, about: about + "; 0 for no limit",
		read: textOf(func(p *Policy, text string) (err error) { *of(p), err = parse(text); return err }),
		take: func(p, from *Policy) { *of(p) = *of(from) },
		looser: func(p, bound *Policy) string {
			have, most := *of(p), *of(bound)
			switch {
			case most == none || have != none && have <= most:
				return ""
			case have == none:
				return "no limit is more than " + figure(most)
			}
			return figure(have) + " is more than " + figure(most)
		}}
}

func gateField[T cmp.Ordered](name string, kind fieldKind, about string, parse func(string) (T, error), of func(*Policy) **T) field {
	return field{path: "gate." + name, kind: kind, about: about + "; more closes the gate", notWorkspace: true,
		read: textOf(func(p *Policy, text string) error {
			n, err := parse(text)
			*of(p) = &n
			return err
		}),
		take: func(p, from *Policy) { *of(p) = *of(from) },
		looser: func(p, bound *Policy) string {
			have, most := *of(p), *of(bound)
			switch {
			case most == nil || have != nil && *have <= *most:
				return ""
			case have == nil:
				return "no threshold is more than " + figure(*most)
			}
			return figure(*have) + " is more than " + figure(*most)
		}}
}

// figure writes a number as a person would, for sizes with a unit.
func figure(n any) string {
	if size, ok := n.(uint64); ok && size >= kib && size%kib == 0 {
		return Size(size)
	}
	return fmt.Sprint(n)
}

func grantField(name, flag, about string, beyond func(p, ceiling *Policy, h Host) string) field {
	return field{path: "filesystem." + name, flag: flag, kind: fieldTexts, about: about + "; relative to the workspace",
		read: textsOf(func(p *Policy, text string) error {
			source, dest, err := ParseGrant(text)
			if err != nil {
				return err
			}
			p.addGrant(Grant{Flag: "--" + flag, Source: source, Dest: dest, Write: name == "write", Exec: name == "execute"})
			return nil
		}),
		take:   func(p, from *Policy) { p.takeGrants(from, name) },
		looser: func(p, bound *Policy) string { return grantsBeyond(p, bound, name) },
		bounds: beyond}
}

func inputField() field {
	f := grantField("input", "input", "P or P:DEST, as for read, that must not be writable under another name either", nil)
	f.notCeiling = true // filesystem.read says what may be shown
	return f
}

// addGrant makes one grant of a path that is to be both written and executed.
func (p *Policy) addGrant(g Grant) {
	for i := range p.Grants {
		if have := &p.Grants[i]; have.Source == g.Source && have.Dest == g.Dest && have.Flag != "--input" && g.Flag != "--input" {
			have.Write, have.Exec = have.Write || g.Write, have.Exec || g.Exec
			have.Flag = grantFlag(have.Write, have.Exec)
			return
		}
	}
	p.Grants = append(p.Grants, g)
}

func grantFlag(write, exec bool) string {
	switch {
	case write && exec:
		return "--rwx"
	case write:
		return "--rw"
	case exec:
		return "--rox"
	}
	return "--ro"
}

// takeGrants takes those that are listed under the named key first.
func (p *Policy) takeGrants(from *Policy, name string) {
	p.Grants = slices.Clone(p.Grants)
	for _, g := range from.Grants {
		if g.listed() == name {
			p.addGrant(g)
		}
	}
}

// listed is the key by which a grant is counted: one that is both in write.
func (g *Grant) listed() string {
	switch {
	case g.Flag == "--input":
		return "input"
	case g.Write:
		return "write"
	case g.Exec:
		return "execute"
	}
	return "read"
}
