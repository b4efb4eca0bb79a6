package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"gobox/policy"
	"gobox/record"
)

func (c *runs) showCommand() *cobra.Command {
	var events, stdout, stderr bool
	cmd := &cobra.Command{
		Use:   "show RUN",
		Short: "Show one run",
		Args:  oneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.with(cmd, func(s *record.Store, out io.Writer) error {
				id, err := s.Find(args[0])
				if err != nil {
					return err
				}
				switch {
				case stdout:
					return copyOutput(s, id, "stdout", out)
				case stderr:
					return copyOutput(s, id, "stderr", out)
				case events:
					return c.events(s, id, out)
				}
				return c.show(s, id, out)
			})
		},
	}
	cmd.Flags().BoolVar(&events, "events", false, "show its events")
	cmd.Flags().BoolVar(&stdout, "stdout", false, "print the captured stdout and nothing else")
	cmd.Flags().BoolVar(&stderr, "stderr", false, "print the captured stderr and nothing else")
	cmd.MarkFlagsMutuallyExclusive("events", "stdout", "stderr")
	c.addJSON(cmd)
	return cmd
}

func oneRun(cmd *cobra.Command, args []string) error {
	if len(args) == 1 {
		return nil
	}
	return &policy.Error{Step: "usage", Err: errors.New("one RUN is needed"), Hint: cmd.CommandPath() + " last takes the newest; gobox runs list shows all"}
}

func copyOutput(s *record.Store, id, name string, out io.Writer) error {
	there, err := s.Output(id, name, out)
	if err == nil && !there {
		return &policy.Error{Step: "show", Object: id, Err: fmt.Errorf("its %s was not captured", name), Hint: "gobox run --capture keeps the output"}
	}
	return err
}

func (c *runs) events(s *record.Store, id string, out io.Writer) error {
	events, whole, err := s.Events(id)
	if err != nil {
		return err
	}
	if c.json {
		return writeJSON(out, struct {
			SchemaVersion int            `json:"schema_version"`
			Events        []record.Event `json:"events"`
			Complete      bool           `json:"complete"`
		}{record.SchemaVersion, events, whole})
	}
	t := newTable(out, "MS", "EVENT", "WHAT")
	for _, ev := range events {
		var words []string
		for _, w := range []string{ev.Layer, ev.What, ev.Object, ev.Signal, string(ev.Outcome), ev.Detail} {
			if w != "" {
				words = append(words, w)
			}
		}
		if ev.ExitCode != nil {
			words = append(words, strconv.Itoa(*ev.ExitCode))
		}
		if ev.Count > 1 {
			words = append(words, fmt.Sprintf("(%d times)", ev.Count))
		}
		t.row(strconv.FormatFloat(ev.MS, 'f', 3, 64), string(ev.Kind), strings.Join(words, " "))
	}
	return t.flush()
}

func (c *runs) show(s *record.Store, id string, out io.Writer) error {
	e, err := s.Load(id)
	if err != nil {
		return err
	}
	if c.json {
		return writeJSON(out, e)
	}
	t := newTable(out)
	line := func(name, text string) {
		if text != "" {
			t.row(name+":", text)
		}
	}
	line("run", e.RunID)
	line("folder", s.Path()+"/runs/"+e.RunID)
	line("started", startedText(e))
	line("outcome", outcomeText(e))
	line("problem", e.Problem)
	line("policy", policyOf(e).Name)
	if q := e.Request; q != nil {
		line("workspace", strings.TrimSpace(q.Workspace+" "+q.WorkspaceMode))
		line("command", quoteArgv(q.Argv))
		for _, k := range slices.Sorted(maps.Keys(q.Labels)) {
			line("label", k+"="+q.Labels[k])
		}
		if e.Result == nil {
			line("process", strconv.Itoa(q.PID))
		}
	} else if e.Result != nil {
		line("command", quoteArgv(e.Result.Argv))
	}
	if e.Result != nil {
		showResult(e.Result, line)
	}
	return t.flush()
}

// memoryText leaves out what could not be measured.
func memoryText(u record.Usage) string {
	var known []string
	if u.PeakMemoryBytes > 0 {
		known = append(known, fmt.Sprintf("%d bytes at most", u.PeakMemoryBytes))
	}
	if u.MaxRSSBytes > 0 {
		known = append(known, fmt.Sprintf("the largest process %d bytes", u.MaxRSSBytes))
	}
	return strings.Join(known, ", ")
}

func showResult(r *record.Result, line func(name, text string)) {
	u := r.Usage
	line("wall", millis(float64(r.WallMS)))
	line("cpu", fmt.Sprintf("%s user, %s system", millis(float64(u.CPUUserMS)), millis(float64(u.CPUSystemMS))))
	line("memory", memoryText(u))
	output := fmt.Sprintf("%d bytes on stdout, %d on stderr", u.StdoutBytes, u.StderrBytes)
	if u.Truncated {
		output += ", some of it dropped"
	}
	line("output", output)
	line("missing", strings.Join(r.Layers.Missing, " "))
	for _, l := range r.Limits {
		if l.Triggered {
			line("limit", fmt.Sprintf("%s of %d %s reached, by %s", l.Name, l.Value, l.Unit, l.EnforcedBy))
		}
	}
	for _, d := range r.Denials {
		line("denied", fmt.Sprintf("%s %s %s, %d times; %s", d.Layer, d.What, d.Object, d.Count, d.Fix))
	}
	if n := r.Counters.EscapeAttempts; n > 0 {
		line("escapes", fmt.Sprintf("%d calls that no ordinary program makes", n))
	}
	w := r.Workspace
	if w.Added+w.Modified+w.Deleted > 0 {
		line("changes", fmt.Sprintf("%d added, %d modified, %d deleted, %d bytes, hash %s", w.Added, w.Modified, w.Deleted, w.Bytes, w.Hash))
	}
	for _, a := range r.Anomalies {
		line("anomaly", a.Kind+" "+a.Object+": "+a.Detail)
	}
	for _, f := range r.Findings {
		line("finding", fmt.Sprintf("%s in %s at %d, %d bytes", f.Kind, f.Object, f.Offset, f.Length))
	}
	teardown := "all destroyed after "
	if !r.Teardown.Destroyed {
		teardown = "not all destroyed after "
	}
	teardown += millis(r.Teardown.DurationMS)
	if len(r.Teardown.Survivors) > 0 {
		teardown += ", left: " + strings.Join(r.Teardown.Survivors, ", ")
	}
	line("teardown", teardown)
	if r.Error != nil {
		line("error", strings.TrimSpace(r.Error.Step+" "+r.Error.Object)+": "+r.Error.Message)
	}
}

// quoteArgv writes the arguments so that a reader sees where each begins.
func quoteArgv(argv []string) string {
	words := make([]string, len(argv))
	for i, a := range argv {
		words[i] = a
		if a == "" || strings.ContainsAny(a, " \t\n\"'\\$`*?[]{}()<>|&;#~!") {
			words[i] = strconv.Quote(a)
		}
	}
	return strings.Join(words, " ")
}
