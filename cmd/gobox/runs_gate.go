package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"gobox/policy"
	"gobox/record"
)

func (c *runs) gateCommand() *cobra.Command {
	g := gate{}
	cmd := &cobra.Command{
		Use:   "gate",
		Short: "Show whether runs may start, or open a closed gate",
		Long: `Show the gates that closed, and where the figures stand. A gate closes when the runs of a policy exceed what its gate
allows, and stays closed until --clear. With --policy FILE, or one that is built in, the figures are held to what its gate and that of the
host's ceiling allow, as for the next run. The exit status is 1 when a gate is closed, or a figure exceeds what a flag or the policy allows.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if g.clear && (g.policy != "" || g.limits != record.Thresholds{}) {
				return &policy.Error{
					Step: "usage", Object: "--clear", Err: errors.New("opens the gates of all policies, and takes no figures"), Hint: "gobox runs gate --clear",
				}
			}
			if g.clear {
				state, err := c.state()
				if err == nil {
					err = record.ClearGates(state, time.Now())
				}
				return recordError(err)
			}
			if err := g.of(); err != nil {
				return err
			}
			return c.with(cmd, func(s *record.Store, out io.Writer) error { return c.gate(s, out, g) })
		},
	}
	f := cmd.Flags()
	f.BoolVar(&g.clear, "clear", false, "open all gates; what happened until now counts no longer")
	f.Var(word(&g.policy, "NAME|FILE", ""), "policy", "only count the runs of this policy, and hold them to its gate")
	f.Var(&value{kind: "D", parse: parsed(&g.limits.Window, parseAge)}, "window", "count the runs of the last D, such as 1h or 7d")
	f.Var(&value{kind: "N", parse: optional(&g.limits.MaxEscapeAttempts, policy.ParseCount)}, "max-escape-attempts", "allow so many")
	f.Var(&value{kind: "N", parse: optional(&g.limits.MaxLimitHits, policy.ParseCount)}, "max-limit-hits", "allow so many")
	f.Var(&value{kind: "D", parse: optional(&g.limits.MaxTeardown, policy.ParseDuration)}, "max-teardown", "allow a teardown to take so long")
	f.Var(&value{kind: "N", parse: optional(&g.limits.MaxQuarantined, policy.ParseCount)}, "max-quarantined", "allow so many")
	c.addJSON(cmd)
	return cmd
}

type gate struct {
	clear  bool
	policy string
	limits record.Thresholds
}

// of takes what no flag says from the policy that --policy names. One that is no file and not built in is a name on record only.
func (g *gate) of() error {
	if !policy.IsFile(g.policy) && !slices.Contains(policy.BuiltinNames(), g.policy) {
		return nil
	}
	c, err := policy.Combine(policy.Request{
		Named: g.policy, Flags: policy.Default(), Changed: func(string) bool { return false },
		NoWorkspaceFile: true, Ceiling: policy.CeilingFile, Host: policy.CurrentHost(),
	})
	if err != nil {
		return err
	}
	t := thresholds(c.Policy)
	g.policy = c.Policy.Name
	g.limits = record.Thresholds{
		Window:            cmp.Or(g.limits.Window, t.Window),
		MaxEscapeAttempts: cmp.Or(g.limits.MaxEscapeAttempts, t.MaxEscapeAttempts),
		MaxLimitHits:      cmp.Or(g.limits.MaxLimitHits, t.MaxLimitHits),
		MaxTeardown:       cmp.Or(g.limits.MaxTeardown, t.MaxTeardown),
		MaxQuarantined:    cmp.Or(g.limits.MaxQuarantined, t.MaxQuarantined),
	}
	return nil
}

func optional[T any](to **T, parse func(string) (T, error)) func(string) error {
	return func(text string) error {
		got, err := parse(text)
		if err == nil {
			*to = &got
		}
		return err
	}
}

func (c *runs) gate(s *record.Store, out io.Writer, g gate) error {
	gates, err := s.Gates()
	if err != nil {
		return err
	}
	open, figures, err := s.Evaluate(g.policy, g.limits, time.Now())
	if err != nil {
		return err
	}
	for name := range gates.Closed {
		if g.policy == "" || g.policy == name {
			open = false
		} else {
			delete(gates.Closed, name)
		}
	}
	if !open {
		*c.status = 1
	}
	if c.json {
		return writeJSON(out, struct {
			record.Gates
			Open    bool            `json:"open"`
			Figures []record.Figure `json:"figures"`
		}{gates, open, figures})
	}
	t := newTable(out)
	word := "open"
	if !open {
		word = "closed"
	}
	t.row("gate", word)
	for _, name := range slices.Sorted(maps.Keys(gates.Closed)) {
		closure := gates.Closed[name]
		for _, f := range closure.Figures {
			if f.Exceeded {
				t.row("closed for policy "+name, f.Name+" "+figureText(f)+" at "+closure.ClosedAt)
			}
		}
	}
	for _, f := range figures {
		t.row(f.Name, figureText(f))
	}
	return t.flush()
}

// figureText says where a figure stands.
func figureText(f record.Figure) string {
	text := strconv.FormatFloat(f.Value, 'f', -1, 64)
	if f.Max == nil {
		return text
	}
	relation := "within"
	if f.Exceeded {
		relation = "more than"
	}
	return fmt.Sprintf("%s, %s %s", text, relation, strconv.FormatFloat(*f.Max, 'f', -1, 64))
}
