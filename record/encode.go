package record

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Timestamp gives t as records have it: RFC 3339, UTC, to the millisecond.
func Timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// SignalName gives SIGSEGV and the like; a signal without a name is "signal 40".
func SignalName(s unix.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return s.String()
}

// signalNumber is the reverse of [SignalName], 0 for what is none.
func signalNumber(name string) int {
	if n := unix.SignalNum(name); n != 0 {
		return int(n)
	}
	text, found := strings.CutPrefix(name, "signal ")
	if n, err := strconv.Atoi(text); found && err == nil && n > 0 && n < 128 {
		return n
	}
	return 0
}

// SetArgv sets Argv, and ArgvBase64 when an argument is not UTF-8.
func (r *Result) SetArgv(argv []string) { r.Argv, r.ArgvBase64 = splitArgv(argv) }

func splitArgv(argv []string) (text, exact []string) {
	text = make([]string, len(argv))
	valid := true
	for i, a := range argv {
		text[i] = strings.ToValidUTF8(a, "\ufffd")
		valid = valid && utf8.ValidString(a)
	}
	if valid {
		return text, nil
	}
	exact = make([]string, len(argv))
	for i, a := range argv {
		exact[i] = base64.StdEncoding.EncodeToString([]byte(a))
	}
	return text, exact
}

// ExactArgv gives the arguments as they were, bytes that are not UTF-8 included.
func (r *Result) ExactArgv() ([]string, error) {
	if len(r.ArgvBase64) == 0 {
		return r.Argv, nil
	}
	argv := make([]string, len(r.ArgvBase64))
	for i, a := range r.ArgvBase64 {
		b, err := base64.StdEncoding.DecodeString(a)
		if err != nil {
			return nil, err
		}
		argv[i] = string(b)
	}
	return argv, nil
}

// AppendJSON appends r as one line of JSON, with the newline.
func (r *Result) AppendJSON(out []byte) []byte {
	e := &encoder{out: out}
	e.nest('{', '}', func() { r.encode(e) })
	return append(e.out, '\n')
}

// encode writes the fields in the order of the struct.
func (r *Result) encode(e *encoder) {
	e.signed("schema_version", SchemaVersion)
	e.text("run_id", r.RunID)
	e.textIf("idempotency_key", r.IdempotencyKey)
	e.text("version", r.Version)
	e.object("policy", func() { r.Policy.encode(e) })
	e.texts("argv", r.Argv)
	if len(r.ArgvBase64) > 0 {
		e.texts("argv_base64", r.ArgvBase64)
	}
	e.labels("labels", r.Labels)
	e.text("started_at", r.StartedAt)
	e.text("outcome", string(r.Outcome))
	if r.ExitCode != nil {
		e.signed("exit_code", int64(*r.ExitCode))
	}
	e.textIf("signal", r.Signal)
	e.signed("wall_ms", r.WallMS)
	e.object("usage", func() { r.Usage.encode(e) })
	e.object("layers", func() { r.Layers.encode(e) })
	e.list("limits", len(r.Limits), func(i int) { r.Limits[i].encode(e) })
	e.list("denials", len(r.Denials), func(i int) { r.Denials[i].encode(e) })
	e.object("counters", func() { r.Counters.encode(e) })
	e.object("network", func() { r.Network.encode(e) })
	e.object("workspace", func() { r.Workspace.encode(e) })
	if r.OutputDir != nil {
		e.object("output_dir", func() { r.OutputDir.encode(e) })
	}
	e.object("teardown", func() { r.Teardown.encode(e) })
	e.list("anomalies", len(r.Anomalies), func(i int) { r.Anomalies[i].encode(e) })
	e.list("findings", len(r.Findings), func(i int) { r.Findings[i].encode(e) })
	if r.Error != nil {
		e.object("error", func() { r.Error.encode(e) })
	}
}

func (p *Policy) encode(e *encoder) {
	e.text("name", p.Name)
	e.text("sha256", p.SHA256)
}

func (u *Usage) encode(e *encoder) {
	e.signed("cpu_user_ms", u.CPUUserMS)
	e.signed("cpu_system_ms", u.CPUSystemMS)
	e.count("max_rss_bytes", u.MaxRSSBytes)
	e.count("peak_memory_bytes", u.PeakMemoryBytes)
	e.count("peak_processes", u.PeakProcesses)
	e.count("stdout_bytes", u.StdoutBytes)
	e.count("stderr_bytes", u.StderrBytes)
	e.flag("truncated", u.Truncated)
}

func (l *Layers) encode(e *encoder) {
	e.texts("namespaces", l.Namespaces)
	e.object("landlock", func() {
		e.signed("abi", int64(l.Landlock.ABI))
		e.flag("enforced", l.Landlock.Enforced)
	})
	e.flag("seccomp", l.Seccomp)
	e.flag("rlimits", l.Rlimits)
	e.object("cgroup", func() {
		e.signed("version", int64(l.Cgroup.Version))
		e.texts("controllers", l.Cgroup.Controllers)
	})
	e.texts("missing", l.Missing)
}

func (l *Limit) encode(e *encoder) {
	e.text("name", l.Name)
	e.count("value", l.Value)
	e.text("unit", l.Unit)
	e.text("enforced_by", l.EnforcedBy)
	e.flag("triggered", l.Triggered)
}

func (d *Denial) encode(e *encoder) {
	e.text("layer", d.Layer)
	e.text("what", d.What)
	e.text("object", d.Object)
	e.count("count", d.Count)
	e.signed("first_ms", d.FirstMS)
	e.text("rule", d.Rule)
	e.text("fix", d.Fix)
}

func (c *Counters) encode(e *encoder) {
	e.count("escape_attempts", c.EscapeAttempts)
	e.count("limits_triggered", c.LimitsTriggered)
	e.count("denied_syscalls", c.DeniedSyscalls)
	e.count("denied_connections", c.DeniedConnections)
}

func (n *Network) encode(e *encoder) {
	e.text("mode", n.Mode)
	e.count("connections", n.Connections)
	e.count("failed", n.Failed)
	e.count("bytes_in", n.BytesIn)
	e.count("bytes_out", n.BytesOut)
}

func (w *Workspace) encode(e *encoder) {
	e.text("mode", w.Mode)
	e.count("added", w.Added)
	e.count("modified", w.Modified)
	e.count("deleted", w.Deleted)
	e.count("bytes", w.Bytes)
	e.text("hash", w.Hash)
}

func (o *OutputDir) encode(e *encoder) {
	e.text("path", o.Path)
	e.flag("delivered", o.Delivered)
	e.count("entries", o.Entries)
	e.count("bytes", o.Bytes)
}

func (t *Teardown) encode(e *encoder) {
	e.flag("destroyed", t.Destroyed)
	e.millis("duration_ms", t.DurationMS)
	e.texts("survivors", t.Survivors)
	e.flag("quarantined", t.Quarantined)
}

func (a *Anomaly) encode(e *encoder) {
	e.text("kind", a.Kind)
	e.text("object", a.Object)
	e.text("detail", a.Detail)
}

func (f *Finding) encode(e *encoder) {
	e.text("kind", f.Kind)
	e.text("object", f.Object)
	e.count("offset", f.Offset)
	e.count("length", f.Length)
}

func (f *Failure) encode(e *encoder) {
	e.text("step", f.Step)
	e.text("object", f.Object)
	e.text("errno", f.Errno)
	e.text("message", f.Message)
	e.text("hint", f.Hint)
}
