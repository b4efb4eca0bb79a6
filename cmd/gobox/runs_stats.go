package main

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"gobox/record"
)

func (c *runs) statsCommand() *cobra.Command {
	prometheus := false
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Count over many runs",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.with(cmd, func(s *record.Store, out io.Writer) error {
				st, err := s.Stats(c.query())
				switch {
				case err != nil:
					return err
				case prometheus:
					return st.WritePrometheus(out)
				case c.json:
					return writeJSON(out, struct {
						SchemaVersion int `json:"schema_version"`
						record.Stats
					}{record.SchemaVersion, st})
				}
				return writeStats(out, st)
			})
		},
	}
	c.addQuery(cmd, "0")
	c.addJSON(cmd)
	cmd.Flags().BoolVar(&prometheus, "prometheus", false, "print the text format of Prometheus")
	cmd.MarkFlagsMutuallyExclusive("json", "prometheus")
	return cmd
}

func writeStats(out io.Writer, st record.Stats) error {
	t := newTable(out)
	number := func(name string, n uint64) { t.row(name, fmt.Sprint(n)) }
	number("runs", st.Runs)
	for _, o := range slices.Sorted(maps.Keys(st.Outcomes)) {
		number("  "+string(o), st.Outcomes[o])
	}
	number("  running", st.Running)
	number("  crashed", st.Crashed)
	number("unreadable records", st.Unreadable)
	number("escape attempts", st.Counters.EscapeAttempts)
	number("denied system calls", st.Counters.DeniedSyscalls)
	number("denied connections", st.Counters.DeniedConnections)
	number("limits reached", st.Counters.LimitsTriggered)
	for _, l := range slices.Sorted(maps.Keys(st.Limits)) {
		number("  "+l, st.Limits[l])
	}
	number("runs with survivors", st.Survivors)
	number("quarantined", st.Quarantined)
	for _, q := range []struct {
		name string
		q    record.Quantiles
	}{{"teardown", st.Teardown}, {"wall", st.Wall}} {
		t.row(q.name, fmt.Sprintf("p50 %s  p90 %s  p99 %s  max %s", millis(q.q.P50), millis(q.q.P90), millis(q.q.P99), millis(q.q.Max)))
	}
	return t.flush()
}
