package record

import "time"

// Kind is what an event is about. Kinds are only ever added.
type Kind string

const (
	Prepared  Kind = "prepared"   // the plan is made, nothing was started
	Started   Kind = "started"    // the command was executed
	Denied    Kind = "denial"     // a layer refused something
	LimitHit  Kind = "limit"      // a limit was reached
	Connected Kind = "connection" // a connection of the command's ended or was refused, or a name was
	Signalled Kind = "signal"     // gobox got or sent a signal
	Ended     Kind = "ended"      // the command ended
	Destroyed Kind = "destroyed"  // nothing of the sandbox is left, or what is left was quarantined
	Replayed  Kind = "replayed"   // nothing was run: the run of RunID answers for the idempotency key
)

// Sent is the What of a signal of gobox's own, by which it ends the command. Without it, gobox got the signal.
const Sent = "sent"

// Event is one line of events.jsonl and of --status-fd. Fields that are empty are left out.
type Event struct {
	MS     float64 `json:"ms"`               // since the record was opened, by the monotonic clock; set by the writer
	Time   string  `json:"time,omitempty"`   // wall clock, in the first event only; set by the writer
	RunID  string  `json:"run_id,omitempty"` // set by the writer
	Kind   Kind    `json:"kind"`
	Layer  string  `json:"layer,omitempty"`  // of a denial
	What   string  `json:"what,omitempty"`   // the call, limit or step
	Object string  `json:"object,omitempty"` // what it was about
	Count  uint64  `json:"count,omitempty"`  // how often, 0 for once
	// PID is on the host.
	PID      uint64  `json:"pid,omitempty"`
	Signal   string  `json:"signal,omitempty"`
	Outcome  Outcome `json:"outcome,omitempty"`
	ExitCode *int    `json:"exit_code,omitempty"`
	Detail   string  `json:"detail,omitempty"`
	// Of a connection. Object is the host and port that the command asked for.
	Address    string  `json:"address,omitempty"` // that was dialled for it
	Via        string  `json:"via,omitempty"`     // transparent, connect, socks5, http
	Verdict    string  `json:"verdict,omitempty"` // allowed, refused, failed, limit
	Rule       string  `json:"rule,omitempty"`    // that allowed it
	Fix        string  `json:"fix,omitempty"`     // the flag that would
	BytesIn    uint64  `json:"bytes_in,omitempty"`
	BytesOut   uint64  `json:"bytes_out,omitempty"`
	DurationMS float64 `json:"duration_ms,omitempty"`
}

const (
	// maxLine is PIPE_BUF: a line that long goes into a pipe whole or not at all (pipe(7)).
	maxLine = 4096
	// maxText bounds each text of an event, which the command may have chosen. Escaped it can be six times as
	// long, and so a line that is too long for that is written again with short texts.
	maxText   = 1024
	shortText = 64
)

// appendLine appends ev as one line of at most maxLine bytes.
func (ev *Event) appendLine(out []byte) []byte {
	line := ev.append(out, maxText)
	if len(line)-len(out) > maxLine {
		line = ev.append(out, shortText)
	}
	return line
}

func (ev *Event) append(out []byte, limit int) []byte {
	e := &encoder{out: out}
	text := func(name, s string) {
		if len(s) > limit {
			s = s[:limit] + "..."
		}
		e.textIf(name, s)
	}
	e.nest('{', '}', func() {
		e.millis("ms", ev.MS)
		text("time", ev.Time)
		text("run_id", ev.RunID)
		text("kind", string(ev.Kind))
		text("layer", ev.Layer)
		text("what", ev.What)
		text("object", ev.Object)
		e.countIf("count", ev.Count)
		e.countIf("pid", ev.PID)
		text("signal", ev.Signal)
		text("outcome", string(ev.Outcome))
		if ev.ExitCode != nil {
			e.signed("exit_code", int64(*ev.ExitCode))
		}
		text("detail", ev.Detail)
		text("address", ev.Address)
		text("via", ev.Via)
		text("verdict", ev.Verdict)
		text("rule", ev.Rule)
		text("fix", ev.Fix)
		e.countIf("bytes_in", ev.BytesIn)
		e.countIf("bytes_out", ev.BytesOut)
		if ev.DurationMS > 0 {
			e.millis("duration_ms", ev.DurationMS)
		}
	})
	return append(e.out, '\n')
}

// clock gives the time since its start, which a change of the wall clock does not move.
type clock struct{ start time.Time }

func (c clock) ms() float64 { return float64(time.Since(c.start).Microseconds()) / 1000 }
