package record

import (
	"os"
	"testing"
	"time"
)

func ptr[T any](v T) *T { return &v }

func TestEvaluate(t *testing.T) {
	runs := []*Result{
		{Counters: Counters{EscapeAttempts: 2, LimitsTriggered: 1}, Teardown: Teardown{DurationMS: 12.5}},
		{Counters: Counters{EscapeAttempts: 1}, Teardown: Teardown{DurationMS: 3}},
	}
	for name, test := range map[string]struct {
		t    Thresholds
		open bool
	}{
		"none":               {Thresholds{}, true},
		"escapes at limit":   {Thresholds{MaxEscapeAttempts: ptr(uint64(3))}, true},
		"escapes over":       {Thresholds{MaxEscapeAttempts: ptr(uint64(2))}, false},
		"limits over":        {Thresholds{MaxLimitHits: ptr(uint64(0))}, false},
		"teardown at limit":  {Thresholds{MaxTeardown: ptr(12500 * time.Microsecond)}, true},
		"teardown over":      {Thresholds{MaxTeardown: ptr(12 * time.Millisecond)}, false},
		"quarantined":        {Thresholds{MaxQuarantined: ptr(uint64(0))}, false},
		"one of two is over": {Thresholds{MaxEscapeAttempts: ptr(uint64(9)), MaxQuarantined: ptr(uint64(0))}, false},
	} {
		if open, figures := test.t.Evaluate(runs, 1); open != test.open {
			t.Errorf("%s: open %v, %+v", name, open, figures)
		}
	}
}

func TestGateStaysClosedUntilCleared(t *testing.T) {
	state := t.TempDir()
	now := time.Now()
	limits := Thresholds{Window: time.Hour, MaxEscapeAttempts: ptr(uint64(1))}
	gate := func(policy string, t2 time.Time) bool {
		t.Helper()
		open, figures, err := CheckGate(state, policy, limits, t2)
		if err != nil || len(figures) != 4 {
			t.Fatalf("%v, %v", figures, err)
		}
		return open
	}
	if !gate("p", now) {
		t.Error("closed without a run")
	}
	bad := func(r *Result) { r.Policy.Name, r.Counters.EscapeAttempts = "p", 2 }
	finished(t, state, "", bad)
	if !gate("other", now) {
		t.Error("closed by runs of another policy")
	}
	if gate("p", now) {
		t.Error("open in spite of the run")
	}
	if gate("p", now.Add(48*time.Hour)) {
		t.Error("the window passed and opened it")
	}
	if err := ClearGates(state, time.Now()); err != nil {
		t.Fatal(err)
	}
	if !gate("p", time.Now()) {
		t.Error("closed after it was cleared")
	}
	time.Sleep(2 * time.Millisecond) // gate.json has milliseconds
	finished(t, state, "", bad)
	if gate("p", time.Now()) {
		t.Error("open in spite of a later run")
	}
	// Whoever spoils the file does not open the gate.
	os.WriteFile(state+"/gate.json", []byte("{"), 0o600)
	if open, _, err := CheckGate(state, "p", limits, now); open || ReasonOf(err) != Invalid {
		t.Errorf("spoilt: %v, %v", open, err)
	}
	if err := ClearGates(state, time.Now()); err != nil {
		t.Errorf("clear a spoilt gate: %v", err)
	}
}

func TestQuarantineClosesGate(t *testing.T) {
	state := t.TempDir()
	r := mustOpen(t, state, Request{})
	r.Quarantine(Quarantined{Reason: "x"})
	r.Finish(&Result{Outcome: Exited})
	limits := Thresholds{MaxQuarantined: ptr(uint64(0))}
	if open, _, err := CheckGate(state, "p", limits, time.Now()); open || err != nil {
		t.Errorf("open %v, %v", open, err)
	}
	time.Sleep(2 * time.Millisecond)
	ClearGates(state, time.Now())
	if open, _, err := CheckGate(state, "p", limits, time.Now()); !open || err != nil {
		t.Errorf("after clear: open %v, %v", open, err)
	}
}
