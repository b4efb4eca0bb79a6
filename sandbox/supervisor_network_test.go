package sandbox

import (
	"slices"
	"testing"
	"time"

	"gobox/egress"
)

// A limit that nobody has set, and that made connections fail all the same, is told.
func TestLimitWithoutName(t *testing.T) {
	w := &network{hits: map[string]bool{}}
	spec := &Spec{}
	for _, name := range []string{"", egress.LimitTotal} {
		w.take(spec, egress.Event{Kind: egress.KindLimit, Name: name, Verdict: egress.Limited, Reason: "no room for more"})
	}
	var res Result
	w.report(&res, time.Now())
	if want := []string{"connections or names of the command's failed: no room for more"}; !slices.Equal(res.Notes, want) {
		t.Errorf("%q, want %q", res.Notes, want)
	}
}
