package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"gobox/egress/hostname"
)

// Dialling (RFC 8305): the next address is tried when the one before failed, or has not answered for attemptDelay. A name can
// have dozens of addresses of which none answers, and each attempt is a descriptor: one of them is the connection's own, more are
// few, and out of a store for all connections. Where there is no room, the eldest gives way.
const (
	dialTimeout  = 30 * time.Second // of all addresses together
	attemptDelay = 300 * time.Millisecond
	attemptTime  = 3 * time.Second // of one that stands in the way of the next
	maxAttempts  = 5               // of one connection at once
)

// refusal is an error that policy is the reason for.
type refusal struct{ Decision }

func (r refusal) Error() string { return r.Decision.String() }

// dialled is a connection and how it came about.
type dialled struct {
	conn stream
	addr netip.AddrPort // invalid behind a proxy
	note string         // addresses that were skipped, or the proxy
}

// dial connects to an allowed host: by the caller's proxy if there is one for it, else to the first of its addresses that
// may be dialled and answers. The error is a refusal if policy forbids each address.
func (g *Gateway) dial(ctx context.Context, h hostname.Host, port uint16) (dialled, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if p := g.proxies.forTarget(h, port); p != nil {
		conn, err := p.dial(ctx, h, port)
		return dialled{conn: conn, note: "by way of the caller's proxy " + p.String()}, err
	}
	addrs := []netip.Addr{h.Addr}
	if h.Name != "" {
		var err error
		if addrs, err = g.lookups.resolve(ctx, h.Name); err != nil {
			return dialled{}, err
		}
	}
	good, note, err := g.choose(h, addrs, port)
	if err != nil {
		return dialled{}, err
	}
	conn, addr, err := g.race(ctx, h, good, port)
	return dialled{conn, addr, note}, err
}

// choose leaves the addresses that may be dialled. Of mixed answers the others are skipped and named in the note.
func (g *Gateway) choose(h hostname.Host, addrs []netip.Addr, port uint16) (good []netip.Addr, note string, err error) {
	own, err := g.own.list()
	if err != nil {
		return nil, "", err
	}
	var skipped []string
	var last Decision
	for _, a := range addrs {
		d := g.cfg.Policy.Resolved(h.Name, a, port, own)
		if d.Allowed {
			good = append(good, a.Unmap())
			continue
		}
		last = d
		if len(skipped) < 4 {
			skipped = append(skipped, d.Reason)
		}
	}
	note = strings.Join(skipped, "; ")
	if len(good) == 0 {
		last.Reason = note
		return nil, "", refusal{last}
	}
	if note != "" {
		note = "skipped: " + note
	}
	return good, note, nil
}

type attempt struct {
	index int
	conn  *net.TCPConn
	addr  netip.AddrPort
	err   error
}

// trial is an attempt that is under way.
type trial struct {
	index int
	since time.Time
	end   context.CancelFunc
	given bool // up
}

// race tries the addresses in order and gives the first connection.
func (g *Gateway) race(ctx context.Context, h hostname.Host, addrs []netip.Addr, port uint16) (*net.TCPConn, netip.AddrPort, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan attempt, len(addrs))
	var first error
	var running []*trial
	started := 0
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-next.C:
			if started == len(addrs) {
				continue
			}
			next.Reset(attemptDelay)
			if !g.room(running) {
				continue
			}
			t := &trial{index: started, since: time.Now()}
			one, end := context.WithCancel(ctx)
			t.end = end
			g.try(one, h, attempt{index: t.index, addr: netip.AddrPortFrom(addrs[t.index], port)}, len(running) > 0, results)
			running = append(running, t)
			started++
		case r := <-results:
			i := slices.IndexFunc(running, func(t *trial) bool { return t.index == r.index })
			t := running[i]
			t.end()
			running = slices.Delete(running, i, i+1)
			if r.err == nil {
				go discard(results, len(running))
				return r.conn, r.addr, nil
			}
			if t.given {
				r.err = dialError(r.addr.String(), context.DeadlineExceeded)
			}
			if first == nil {
				first = r.err
			}
			if len(running) > 0 {
				if t.given {
					next.Reset(0)
				}
				continue
			}
			if started == len(addrs) {
				return nil, netip.AddrPort{}, first
			}
			next.Reset(0)
		}
	}
}

// room says whether one more attempt may begin beside those that run, and has a descriptor for it then. If not, the eldest is
// given up once it has had its time.
func (g *Gateway) room(running []*trial) bool {
	if len(running) == 0 {
		return true
	}
	if len(running) < maxAttempts {
		select {
		case g.attempts <- struct{}{}:
			return true
		default:
		}
	}
	for _, t := range running {
		if t.given {
			return false
		}
	}
	if t := running[0]; time.Since(t.since) >= attemptTime {
		t.given = true
		t.end()
	}
	return false
}

// try makes an attempt; one that is extra gives back the descriptor out of the store.
func (g *Gateway) try(ctx context.Context, h hostname.Host, a attempt, extra bool, results chan<- attempt) {
	go func() {
		a.conn, a.err = g.dialAddr(ctx, h, a.addr)
		if extra {
			<-g.attempts
		}
		results <- a
	}()
}

// discard closes what comes too late.
func discard(results <-chan attempt, n int) {
	for range n {
		if r := <-results; r.conn != nil {
			r.conn.Close()
		}
	}
}

// dialAddr dials one address. What the kernel is about to connect to is looked at once more, at the last moment there is.
func (g *Gateway) dialAddr(ctx context.Context, h hostname.Host, to netip.AddrPort) (*net.TCPConn, error) {
	d := net.Dialer{Control: func(_, address string, _ syscall.RawConn) error {
		a, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		if a.Addr().Unmap() != to.Addr() || a.Port() != to.Port() {
			return fmt.Errorf("about to dial %s in place of %s", a, to)
		}
		own, err := g.own.list()
		if err != nil {
			return err
		}
		if d := g.cfg.Policy.Resolved(h.Name, a.Addr(), a.Port(), own); !d.Allowed {
			return refusal{d}
		}
		return nil
	}}
	conn, err := g.dialContext(ctx, &d, to.String())
	if err != nil {
		return nil, dialError(to.String(), err)
	}
	return conn, nil
}

// netDial is the only door to the host's network.
func netDial(ctx context.Context, d *net.Dialer, address string) (*net.TCPConn, error) {
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

func dialError(to string, err error) error {
	var r refusal
	if errors.As(err, &r) {
		return r
	}
	var errno syscall.Errno
	switch {
	case errors.Is(err, context.DeadlineExceeded), isTimeout(err):
		return fmt.Errorf("connect to %s: no answer: %w", to, context.DeadlineExceeded)
	case errors.As(err, &errno):
		return fmt.Errorf("connect to %s: %w", to, errno)
	}
	return fmt.Errorf("connect to %s: %w", to, err)
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}
