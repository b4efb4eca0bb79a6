package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"gobox/policy"
	"gobox/record"
)

// runsCommand is the branch of commands that read what runs left on record.
func runsCommand(status *int) *cobra.Command {
	c := &runs{status: status}
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "Look at the records of runs, count over them, and clean up",
		Long: `Look at the records of runs, count over them, and clean up.

Records are below $XDG_STATE_HOME/gobox or ~/.local/state/gobox, or below the folder that --audit names. A RUN is a
run id, the beginning of exactly one, or the word last.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return &policy.Error{Step: "usage", Err: errors.New("no command given"), Hint: "gobox runs list, show RUN, stats, gate or gc; gobox runs --help says more"}
		},
	}
	cmd.PersistentFlags().VarP(word(&c.audit, "DIR", ""), "audit", "", "read the records below this folder")
	cmd.AddCommand(c.listCommand(), c.showCommand(), c.statsCommand(), c.gateCommand(), c.gcCommand())
	return cmd
}

// runs is what the commands have in common.
type runs struct {
	status *int
	audit  string
	json   bool
	since  time.Time
	limit  uint64
}

// state is the state directory that the flags and the environment name.
func (c *runs) state() (string, error) {
	if c.audit != "" {
		return c.audit, nil
	}
	return record.StateDir(os.Getenv)
}

// with runs do on the records and turns its error into the exit status.
func (c *runs) with(cmd *cobra.Command, do func(s *record.Store, out io.Writer) error) error {
	state, err := c.state()
	if err != nil {
		return recordError(err)
	}
	s, err := record.OpenStore(state)
	if err != nil {
		return recordError(err)
	}
	defer s.Close()
	return recordError(do(s, cmd.OutOrStdout()))
}

func (c *runs) addJSON(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.json, "json", false, "print JSON")
}

func (c *runs) addQuery(cmd *cobra.Command, limit string) {
	c.limit, _ = strconv.ParseUint(limit, 10, 32)
	cmd.Flags().Var(&value{kind: "D", parse: func(text string) (err error) {
		c.since, err = parseSince(text, time.Now())
		return err
	}}, "since", "only runs since then: 90m, 24h, 7d, or a time such as 2026-11-29T13:00:00Z")
	cmd.Flags().Var(count(&c.limit, limit), "limit", "only the newest N runs, 0 for all")
}

func (c *runs) query() record.Query {
	return record.Query{Since: c.since, Limit: int(min(c.limit, 1<<30))}
}

// parseSince reads a span of time before now, or a time.
func parseSince(text string, now time.Time) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	d, err := parseAge(text)
	if err != nil {
		return time.Time{}, err
	}
	return now.Add(-d), nil
}

// parseAge reads a time before now.
func parseAge(text string) (time.Duration, error) {
	age, err := policy.ParseDuration(text)
	if err != nil {
		err = errors.New("is no time: such as 30s, 12h, or 7d")
	}
	return age, err
}

func (c *runs) listCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List runs, newest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.with(cmd, c.list)
		},
	}
	c.addQuery(cmd, "20")
	c.addJSON(cmd)
	return cmd
}

func (c *runs) list(s *record.Store, out io.Writer) error {
	entries := []record.Entry{}
	err := s.Walk(c.query(), func(e record.Entry) bool {
		entries = append(entries, e)
		return true
	})
	if err != nil {
		return err
	}
	if c.json {
		return writeJSON(out, struct {
			SchemaVersion int            `json:"schema_version"`
			State         string         `json:"state_dir"`
			Runs          []record.Entry `json:"runs"`
		}{record.SchemaVersion, s.Path(), entries})
	}
	t := newTable(out, "RUN", "STARTED", "OUTCOME", "WALL", "POLICY", "COMMAND")
	for _, e := range entries {
		t.row(e.RunID, startedText(e), outcomeText(e), wallText(e), policyOf(e).Name, commandText(e))
	}
	return t.flush()
}

func startedText(e record.Entry) string {
	if e.Started.IsZero() {
		return "-"
	}
	return e.Started.Local().Format("2006-01-02 15:04:05")
}

// outcomeText is how the run ended, or why nobody knows.
func outcomeText(e record.Entry) string {
	if e.State != record.Finished {
		return string(e.State)
	}
	r := e.Result
	text := string(r.Outcome)
	switch {
	case r.Outcome == record.Signaled && r.Signal != "":
		text += " " + r.Signal
	case r.ExitCode != nil:
		text += " " + strconv.Itoa(*r.ExitCode)
	}
	return text
}

func wallText(e record.Entry) string {
	if e.Result == nil {
		return "-"
	}
	return millis(float64(e.Result.WallMS))
}

func policyOf(e record.Entry) record.Policy {
	switch {
	case e.Result != nil:
		return e.Result.Policy
	case e.Request != nil:
		return e.Request.Policy
	}
	return record.Policy{Name: "-"}
}

// commandText is the command on one line of bounded length, or the problem with its record.
func commandText(e record.Entry) string {
	argv := []string{}
	switch {
	case e.Problem != "":
		argv = []string{"(" + e.Problem + ")"}
	case e.Result != nil:
		argv = e.Result.Argv
	case e.Request != nil:
		argv = e.Request.Argv
	}
	text := strings.Join(argv, " ")
	if r := []rune(text); len(r) > 80 {
		text = string(r[:77]) + "..."
	}
	return text
}

func millis(ms float64) string {
	return (time.Duration(ms*1000) * time.Microsecond).String()
}

// table aligns columns; what it is given may come from a command and is made harmless.
type table struct{ w *tabwriter.Writer }

func newTable(out io.Writer, head ...string) table {
	t := table{tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
	if len(head) > 0 {
		t.row(head...)
	}
	return t
}

func (t table) row(cells ...string) {
	for i, c := range cells {
		cells[i] = policy.Printable(c)
	}
	fmt.Fprintln(t.w, strings.Join(cells, "\t"))
}

func (t table) flush() error { return t.w.Flush() }

func writeJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
