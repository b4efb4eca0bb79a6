package integration

import (
	"net"
	"strings"
	"testing"
	"time"

	"gobox/integration/harness"
)

var unreachable = []string{"ECONNREFUSED", "ENETUNREACH", "EHOSTUNREACH", "EADDRNOTAVAIL", "EPERM", "EACCES", "EAFNOSUPPORT"}

// canaryTCP listens on the host's loopback and tells of every connection.
func canaryTCP(t *testing.T, address string) (string, <-chan string) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Skipf("this host cannot listen on %s: %v", address, err)
	}
	t.Cleanup(func() { l.Close() })
	conns := make(chan string, 64)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
			conns <- address
		}
	}()
	return l.Addr().String(), conns
}

func silent(t *testing.T, conns <-chan string) {
	t.Helper()
	select {
	case <-conns:
		t.Error("the host's listener was reached")
	case <-time.After(100 * time.Millisecond):
	}
}

func TestN01NoNetwork(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for _, address := range []string{"127.0.0.1:0", "127.0.0.2:0", "[::1]:0"} {
			t.Run(strings.Trim(address, "[]:0"), func(t *testing.T) {
				addr, conns := canaryTCP(t, address)
				try := "dial tcp " + addr
				b.Outside(t, try).Allowed(t, try)
				<-conns
				b.Inside(t, nil, try).Refused(t, unreachable, try)
				silent(t, conns)
			})
		}
		// Documentation addresses, asked for by a call that sends nothing.
		tries := []string{"route 192.0.2.1", "route 2001:db8::1", "route 169.254.169.254", "route 10.0.0.1"}
		rep := b.Inside(t, nil, append(tries, "interfaces", "loopback")...)
		rep.Refused(t, unreachable, tries...)
		if o := rep.Of(t, "interfaces"); o.Detail != "lo" {
			t.Errorf("interfaces: %+v", o)
		}
		rep.Allowed(t, "loopback")
	})
}

func TestN04NoDatagrams(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		pc, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer pc.Close()
		try := "dial udp " + pc.LocalAddr().String()
		buf := make([]byte, 64)
		b.Outside(t, try).Allowed(t, try)
		if err := pc.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := pc.ReadFrom(buf); err != nil {
			t.Fatalf("control: %v", err)
		}
		ping := systry("socket 2 2 1")
		rep := b.Inside(t, nil, try, ping)
		rep.Refused(t, unreachable, ping)
		if err := pc.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if n, _, err := pc.ReadFrom(buf); err == nil {
			t.Errorf("the host's socket got %q", buf[:n])
		}
	})
}

func TestN18NetlinkChangesNothing(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		var tries []string
		for _, protocol := range []string{"6", "9", "12", "15", "16"} { // XFRM, AUDIT, NETFILTER, KOBJECT_UEVENT, GENERIC
			tries = append(tries, systry("socket 16 3 "+protocol))
		}
		rep := b.Inside(t, nil, append(tries, "netlink-newlink", "interfaces")...)
		refused := []string{"EPERM", "EACCES", "ENOSYS", "EAFNOSUPPORT", "EPROTONOSUPPORT"}
		rep.Refused(t, refused, append(tries, "netlink-newlink")...)
		if o := rep.Of(t, "interfaces"); o.Detail != "lo" {
			t.Errorf("interfaces: %+v", o)
		}
	})
}

func TestN19ListenersInsideAreUnreachable(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr := l.Addr().String()
		l.Close()
		ready := make(chan struct{})
		cmd := b.Command(t.Context(), harness.Run{Argv: []string{b.Probe, "listen", addr, "1s"}})
		out := &watcher{want: "listening", seen: ready}
		cmd.Stdout = out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-ready:
			if c, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
				c.Close()
				t.Error("the host reached a listener inside")
			}
		case <-time.After(20 * time.Second):
			t.Error("nothing listens inside")
		}
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		if text := out.String(); !strings.Contains(text, `"ret":0,"errno":""`) {
			t.Errorf("inside: %s", text)
		}
	})
}

func TestN20Vsock(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		tries := []string{systry("socket 40 1 0"), systry("socket 40 2 0"), systry("socket 40 5 0")}
		b.Inside(t, nil, tries...).Refused(t, []string{"EPERM", "EAFNOSUPPORT", "ENOSYS"}, tries...)
	})
}

// TestN02 is CVE-2020-15257: a socket without a file is found by its name alone.
func TestN02AbstractSockets(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		name := "@" + b.Marker
		conns := listenUnix(t, name)
		try := "connect-unix stream " + name
		b.Outside(t, try, "cat /proc/net/unix").Allowed(t, try)
		<-conns
		rep := b.Inside(t, nil, try, "connect-unix dgram "+name, "cat /proc/net/unix")
		rep.Refused(t, []string{"ECONNREFUSED", "EPERM"}, try, "connect-unix dgram "+name)
		if text := rep.Of(t, "cat /proc/net/unix").Detail; strings.Contains(text, b.Marker) {
			t.Errorf("the host's sockets are listed: %.200s", text)
		}
		silent(t, conns)
	})
}
