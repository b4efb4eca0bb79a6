package record

import (
	"math"
	"slices"
	"time"
)

// Stats are figures over many runs.
type Stats struct {
	Since  string `json:"since,omitempty"` // of the query
	Oldest string `json:"oldest,omitempty"`
	Newest string `json:"newest,omitempty"`

	Runs       uint64             `json:"runs"` // in every state but unreadable
	Running    uint64             `json:"running"`
	Crashed    uint64             `json:"crashed"`
	Unreadable uint64             `json:"unreadable"`
	Outcomes   map[Outcome]uint64 `json:"outcomes"` // of the finished

	Counters    Counters          `json:"counters"` // sums
	Limits      map[string]uint64 `json:"limits"`   // by name: runs in which it was triggered
	Teardown    Quantiles         `json:"teardown_ms"`
	Wall        Quantiles         `json:"wall_ms"`
	Survivors   uint64            `json:"survivors"`   // runs of which something was left
	Quarantined uint64            `json:"quarantined"` // what is in quarantine now
}

// Quantiles are nearest-rank percentiles in milliseconds.
type Quantiles struct {
	Count uint64  `json:"count"`
	Sum   float64 `json:"sum"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
}

// quantiles sorts values. The nearest-rank percentile p is the smallest value that p percent of all do not exceed, and
// therefore one that was measured.
func quantiles(values []float64) Quantiles {
	q := Quantiles{Count: uint64(len(values))}
	if len(values) == 0 {
		return q
	}
	slices.Sort(values)
	at := func(p float64) float64 {
		return values[max(int(math.Ceil(p*float64(len(values))))-1, 0)]
	}
	for _, v := range values {
		q.Sum += v
	}
	q.Sum = math.Round(q.Sum*1000) / 1000
	q.P50, q.P90, q.P99, q.Max = at(0.50), at(0.90), at(0.99), values[len(values)-1]
	return q
}

// Stats counts over the runs of q.
func (s *Store) Stats(q Query) (Stats, error) {
	st := Stats{Outcomes: map[Outcome]uint64{}, Limits: map[string]uint64{}}
	if !q.Since.IsZero() {
		st.Since = Timestamp(q.Since)
	}
	var teardown, wall []float64
	var oldest, newest time.Time
	err := s.Walk(q, func(e Entry) bool {
		if e.State == Unreadable {
			st.Unreadable++
			return true
		}
		st.Runs++
		if newest.IsZero() || e.Started.After(newest) {
			newest = e.Started
		}
		if oldest.IsZero() || e.Started.Before(oldest) {
			oldest = e.Started
		}
		switch e.State {
		case Running:
			st.Running++
		case CrashedRun:
			st.Crashed++
		case Finished:
			r := e.Result
			st.add(r)
			if r.Outcome != SetupFailed && r.Outcome != ExecFailed {
				// Of the others there was nothing to tear down, and their zeros would make it look fast.
				wall = append(wall, float64(r.WallMS))
				teardown = append(teardown, r.Teardown.DurationMS)
			}
		}
		return true
	})
	if err != nil {
		return Stats{}, err
	}
	if st.Runs > 0 {
		st.Oldest, st.Newest = Timestamp(oldest), Timestamp(newest)
	}
	st.Teardown, st.Wall = quantiles(teardown), quantiles(wall)
	quarantined, err := s.Quarantined()
	if err != nil {
		return Stats{}, err
	}
	st.Quarantined = uint64(len(quarantined))
	return st, nil
}

func (st *Stats) add(r *Result) {
	st.Outcomes[r.Outcome]++
	st.Counters.EscapeAttempts += r.Counters.EscapeAttempts
	st.Counters.LimitsTriggered += r.Counters.LimitsTriggered
	st.Counters.DeniedSyscalls += r.Counters.DeniedSyscalls
	st.Counters.DeniedConnections += r.Counters.DeniedConnections
	for _, l := range r.Limits {
		if l.Triggered {
			st.Limits[l.Name]++
		}
	}
	if len(r.Teardown.Survivors) > 0 || r.Teardown.Quarantined {
		st.Survivors++
	}
}
