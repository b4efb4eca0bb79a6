package record

import (
	"encoding/json"
	"time"

	"golang.org/x/sys/unix"
)

// Thresholds are a policy's gate: what may not be exceeded by its runs within the window. A nil maximum is no threshold.
type Thresholds struct {
	Window            time.Duration // 0 for all runs since the gate was cleared
	MaxEscapeAttempts *uint64       // sum
	MaxLimitHits      *uint64       // sum
	MaxTeardown       *time.Duration
	MaxQuarantined    *uint64 // of all policies
}

// Any reports whether there is a threshold at all.
func (t Thresholds) Any() bool {
	return t.MaxEscapeAttempts != nil || t.MaxLimitHits != nil || t.MaxTeardown != nil || t.MaxQuarantined != nil
}

// Figure is where one threshold stands.
type Figure struct {
	Name     string   `json:"name"` // escape_attempts, limit_hits, teardown_ms, quarantined
	Value    float64  `json:"value"`
	Max      *float64 `json:"max"` // null when it is no threshold
	Exceeded bool     `json:"exceeded"`
}

// Evaluate compares runs, all of them within the window, and the number of quarantined environments to t. Open is
// false when a figure is exceeded.
func (t Thresholds) Evaluate(runs []*Result, quarantined int) (open bool, figures []Figure) {
	var escapes, limits uint64
	var teardown float64
	for _, r := range runs {
		escapes += r.Counters.EscapeAttempts
		limits += r.Counters.LimitsTriggered
		teardown = max(teardown, r.Teardown.DurationMS)
	}
	open = true
	add := func(name string, value float64, limit *float64) {
		f := Figure{name, value, limit, limit != nil && value > *limit}
		open = open && !f.Exceeded
		figures = append(figures, f)
	}
	add("escape_attempts", float64(escapes), number(t.MaxEscapeAttempts))
	add("limit_hits", float64(limits), number(t.MaxLimitHits))
	var slowest *float64
	if t.MaxTeardown != nil {
		ms := float64(t.MaxTeardown.Microseconds()) / 1000
		slowest = &ms
	}
	add("teardown_ms", teardown, slowest)
	add("quarantined", float64(quarantined), number(t.MaxQuarantined))
	return open, figures
}

func number(n *uint64) *float64 {
	if n == nil {
		return nil
	}
	f := float64(*n)
	return &f
}

// Closure says when a policy's gate closed, and by which figures.
type Closure struct {
	ClosedAt string   `json:"closed_at"`
	Figures  []Figure `json:"figures"`
}

// Gates is the content of gate.json. A gate stays closed, also when the window has passed, until it is cleared.
type Gates struct {
	SchemaVersion int                `json:"schema_version"`
	ClearedAt     string             `json:"cleared_at,omitempty"`
	Closed        map[string]Closure `json:"closed"` // by name of the policy
}

const (
	gateName = "gate.json"
	gateLock = "gate.lock"
	maxGate  = 1 << 20
)

// Gates reads the state of all gates.
func (s *Store) Gates() (Gates, error) {
	g := Gates{SchemaVersion: SchemaVersion, Closed: map[string]Closure{}}
	if s.root.fd < 0 {
		return g, nil
	}
	return s.root.gates()
}

func (d dir) gates() (Gates, error) {
	g := Gates{SchemaVersion: SchemaVersion, Closed: map[string]Closure{}}
	b, err := d.read(gateName, maxGate)
	if isMissing(err) {
		return g, nil
	}
	if err != nil {
		return g, err
	}
	if err := json.Unmarshal(b, &g); err != nil {
		// Nobody knows then whether a gate is closed.
		return g, &Error{Op: "read gates", Path: d.path + "/" + gateName, Reason: Invalid, Err: err}
	}
	if g.Closed == nil {
		g.Closed = map[string]Closure{}
	}
	return g, nil
}

// clearedAt is the time from which on runs and quarantined environments count.
func (g Gates) clearedAt() time.Time {
	t, _ := time.Parse(time.RFC3339, g.ClearedAt)
	return t
}

// CheckGate tells whether runs of the policy may start, and closes its gate if a figure says no. The figures are those
// that closed it, or the present ones. An error leaves the question open, which is no yes.
func CheckGate(path, policy string, t Thresholds, now time.Time) (open bool, figures []Figure, err error) {
	if !t.Any() {
		return true, nil, nil
	}
	s, err := OpenStore(path)
	if err != nil {
		return false, nil, err
	}
	defer s.Close()
	g, err := s.Gates()
	if err != nil {
		return false, nil, err
	}
	if c, closed := g.Closed[policy]; closed {
		return false, c.Figures, nil
	}
	open, figures, err = s.Evaluate(policy, t, now)
	if err != nil || open {
		return open, figures, err
	}
	return false, figures, s.changeGates(func(g *Gates) {
		if _, closed := g.Closed[policy]; !closed {
			g.Closed[policy] = Closure{Timestamp(now), figures}
		}
	})
}

// Evaluate gives the figures of a policy's runs, of all policies' if it is "", without changing anything.
func (s *Store) Evaluate(policy string, t Thresholds, now time.Time) (open bool, figures []Figure, err error) {
	g, err := s.Gates()
	if err != nil {
		return false, nil, err
	}
	since := g.clearedAt()
	if t.Window > 0 {
		if start := now.Add(-t.Window); start.After(since) {
			since = start
		}
	}
	var runs []*Result
	err = s.Walk(Query{Since: since}, func(e Entry) bool {
		if e.State == Finished && (policy == "" || e.Result.Policy.Name == policy) {
			runs = append(runs, &Result{Counters: e.Result.Counters, Teardown: e.Result.Teardown})
		}
		return true
	})
	if err != nil {
		return false, nil, err
	}
	quarantined, err := s.Quarantined()
	if err != nil {
		return false, nil, err
	}
	count := 0
	for _, q := range quarantined {
		// What cannot be dated counts.
		if at, err := time.Parse(time.RFC3339, q.CreatedAt); err != nil || at.After(g.clearedAt()) {
			count++
		}
	}
	open, figures = t.Evaluate(runs, count)
	return open, figures, nil
}

// ClearGates opens all gates of the state directory; only what happens from now on counts.
func ClearGates(path string, now time.Time) error {
	root, err := openState(path, true)
	if err != nil {
		return err
	}
	s := &Store{root: root, runs: dir{fd: -1}}
	defer s.Close()
	return s.changeGates(func(g *Gates) {
		*g = Gates{SchemaVersion: SchemaVersion, ClearedAt: Timestamp(now), Closed: map[string]Closure{}}
	})
}

// changeGates changes gate.json, one process at a time.
func (s *Store) changeGates(change func(*Gates)) error {
	path := s.root.path + "/" + gateLock
	lock, err := unix.Openat(s.root.fd, gateLock, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return failure("open", path, err)
	}
	defer unix.Close(lock)
	if err := flockWait(lock, time.Now().Add(5*time.Second)); err != nil {
		return failure("lock", path, err)
	}
	g, err := s.root.gates()
	if err != nil && ReasonOf(err) != Invalid {
		return err
	}
	change(&g)
	b, err := json.Marshal(g)
	if err != nil {
		return invalid("write gates", s.root.path, err.Error())
	}
	return s.root.replace(gateName, append(b, '\n'), true)
}

// flockWait takes an exclusive lock, trying until the time is over; the error is then EWOULDBLOCK.
func flockWait(fd int, until time.Time) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if err != unix.EWOULDBLOCK && err != unix.EINTR {
			return err
		}
		if time.Now().After(until) {
			return unix.EWOULDBLOCK
		}
		time.Sleep(pause)
	}
}
