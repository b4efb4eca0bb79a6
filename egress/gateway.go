package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"gobox/egress/hostname"
	"gobox/egress/tlsclient"
)

// Gateway serves the sockets of one run.
type Gateway struct {
	cfg     Config
	pool    *pool
	proxies *proxies
	lookups *lookups
	own     *ownAddresses
	report  *reporter
	pipes   *pipes
	most    int // connections that there are descriptors for
	in, out *quota

	mostReason string // for who is one too many

	long     chan struct{} // places for long first messages
	attempts chan struct{} // to connect, beyond the first of each connection: as many as there are descriptors for

	dialContext func(context.Context, *net.Dialer, string) (*net.TCPConn, error)

	ctx    context.Context // ends with the gateway
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu        sync.Mutex
	rate      bucket
	conns     map[net.Conn]struct{} // accepted ones
	listeners []io.Closer
	closed    bool
}

// closeTimeout bounds how long Close waits; everything it waits for ends when its sockets close.
const closeTimeout = 2 * time.Second

// Start takes over the sockets and serves them until Close. The error names what cannot be served as it should.
func Start(cfg Config, s Sockets) (*Gateway, error) {
	g, err := newGateway(cfg)
	if err != nil {
		s.close()
		return nil, err
	}
	if err := g.listen(s); err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

func newGateway(cfg Config) (*Gateway, error) {
	if err := cfg.Policy.Check(); err != nil {
		return nil, err
	}
	if len(cfg.Secrets) != len(cfg.Credentials) {
		return nil, errors.New("a credential has no value")
	}
	if cfg.TLS == nil {
		cfg.TLS = tlsclient.Client
	}
	for i, c := range cfg.Credentials {
		if err := CheckValue(cfg.Secrets[i]); err != nil {
			return nil, fmt.Errorf("the value of %s for %s: %w", c.Env, c.Host, err)
		}
	}
	for _, d := range cfg.Direct {
		for _, p := range []netip.Prefix{cfg.Pool4, cfg.Pool6} {
			if p.IsValid() && d.Overlaps(p) {
				return nil, fmt.Errorf("%s overlaps %s, out of which names get their addresses inside", d, p)
			}
		}
	}
	if cfg.firstWord == 0 {
		cfg.firstWord = firstWordTimeout
	}
	proxies, err := newProxies(cfg.Proxy)
	if err != nil {
		return nil, err
	}
	if cfg.Resolver == nil {
		cfg.Resolver = HostResolver{}
	}
	if cfg.Own == nil {
		cfg.Own = hostAddresses
	}
	g := &Gateway{
		cfg:         cfg,
		pool:        newPool(cfg.Policy, cfg.Pool4, cfg.Pool6),
		proxies:     proxies,
		own:         &ownAddresses{get: cfg.Own},
		report:      newReporter(cfg.Observe),
		long:        make(chan struct{}, maxLong),
		dialContext: netDial,
		conns:       map[net.Conn]struct{}{},
	}
	proxies.gateway = g
	if r := cfg.Limits.Rate; r > 0 {
		g.rate = newBucket(r, max(r, 10))
	}
	share, err := descriptors()
	if err != nil {
		return nil, err
	}
	g.most, g.mostReason = share.conns, "there is room for %d connections at once"
	if share.raise {
		g.mostReason = "the limit on open files leaves room for %d connections at once, and ulimit -n raises it"
	}
	g.pipes = newPipes(share.pipes)
	g.lookups = newLookups(cfg.Resolver, share.lookups)
	g.attempts = make(chan struct{}, share.attempts)
	g.in = g.quota(LimitBytesIn, "bytes to the command", cfg.Limits.BytesIn, &g.report.in)
	g.out = g.quota(LimitBytesOut, "bytes from the command", cfg.Limits.BytesOut, &g.report.out)
	g.ctx, g.cancel = context.WithCancel(context.Background())
	return g, nil
}

// A gateway leaves this many descriptors to the rest of the supervisor, besides those that are open when it starts.
const reservedFiles = 128

// mostFiles is of how many a gateway makes use.
const mostFiles = 1 << 13

// share is how many of each there are descriptors for: a connection takes two, a pipe two, a look-up two (one for each
// family), and an attempt to connect beside another one.
type share struct {
	conns, pipes, lookups, attempts int
	raise                           bool // a higher limit would make it more
}

// descriptors divides seven eighths of what RLIMIT_NOFILE leaves; the last one is for published ports.
func descriptors() (share, error) {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return share{}, fmt.Errorf("getrlimit: %w", err)
	}
	open := 64
	if list, err := os.ReadDir("/proc/self/fd"); err == nil {
		open = len(list)
	}
	// Some 2,600 connections: no run needs more, and the supervisor's memory is in no limit.
	free := (int(min(lim.Cur, mostFiles)) - open - reservedFiles) * 7 / 8
	if free < 64 {
		return share{}, fmt.Errorf("the limit on open files, %d, leaves none for connections; raise it with ulimit -n", lim.Cur)
	}
	return share{conns: free * 3 / 8, pipes: free * 5 / 64, lookups: min(free/32, maxLookups), attempts: free / 32, raise: lim.Cur < mostFiles}, nil
}

func (g *Gateway) quota(name, what string, limit uint64, used *atomic.Uint64) *quota {
	reason := fmt.Sprintf("the limit of %d %s is used up", limit, what)
	return &quota{used: used, limit: limit, err: errLimit(reason), gone: func() { g.report.limit(name, reason) }}
}

// listen begins to serve; what it has taken over is closed by Close.
func (g *Gateway) listen(s Sockets) error {
	defer s.close() // net makes duplicates
	for _, list := range []struct {
		files []*os.File
		serve func(*net.TCPConn)
	}{
		{s.TCP, g.serveTransparent},
		{s.Proxy, g.serveProxy},
		{s.DNSStream, g.serveDNSStream},
	} {
		for _, f := range list.files {
			l, err := net.FileListener(f)
			if err != nil {
				return fmt.Errorf("serve a socket: %w", err)
			}
			t, ok := l.(*net.TCPListener)
			g.listeners = append(g.listeners, l)
			if !ok {
				return errors.New("serve a socket: it is no TCP listener")
			}
			g.wg.Go(func() { g.accept(t, list.serve) })
		}
	}
	for _, f := range s.DNSPackets {
		c, err := net.FilePacketConn(f)
		if err != nil {
			return fmt.Errorf("serve a socket: %w", err)
		}
		g.listeners = append(g.listeners, c)
		u, ok := c.(*net.UDPConn)
		if !ok {
			return errors.New("serve a socket: it is no UDP socket")
		}
		g.wg.Go(func() { g.serveDNSPackets(u) })
	}
	return nil
}

// accept hands each connection to serve in a goroutine of its own, within the limits on their number.
func (g *Gateway) accept(l *net.TCPListener, serve func(*net.TCPConn)) {
	pause := time.Duration(0)
	for {
		c, err := l.AcceptTCP()
		if err != nil {
			if g.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			// ECONNABORTED is one connection's; without descriptors or memory it is of no use to hurry.
			if !errors.Is(err, unix.ECONNABORTED) {
				pause = min(max(2*pause, time.Millisecond), 100*time.Millisecond)
				time.Sleep(pause)
			}
			continue
		}
		pause = 0
		if name, reason := g.admit(c); reason != "" {
			reset(c)
			if reason != errClosed {
				g.report.limited.Add(1)
				g.report.limit(name, reason)
			}
			continue
		}
		g.wg.Go(func() {
			defer g.release(c)
			serve(c)
		})
	}
}

const errClosed = "closed"

// admit registers an accepted connection, or says which limit forbids it; one that is nobody's choice has no name.
func (g *Gateway) admit(c net.Conn) (name, reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch n := g.cfg.Limits.Connections; {
	case g.closed:
		return "", errClosed
	case n > 0 && len(g.conns) >= n:
		return LimitConnections, fmt.Sprintf("the limit of %d connections at once is reached", n)
	case len(g.conns) >= g.most:
		return "", fmt.Sprintf(g.mostReason, g.most)
	case g.cfg.Limits.Rate > 0 && !g.rate.take(time.Now()):
		return LimitRate, fmt.Sprintf("the limit of %g new connections a second is reached", g.cfg.Limits.Rate)
	}
	g.conns[c] = struct{}{}
	return "", ""
}

// crowded says whether there are many connections.
func (g *Gateway) crowded() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.conns) > largeConns
}

func (g *Gateway) release(c net.Conn) {
	c.Close()
	g.mu.Lock()
	delete(g.conns, c)
	g.mu.Unlock()
}

// Close ends every connection at once and gives the totals. What it waits for takes some milliseconds, and never more than
// two seconds.
func (g *Gateway) Close() Summary {
	g.mu.Lock()
	g.closed = true
	g.cancel()
	for _, l := range g.listeners {
		l.Close()
	}
	for c := range g.conns {
		if c, ok := c.(*net.TCPConn); ok {
			reset(c)
		}
	}
	g.mu.Unlock()
	done := make(chan struct{})
	go func() { g.wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(closeTimeout):
	}
	g.pipes.close()
	return g.report.summary()
}

func (s Sockets) close() {
	for _, list := range [][]*os.File{s.TCP, s.DNSPackets, s.DNSStream, s.Proxy} {
		for _, f := range list {
			f.Close()
		}
	}
}

// session is one connection of the command's on its way to a host.
type session struct {
	g      *Gateway
	client *net.TCPConn
	via    string
	begun  time.Time
	host   hostname.Host
	port   uint16
	rule   string

	end  time.Time // until when the first message must be there
	long bool      // it has one of the places for long ones
}

// target is the host that an address stands for: the name it was given out for, or itself.
func (g *Gateway) target(h hostname.Host) hostname.Host {
	if h.Name == "" {
		if name, ok := g.pool.name(h.Addr); ok {
			return hostname.Host{Name: name}
		}
	}
	return h
}

// Ways in.
const (
	viaTransparent = "transparent"
	viaConnect     = "connect"
	viaSOCKS       = "socks5"
	viaHTTP        = "http"
)

// serveTransparent carries a connection that the command made to an address of the pool, or to one that a rule names.
func (g *Gateway) serveTransparent(c *net.TCPConn) {
	local := c.LocalAddr().(*net.TCPAddr).AddrPort()
	h := g.target(hostname.Host{Addr: local.Addr().Unmap()})
	s := &session{g: g, client: c, via: viaTransparent, begun: time.Now(), host: h, port: local.Port()}
	defer s.passed()
	if d := s.decide(); !d.Allowed {
		s.refuse(d)
		return
	}
	initial, err := s.peek(nil)
	if err != nil {
		s.abort(err)
		return
	}
	up, err := g.dial(g.ctx, s.host, s.port)
	if err != nil {
		s.abort(err)
		return
	}
	s.carry(up, initial)
}

// decide is the policy's word about the session's host and port.
func (s *session) decide() Decision {
	d := s.g.cfg.Policy.decide(s.host, s.port)
	if a := s.host.Addr; !d.Allowed && s.host.Name == "" && (s.g.cfg.Pool4.Contains(a) || s.g.cfg.Pool6.Contains(a)) {
		// No rule would make anything of it.
		d.Reason, d.Fix = "it is one of gobox's own addresses for names, and no name has been given it", ""
	}
	s.rule = d.Rule
	return d
}

// refuse resets the command's connection and reports why.
func (s *session) refuse(d Decision) {
	reset(s.client)
	s.event(Event{Verdict: Refused, Reason: d.Reason, Fix: d.Fix})
}

// abort is for a connection that was allowed and did not come about.
func (s *session) abort(err error) {
	reset(s.client)
	s.fail(err)
}

// fail reports an error by what it is.
func (s *session) fail(err error) {
	e := Event{Verdict: Failed, Reason: err.Error()}
	var r refusal
	var l errLimit
	switch {
	case errors.As(err, &r):
		e.Verdict, e.Name, e.Reason, e.Fix = Refused, r.Target, r.Reason, r.Fix
	case errors.As(err, &l):
		e.Verdict = Limited
	case s.g.ctx.Err() != nil:
		e.Reason = "the run ended"
	}
	s.event(e)
}

// event completes an event with what the session knows.
func (s *session) event(e Event) {
	e.Kind, e.Time, e.Duration = KindConnection, s.begun, time.Since(s.begun)
	e.Port, e.Via = s.port, s.via
	if name := s.host.String(); name != "" {
		e.Name = name
	}
	if e.Verdict != Refused {
		e.Rule = s.rule
	}
	s.g.report.event(e)
}

// carry relays until the end, and reports it.
func (s *session) carry(up dialled, initial []byte) {
	r := s.relay(up.conn)
	stop := s.watch(r)
	cause := r.run(initial)
	stop()
	s.ended(up, r, cause)
}

func (s *session) relay(server stream) *relay {
	// The deadline of the peek or the request's head must not end the connection.
	_ = s.client.SetDeadline(time.Time{})
	FewUnsent(s.client)
	FewUnsent(server)
	if s.g.crowded() {
		fewUnread(s.client)
		fewUnread(server)
	}
	return &relay{
		client: s.client, server: server, pipes: s.g.pipes, totalIn: s.g.in, totalOut: s.g.out, start: time.Now(), passed: s.passed,
	}
}

func (s *session) ended(up dialled, r *relay, cause error) {
	e := Event{Addr: up.addr, BytesIn: r.in.Load(), BytesOut: r.out.Load(), Verdict: Allowed, Reason: up.note}
	var l errLimit
	var d refusal
	switch {
	case errors.As(cause, &d):
		e.Verdict, e.Reason, e.Fix = Refused, d.Reason, d.Fix
	case errors.As(cause, &l):
		e.Verdict, e.Reason = Limited, cause.Error()
	case cause != nil && !hungUp(cause) && s.g.ctx.Err() == nil:
		e.Verdict, e.Reason = Failed, cause.Error()
	}
	s.event(e)
}

// watch ends a relay that outlives its limits, or the gateway. stop ends the watching.
func (s *session) watch(r *relay) (stop func()) {
	var timers []*time.Timer
	lim := s.g.cfg.Limits
	cut := func(name, reason string) {
		s.g.report.limit(name, reason)
		r.cut(errLimit(reason))
	}
	if lim.Total > 0 {
		timers = append(timers, time.AfterFunc(lim.Total-time.Since(s.begun), func() {
			cut(LimitTotal, fmt.Sprintf("a connection may last %s", lim.Total))
		}))
	}
	done := make(chan struct{})
	if lim.Idle > 0 {
		go func() {
			t := time.NewTimer(lim.Idle)
			defer t.Stop()
			for {
				select {
				case <-done:
					return
				case <-t.C:
				}
				idle := time.Since(r.start) - time.Duration(r.active.Load())
				if idle >= lim.Idle {
					cut(LimitIdle, fmt.Sprintf("a connection may be idle for %s", lim.Idle))
					return
				}
				t.Reset(lim.Idle - idle)
			}
		}()
	}
	unhook := context.AfterFunc(s.g.ctx, func() { r.cut(net.ErrClosed) })
	return func() {
		close(done)
		unhook()
		for _, t := range timers {
			t.Stop()
		}
	}
}
