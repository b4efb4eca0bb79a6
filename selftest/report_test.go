package selftest

import (
	"strings"
	"testing"

	"gobox/policy"
	"gobox/seccomp"
	"gobox/selftest/attempt"
)

func testScene(t *testing.T) *scene {
	t.Helper()
	loose, err := seccomp.Default().Allow("ptrace")
	if err != nil {
		t.Fatal(err)
	}
	return &scene{profile: loose, usual: seccomp.Default(), plan: &policy.Plan{}, policy: policy.Policy{EnvPass: []string{"TOKEN"}}}
}

// TestJudge: each state a row can have, and none that is better than what was seen.
func TestJudge(t *testing.T) {
	s := testScene(t)
	effect := func(text string) func() string { return func() string { return text } }
	denied, through := attempt.Outcome{Errno: "EPERM"}, attempt.Outcome{Errno: "EFAULT"}
	for name, c := range map[string]struct {
		row      row
		answer   attempt.Outcome
		control  *attempt.Outcome
		want     State
		problems int
	}{
		"held":                  {row: row{tries: refused(barred(), "a")}, answer: denied, want: Held},
		"through":               {row: row{tries: refused(barred(), "a")}, answer: through, want: Failed, problems: 1},
		"success":               {row: row{tries: refused(barred(), "a")}, want: Failed, problems: 1},
		"effect only":           {row: row{tries: refused(barred(), "a"), effect: effect("harm")}, answer: denied, want: Failed, problems: 1},
		"both":                  {row: row{tries: refused(barred(), "a"), effect: effect("harm")}, answer: through, want: Failed, problems: 2},
		"skipped":               {row: row{tries: refused(barred(), "a"), skip: "no such thing"}, answer: through, want: Untested},
		"open by call":          {row: row{tries: filtered(barred(), "ptrace", "a")}, answer: through, want: Open},
		"allowed and refused":   {row: row{tries: filtered(barred(), "ptrace", "a")}, answer: denied, want: Held},
		"not open by call":      {row: row{tries: filtered(barred(), "mount", "a")}, answer: through, want: Failed, problems: 1},
		"arguments not open":    {row: row{tries: filtered(barred(), "socket", "a")}, answer: through, want: Failed, problems: 1},
		"open, and an effect":   {row: row{tries: filtered(barred(), "ptrace", "a"), effect: effect("harm")}, answer: through, want: Failed, problems: 1},
		"open by variable":      {row: row{tries: []try{{do: []string{"a"}, variable: "TOKEN", want: barred()}}}, answer: through, want: Open},
		"other variable":        {row: row{tries: []try{{do: []string{"a"}, variable: "TOKEN2", want: barred()}}}, answer: through, want: Failed, problems: 1},
		"control got further":   {row: row{tries: controlled(refused(barred(), "a"))}, answer: denied, control: &through, want: Held},
		"control refused":       {row: row{tries: controlled(refused(barred(), "a"))}, answer: denied, control: &denied, want: Untested},
		"control refused, hole": {row: row{tries: controlled(refused(barred(), "a"))}, answer: through, control: &denied, want: Failed, problems: 1},
	} {
		rep := &Report{}
		controls := map[string]attempt.Outcome{}
		if c.control != nil {
			controls["a"] = *c.control
		}
		rep.judge(s, []row{c.row}, map[string]attempt.Outcome{"a": c.answer}, controls)
		got := rep.Rows[0]
		if got.State != c.want || len(got.Problems) != c.problems {
			t.Errorf("%s: %+v", name, got)
		}
		if (got.State == Untested || got.State == Open) != (got.Reason != "") {
			t.Errorf("%s: reason %q", name, got.Reason)
		}
	}
}

func TestStatus(t *testing.T) {
	for text, want := range map[string]int{
		"":                             0,
		"mounts held":                  0,
		"mounts held, init held":       0,
		"mounts held+untested":         0,
		"mounts held+open":             0,
		"mounts untested":              ExitUntested,
		"mounts open":                  ExitUntested,
		"mounts held, init open":       ExitUntested,
		"mounts failed":                ExitBroken,
		"mounts held+failed":           ExitBroken,
		"mounts untested+failed":       ExitBroken,
		"init untested, mounts failed": ExitBroken,
		"mounts failed, init untested": ExitBroken,
	} {
		rep := &Report{}
		for part := range strings.SplitSeq(text, ", ") {
			layer, states, ok := strings.Cut(part, " ")
			for state := range strings.SplitSeq(states, "+") {
				if ok {
					rep.Rows = append(rep.Rows, Row{Layer: Layer(layer), State: State(state)})
				}
			}
		}
		rep.sort()
		if got := rep.Status(); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
		layers := 0
		for _, l := range rep.Layers() {
			layers += l.Held + l.Failed + l.Untested + l.Open
		}
		if layers != len(rep.Rows) {
			t.Errorf("%q: %d rows, %d counted", text, len(rep.Rows), layers)
		}
	}
}

// TestAnswersAreWhole: an answer that is missing or another's is an error and no refusal.
func TestAnswersAreWhole(t *testing.T) {
	list := [][]string{{"a", "1"}, {"b"}}
	good := "{\"attempt\":\"a 1\"}\n{\"attempt\":\"b\",\"errno\":\"EPERM\"}\n"
	if got, err := decode(list, []byte(good)); err != nil || got["b"].Errno != "EPERM" {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "{\"attempt\":\"a 1\"}\n", strings.Replace(good, `"b"`, `"c"`, 1), "x\n" + good} {
		if _, err := decode(list, []byte(bad)); err == nil {
			t.Errorf("%q is taken for answers", bad)
		}
	}
}
