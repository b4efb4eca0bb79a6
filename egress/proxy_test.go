package egress

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"gobox/egress/httphead"
)

// say sends a request to the proxy listener and gives everything that comes back.
func (r *rig) say(request string) string {
	r.t.Helper()
	c := r.dialReal(r.proxy)
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		r.t.Fatal(err)
	}
	b, err := io.ReadAll(c)
	if err != nil {
		r.t.Errorf("%q: %v after %q", request, err, b)
	}
	return string(b)
}

func TestConnect(t *testing.T) {
	r := newRig(t, 0, []string{"echo.example:80", "10.1.2.3:80", "down.example:80"})
	r.host("echo.example", "1.2.3.4", 80, echo)
	r.host("", "10.1.2.3", 80, echo)
	r.place("down.example", "1.2.3.9", 80, "")
	synthetic, _, _ := r.g.pool.get("echo.example")
	for _, target := range []string{"echo.example:80", "ECHO.example.:80", "10.1.2.3:80", "[::ffff:10.1.2.3]:80", synthetic.String() + ":80"} {
		c := r.dialReal(r.proxy)
		// What follows the head at once belongs to the tunnel.
		if _, err := fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\nProxy-Authorization: Basic x\r\n\r\nearly", target, target); err != nil {
			t.Fatal(err)
		}
		const ok = "HTTP/1.1 200 Connection established\r\n\r\n"
		b := make([]byte, len(ok)+5)
		if _, err := io.ReadFull(c, b); err != nil || string(b) != ok+"early" {
			t.Fatalf("%s: %q, %v", target, b, err)
		}
		exchangeBytes(t, c, "hello")
		if e := r.event(KindConnection, Allowed); e.Via != "connect" || e.BytesOut != 10 {
			t.Errorf("%+v", e)
		}
	}
	before := len(r.dialled())
	for target, want := range map[string]string{
		"other.example:80":         "403 no rule names it --allow-net other.example:80",
		"echo.example:443":         "403 other ports: echo.example:80 --allow-net echo.example:443",
		"169.254.169.254:80":       "403 metadata",
		"127.0.0.1:80":             "403 loopback",
		"[::1]:80":                 "403 loopback",
		"0.0.0.0:80":               "403 this network",
		"[::]:80":                  "403 unspecified",
		"[::ffff:a9fe:a9fe]:80":    "403 metadata",
		"[::169.254.169.254]:80":   "403 IPv4-compatible",
		"[64:ff9b::a9fe:a9fe]:80":  "403 metadata",
		"[fe81::1]:80":             "403 link-local",
		"2852039166:80":            "403 number",
		"0xA9FEA9FE:80":            "403 number",
		"0251.0376.0251.0376:80":   "403 number",
		"169.254.43518:80":         "403 number",
		"0xa9.0xfe.0xa9fe:80":      "403 number",
		"127.1:80":                 "403 number",
		"0:80":                     "403 number",
		"localhost:80":             "403 loopback",
		"metadata.google.internal": "403 port is missing",
		"echo.example@evil:80":     "403 user information",
		"echo.example:80@evil:80":  "403 user information",
		"echo.example":             "403 port is missing",
		"echo.example:0":           "403 1 to 65535",
		"echo.example:http":        "403 not a number",
		"[echo.example]:80":        "403 brackets",
		"[fe80::1%25eth0]:80":      "403 zone",
		"/echo.example:80":         "403 path",
		"http://echo.example:80":   "403",
		"echo.example.evil.net:80": "403 no rule",
		"down.example:80":          "502 connection refused",
	} {
		got := r.say(fmt.Sprintf("CONNECT %s HTTP/1.1\r\nHost: echo.example:80\r\n\r\n", target))
		code, words, _ := strings.Cut(want, " ")
		words, flag, _ := strings.Cut(words, " --")
		if !strings.HasPrefix(got, "HTTP/1.1 "+code) || !strings.Contains(got, words) || !strings.Contains(got, flag) {
			t.Errorf("%s: %q, want %q", target, got, want)
		}
		if code == "403" {
			if e := r.event(KindConnection, Refused); !strings.Contains(got, e.Reason) || !strings.Contains(got, "policy") {
				t.Errorf("the body says %q, and the event %+v", got, e)
			}
		}
	}
	if n := len(r.dialled()); n != before+1 {
		t.Errorf("dialled %v", r.dialled()[before:])
	}
}

func TestConnectMalformed(t *testing.T) {
	r := newRig(t, 0, []string{"echo.example:80"})
	r.host("echo.example", "1.2.3.4", 80, echo)
	for name, req := range map[string]string{
		"body":              "CONNECT echo.example:80 HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
		"two hosts":         "CONNECT echo.example:80 HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
		"bare line feeds":   "CONNECT echo.example:80 HTTP/1.1\nHost: a\n\n",
		"NUL in the name":   "CONNECT echo.example\x00.evil:80 HTTP/1.1\r\n\r\n",
		"CR in the name":    "CONNECT echo.example\r:80 HTTP/1.1\r\n\r\n",
		"space in the name": "CONNECT echo.example :80 HTTP/1.1\r\n\r\n",
		"HTTP/2":            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"origin form":       "GET / HTTP/1.1\r\nHost: echo.example\r\n\r\n",
		"https":             "GET https://echo.example/ HTTP/1.1\r\nHost: echo.example\r\n\r\n",
		"ftp":               "GET ftp://echo.example/ HTTP/1.1\r\nHost: echo.example\r\n\r\n",
		"endless head":      "GET http://echo.example/ HTTP/1.1\r\nX: " + strings.Repeat("x", 70<<10),
	} {
		if got := r.say(req); !strings.HasPrefix(got, "HTTP/1.1 400 ") {
			t.Errorf("%s: %q", name, got)
		}
	}
	if d := r.dialled(); len(d) != 0 {
		t.Errorf("dialled %v", d)
	}
}

func TestSOCKS(t *testing.T) {
	r := newRig(t, 0, []string{"echo.example:80", "10.1.2.3:80", "[fd00:1::5]:80", "down.example:80", "gone.example:80"})
	r.host("echo.example", "1.2.3.4", 80, echo)
	r.host("", "10.1.2.3", 80, echo)
	r.host("", "fd00:1::5", 80, echo)
	r.place("down.example", "1.2.3.9", 80, "")
	name := func(s string, port byte) []byte {
		return append(append([]byte{5, 1, 0, 3, byte(len(s))}, s...), 0, port)
	}
	addr := func(s string) []byte {
		a := netip.MustParseAddr(s)
		kind := byte(1)
		if a.Is6() {
			kind = 4
		}
		return append(append([]byte{5, 1, 0, kind}, a.AsSlice()...), 0, 80)
	}
	synthetic, _, _ := r.g.pool.get("echo.example")
	for i, c := range []struct {
		req    []byte
		code   byte
		reason string
	}{
		{name("echo.example", 80), 0, ""},
		{name("ECHO.EXAMPLE.", 80), 0, ""},
		{name("10.1.2.3", 80), 0, ""},
		{addr("10.1.2.3"), 0, ""},
		{addr("::ffff:10.1.2.3"), 0, ""},
		{addr("fd00:1::5"), 0, ""},
		{addr(synthetic.String()), 0, ""},
		{name("other.example", 80), 2, "no rule names it"},
		{name("echo.example", 81), 2, "other ports"},
		{name("echo.example\x00.evil", 80), 2, "NUL"},
		{name("", 80), 2, "empty"},
		{addr("127.0.0.1"), 2, "loopback"},
		{addr("169.254.169.254"), 2, "metadata"},
		{addr("::ffff:169.254.169.254"), 2, "metadata"},
		{name("down.example", 80), 5, "refused"},
		{name("gone.example", 80), 4, "does not know"},
		{name("echo.example", 0), 1, "port 0"},
		{[]byte{5, 2, 0, 1, 1, 2, 3, 4, 0, 80}, 7, "CONNECT"},
		{[]byte{5, 3, 0, 1, 1, 2, 3, 4, 0, 80}, 7, "CONNECT"},
		{[]byte{5, 1, 0, 2, 1, 2, 3, 4, 0, 80}, 8, "type of address"},
		{[]byte{5, 1, 1, 1, 1, 2, 3, 4, 0, 80}, 1, "malformed"},
	} {
		conn := r.dialReal(r.proxy)
		// Byte by byte, as a slow client.
		for _, b := range append([]byte{5, 2, 2, 0}, c.req...) {
			if _, err := conn.Write([]byte{b}); err != nil {
				t.Fatal(err)
			}
		}
		reply := make([]byte, 12)
		if _, err := io.ReadFull(conn, reply); err != nil || reply[0] != 5 || reply[1] != 0 || reply[3] != c.code {
			t.Errorf("%d: %v, %v; want code %d", i, reply, err, c.code)
			continue
		}
		if c.code == 0 {
			exchangeBytes(t, conn, "hello")
			if e := r.event(KindConnection, Allowed); e.Via != "socks5" {
				t.Errorf("%+v", e)
			}
			continue
		}
		verdict := Failed
		if c.code == 2 {
			verdict = Refused
		}
		if e := r.event(KindConnection, verdict); !strings.Contains(e.Reason, c.reason) {
			t.Errorf("%d: %+v", i, e)
		}
		conn.Close()
	}
	for greeting, want := range map[string][]byte{
		"\x05\x01\x02":             {5, 0xff}, // a password or nothing
		"\x05\x00":                 {5, 0xff},
		"\x04\x01\x00\x50\x01\x01": nil, // SOCKS 4
	} {
		conn := r.dialReal(r.proxy)
		if _, err := io.WriteString(conn, greeting); err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(conn)
		if !bytes.Equal(got, want) {
			t.Errorf("%q: %v", greeting, got)
		}
		r.event(KindConnection, Failed)
	}
}

// webHost answers each request with what it got, and keeps the connection if it may.
func webHost(c *net.TCPConn) {
	br := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		var b strings.Builder
		fmt.Fprintf(&b, "%s %s %s %s\n", req.Method, req.RequestURI, req.Host, body)
		_ = req.Header.Write(&b)
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", b.Len(), b.String())
		if req.Close {
			return
		}
	}
}

func TestForward(t *testing.T) {
	r := newRig(t, 0, []string{"web.example:80", "web.example:8080", "10.1.2.3:80"})
	r.host("web.example", "1.2.3.4", 80, webHost)
	r.place("", "1.2.3.4", 8080, r.hosts["1.2.3.4:80"])
	r.place("", "10.1.2.3", 80, r.hosts["1.2.3.4:80"])
	for req, want := range map[string]string{
		"GET http://web.example/a?b HTTP/1.1\r\nHost: web.example\r\nUser-Agent: x\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic x\r\n\r\n": "GET /a?b web.example \n",
		"GET http://WEB.example HTTP/1.1\r\nHost: web.example:80\r\n\r\n":                                                                                   "GET / web.example \n",
		"GET http://web.example?q HTTP/1.0\r\n\r\n":                                                                                                         "GET /?q web.example \n",
		"GET http://web.example:8080/ HTTP/1.1\r\nHost: web.example:8080\r\n\r\n":                                                                           "GET / web.example:8080 \n",
		"OPTIONS http://web.example HTTP/1.1\r\nHost: web.example\r\n\r\n":                                                                                  "OPTIONS * web.example \n",
		"GET http://10.1.2.3/ HTTP/1.1\r\nHost: 10.1.2.3\r\n\r\n":                                                                                           "GET / 10.1.2.3 \n",
		"POST http://web.example/ HTTP/1.1\r\nHost: web.example\r\nContent-Length: 5\r\n\r\nhello":                                                          "POST / web.example hello\n",
		"POST http://web.example/ HTTP/1.1\r\nHost: web.example\r\nTransfer-Encoding: chunked\r\n\r\n5;x\r\nhello\r\n0\r\nT: x\r\n\r\n":                     "POST / web.example hello\n",
		// A second request on the connection is not sent on, whatever host it names.
		"GET http://web.example/1 HTTP/1.1\r\nHost: web.example\r\n\r\nGET http://web.example/2 HTTP/1.1\r\nHost: evil.example\r\n\r\n":           "GET /1 web.example \n",
		"GET http://web.example/ HTTP/1.1\r\nHost: web.example\r\nConnection: X-Drop, close\r\nX-Drop: 1\r\nTE: trailers\r\nUpgrade: h2c\r\n\r\n": "GET / web.example \n",
	} {
		got := r.say(req)
		_, body, _ := strings.Cut(got, "\r\n\r\n")
		if !strings.HasPrefix(got, "HTTP/1.1 200 OK\r\n") || !strings.HasPrefix(body, want) {
			t.Errorf("%q gives %q", req, got)
		}
		for _, bad := range []string{"Proxy", "X-Drop", "Te:", "Upgrade", "/2", "evil"} {
			if strings.Contains(body, bad) {
				t.Errorf("%q: the server sees %s: %q", req, bad, body)
			}
		}
		if e := r.event(KindConnection, Allowed); e.Via != "http" || e.BytesIn == 0 || e.BytesOut == 0 {
			t.Errorf("%+v", e)
		}
	}
	before := len(r.dialled())
	for req, want := range map[string]string{
		"GET http://evil.example/ HTTP/1.1\r\nHost: web.example\r\n\r\n":                                                             "400",
		"GET http://web.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n":                                                             "400",
		"GET http://web.example/ HTTP/1.1\r\nHost: web.example:81\r\n\r\n":                                                           "400",
		"GET http://web.example/ HTTP/1.1\r\n\r\n":                                                                                   "400",
		"GET http://web.example/ HTTP/1.1\r\nHost: web.example\r\nHost: evil.example\r\n\r\n":                                        "400",
		"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n":                                                            "403",
		"GET http://web.example:81/ HTTP/1.1\r\nHost: web.example:81\r\n\r\n":                                                        "403",
		"GET http://web.example@evil.example/ HTTP/1.1\r\nHost: web.example\r\n\r\n":                                                 "403",
		"GET http://169.254.169.254/latest/ HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n":                                               "403",
		"GET http://web.example/#x HTTP/1.1\r\nHost: web.example\r\n\r\n":                                                            "400",
		"POST http://web.example/ HTTP/1.1\r\nHost: web.example\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n": "400",
		"POST http://web.example/ HTTP/1.1\r\nHost: web.example\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello":              "400",
		"POST http://web.example/ HTTP/1.1\r\nHost: web.example\r\nTransfer-Encoding: gzip\r\n\r\n":                                  "400",
		"POST http://web.example/ HTTP/1.1\r\nHost: web.example\r\nTransfer-Encoding : chunked\r\n\r\n":                              "400",
		"POST http://web.example/ HTTP/1.1\r\nHost: web.example\r\nConnection: Content-Length\r\nContent-Length: 5\r\n\r\nhello":     "400",
		"GET http://web.example/ HTTP/1.1\r\nHost: web.example\r\nX: a\nEvil: b\r\n\r\n":                                             "400",
	} {
		if got := r.say(req); !strings.HasPrefix(got, "HTTP/1.1 "+want) {
			t.Errorf("%q gives %q, want %s", req, got, want)
		}
	}
	if n := len(r.dialled()); n != before {
		t.Errorf("dialled %v", r.dialled()[before:])
	}
}

// TestForwardCutBody: a request whose body does not come whole must not look whole to the server.
func TestForwardCutBody(t *testing.T) {
	r := newRig(t, 0, []string{"web.example:80"})
	ended := make(chan error, 2)
	r.host("web.example", "1.2.3.4", 80, func(c *net.TCPConn) {
		_, err := io.Copy(io.Discard, c)
		ended <- err
	})
	for _, req := range []string{
		"POST http://web.example/ HTTP/1.1\r\nHost: web.example\r\nContent-Length: 50\r\n\r\nhello",
		"POST http://web.example/ HTTP/1.1\r\nHost: web.example\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloX\r\n",
	} {
		c := r.dialReal(r.proxy)
		if _, err := io.WriteString(c, req); err != nil {
			t.Fatal(err)
		}
		_ = c.CloseWrite() // the malformed one may be cut off before
		select {
		case err := <-ended:
			if err == nil {
				t.Errorf("%q: the server sees an orderly end", req)
			}
		case <-time.After(patience):
			t.Fatal("the server sees no end")
		}
	}
}

func FuzzSOCKS(f *testing.F) {
	f.Add([]byte{5, 1, 0, 3, 1, 'a', 0, 80})
	f.Add([]byte{5, 1, 0, 1, 1, 2, 3, 4, 0, 80})
	f.Add([]byte{5, 2, 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		if n, _, err := socksGreeting(b); err == nil && n > len(b) {
			t.Fatalf("greeting of %d bytes in %d", n, len(b))
		}
		host, port, n, err := socksRequest(b)
		if err != nil {
			return
		}
		if n > len(b) || port == 0 {
			t.Fatalf("request of %d bytes in %d, port %d", n, len(b), port)
		}
		d := Policy{}.DecideName(host, port)
		if d.Allowed || strings.ContainsAny(d.String(), "\x00\r\n\x1b") {
			t.Fatalf("%+v", d)
		}
	})
}

// FuzzProxy: whatever comes first on the proxy listener, nothing is dialled but what the one rule names.
func FuzzProxy(f *testing.F) {
	for _, s := range []string{
		"CONNECT echo.example:80 HTTP/1.1\r\nHost: echo.example:80\r\n\r\nhello",
		"GET http://echo.example/ HTTP/1.1\r\nHost: echo.example\r\n\r\n",
		"CONNECT 127.0.0.1:80 HTTP/1.1\r\n\r\n",
		"\x05\x01\x00\x05\x01\x00\x03\x0cecho.example\x00\x50hello",
	} {
		f.Add([]byte(s))
	}
	r := Policy{Rules: []Rule{{Name: "echo.example", Ports: []PortRange{{80, 80}}}}}
	f.Fuzz(func(t *testing.T, b []byte) {
		s := &session{g: &Gateway{cfg: Config{Policy: r}, pool: newPool(r, netip.Prefix{}, netip.Prefix{})}}
		line, _, _ := strings.Cut(string(b), "\r\n")
		parts := strings.Split(line, " ")
		if len(parts) != 3 {
			return
		}
		if s.authority(parts[1], 0) == nil && (s.host.Name != "echo.example" || s.port != 80) {
			t.Fatalf("%q leads to %v:%d", line, s.host, s.port)
		}
	})
}

// A request that comes byte by byte costs no look at all of it for each: this process's time is in no limit.
func TestRequestByBytes(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	there, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	here, err := l.(*net.TCPListener).AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	s := &session{g: &Gateway{cfg: Config{firstWord: time.Minute}}, client: here}
	go func() {
		for i := range 300 {
			_, _ = there.Write([]byte("a\t")[i%2:][:1])
			time.Sleep(time.Millisecond)
		}
		_, _ = there.Write([]byte("\r\n\r\n"))
	}()
	looks := 0
	buf, err := s.until([]byte("GET / HTTP/1.1\r\nX: "), httphead.Decides, func(b []byte) error {
		looks++
		_, _, err := httphead.Request(b)
		return err
	})
	if err != nil || len(buf) < 300 || looks > 6 {
		t.Errorf("%d looks at %d bytes: %v", looks, len(buf), err)
	}
}
