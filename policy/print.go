package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"gobox/landlock"
	"gobox/namespaces"
	"gobox/rlimit"
)

// WriteText writes the plan for a person to read: one line for everything that init will do, in order.
func (p *Plan) WriteText(w io.Writer) error {
	var out strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&out, "%-10s %s\n", name, Printable(fmt.Sprintf(format, args...)))
	}
	line("command", "%s", p.Exec.Path)
	for i, arg := range p.Exec.Argv {
		line("  argv["+strconv.Itoa(i)+"]", "%s", arg)
	}
	for _, kv := range p.Exec.shownEnv() {
		line("  env", "%s", kv)
	}
	line("  dir", "%s", p.Exec.Dir)
	id := p.Identity
	line("identity", "uid %d, gid %d; on the host uid %d, gid %d", id.UID, id.GID, id.HostUID, id.HostGID)
	line("hostname", "%s", p.Hostname)
	if p.Workspace.Mode == ModeNone {
		line("workspace", "none")
	} else {
		line("workspace", "%s (%s)", p.Workspace.Path, p.Workspace.Mode)
	}
	p.Network.writeText(line)
	if p.Output.Path != "" {
		line("output to", "%s, when the command exits", p.Output.Path)
	}
	line("timeout", "%s, then %s until it is killed", duration(p.Limits.Timeout), p.Limits.Grace)
	line("output", "%s", Size(p.Limits.Output))
	line("memory", "%s", Size(p.Limits.Memory))
	line("processes", "%s", countOf(p.Limits.Pids))
	line("cpu time", "%s", duration(p.Limits.CPUTime))
	if p.Limits.CPUs > 0 {
		line("cpus", "%v", p.Limits.CPUs)
	}
	for _, layer := range p.Missing {
		line("missing", "%s, accepted by --allow-missing", layer)
	}

	fmt.Fprintf(&out, "\nroot: tmpfs, %s, %s inodes\n", Size(p.Tree.Root.Size), countOf(p.Tree.Root.Inodes))
	places, details := 0, 0
	for _, s := range p.Tree.Steps {
		places = min(max(places, len(Printable(place(s)))), 60)
		details = min(max(details, len(detail(s))), 40)
	}
	for i, s := range p.Tree.Steps {
		fmt.Fprintf(&out, "%3d  %-9s %-*s  %-*s  %s\n", i, s.Op, places, Printable(place(s)), details, detail(s), Printable(s.Why))
	}

	if p.Landlock.ABI > 0 {
		fmt.Fprintf(&out, "\nlandlock: ABI %d, %d rules\n", p.Landlock.ABI, len(p.Landlock.Rules))
		for _, r := range p.Landlock.Rules {
			fmt.Fprintf(&out, "  %-28s %s\n", strings.Join(accessNames(r.Access), ","), Printable(r.Path))
		}
	}
	out.WriteString("\nlimits of the command's processes: soft, hard\n")
	for _, l := range p.Rlimits {
		fmt.Fprintf(&out, "  %-10s %-12s %-12s %s\n", l.Name(), limitText(l.Soft), limitText(l.Hard), l.Unit())
	}
	if len(p.Filter.BPF) > 0 || p.Filter.Name != "" {
		fmt.Fprintf(&out, "\nseccomp: %s, %d instructions, sha256 %s\n", Printable(p.Filter.Name), len(p.Filter.BPF)/bpfInstruction, filterHash(p))
	}
	for _, note := range p.Notes {
		line("note", "%s", note)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// bpfInstruction is the size of struct sock_filter (<linux/filter.h>), in bytes.
const bpfInstruction = 8

func filterHash(p *Plan) string {
	sum := sha256.Sum256(p.Filter.BPF)
	return hex.EncodeToString(sum[:])
}

// place names what a step makes, and from what when that is something else.
func place(s namespaces.Step) string {
	switch {
	case s.Op == namespaces.OpSymlink:
		return s.Target + " -> " + s.Source
	case s.Source != "" && s.Source != s.Target:
		return s.Target + " from " + s.Source
	}
	return s.Target
}

// detail gives the rest of a step in one word.
func detail(s namespaces.Step) string {
	var parts []string
	switch s.Op {
	case namespaces.OpBind, namespaces.OpOverlay, namespaces.OpTmpfs, namespaces.OpScratch, namespaces.OpOutput, namespaces.OpProc, namespaces.OpDevpts:
		parts = append(parts, s.Attr.String())
	case namespaces.OpFile:
		parts = append(parts, strconv.Itoa(len(s.Content))+"B")
	}
	if s.Mode != 0 {
		parts = append(parts, fmt.Sprintf("mode=%04o", s.Mode))
	}
	if s.Size != 0 {
		parts = append(parts, "size="+Size(s.Size))
	}
	if s.Owner != nil {
		parts = append(parts, fmt.Sprintf("owner=%d:%d", s.Owner.UID, s.Owner.GID))
	}
	if s.OnDisk {
		parts = append(parts, "on-disk")
	}
	if s.OrReadOnly {
		parts = append(parts, "or-ro")
	}
	if s.Optional {
		parts = append(parts, "optional")
	}
	return strings.Join(parts, ",")
}

func accessNames(a landlock.Access) []string {
	var names []string
	for _, n := range []struct {
		bit  landlock.Access
		name string
	}{
		{landlock.List, "list"}, {landlock.Read, "read"}, {landlock.Write, "write"}, {landlock.WriteExisting, "write-existing"},
		{landlock.Execute, "execute"}, {landlock.Ioctl, "ioctl"},
	} {
		if a&n.bit != 0 {
			names = append(names, n.name)
		}
	}
	return names
}

// Size writes a size, in bytes, with the largest unit that needs no fraction.
func Size(n uint64) string {
	if n == 0 {
		return "no size limit"
	}
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for n%1024 == 0 && i < len(units)-1 {
		n /= 1024
		i++
	}
	return strconv.FormatUint(n, 10) + units[i]
}

func countOf(n uint64) string {
	if n == 0 {
		return "unlimited"
	}
	return strconv.FormatUint(n, 10)
}

func duration(d time.Duration) string {
	if d == 0 {
		return "none"
	}
	return d.String()
}

func limitText(n uint64) string {
	if n == rlimit.Unlimited {
		return "unlimited"
	}
	return strconv.FormatUint(n, 10)
}
