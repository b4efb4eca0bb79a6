package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Bounds on one look-up.
const (
	lookupTimeout = 15 * time.Second
	maxAddrs      = 64 // of one name that are looked at
	maxLookups    = 64 // at once, where there are descriptors for so many
)

// HostResolver asks as the host's own programs do: /etc/hosts and the name servers of /etc/resolv.conf in the order of
// nsswitch.conf(5), systemd-resolved by its stub among them. Search domains are left out, since the name is complete.
type HostResolver struct{}

// Resolve gives the addresses in the order in which to try them (RFC 6724).
func (HostResolver) Resolve(ctx context.Context, name string) ([]netip.Addr, error) {
	// The final dot makes the name absolute: no search list.
	r := net.Resolver{PreferGo: true}
	addrs, err := r.LookupNetIP(ctx, "ip", name+".")
	if err != nil {
		return nil, lookupError(err)
	}
	return addrs, nil
}

func lookupError(err error) error {
	var d *net.DNSError
	if !errors.As(err, &d) {
		return err
	}
	switch {
	case d.IsNotFound:
		return errors.New("the host's resolver does not know the name")
	case d.IsTimeout:
		return errors.New("the host's resolver does not answer")
	}
	return fmt.Errorf("the host's resolver: %s", d.Err)
}

// lookups joins look-ups of the same name that run at the same time, and bounds how many run. Nothing is kept: each
// connection that begins later asks again.
type lookups struct {
	resolver Resolver
	slots    chan struct{}

	mu      sync.Mutex
	running map[string]*lookup
}

type lookup struct {
	done  chan struct{}
	addrs []netip.Addr
	err   error
}

func newLookups(r Resolver, most int) *lookups {
	return &lookups{resolver: r, slots: make(chan struct{}, most), running: map[string]*lookup{}}
}

func (l *lookups) resolve(ctx context.Context, name string) ([]netip.Addr, error) {
	l.mu.Lock()
	run, ok := l.running[name]
	if !ok {
		run = &lookup{done: make(chan struct{})}
		l.running[name] = run
		// Not with the context of the connection that happens to be the first of those that wait.
		go l.run(context.WithoutCancel(ctx), name, run)
	}
	l.mu.Unlock()
	select {
	case <-run.done:
		return run.addrs, run.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *lookups) run(ctx context.Context, name string, run *lookup) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	select {
	case l.slots <- struct{}{}:
		run.addrs, run.err = l.resolver.Resolve(ctx, name)
		<-l.slots
	case <-ctx.Done():
		run.err = errors.New("too many look-ups at once")
	}
	if run.err == nil && len(run.addrs) == 0 {
		run.err = errors.New("the name has no address")
	}
	run.addrs = run.addrs[:min(len(run.addrs), maxAddrs)]
	l.mu.Lock()
	delete(l.running, name)
	l.mu.Unlock()
	close(run.done)
}
