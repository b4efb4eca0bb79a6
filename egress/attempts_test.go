package egress

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// farAway makes names of the rig's lead to addresses of which nothing comes back. most gives the largest number of attempts
// that there were at once.
func farAway(r *rig, prefix string) (most func() int) {
	var mu sync.Mutex
	now, top := 0, 0
	dial := r.g.dialContext
	r.g.dialContext = func(ctx context.Context, d *net.Dialer, address string) (*net.TCPConn, error) {
		if !strings.HasPrefix(address, prefix) {
			return dial(ctx, d, address)
		}
		mu.Lock()
		now++
		top = max(top, now)
		mu.Unlock()
		<-ctx.Done()
		mu.Lock()
		now--
		mu.Unlock()
		return nil, ctx.Err()
	}
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return top
	}
}

func farAddresses(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("5.5.5.%d", i+1))
	}
	return list
}

// Connections to names whose many addresses do not answer take no more descriptors than are set aside, and leave the others
// what they need.
func TestAttemptsAreFew(t *testing.T) {
	const conns = 100
	r := newRig(t, 0, []string{"far.example:%d", "echo.example:%d"})
	most := farAway(r, "5.5.5.")
	r.answers("far.example", farAddresses(64)...)
	r.host("echo.example", "1.2.3.4", r.port, echo)
	r.g.attempts = make(chan struct{}, 20)
	addr := r.synthetic("far.example")
	for range conns {
		r.connectAddr(addr)
	}
	time.Sleep(6 * attemptDelay)
	if !r.tryEcho("echo.example") {
		t.Error("there is no other connection beside them")
	}
	if n := most(); n < conns || n > conns+20 {
		t.Errorf("%d attempts at once for %d connections", n, conns)
	}
	r.g.Close()
	for end := time.Now().Add(patience); len(r.g.attempts) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d attempts are never given back", len(r.g.attempts))
		}
	}
}

// One connection has few attempts at once, and goes on to the addresses behind them all the same, also where nothing is left
// for more than one at a time.
func TestAttemptsGiveWay(t *testing.T) {
	for _, store := range []int{0, 100} {
		t.Run(fmt.Sprint(store), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 0, []string{"echo.example:%d"})
			most := farAway(r, "5.5.5.")
			r.g.attempts = make(chan struct{}, store)
			bad := farAddresses(2)
			if store > 0 {
				bad = farAddresses(2 * maxAttempts)
			}
			r.host("echo.example", "1.2.3.4", r.port, echo)
			r.answers("echo.example", slices.Concat(bad, []string{"1.2.3.4"})...)
			if !r.tryEcho("echo.example") {
				t.Error("the address that answers is not reached")
			}
			if n := most(); n > min(maxAttempts, store+1) {
				t.Errorf("%d attempts at once", n)
			}
		})
	}
}

// The reason that is told is that of the first address, however it ended.
func TestAttemptsReason(t *testing.T) {
	r := newRig(t, 0, []string{"far.example:%d"})
	farAway(r, "5.5.5.1:")
	r.g.attempts = make(chan struct{})
	r.answers("far.example", "5.5.5.1", "5.5.5.2") // there is no way to the second
	wantReset(t, r.connect("far.example"))
	if e := r.event(KindConnection, Failed); !strings.Contains(e.Reason, "5.5.5.1:") || !strings.Contains(e.Reason, "no answer") {
		t.Errorf("%+v", e)
	}
}
