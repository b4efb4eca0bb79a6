package main

import (
	"bytes"
	"regexp"
	"testing"

	"gobox/selftest"
)

// TestSelftestJSON holds the shape that docs/selftest.md tells of. Fields are only ever added.
func TestSelftestJSON(t *testing.T) {
	rep := &selftest.Report{Policy: "default", Landlock: 7, Rows: []selftest.Row{
		{ID: "F01", Layer: selftest.Mounts, Title: "one", State: selftest.Held, Attempts: 3},
		{ID: "F02", Layer: selftest.Mounts, Title: "two", State: selftest.Failed, Attempts: 2, Problems: []string{"open r /etc/shadow: got success, want ENOENT"}},
		{ID: "K06", Layer: selftest.Seccomp, Title: "three", State: selftest.Untested, Reason: "none here"},
	}}
	var got bytes.Buffer
	if err := writeJSON(&got, selftestReport(rep)); err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`("version"|"kernel"|"uid"): [^\n]*,`).ReplaceAllString(got.String(), "$1: ...,")
	const want = `{
  "schema_version": 1,
  "version": ...,
  "kernel": ...,
  "uid": ...,
  "policy": "default",
  "landlock_abi": 7,
  "status": 1,
  "layers": [
    {
      "layer": "mounts",
      "state": "failed",
      "held": 1,
      "failed": 1,
      "untested": 0,
      "open": 0,
      "attempts": 5
    },
    {
      "layer": "seccomp",
      "state": "untested",
      "held": 0,
      "failed": 0,
      "untested": 1,
      "open": 0,
      "attempts": 0
    }
  ],
  "rows": [
    {
      "id": "F01",
      "layer": "mounts",
      "title": "one",
      "state": "held",
      "attempts": 3
    },
    {
      "id": "F02",
      "layer": "mounts",
      "title": "two",
      "state": "failed",
      "attempts": 2,
      "problems": [
        "open r /etc/shadow: got success, want ENOENT"
      ]
    },
    {
      "id": "K06",
      "layer": "seccomp",
      "title": "three",
      "state": "untested",
      "attempts": 0,
      "reason": "none here"
    }
  ]
}
`
	if text != want {
		t.Errorf("got %s", text)
	}
}
