package egress

import (
	"sync"
	"sync/atomic"
	"time"
)

// Events beyond the burst are observed at this rate and else only counted: a command can be refused a million times.
const (
	eventBurst = 5000
	eventRate  = 50 // per second

	// maxSeen bounds the refused names that are known to be reported already.
	maxSeen = 4096
)

// reporter passes events on and keeps the totals.
type reporter struct {
	observe func(Event)

	connections, refused, failed, limited, in, out, unreported atomic.Uint64

	mu     sync.Mutex
	tokens bucket
	seen   map[string]struct{}
	limits map[string]struct{}
}

func newReporter(observe func(Event)) *reporter {
	return &reporter{observe: observe, tokens: newBucket(eventRate, eventBurst), seen: map[string]struct{}{}, limits: map[string]struct{}{}}
}

// event counts e and, unless there are too many, observes it.
func (r *reporter) event(e Event) {
	switch e.Verdict {
	case Allowed:
		r.connections.Add(1)
	case Refused:
		r.refused.Add(1)
	case Failed:
		r.failed.Add(1)
	case Limited:
		r.limited.Add(1)
	}
	r.pass(e)
}

// once observes e only if nothing was observed under that key yet.
func (r *reporter) once(key string, e Event) {
	r.mu.Lock()
	_, known := r.seen[key]
	full := len(r.seen) >= maxSeen
	if !known && !full {
		r.seen[key] = struct{}{}
	}
	r.mu.Unlock()
	switch {
	case known:
	case full:
		r.unreported.Add(1)
	default:
		r.pass(e)
	}
}

// limit observes that a limit was reached, the first time. There are few, and no flood of other events hides them.
func (r *reporter) limit(name, reason string) {
	r.mu.Lock()
	_, known := r.limits[reason]
	r.limits[reason] = struct{}{}
	r.mu.Unlock()
	if !known && r.observe != nil {
		r.observe(Event{Time: time.Now(), Kind: KindLimit, Name: name, Verdict: Limited, Reason: reason})
	}
}

func (r *reporter) pass(e Event) {
	r.mu.Lock()
	ok := r.tokens.take(time.Now())
	r.mu.Unlock()
	if !ok {
		r.unreported.Add(1)
		return
	}
	if r.observe != nil {
		r.observe(e)
	}
}

func (r *reporter) summary() Summary {
	return Summary{
		Connections: r.connections.Load(), Refused: r.refused.Load(), Failed: r.failed.Load(), Limited: r.limited.Load(),
		BytesIn: r.in.Load(), BytesOut: r.out.Load(), Unreported: r.unreported.Load(),
	}
}

// bucket is a token bucket; its user locks it.
type bucket struct {
	rate, burst, tokens float64
	last                time.Time
}

func newBucket(rate, burst float64) bucket {
	return bucket{rate: rate, burst: burst, tokens: burst, last: time.Now()}
}

func (b *bucket) take(now time.Time) bool {
	b.tokens = min(b.burst, b.tokens+now.Sub(b.last).Seconds()*b.rate)
	b.last = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}
