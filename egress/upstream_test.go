package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"gobox/egress/hostname"
)

func TestProxiesFromEnv(t *testing.T) {
	u := ProxiesFromEnv([]string{"HTTPS_PROXY=a", "https_proxy=b", "HTTP_PROXY=c", "http_proxy=", "ALL_PROXY=d", "no_proxy=e"})
	if u != (UpstreamProxies{HTTPS: "b", HTTP: "c", All: "d", No: "e"}) {
		t.Errorf("%+v", u)
	}
}

func TestForTarget(t *testing.T) {
	p, err := newProxies(UpstreamProxies{HTTPS: "http://h:1", HTTP: "p:2", All: "socks5h://a", No: "direct.example,.sub.example, *.star.example ,10.0.0.0/8,[fd00::1],1.2.3.4,port.example:8443"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		host string
		port uint16
		want string
	}{
		{"a.example", 443, "http://h:1"}, {"a.example", 8443, "http://h:1"}, {"a.example", 80, "http://p:2"}, {"a.example", 22, "socks5://a:1080"},
		{"direct.example", 443, ""}, {"x.direct.example", 443, ""}, {"xdirect.example", 443, "http://h:1"},
		{"sub.example", 443, "http://h:1"}, {"a.sub.example", 443, ""}, {"a.star.example", 443, ""}, {"star.example", 443, "http://h:1"},
		{"10.2.3.4", 443, ""}, {"11.2.3.4", 443, "http://h:1"}, {"fd00::1", 22, ""}, {"fd00::2", 22, "socks5://a:1080"}, {"1.2.3.4", 80, ""},
		{"port.example", 8443, ""}, {"port.example", 443, "http://h:1"},
	} {
		h, err := hostname.Parse(c.host)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if u := p.forTarget(h, c.port); u != nil {
			got = u.String()
		}
		if got != c.want {
			t.Errorf("%s:%d by %q, want %q", c.host, c.port, got, c.want)
		}
	}
	for _, bad := range []string{"ftp://p", "http://", "http://p:0", "http://u:the-password@p:99999", "http://u:the-password@[p"} {
		_, err := newProxies(UpstreamProxies{All: bad})
		if err == nil || strings.Contains(err.Error(), "the-password") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	p, err = newProxies(UpstreamProxies{All: "p:1", No: "*"})
	if err != nil || p.forTarget(hostname.Host{Name: "a"}, 1) != nil {
		t.Errorf("NO_PROXY=* is not followed: %v", err)
	}
}

// TestUpstreamHTTP: what is allowed goes by CONNECT to the caller's proxy, with its password, and what is not stays here.
func TestUpstreamHTTP(t *testing.T) {
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) { testUpstreamHTTP(t, scheme) })
	}
}

func testUpstreamHTTP(t *testing.T, scheme string) {
	cert := testCert(t, "proxy.example")
	r := newRig(t, 0, []string{"far.example:%d", "near.example:%d", "denied.example:%d"}, func(c *Config) {
		c.Proxy = UpstreamProxies{All: scheme + "://user:pass@proxy.example:3128", No: "near.example"}
		c.TLS = func(_ context.Context, conn net.Conn, name string) (net.Conn, error) {
			return tls.Client(conn, &tls.Config{ServerName: name, RootCAs: cert.pool}), nil
		}
	})
	r.host("", "127.0.0.1", 3128, func(tcp *net.TCPConn) {
		var c stream = tcp
		if scheme == "https" {
			c = tls.Server(tcp, &tls.Config{Certificates: []tls.Certificate{cert.tls}})
			defer c.Close()
		}
		req, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		if req.Method != "CONNECT" || req.Header.Get("Proxy-Authorization") != "Basic dXNlcjpwYXNz" || strings.HasPrefix(req.RequestURI, "denied") {
			fmt.Fprint(c, "HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n")
			return
		}
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nX: y\r\n\r\n%s|", req.RequestURI)
		_, _ = io.Copy(struct{ io.Writer }{c}, struct{ io.Reader }{c})
	})
	r.mu.Lock()
	r.hosts["proxy.example:3128"] = r.hosts["127.0.0.1:3128"]
	r.mu.Unlock()
	r.host("near.example", "1.2.3.4", r.port, echo)
	c := r.connect("far.example")
	if _, err := io.WriteString(c, "hello"); err != nil {
		t.Fatal(err)
	}
	_ = c.CloseWrite()
	want := fmt.Sprintf("far.example:%d|hello", r.port)
	if got, err := io.ReadAll(c); string(got) != want || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if e := r.event(KindConnection, Allowed); e.Addr != (netip.AddrPort{}) || !strings.Contains(e.Reason, "proxy "+scheme+"://proxy.example:3128") || strings.Contains(e.Reason, "pass") {
		t.Errorf("%+v", e)
	}
	exchangeBytes(t, r.connect("near.example"), "direct")
	wantReset(t, r.connect("denied.example"))
	if e := r.event(KindConnection, Failed); !strings.Contains(e.Reason, "407") || strings.Contains(e.Reason, "pass@") {
		t.Errorf("%+v", e)
	}
}

func TestUpstreamSOCKS(t *testing.T) {
	r := newRig(t, 0, []string{"far.example:%d"}, func(c *Config) {
		c.Proxy = UpstreamProxies{All: "socks5h://user:pass@127.0.0.1:1080"}
	})
	r.host("", "127.0.0.1", 1080, func(c *net.TCPConn) {
		b := make([]byte, 64)
		read := func(n int) string {
			_, _ = io.ReadFull(c, b[:n])
			return string(b[:n])
		}
		if read(3) != "\x05\x01\x02" {
			return
		}
		_, _ = c.Write([]byte{5, 2})
		if read(11) != "\x01\x04user\x04pass" {
			return
		}
		_, _ = c.Write([]byte{1, 0})
		if read(18)[:16] != "\x05\x01\x00\x03\x0bfar.example" {
			return
		}
		_, _ = c.Write([]byte{5, 0, 0, 3, 1, 'x', 0, 1})
		echo(c)
	})
	exchangeBytes(t, r.connect("far.example"), "hello")
}
