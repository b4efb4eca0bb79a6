package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"gobox/landlock"
	"gobox/namespaces"
	"gobox/policy"
	"gobox/rlimit/cgroup"
)

// effective is a whole policy as it applies here.
type effective struct {
	SchemaVersion int               `json:"schema_version"`
	Policy        string            `json:"policy"`
	Sources       []string          `json:"sources"`
	Command       []string          `json:"command"`
	Executable    string            `json:"executable"`
	Directory     string            `json:"directory"`
	User          string            `json:"user"`
	Workspace     string            `json:"workspace"`
	WorkspaceMode string            `json:"workspace_mode"`
	Paths         []place           `json:"paths"`
	Hidden        []string          `json:"hidden"`
	Network       string            `json:"network"`
	Environment   []string          `json:"environment"` // names
	Limits        []limitLine       `json:"limits"`
	Layers        []layerLine       `json:"layers"`
	Record        string            `json:"record"`
	Gate          map[string]string `json:"gate,omitempty"`
	Labels        map[string]string `json:"labels,omitempty"`
	Notes         []string          `json:"notes,omitempty"`
}

type place struct {
	Path   string `json:"path"`
	From   string `json:"from,omitempty"`
	Access string `json:"access"`
	Why    string `json:"why"`
}

type limitLine struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	By    string `json:"enforced_by"`
}

type layerLine struct {
	Name  string `json:"name"`
	State string `json:"state"`
}

func explainAll(out io.Writer, p policy.Policy, sources []string, plan *policy.Plan, asJSON bool) error {
	e := effectiveOf(p, sources, plan)
	if asJSON {
		return writeJSON(out, e)
	}
	t := newTable(out)
	t.row("policy", e.Policy+" ("+strings.Join(sources, " <- ")+")")
	t.row("command", strings.Join(e.Command, " ")+" ("+e.Executable+")")
	t.row("directory", e.Directory)
	t.row("user", e.User)
	workspace := "none"
	if e.Workspace != "" {
		workspace = e.Workspace + " (" + e.WorkspaceMode + ")"
	}
	t.row("workspace", workspace)
	t.row("network", e.Network)
	t.row("environment", strings.Join(e.Environment, " "))
	t.row("record", e.Record)
	for _, name := range []string{"window", "max_escape_attempts", "max_limit_hits", "max_teardown", "max_quarantined"} {
		if v, ok := e.Gate[name]; ok {
			t.row("gate", name+" "+v)
		}
	}
	if err := t.flush(); err != nil {
		return err
	}
	for _, part := range []struct {
		title string
		rows  func(table)
	}{
		{"what it sees; everything else is not there", func(t table) {
			for _, v := range e.Paths {
				from := ""
				if v.From != "" {
					from = " from " + v.From
				}
				t.row("  "+v.Access, v.Path+from, v.Why)
			}
			for _, path := range e.Hidden {
				t.row("  hidden", path, "--deny")
			}
		}},
		{"limits", func(t table) {
			for _, l := range e.Limits {
				t.row("  "+l.Name, l.Value, l.By)
			}
		}},
		{"layers", func(t table) {
			for _, l := range e.Layers {
				t.row("  "+l.Name, l.State)
			}
		}},
	} {
		if _, err := fmt.Fprintf(out, "\n%s\n", part.title); err != nil {
			return err
		}
		t := newTable(out)
		part.rows(t)
		if err := t.flush(); err != nil {
			return err
		}
	}
	for _, note := range e.Notes {
		if _, err := fmt.Fprintf(out, "\nnote: %s\n", policy.Printable(note)); err != nil {
			return err
		}
	}
	return nil
}

func effectiveOf(p policy.Policy, sources []string, plan *policy.Plan) effective {
	id := plan.Identity
	e := effective{
		SchemaVersion: 1, Policy: p.Name, Sources: sources, Command: plan.Exec.Argv, Executable: plan.Exec.Path, Directory: plan.Exec.Dir,
		User:      fmt.Sprintf("uid %d, gid %d; on the host uid %d, gid %d; no capabilities", id.UID, id.GID, id.HostUID, id.HostGID),
		Workspace: plan.Workspace.Path, WorkspaceMode: string(plan.Workspace.Mode),
		Hidden: []string{}, Network: plan.Network.String(), Limits: limitLines(plan), Layers: layerLines(plan),
		Record: "kept where there is a place for it", Labels: policy.LabelsOf(p.Labels), Notes: plan.Notes,
	}
	if p.AuditRequired {
		e.Record = "required, synced to disk"
	}
	e.Gate = gateLines(p)
	for _, kv := range plan.Exec.Env {
		name, _, _ := strings.Cut(kv, "=")
		e.Environment = append(e.Environment, name)
	}
	e.addPlaces(plan)
	return e
}

// addPlaces leaves out what every sandbox makes of its own, but for a line.
func (e *effective) addPlaces(plan *policy.Plan) {
	etc := 0
	for _, s := range plan.Tree.Steps {
		switch {
		case s.Op == namespaces.OpMask && s.Why == "--deny":
			e.Hidden = append(e.Hidden, s.Target)
		case strings.HasPrefix(s.Target, "/etc/"):
			etc++
		case s.Op == namespaces.OpBind, s.Op == namespaces.OpOverlay, s.Op == namespaces.OpTmpfs, s.Op == namespaces.OpScratch, s.Op == namespaces.OpOutput:
			access := "read"
			if s.Attr&namespaces.ReadOnly == 0 {
				access += ",write"
			}
			if s.Attr&namespaces.NoExec == 0 {
				access += ",execute"
			}
			v := place{Path: s.Target, Access: access, Why: s.Why}
			if s.Source != s.Target {
				v.From = s.Source
			}
			if s.Op == namespaces.OpOverlay {
				v.Why += ", writes are kept apart"
			}
			e.Paths = append(e.Paths, v)
		}
	}
	e.Paths = append(e.Paths,
		place{Path: "/etc", Access: "read", Why: strconv.Itoa(etc) + " entries, made up or harmless"},
		place{Path: "/proc", Access: "read", Why: "a new one, of the sandbox's processes only"},
		place{Path: "/dev", Access: "read,write", Why: "null, zero, full, random, urandom, pts, shm"})
}

func limitLines(plan *policy.Plan) []limitLine {
	l := plan.Limits
	support := cgroup.Detect()
	can := support.Enforceable(cgroup.Limits{Memory: l.Memory, Pids: l.Pids, CPUs: l.CPUs})
	by := func(cgroup bool, other string) string {
		if cgroup {
			return "cgroup"
		}
		return other
	}
	var lines []limitLine
	add := func(name, value string, set bool, by string) {
		if !set {
			value, by = "none", ""
		}
		lines = append(lines, limitLine{name, value, by})
	}
	add("timeout", fmt.Sprintf("%v, then %v until KILL", l.Timeout, l.Grace), l.Timeout > 0, "supervisor, init")
	add("cpu_time", l.CPUTime.String(), l.CPUTime > 0, "rlimit, supervisor")
	add("memory", policy.Size(l.Memory), l.Memory > 0, by(can.Memory > 0, "rlimit, init's watch"))
	add("processes", strconv.FormatUint(l.Pids, 10), l.Pids > 0, by(can.Pids > 0, "rlimit"))
	add("cpus", strconv.FormatFloat(l.CPUs, 'f', -1, 64), l.CPUs > 0, by(can.CPUs > 0, "nothing here: the run will be refused"))
	add("disk", policy.Size(plan.Tree.Root.Size), plan.Tree.Root.Size > 0, "tmpfs")
	add("output", policy.Size(l.Output), l.Output > 0, "supervisor")
	for _, text := range plan.Network.LimitTexts() {
		lines = append(lines, limitLine{"network", text, "supervisor"})
	}
	for _, r := range plan.Rlimits {
		if r.Name() == "nofile" || r.Name() == "fsize" {
			text := strconv.FormatUint(r.Soft, 10)
			if r.Unit() == "bytes" {
				text = policy.Size(r.Soft)
			}
			add(r.Name(), text, r.Soft != ^uint64(0), "rlimit")
		}
	}
	return lines
}

func layerLines(plan *policy.Plan) []layerLine {
	var lines []layerLine
	missing := map[policy.Layer]bool{}
	for _, l := range plan.Missing {
		missing[l] = true
	}
	add := func(l policy.Layer, state string) {
		if missing[l] {
			state = "missing, accepted by --allow-missing"
		}
		lines = append(lines, layerLine{string(l), state})
	}
	add(policy.LayerNamespaces, strings.Join(namespacesOf(plan), ", "))
	state := "ABI " + strconv.Itoa(plan.Landlock.ABI)
	if gaps := landlock.Gaps(plan.Landlock.ABI); len(gaps) > 0 {
		state += "; " + strings.Join(gaps, "; ")
	}
	add(policy.LayerLandlock, state)
	add(policy.LayerSeccomp, plan.Filter.Name)
	add(policy.LayerRlimits, strconv.Itoa(len(plan.Rlimits))+" limits")
	support := cgroup.Detect()
	state = "none to be had; limits are enforced by the next best means"
	if c := support.Controllers(); len(c) > 0 {
		state = "version " + strconv.Itoa(support.Version) + ": " + strings.Join(c, ", ")
	}
	add(policy.LayerCgroup, state)
	return lines
}

func gateLines(p policy.Policy) map[string]string {
	gate := map[string]string{}
	number := func(name string, n *uint64) {
		if n != nil {
			gate[name] = strconv.FormatUint(*n, 10)
		}
	}
	span := func(name string, d *time.Duration) {
		if d != nil && *d > 0 {
			gate[name] = d.String()
		}
	}
	number("max_escape_attempts", p.Gate.MaxEscapeAttempts)
	number("max_limit_hits", p.Gate.MaxLimitHits)
	number("max_quarantined", p.Gate.MaxQuarantined)
	span("max_teardown", p.Gate.MaxTeardown)
	if len(gate) > 0 {
		span("window", &p.Gate.Window)
	}
	if len(gate) == 0 {
		return nil
	}
	return gate
}
