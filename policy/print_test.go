package policy

import (
	"encoding/json"
	"strings"
	"testing"

	"gobox/namespaces"
)

// The JSON is written by hand; encoding/json must agree that it is JSON, and read the same strings.
func TestWriteJSON(t *testing.T) {
	odd := "q\"b\\n\nt\tu\u2028\x01e\U000e0001 é日"
	for _, s := range situations() {
		plan := s.plan(t)
		plan.Exec.Argv = append([]string{odd}, plan.Exec.Argv...)
		var text strings.Builder
		if err := plan.WriteJSON(&text); err != nil {
			t.Fatal(err)
		}
		var back struct {
			SchemaVersion int `json:"schema_version"`
			Command       struct{ Argv []string }
			Steps         []struct{ Op, Target, Content string }
			Landlock      struct{ ABI int }
			Rlimits       []struct{ Name string }
			Missing       []string
			Seccomp       struct {
				Instructions int
				SHA256       string
			}
		}
		if err := json.Unmarshal([]byte(text.String()), &back); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		if back.SchemaVersion != 1 || back.Command.Argv[0] != odd || len(back.Steps) != len(plan.Tree.Steps) || len(back.Rlimits) != len(plan.Rlimits) ||
			back.Landlock.ABI != plan.Landlock.ABI || back.Missing == nil || len(back.Seccomp.SHA256) != 64 || back.Seccomp.Instructions*8 != len(plan.Filter.BPF) {
			t.Errorf("%s: read back as %+v", s.name, back)
		}
		for i, step := range back.Steps {
			want := plan.Tree.Steps[i]
			if step.Op != string(want.Op) || step.Target != want.Target || step.Content != string(want.Content) {
				t.Errorf("%s: step %d read back as %+v", s.name, i, step)
			}
		}
	}
}

func TestWriteTextEscapes(t *testing.T) {
	plan := situations()[0].plan(t)
	plan.Exec.Argv = []string{"a\x1b[2Jb\nfake: line"}
	plan.Tree.Steps = append(plan.Tree.Steps, namespaces.Step{Op: namespaces.OpDir, Target: "/x\ny", Why: "\u202e"})
	var text strings.Builder
	if err := plan.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"\x1b", "\nfake", "\ny", "\u202e"} {
		if strings.Contains(text.String(), bad) {
			t.Errorf("%q reaches the terminal", bad)
		}
	}
}
