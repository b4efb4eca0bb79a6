package selftest

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"gobox/policy"
	"gobox/selftest/attempt"
)

// State is what came of a row or of a layer.
type State string

const (
	Held     State = "held"
	Failed   State = "failed"   // a boundary does not hold
	Untested State = "untested" // Reason says why
	Open     State = "open"     // the policy itself lets it through
)

// Row is one boundary and what came of it.
type Row struct {
	ID       string   `json:"id"` // that of the isolation suite's tests
	Layer    Layer    `json:"layer"`
	Title    string   `json:"title"`
	State    State    `json:"state"`
	Attempts int      `json:"attempts"`
	Reason   string   `json:"reason,omitempty"`   // of untested and open
	Problems []string `json:"problems,omitempty"` // what should not have happened
}

// LayerReport counts a layer's rows.
type LayerReport struct {
	Layer    Layer `json:"layer"`
	State    State `json:"state"`
	Held     int   `json:"held"`
	Failed   int   `json:"failed"`
	Untested int   `json:"untested"`
	Open     int   `json:"open"`
	Attempts int   `json:"attempts"`
}

// Report is a whole test.
type Report struct {
	Policy   string
	Landlock int // ABI
	Rows     []Row
}

// judge adds the rows. An answer is missing only to a row that is skipped.
func (r *Report) judge(s *scene, rows []row, answers, controls map[string]attempt.Outcome) {
	for _, w := range rows {
		out := Row{ID: w.id, Layer: w.layer, Title: w.title, State: Held, Attempts: len(w.tries), Reason: w.skip}
		if w.skip != "" {
			out.State, out.Attempts = Untested, 0
			r.Rows = append(r.Rows, out)
			continue
		}
		var opened, refused []string
		controlled, proven := 0, 0
		for _, t := range w.tries {
			var control *attempt.Outcome
			if c, ok := controls[t.name()]; ok && t.control {
				control = &c
				controlled++
			}
			v, text := t.judge(answers[t.name()], control, s.permits)
			switch v {
			case failed:
				out.Problems = append(out.Problems, t.name()+": "+text)
			case open:
				opened = append(opened, t.name())
			case unproven:
				refused = append(refused, t.name()+": "+text)
			case held:
				if control != nil {
					proven++
				}
			}
		}
		if w.effect != nil {
			if problem := w.effect(); problem != "" {
				out.Problems = append(out.Problems, problem)
			}
		}
		switch {
		case len(out.Problems) > 0:
			out.State = Failed
		case opened != nil:
			out.State, out.Reason = Open, "the policy allows "+strings.Join(opened, ", ")
		case controlled > 0 && proven == 0:
			out.State, out.Reason = Untested, refused[0]
		}
		r.Rows = append(r.Rows, out)
	}
}

func (r *Report) sort() {
	order := Layers()
	slices.SortStableFunc(r.Rows, func(a, b Row) int {
		if a.Layer != b.Layer {
			return slices.Index(order, a.Layer) - slices.Index(order, b.Layer)
		}
		return strings.Compare(a.ID, b.ID)
	})
}

// Layers sums up the layers that have rows.
func (r *Report) Layers() []LayerReport {
	var list []LayerReport
	for _, row := range r.Rows {
		if len(list) == 0 || list[len(list)-1].Layer != row.Layer {
			list = append(list, LayerReport{Layer: row.Layer})
		}
		l := &list[len(list)-1]
		l.Attempts += row.Attempts
		switch row.State {
		case Held:
			l.Held++
		case Failed:
			l.Failed++
		case Untested:
			l.Untested++
		case Open:
			l.Open++
		}
	}
	for i := range list {
		l := &list[i]
		switch {
		case l.Failed > 0:
			l.State = Failed
		case l.Held > 0:
			l.State = Held
		case l.Open > 0:
			l.State = Open
		default:
			l.State = Untested
		}
	}
	return list
}

// The exit statuses of gobox selftest, beside policy.ExitFailed.
const (
	ExitBroken   = 1 // a boundary does not hold
	ExitUntested = 3 // a layer could not be tested
)

// Status is 0 when every layer held in what could be tried of it. A layer of which the policy leaves nothing to try was
// not tested either.
func (r *Report) Status() int {
	status := 0
	for _, l := range r.Layers() {
		switch l.State {
		case Failed:
			return ExitBroken
		case Untested, Open:
			status = ExitUntested
		}
	}
	return status
}

// WriteText writes a table of the layers, and a line for each row that did not hold.
func (r *Report) WriteText(w io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%-12s %-9s %8s %5s %7s %9s %5s\n", "layer", "", "attempts", "held", "failed", "untested", "open")
	for _, l := range r.Layers() {
		fmt.Fprintf(&text, "%-12s %-9s %8d %5d %7d %9d %5d\n", l.Layer, l.State, l.Attempts, l.Held, l.Failed, l.Untested, l.Open)
	}
	for _, row := range r.Rows {
		if row.State == Held {
			continue
		}
		fmt.Fprintf(&text, "%s %s %s: %s\n", row.State, row.Layer, row.ID, row.Title)
		const most = 8
		for i, p := range row.Problems {
			if i == most {
				fmt.Fprintf(&text, "  and %s more\n", strconv.Itoa(len(row.Problems)-most))
				break
			}
			fmt.Fprintf(&text, "  %s\n", policy.Printable(p))
		}
		if row.Reason != "" {
			fmt.Fprintf(&text, "  %s\n", policy.Printable(row.Reason))
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}
