package vm

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A verdict is what one test said in a guest, by the name of its last part, with its subtests.
type verdict struct {
	action string  // "pass", "fail", "skip"; empty for one that did not end
	took   float64 // seconds by the guest's clock, without those of its subtests if these ran in parallel
	output []string
	parts  map[string]*verdict
	order  []string // of parts
}

func (v *verdict) part(name string) *verdict {
	p := v.parts[name]
	if p == nil {
		if v.parts == nil {
			v.parts = make(map[string]*verdict)
		}
		p = &verdict{}
		v.parts[name] = p
		v.order = append(v.order, name)
	}
	return p
}

// parseVerdicts reads the output of a test binary that was started with -test.v=test2json.
func parseVerdicts(output string) (*verdict, error) {
	cmd := exec.Command("go", "tool", "test2json", "-t") // with times
	cmd.Stdin = strings.NewReader(output)
	events, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go tool test2json: %w", err)
	}
	root := &verdict{}
	lines := bufio.NewScanner(strings.NewReader(string(events)))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e struct {
			Action, Test, Output string
			Elapsed              float64
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, err
		}
		v := root
		if e.Test != "" {
			for name := range strings.SplitSeq(e.Test, "/") {
				v = v.part(name)
			}
		}
		switch e.Action {
		case "pass", "fail", "skip":
			v.action, v.took = e.Action, e.Elapsed
		case "output":
			if !strings.HasPrefix(e.Output, "=== ") && !strings.HasPrefix(strings.TrimSpace(e.Output), "--- ") {
				v.output = append(v.output, e.Output)
			}
		}
	}
	return root, lines.Err()
}

// replay makes the guest's tests subtests of t, so that they are counted and named like those of this machine.
func (v *verdict) replay(t *testing.T) {
	t.Helper()
	for _, name := range v.order {
		p := v.parts[name]
		t.Run(name, func(t *testing.T) {
			p.replay(t)
			said := strings.TrimSpace(strings.Join(p.output, ""))
			switch {
			case p.action == "skip":
				t.Skip(said)
			case p.action == "" || p.action == "fail" && !p.failedBelow():
				t.Errorf("%s in the guest\n%s", cmp.Or(p.action, "did not end"), said)
			}
		})
	}
}

func (v *verdict) failedBelow() bool {
	return slices.ContainsFunc(v.order, func(name string) bool { return v.parts[name].action != "pass" && v.parts[name].action != "skip" })
}

// count tells how many tests, with their subtests, ended in which way, and which took longest.
func (v *verdict) count() string {
	n, total := map[string]int{}, 0.0
	type leaf struct {
		name string
		took float64
	}
	var leaves []leaf
	v.each("", func(name string, v *verdict) {
		n[v.action]++
		if len(v.parts) == 0 {
			leaves, total = append(leaves, leaf{name, v.took}), total+v.took
		}
	})
	slices.SortFunc(leaves, func(a, b leaf) int { return cmp.Compare(b.took, a.took) })
	longest := ""
	for _, l := range leaves[:min(len(leaves), 12)] {
		longest += fmt.Sprintf("\n%6.1f s %s", l.took, l.name)
	}
	return fmt.Sprintf("%d passed, %d failed, %d skipped, %d did not end, in %.0f s of the guest's%s", n["pass"], n["fail"], n["skip"], n[""], total, longest)
}

func (v *verdict) each(above string, f func(string, *verdict)) {
	for name, p := range v.parts {
		f(above+name, p)
		p.each(above+name+"/", f)
	}
}
