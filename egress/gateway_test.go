package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// patience bounds every wait of these tests; on a busy machine nothing is quick.
const patience = 30 * time.Second

// rig is a gateway on loopback: names get addresses of 127.77.0.0/16, and what it dials arrives at listeners of the test.
type rig struct {
	t      *testing.T
	g      *Gateway
	port   uint16 // of the transparent listener
	proxy  string
	dnsUDP string
	dnsTCP string

	mu     sync.Mutex
	events []Event
	names  map[string][]string // what the host's resolver answers
	hosts  map[string]string   // what listens where, ADDR:PORT on the fake internet to a real address; "" refuses
	dials  []string
	hijack string // the address that is dialled in place of what was asked for
}

const testPool = "127.77.0.0/16"

type option func(*Config)

// onTLSPort stands for a free port of those that are for TLS.
const onTLSPort = -1

// listenOn gives a listener on all addresses: on a port of the system's choosing, or on one for TLS.
func listenOn(t *testing.T, port int) *net.TCPListener {
	t.Helper()
	ports := []int{port}
	if port == onTLSPort {
		ports = []int{8443, 9443, 8883, 6697, 6514, 5671, 5223, 5061}
	}
	var err error
	for _, p := range ports {
		var l net.Listener
		if l, err = net.Listen("tcp4", fmt.Sprintf("0.0.0.0:%d", p)); err == nil {
			return l.(*net.TCPListener)
		}
	}
	t.Fatal(err)
	return nil
}

// newRig starts a gateway. %d in a rule stands for the port of the transparent listener.
func newRig(t *testing.T, port int, rules []string, opts ...option) *rig {
	t.Helper()
	r := &rig{t: t, names: map[string][]string{}, hosts: map[string]string{}}
	l := listenOn(t, port)
	r.port = uint16(l.Addr().(*net.TCPAddr).Port)
	file := func(c interface{ File() (*os.File, error) }) *os.File {
		f, err := c.File()
		if err != nil {
			t.Fatal(err)
		}
		c.(io.Closer).Close()
		return f
	}
	listen := func() *net.TCPListener {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l.(*net.TCPListener)
	}
	proxy, dns := listen(), listen()
	packets, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.proxy, r.dnsTCP, r.dnsUDP = proxy.Addr().String(), dns.Addr().String(), packets.LocalAddr().String()
	s := Sockets{
		TCP:        []*os.File{file(l)},
		Proxy:      []*os.File{file(proxy)},
		DNSStream:  []*os.File{file(dns)},
		DNSPackets: []*os.File{file(packets.(*net.UDPConn))},
	}
	for i := range rules {
		rules[i] = strings.ReplaceAll(rules[i], "%d", fmt.Sprint(r.port))
	}
	cfg := Config{
		Policy:   policyOf(t, rules...),
		Pool4:    netip.MustParsePrefix(testPool),
		Resolver: r,
		Own:      func() ([]netip.Prefix, error) { return []netip.Prefix{netip.MustParsePrefix("9.9.9.9/32")}, nil },
		Observe: func(e Event) {
			r.mu.Lock()
			r.events = append(r.events, e)
			r.mu.Unlock()
		},
	}
	for _, o := range opts {
		o(&cfg)
	}
	g, err := newGateway(cfg)
	if err != nil {
		s.close()
		t.Fatal(err)
	}
	g.dialContext = r.dial
	if err := g.listen(s); err != nil {
		t.Fatal(err)
	}
	r.g = g
	t.Cleanup(func() { g.Close() })
	return r
}

// Resolve is the host's resolver.
func (r *rig) Resolve(_ context.Context, name string) ([]netip.Addr, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	list, ok := r.names[name]
	if !ok {
		return nil, errors.New("the host's resolver does not know the name")
	}
	var out []netip.Addr
	for _, a := range list {
		out = append(out, netip.MustParseAddr(a))
	}
	return out, nil
}

// dial is the host's network. Control sees the address as it would be dialled.
func (r *rig) dial(ctx context.Context, d *net.Dialer, address string) (*net.TCPConn, error) {
	r.mu.Lock()
	if r.hijack != "" {
		address = r.hijack
	}
	r.mu.Unlock()
	if d.Control != nil {
		if err := d.Control("tcp", address, nil); err != nil {
			return nil, err
		}
	}
	r.mu.Lock()
	to, ok := r.hosts[address]
	r.dials = append(r.dials, address)
	r.mu.Unlock()
	if !ok {
		return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ENETUNREACH)}
	}
	if to == "" {
		return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", to)
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil
}

// host makes serve answer on the fake internet at name, addr and port.
func (r *rig) host(name, addr string, port uint16, serve func(*net.TCPConn)) {
	r.t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { l.Close() })
	r.place(name, addr, port, l.Addr().String())
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c.(*net.TCPConn))
			}()
		}
	}()
}

func (r *rig) place(name, addr string, port uint16, real string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if name != "" {
		r.names[name] = append(r.names[name], addr)
	}
	r.hosts[netip.AddrPortFrom(netip.MustParseAddr(addr), port).String()] = real
}

// answers sets what the host's resolver says.
func (r *rig) answers(name string, addrs ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.names[name] = addrs
}

// synthetic asks the gateway's DNS for a name's address.
func (r *rig) synthetic(name string) string {
	r.t.Helper()
	c, err := net.Dial("udp4", r.dnsUDP)
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	return r.ask(c, name, false)
}

func (r *rig) ask(c net.Conn, name string, stream bool) string {
	r.t.Helper()
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 1, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name + "."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}},
	}
	b, err := m.Pack()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		r.t.Fatal(err)
	}
	if stream {
		b = append([]byte{0, byte(len(b))}, b...)
	}
	if _, err := c.Write(b); err != nil {
		r.t.Fatal(err)
	}
	buf := make([]byte, 1024)
	n, err := c.Read(buf)
	if err != nil {
		r.t.Fatal(err)
	}
	buf = buf[:n]
	if stream {
		buf = buf[2:]
	}
	if err := m.Unpack(buf); err != nil {
		r.t.Fatal(err)
	}
	for _, a := range m.Answers {
		if a, ok := a.Body.(*dnsmessage.AResource); ok {
			return netip.AddrFrom4(a.A).String()
		}
	}
	return m.RCode.String()
}

// connect dials as the command does: by the synthetic address.
func (r *rig) connect(name string) *net.TCPConn {
	r.t.Helper()
	return r.connectAddr(r.synthetic(name))
}

func (r *rig) connectAddr(addr string) *net.TCPConn {
	r.t.Helper()
	return r.dialReal(fmt.Sprintf("%s:%d", addr, r.port))
}

// dialReal gives nil if the connection was reset before it could be used.
func (r *rig) dialReal(addr string) *net.TCPConn {
	r.t.Helper()
	c, err := net.Dial("tcp4", addr)
	if errors.Is(err, syscall.ECONNRESET) {
		return nil
	}
	if err != nil {
		r.t.Fatal(err)
	}
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}

// event waits for the next event of that kind and verdict, and takes it.
func (r *rig) event(kind, verdict string) Event {
	r.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		r.mu.Lock()
		i := slices.IndexFunc(r.events, func(e Event) bool { return e.Kind == kind && e.Verdict == verdict })
		if i >= 0 {
			e := r.events[i]
			r.events = slices.Delete(r.events, i, i+1)
			r.mu.Unlock()
			return e
		}
		r.mu.Unlock()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.t.Fatalf("no event %s %s; there are %+v", kind, verdict, r.events[:min(len(r.events), 10)])
	return Event{}
}

func (r *rig) dialled() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.dials)
}

// echo gives back what it gets, up to an orderly end. Without splice, for which net would hold a pipe.
func echo(c *net.TCPConn) { _, _ = io.Copy(struct{ io.Writer }{c}, struct{ io.Reader }{c}) }

// wantReset reads until the connection is over, which must be by a reset.
func wantReset(t *testing.T, c *net.TCPConn) {
	t.Helper()
	if c == nil {
		return // it came before connect(2) was done
	}
	_, err := io.Copy(io.Discard, c)
	if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		t.Errorf("the connection ends with %v, want a reset", err)
	}
}

func exchangeBytes(t *testing.T, c *net.TCPConn, msg string) {
	t.Helper()
	if _, err := io.WriteString(c, msg); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(c)
	if err != nil || string(got) != msg {
		t.Fatalf("%q comes back, %v; want %q", got, err, msg)
	}
}

func TestTransparent(t *testing.T) {
	r := newRig(t, 0, []string{"echo.example:%d", "*.wild.example:%d"})
	r.host("echo.example", "1.2.3.4", r.port, echo)
	r.host("a.wild.example", "1.2.3.5", r.port, echo)
	for _, name := range []string{"echo.example", "a.wild.example"} {
		exchangeBytes(t, r.connect(name), "hello")
		e := r.event(KindConnection, Allowed)
		if e.Name != name || e.Port != r.port || e.BytesIn != 5 || e.BytesOut != 5 || e.Via != "transparent" || !e.Addr.IsValid() || e.Rule == "" || e.Reason != "" {
			t.Errorf("%+v", e)
		}
	}
	s := r.g.Close()
	if s.Connections != 2 || s.BytesIn != 10 || s.BytesOut != 10 || s.Refused != 0 {
		t.Errorf("%+v", s)
	}
}

func TestTransparentRefuses(t *testing.T) {
	r := newRig(t, 0, []string{"echo.example:%d", "other.example:1"})
	r.host("echo.example", "1.2.3.4", r.port, echo)
	r.host("other.example", "1.2.3.5", r.port, echo)
	// The positive control.
	exchangeBytes(t, r.connect("echo.example"), "hello")
	r.event(KindConnection, Allowed)
	before := len(r.dialled())

	wantReset(t, r.connect("other.example"))
	if e := r.event(KindConnection, Refused); e.Name != "other.example" || !strings.Contains(e.Reason, "other ports") || e.Fix != fmt.Sprintf("--allow-net other.example:%d", r.port) {
		t.Errorf("%+v", e)
	}
	// Nobody was given this address.
	wantReset(t, r.connectAddr("127.77.200.1"))
	if e := r.event(KindConnection, Refused); e.Name != "127.77.200.1" || e.Fix != "" || !strings.Contains(e.Reason, "no name") {
		t.Errorf("%+v", e)
	}
	if got := r.dialled(); len(got) != before {
		t.Errorf("what is refused was dialled: %v", got[before:])
	}
}

func TestDNS(t *testing.T) {
	r := newRig(t, 0, []string{"echo.example:%d", "*.wild.example:%d", "10.1.2.3:%d"})
	a := r.synthetic("echo.example")
	if !netip.MustParsePrefix(testPool).Contains(netip.MustParseAddr(a)) {
		t.Errorf("address %s", a)
	}
	if b := r.synthetic("ECHO.Example"); b != a {
		t.Errorf("another address for the same name: %s and %s", a, b)
	}
	if b := r.synthetic("x.wild.example"); b == a {
		t.Errorf("the same address for another name: %s", b)
	}
	c := r.dialReal(r.dnsTCP)
	for range 3 {
		if b := r.ask(c, "echo.example", true); b != a {
			t.Errorf("over TCP: %s", b)
		}
	}
	for _, name := range []string{"secret-data.other.example", "wild.example", "metadata.google.internal", "10.1.2.3", "localhost"} {
		if got := r.synthetic(name); got != "RCodeNameError" {
			t.Errorf("%s: %s", name, got)
		}
		if got := r.synthetic(name); got != "RCodeNameError" {
			t.Errorf("%s again: %s", name, got)
		}
		e := r.event(KindDNS, Refused)
		if !strings.Contains(e.Name, name) || e.Reason == "" {
			t.Errorf("%s: %+v", name, e)
		}
	}
	s := r.g.Close()
	if s.Refused != 10 {
		t.Errorf("%d refusals, want 10", s.Refused)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.events) != 0 {
		t.Errorf("the same name is reported again: %+v", r.events)
	}
	if len(r.dials) != 0 {
		t.Errorf("something was dialled: %v", r.dials)
	}
}

// TestNameFlood: a command may ask for as many names as it likes.
func TestNameFlood(t *testing.T) {
	r := newRig(t, 0, []string{"*.wild.example:%d", "echo.example:%d"})
	r.host("echo.example", "1.2.3.4", r.port, echo)
	z := zone{r.g}
	failed := 0
	for i := range 200_000 {
		if _, _, res := z.Lookup(fmt.Sprintf("n%d.wild.example", i)); res != 1 {
			failed++
		}
		_, _, _ = z.Lookup(fmt.Sprintf("n%d.refused.example", i))
	}
	if n := len(r.g.pool.names); n != maxNames && n != 1<<16-firstAddress-1 {
		t.Errorf("%d names are kept", n)
	}
	if failed < 100_000 {
		t.Errorf("only %d names got no address", failed)
	}
	r.event(KindLimit, Limited)
	exchangeBytes(t, r.connect("echo.example"), "hello")
	r.mu.Lock()
	n := len(r.events)
	r.mu.Unlock()
	if n > eventBurst+1000 {
		t.Errorf("%d events", n)
	}
	if s := r.g.Close(); s.Refused != 200_000 || s.Unreported == 0 {
		t.Errorf("%+v", s)
	}
}

func TestAddresses(t *testing.T) {
	r := newRig(t, 0, []string{"echo.example:%d", "mixed.example:%d", "private.example:%d", "named.example:%d", "own.example:%d", "mapped.example:%d",
		"gone.example:%d", "down.example:%d", "none.example:%d", "half.example:%d", "10.1.2.3:%d"})
	r.host("named.example", "10.1.2.3", r.port, echo)
	r.host("mixed.example", "1.2.3.4", r.port, echo)
	r.answers("mixed.example", "127.0.0.1", "10.9.9.9", "1.2.3.4", "169.254.169.254")
	r.answers("private.example", "192.168.1.1", "fd00::1", "::1")
	r.answers("own.example", "9.9.9.9")
	r.answers("mapped.example", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "::127.0.0.1")
	r.place("down.example", "1.2.3.9", r.port, "")
	r.answers("none.example")
	r.answers("half.example", "1.2.3.9", "10.9.9.9", "127.0.0.1", "169.254.169.254") // a good one that is down is no reason to try the others

	exchangeBytes(t, r.connect("named.example"), "a private address that a rule names")
	r.event(KindConnection, Allowed)
	exchangeBytes(t, r.connect("mixed.example"), "the good one of mixed answers")
	if e := r.event(KindConnection, Allowed); !strings.Contains(e.Reason, "skipped") || !strings.Contains(e.Reason, "10.9.9.9") || e.Addr.Addr().String() != "1.2.3.4" {
		t.Errorf("%+v", e)
	}
	for name, want := range map[string]string{
		"private.example": "192.168.1.1 is a private",
		"own.example":     "this host itself",
		"mapped.example":  "127.0.0.1 is a loopback",
	} {
		wantReset(t, r.connect(name))
		if e := r.event(KindConnection, Refused); e.Name != name || !strings.Contains(e.Reason, want) {
			t.Errorf("%s: %+v", name, e)
		}
	}
	for name, want := range map[string]string{
		"gone.example": "does not know the name",
		"none.example": "no address",
		"down.example": "connection refused",
		"half.example": "connection refused",
	} {
		wantReset(t, r.connect(name))
		if e := r.event(KindConnection, Failed); e.Name != name || !strings.Contains(e.Reason, want) {
			t.Errorf("%s: %+v", name, e)
		}
	}
	for _, d := range r.dialled() {
		if a := netip.MustParseAddrPort(d).Addr().String(); a != "1.2.3.4" && a != "10.1.2.3" && a != "1.2.3.9" {
			t.Errorf("dialled %s", d)
		}
	}
}

// TestN10DialledAddress: whatever happens between the look and the dial, the address that the kernel gets is looked at.
func TestN10DialledAddress(t *testing.T) {
	r := newRig(t, 0, []string{"echo.example:%d"})
	r.host("echo.example", "1.2.3.4", r.port, echo)
	for _, evil := range []string{"127.0.0.1", "169.254.169.254", "10.0.0.1", "1.2.3.5"} {
		r.mu.Lock()
		r.hijack = fmt.Sprintf("%s:%d", evil, r.port)
		r.mu.Unlock()
		wantReset(t, r.connect("echo.example"))
	}
	if got := r.dialled(); len(got) != 0 {
		t.Errorf("dialled %v", got)
	}
}

func TestServerName(t *testing.T) {
	cert := testCert(t, "tls.example", "other.example")
	r := newRig(t, onTLSPort, []string{"tls.example:%d", "other.example:%d"})
	serve := func(c *net.TCPConn) {
		s := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{cert.tls}})
		_, _ = io.Copy(s, s)
	}
	r.host("tls.example", "1.2.3.4", r.port, serve)
	r.host("other.example", "1.2.3.4", r.port, serve)
	shake := func(dial, sni string) error {
		c := tls.Client(r.connect(dial), &tls.Config{ServerName: sni, RootCAs: cert.pool, InsecureSkipVerify: sni == ""})
		if err := c.Handshake(); err != nil {
			return err
		}
		if _, err := io.WriteString(c, "hello"); err != nil {
			return err
		}
		_, err := io.ReadFull(c, make([]byte, 5))
		c.Close()
		return err
	}
	if err := shake("tls.example", "tls.example"); err != nil {
		t.Fatal(err)
	}
	r.event(KindConnection, Allowed)
	before := len(r.dialled())
	for sni, want := range map[string]string{
		"other.example": "asks for other.example",
		"evil.example":  "asks for evil.example",
		"":              "no SNI",
	} {
		if err := shake("tls.example", sni); err == nil {
			t.Errorf("SNI %q is let through", sni)
		}
		if e := r.event(KindConnection, Refused); e.Name != "tls.example" || !strings.Contains(e.Reason, want) {
			t.Errorf("%+v", e)
		}
	}
	for _, msg := range []string{"SSH-2.0-x\r\n", "GET / HTTP/1.1\r\n\r\n", "\x16"} {
		c := r.connect("tls.example")
		if _, err := io.WriteString(c, msg); err != nil {
			t.Fatal(err)
		}
		_ = c.CloseWrite()
		wantReset(t, c)
		if e := r.event(KindConnection, Refused); !strings.Contains(e.Reason, "is for TLS") {
			t.Errorf("%+v", e)
		}
	}
	if got := r.dialled(); len(got) != before {
		t.Errorf("what is refused was dialled: %v", got[before:])
	}
}

// TestHalfClose: one way may end while the other goes on for long.
func TestHalfClose(t *testing.T) {
	r := newRig(t, 0, []string{"echo.example:%d"})
	r.host("echo.example", "1.2.3.4", r.port, func(c *net.TCPConn) {
		all, _ := io.ReadAll(c) // up to the command's end
		_, _ = c.Write(bytes.ToUpper(all))
		time.Sleep(20 * time.Millisecond)
		_, _ = c.Write([]byte("!"))
	})
	c := r.connect("echo.example")
	if _, err := io.WriteString(c, "half"); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); string(got) != "HALF!" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// TestReset: a reset on one side is one on the other.
func TestReset(t *testing.T) {
	r := newRig(t, 0, []string{"a.example:%d", "b.example:%d"})
	r.host("a.example", "1.2.3.4", r.port, func(c *net.TCPConn) {
		_, _ = io.ReadFull(c, make([]byte, 5))
		_ = c.SetLinger(0)
	})
	seen := make(chan error, 1)
	r.host("b.example", "1.2.3.5", r.port, func(c *net.TCPConn) {
		_, _ = c.Write([]byte("ready"))
		_, err := io.Copy(io.Discard, c)
		seen <- err
	})
	c := r.connect("a.example")
	if _, err := io.WriteString(c, "hello"); err != nil {
		t.Fatal(err)
	}
	wantReset(t, c)

	c = r.connect("b.example")
	if _, err := io.ReadFull(c, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	_ = c.SetLinger(0)
	c.Close()
	select {
	case err := <-seen:
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the host sees %v", err)
		}
	case <-time.After(patience):
		t.Error("the host sees nothing of the reset")
	}
	for range 2 {
		r.event(KindConnection, Allowed)
	}
}

// A client that has said all and goes away then is gone for the host too, which may never have a word to find out by.
func TestResetAfterEnd(t *testing.T) {
	r := newRig(t, 0, []string{"mute.example:%d", "mute.example:80"})
	seen := make(chan error, 1)
	mute := func(c *net.TCPConn) {
		_, _ = c.Read(make([]byte, 1000))
		if _, err := io.Copy(io.Discard, c); err != nil {
			seen <- err
			return
		}
		seen <- WaitReset(c)
	}
	r.host("mute.example", "1.2.3.4", r.port, mute)
	r.host("", "1.2.3.4", 80, mute)
	for way, begin := range map[string]func() *net.TCPConn{
		"transparent": func() *net.TCPConn { return r.connect("mute.example") },
		"CONNECT": func() *net.TCPConn {
			c := r.dialReal(r.proxy)
			_, _ = io.WriteString(c, "CONNECT mute.example:80 HTTP/1.1\r\nHost: mute.example:80\r\n\r\n")
			return c
		},
		"http": func() *net.TCPConn {
			c := r.dialReal(r.proxy)
			_, _ = io.WriteString(c, "GET http://mute.example/ HTTP/1.1\r\nHost: mute.example\r\n\r\n")
			return c
		},
	} {
		c := begin()
		if _, err := io.WriteString(c, "hello"); err != nil {
			t.Fatal(err)
		}
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond) // so that the end and the reset are two things
		_ = c.SetLinger(0)
		c.Close()
		select {
		case err := <-seen:
			if !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("%s: the host sees %v", way, err)
			}
		case <-time.After(patience / 3):
			t.Errorf("%s: the host sees nothing of the reset", way)
		}
		r.event(KindConnection, Allowed)
	}
}

// TestBackpressure: a reader that stops stops the writer, and nothing is stored in between.
func TestBackpressure(t *testing.T) {
	const most = 64 << 20
	r := newRig(t, 0, []string{"a.example:%d"})
	wrote := make(chan int, 1)
	r.host("a.example", "1.2.3.4", r.port, func(c *net.TCPConn) {
		_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		n := 0
		buf := make([]byte, 1<<16)
		for n < most {
			k, err := c.Write(buf)
			n += k
			if err != nil {
				break
			}
		}
		wrote <- n
	})
	c := r.connect("a.example")
	n := <-wrote
	if n == 0 || n >= most {
		t.Errorf("%d bytes went to a reader that does not read", n)
	}
	got, _ := io.Copy(io.Discard, c)
	if int(got) != n {
		t.Errorf("%d bytes arrive, and %d were sent", got, n)
	}
}
