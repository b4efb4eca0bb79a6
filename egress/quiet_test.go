package egress

import (
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// The time for the first word is for that alone: a connection that began in time may be quiet for longer, whichever way it came in, and one
// that says nothing is ended.
func TestQuietConnections(t *testing.T) {
	t.Parallel()
	const first = 3 * time.Second
	cert := testCert(t, "tls.example")
	r := newRig(t, onTLSPort, []string{"tls.example:%d", "echo.example:80"}, func(c *Config) { c.firstWord = first })
	r.host("tls.example", "1.2.3.4", r.port, func(c *net.TCPConn) {
		s := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{cert.tls}})
		_, _ = io.Copy(s, s)
	})
	r.host("echo.example", "1.2.3.5", 80, echo)

	silent, secure := r.connect("tls.example"), tls.Client(r.connect("tls.example"), &tls.Config{ServerName: "tls.example", RootCAs: cert.pool})
	if err := secure.Handshake(); err != nil {
		t.Fatal(err)
	}
	tunnel := r.dialReal(r.proxy)
	hello := "CONNECT echo.example:80 HTTP/1.1\r\nHost: echo.example:80\r\n\r\n"
	socks := r.dialReal(r.proxy)
	for c, text := range map[*net.TCPConn]string{tunnel: hello, socks: "\x05\x01\x00\x05\x01\x00\x03\x0cecho.example\x00\x50"} {
		if _, err := io.WriteString(c, text+"early"); err != nil {
			t.Fatal(err)
		}
		var answer strings.Builder
		for b := make([]byte, 1); !strings.HasSuffix(answer.String(), "early"); answer.Write(b) {
			if _, err := io.ReadFull(c, b); err != nil {
				t.Fatalf("%q, %v", answer.String(), err)
			}
		}
	}
	time.Sleep(first + first/2)
	wantReset(t, silent)
	if e := r.event(KindConnection, Refused); !strings.Contains(e.Reason, "no ClientHello came within 3s") {
		t.Errorf("%+v", e)
	}
	if _, err := io.WriteString(secure, "hello"); err != nil {
		t.Fatal(err)
	}
	if b := make([]byte, 5); !wantText(secure, b, "hello") {
		t.Errorf("over TLS %q comes back", b)
	}
	exchangeBytes(t, tunnel, "hello")
	exchangeBytes(t, socks, "hello")
}

func wantText(c io.Reader, b []byte, want string) bool {
	_, err := io.ReadFull(c, b)
	return err == nil && string(b) == want
}
