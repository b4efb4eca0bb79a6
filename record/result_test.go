package record

import (
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// full is a result with every field set, and each to another value.
func full() *Result {
	code := 7
	return &Result{
		SchemaVersion: SchemaVersion, RunID: "20261129T135501Z-0123456789ab", IdempotencyKey: "build-7", Version: "v1.2.3",
		Policy: Policy{Name: "default", SHA256: "aa11"},
		Argv:   []string{"python", "a b\n\"\\\u00e9.py"}, ArgvBase64: []string{"cHl0aG9u", "/w=="},
		Labels:    map[string]string{"model": "m-1", "prompt": "p<3>&"},
		StartedAt: "2026-11-29T13:55:01.002Z", Outcome: Exited, ExitCode: &code, Signal: "SIGSEGV", WallMS: 1201,
		Usage:    Usage{1, 2, 3, 4, 5, 6, 7, true},
		Layers:   Layers{[]string{"user", "mount"}, Landlock{7, true}, true, true, Cgroup{2, []string{"memory", "pids"}}, []string{"cgroup"}},
		Limits:   []Limit{{"memory", 1 << 30, "bytes", "cgroup", true}, {"timeout", 30000, "ms", "supervisor", false}},
		Denials:  []Denial{{"seccomp", "mount", "", 3, 12, "default-deny", "--allow-syscall mount"}},
		Counters: Counters{8, 9, 10, 11}, Network: Network{"allow", 12, 13, 14, 15}, Workspace: Workspace{"overlay", 1, 2, 3, 4, "bb22"},
		OutputDir: &OutputDir{"/out", true, 5, 6},
		Teardown:  Teardown{true, 1.234, []string{"pid 12"}, true},
		Anomalies: []Anomaly{{"json", "stdout", "no JSON document"}},
		Findings:  []Finding{{"private-key", "stdout", 100, 32}},
		Error:     &Failure{"mount", "/data", "ENOENT", "no such file or directory", "--ro DIR"},
	}
}

func TestResultGolden(t *testing.T) {
	for name, r := range map[string]*Result{"full": full(), "empty": {}} {
		t.Run(name, func(t *testing.T) {
			golden := "testdata/result_" + name + ".json"
			got := string(r.AppendJSON(nil))
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("the result's shape changed; fields may only be added\n got %s\nwant %s", got, want)
			}
		})
	}
}

// TestFullIsFull keeps the test above honest: a new field that full does not set would not be seen.
func TestFullIsFull(t *testing.T) {
	unset(t, reflect.ValueOf(*full()), "Result")
}

func unset(t *testing.T, v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			unset(t, v.Field(i), path+"."+v.Type().Field(i).Name)
		}
	case reflect.Pointer:
		if v.IsNil() {
			t.Errorf("%s is not set", path)
			return
		}
		unset(t, v.Elem(), path)
	case reflect.Slice:
		if v.Len() == 0 {
			t.Errorf("%s is empty", path)
			return
		}
		if e := v.Index(0); e.Kind() == reflect.Struct {
			// Two elements may set what one leaves out.
			for i := range e.NumField() {
				set := false
				for j := range v.Len() {
					set = set || !v.Index(j).Field(i).IsZero()
				}
				if !set && path+"."+e.Type().Field(i).Name != "Result.Denials.Object" {
					t.Errorf("%s.%s is not set", path, e.Type().Field(i).Name)
				}
			}
		}
	default:
		if v.IsZero() {
			t.Errorf("%s is not set", path)
		}
	}
}

// TestEncoderAgrees holds our writer to the tags of the structs, with encoding/json as the judge.
func TestEncoderAgrees(t *testing.T) {
	code := 0
	for _, r := range []*Result{full(), {ExitCode: &code, Labels: map[string]string{}}, {Argv: []string{"\x00\x1b[31m\u202e\ufeff\u2028\U0001f600\xff\xc3", ""}}} {
		var back, want Result
		if err := json.Unmarshal(r.AppendJSON(nil), &back); err != nil {
			t.Fatalf("not JSON: %v\n%s", err, r.AppendJSON(nil))
		}
		theirs, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(theirs, &want); err != nil {
			t.Fatal(err)
		}
		back.SchemaVersion, want.SchemaVersion = 0, 0
		normalise(&back)
		normalise(&want)
		if !reflect.DeepEqual(back, want) {
			t.Errorf("got  %+v\nwant %+v", back, want)
		}
	}
}

// normalise makes no difference between no list and an empty one.
func normalise(r *Result) {
	v := reflect.ValueOf(r).Elem()
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				walk(v.Field(i))
			}
		case reflect.Slice:
			if v.Len() == 0 {
				v.SetZero()
			}
			for i := range v.Len() {
				walk(v.Index(i))
			}
		case reflect.Map:
			if v.Len() == 0 {
				v.SetZero()
			}
		}
	}
	walk(v)
}

func TestArgvKeepsBytes(t *testing.T) {
	argv := []string{"echo", "caf\xe9", "\xff\x00x"}
	var r Result
	r.SetArgv(argv)
	var back Result
	if err := json.Unmarshal(r.AppendJSON(nil), &back); err != nil {
		t.Fatal(err)
	}
	got, err := back.ExactArgv()
	if err != nil || !reflect.DeepEqual(got, argv) {
		t.Errorf("got %q, %v, want %q", got, err, argv)
	}
	if r.SetArgv([]string{"plain"}); r.ArgvBase64 != nil {
		t.Error("argv_base64 is there without need")
	}
}

func TestEventLine(t *testing.T) {
	code := 3
	long := strings.Repeat("\x01", 100_000)
	for _, ev := range []Event{
		{MS: 1.5, Time: "t", RunID: "r", Kind: Denied, Layer: "l", What: "w", Object: "o", Count: 2, PID: 3, Signal: "s", Outcome: Exited, ExitCode: &code, Detail: "d"},
		{Kind: Connected, Object: "o:1", Address: "a", Via: "v", Verdict: "x", Rule: "r", Fix: "f", BytesIn: 1, BytesOut: 2, DurationMS: 1.25},
		{Kind: Denied, Layer: long, What: long, Object: long, Signal: long, Detail: long, Address: long, Via: long, Verdict: long, Rule: long, Fix: long},
	} {
		line := ev.appendLine(nil)
		if len(line) > maxLine || strings.IndexByte(string(line), '\n') != len(line)-1 {
			t.Errorf("no single line of %d bytes at most: %d bytes", maxLine, len(line))
		}
		var back Event
		if err := json.Unmarshal(line, &back); err != nil {
			t.Fatal(err)
		}
		if len(ev.Object) < 100 && !reflect.DeepEqual(back, ev) {
			t.Errorf("got %+v, want %+v", back, ev)
		}
	}
}
