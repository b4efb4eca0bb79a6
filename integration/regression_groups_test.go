package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"gobox/integration/harness"

	"golang.org/x/sys/unix"
)

// regression is one case of testdata/regression: what goes in, and what must come out. ${PROBE}, ${OUTSIDE} (a file that is
// granted to nobody) and ${SYS_name} stand for what differs between machines.
type regression struct {
	Name   string            `json:"name"`
	Flags  []string          `json:"flags"`
	Argv   []string          `json:"argv"`
	Stdin  string            `json:"stdin"`
	Files  map[string]string `json:"files"`  // of the workspace, beforehand
	Calls  int               `json:"calls"`  // 0 is 1
	Signal string            `json:"signal"` // sent to gobox when the command says ready
	Want   struct {
		Exit      int                       `json:"exit"`
		Stdout    *string                   `json:"stdout"`
		Stderr    *string                   `json:"stderr"`
		StderrHas []string                  `json:"stderr_has"`
		Result    map[string]any            `json:"result"` // fields that result.json must have; objects may have more
		Limits    map[string]map[string]any `json:"limits"` // by name
		Denials   []map[string]any          `json:"denials"`
		Absent    []string                  `json:"absent"`
		Events    string                    `json:"events"`
		Files     map[string]*string        `json:"files"` // of the workspace, afterwards; null is gone
		Runs      int                       `json:"runs"`  // records
		NoResult  bool                      `json:"no_result"`
	} `json:"want"`
}

// TestRegression judges the five groups field by field.
func TestRegression(t *testing.T) {
	for _, group := range []string{"normal", "denied", "timeout", "cancelled", "repeated"} {
		data, err := os.ReadFile("testdata/regression/" + group + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var cases []regression
		strict := json.NewDecoder(bytes.NewReader(data))
		strict.DisallowUnknownFields()
		if err := strict.Decode(&cases); err != nil || len(cases) == 0 {
			t.Fatalf("%s: %v", group, err)
		}
		for _, c := range cases {
			t.Run(group+"/"+c.Name, func(t *testing.T) {
				suite.Each(t, func(t *testing.T, b *harness.Box) { c.run(t, b) })
			})
		}
	}
}

func (c *regression) run(t *testing.T, b *harness.Box) {
	state := audited(t, b, "state")
	outside := b.Canary(t, filepath.Join(b.Dir, "outside/canary"))
	for name, content := range c.Files {
		b.File(t, filepath.Join(b.Work, name), content)
	}
	argv := expand(b, outside.Path, c.Argv)
	var last map[string]any
	for range max(c.Calls, 1) {
		res := c.call(t, b, append([]string{"--audit", state}, c.Flags...), argv)
		if res.Code != c.Want.Exit || c.Want.Stdout != nil && string(res.Stdout) != *c.Want.Stdout || c.Want.Stderr != nil && string(res.Stderr) != *c.Want.Stderr {
			t.Errorf("%v", res)
		}
		for _, part := range c.Want.StderrHas {
			if !strings.Contains(string(res.Stderr), part) {
				t.Errorf("no %q in stderr: %v", part, res)
			}
		}
	}
	outside.Unchanged(t)
	for name, want := range c.Want.Files {
		got, err := os.ReadFile(filepath.Join(b.Work, name))
		if want == nil && !os.IsNotExist(err) || want != nil && (err != nil || string(got) != *want) {
			t.Errorf("file %s: %q, %v", name, got, err)
		}
	}
	runs, _ := filepath.Glob(filepath.Join(state, "runs", "*"))
	if c.Want.NoResult {
		if len(runs) > 0 {
			t.Errorf("records %v", runs)
		}
		return
	}
	if len(runs) != max(c.Want.Runs, 1) {
		t.Fatalf("%d records", len(runs))
	}
	for _, dir := range runs {
		data, err := os.ReadFile(filepath.Join(dir, "result.json"))
		if err == nil {
			err = json.Unmarshal(data, &last)
		}
		if err != nil {
			t.Fatal(err)
		}
		c.judge(t, last, data)
		log, err := os.ReadFile(filepath.Join(dir, "events.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		if list := events(t, log); c.Want.Events != "" && kinds(list) != c.Want.Events {
			t.Errorf("events %q, want %q", kinds(list), c.Want.Events)
		}
	}
}

// judge compares fields.
func (c *regression) judge(t *testing.T, got map[string]any, data []byte) {
	t.Helper()
	for _, problem := range differ("", c.Want.Result, got) {
		t.Errorf("%s\nin %s", problem, data)
	}
	for _, name := range c.Want.Absent {
		if v, ok := got[name]; ok {
			t.Errorf("%s is there: %v", name, v)
		}
	}
	of := func(list, key, value string) map[string]any {
		items, _ := got[list].([]any)
		for _, item := range items {
			if m, _ := item.(map[string]any); m[key] == value {
				return m
			}
		}
		return nil
	}
	for name, want := range c.Want.Limits {
		for _, problem := range differ("limits "+name, want, of("limits", "name", name)) {
			t.Errorf("%s\nin %s", problem, data)
		}
	}
	for _, want := range c.Want.Denials {
		for _, problem := range differ(fmt.Sprint("denials ", want["what"]), want, of("denials", "what", fmt.Sprint(want["what"]))) {
			t.Errorf("%s\nin %s", problem, data)
		}
	}
}

// differ lists where got lacks what want has.
func differ(path string, want, got map[string]any) (problems []string) {
	for key, w := range want {
		g, there := got[key]
		sub, object := w.(map[string]any)
		theirs, also := g.(map[string]any)
		switch {
		case !there:
			problems = append(problems, fmt.Sprintf("%s %s is missing", path, key))
		case object && also && len(sub) > 0:
			problems = append(problems, differ(path+" "+key, sub, theirs)...)
		case !reflect.DeepEqual(w, g):
			problems = append(problems, fmt.Sprintf("%s %s is %v, want %v", path, key, g, w))
		}
	}
	return problems
}

// call runs the case once, and sends its signal if it has one.
func (c *regression) call(t *testing.T, b *harness.Box, flags, argv []string) harness.Result {
	t.Helper()
	run := harness.Run{Flags: flags, Argv: argv}
	if c.Stdin != "" {
		run.Stdin = strings.NewReader(c.Stdin)
	}
	if c.Signal == "" {
		return b.Run(t, run)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	cmd := b.Command(ctx, run)
	ready := &watcher{want: "ready\n", seen: make(chan struct{})}
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = io.Writer(ready), &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready.wait(t)
	if err := cmd.Process.Signal(unix.SignalNum(c.Signal)); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	return harness.Result{Code: harness.ExitCode(cmd.ProcessState), Stdout: []byte(ready.String()), Stderr: stderr.Bytes()}
}

func expand(b *harness.Box, outside string, argv []string) []string {
	name := regexp.MustCompile(`\$\{(\w+)\}`)
	out := make([]string, len(argv))
	for i, arg := range argv {
		out[i] = name.ReplaceAllStringFunc(arg, func(s string) string {
			switch s = strings.Trim(s, "${}"); {
			case s == "PROBE":
				return b.Probe
			case s == "OUTSIDE":
				return outside
			}
			return sysno(strings.TrimPrefix(s, "SYS_"))
		})
	}
	return out
}
