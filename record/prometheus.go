package record

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// WritePrometheus writes the figures in the text format of Prometheus, version 0.0.4. They are gauges: records are
// removed in time, and then the figures fall.
func (st *Stats) WritePrometheus(w io.Writer) error {
	p := &exposition{}
	p.head("gobox_runs", "gauge", "Finished runs on record by outcome.")
	for _, o := range slices.Sorted(maps.Keys(st.Outcomes)) {
		p.sample("gobox_runs", float64(st.Outcomes[o]), "outcome", string(o))
	}
	p.one("gobox_runs_running", "Runs that have not ended.", st.Running)
	p.one("gobox_runs_crashed", "Runs whose gobox was killed.", st.Crashed)
	p.one("gobox_runs_unreadable", "Records that cannot be read.", st.Unreadable)
	p.one("gobox_escape_attempts", "Calls that no ordinary program makes, over the runs on record.", st.Counters.EscapeAttempts)
	p.one("gobox_denied_syscalls", "System calls refused, over the runs on record.", st.Counters.DeniedSyscalls)
	p.one("gobox_denied_connections", "Connections refused, over the runs on record.", st.Counters.DeniedConnections)
	p.one("gobox_limits_triggered", "Limits reached, over the runs on record.", st.Counters.LimitsTriggered)
	p.head("gobox_runs_limited", "gauge", "Runs that reached a limit, by limit.")
	for _, l := range slices.Sorted(maps.Keys(st.Limits)) {
		p.sample("gobox_runs_limited", float64(st.Limits[l]), "limit", l)
	}
	p.quantiles("gobox_teardown_duration_seconds", "Time from the end of the command until nothing was left.", st.Teardown)
	p.quantiles("gobox_run_duration_seconds", "Wall clock of the command.", st.Wall)
	p.one("gobox_runs_with_survivors", "Runs of which something was left.", st.Survivors)
	p.one("gobox_quarantined", "Environments that could not be destroyed.", st.Quarantined)
	_, err := io.WriteString(w, p.out.String())
	return err
}

type exposition struct{ out strings.Builder }

func (p *exposition) head(name, kind, help string) {
	fmt.Fprintf(&p.out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

func (p *exposition) one(name, help string, n uint64) {
	p.head(name, "gauge", help)
	p.sample(name, float64(n))
}

// sample writes one line; labels are names and values in turn.
func (p *exposition) sample(name string, v float64, labels ...string) {
	p.out.WriteString(name)
	for i := 0; i+1 < len(labels); i += 2 {
		sep := byte(',')
		if i == 0 {
			sep = '{'
		}
		p.out.WriteByte(sep)
		value := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(strings.ToValidUTF8(labels[i+1], "\ufffd"))
		p.out.WriteString(labels[i] + `="` + value + `"`)
	}
	if len(labels) > 0 {
		p.out.WriteByte('}')
	}
	p.out.WriteString(" " + strconv.FormatFloat(v, 'g', -1, 64) + "\n")
}

func (p *exposition) quantiles(name, help string, q Quantiles) {
	p.head(name, "summary", help)
	if q.Count > 0 {
		for _, at := range []struct {
			label string
			ms    float64
		}{{"0.5", q.P50}, {"0.9", q.P90}, {"0.99", q.P99}, {"1", q.Max}} {
			p.sample(name, at.ms/1000, "quantile", at.label)
		}
	}
	p.sample(name+"_sum", q.Sum/1000)
	p.sample(name+"_count", float64(q.Count))
}
