package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

const secret = "Bearer 0123456789-the-secret"

// secretRig has an API at api.example that says what it got, but for the credential, which it says whether it got.
func secretRig(t *testing.T, cert certificate, handler func(w io.Writer, r *http.Request)) *rig {
	t.Helper()
	r := newRig(t, 0, []string{"api.example", "web.example:80"}, func(c *Config) {
		c.Credentials = []Credential{{Host: "api.example", Port: 443, Header: "Authorization", Env: "TOKEN"}}
		c.Secrets = []string{secret}
		c.TLS = func(ctx context.Context, conn net.Conn, name string) (net.Conn, error) {
			s := tls.Client(conn, &tls.Config{ServerName: name, RootCAs: cert.pool})
			if err := s.HandshakeContext(ctx); err != nil {
				conn.Close()
				return nil, err
			}
			return s, nil
		}
	})
	r.host("web.example", "1.2.3.4", 80, webHost)
	r.host("api.example", "1.2.3.5", 443, func(c *net.TCPConn) {
		s := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{cert.tls}})
		defer s.Close()
		req, err := http.ReadRequest(bufio.NewReader(s))
		if err != nil {
			return
		}
		handler(s, req)
	})
	return r
}

func TestCredential(t *testing.T) {
	cert := testCert(t, "api.example")
	r := secretRig(t, cert, func(w io.Writer, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		got := req.Header.Values("Authorization")
		ok := len(got) == 1 && got[0] == secret
		text := fmt.Sprintf("%s %s %s %s credential=%v", req.Method, req.URL, req.Host, body, ok)
		fmt.Fprintf(w, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
	})
	for req, want := range map[string]string{
		"GET http://api.example/v1?x HTTP/1.1\r\nHost: api.example\r\n\r\n":                                                     "GET /v1?x api.example  credential=true",
		"GET http://api.example:443/ HTTP/1.1\r\nHost: api.example:443\r\n\r\n":                                                 "GET / api.example  credential=true",
		"GET http://API.example./ HTTP/1.1\r\nHost: api.example\r\nAuthorization: mine\r\nAUTHORIZATION: mine too\r\n\r\n":      "GET / api.example  credential=true",
		"POST http://api.example/ HTTP/1.1\r\nHost: api.example\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc":           "POST / api.example abc credential=true",
		"POST http://api.example/ HTTP/1.1\r\nHost: api.example\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n":     "POST / api.example abc credential=true",
		"GET http://api.example/1 HTTP/1.1\r\nHost: api.example\r\n\r\nGET http://api.example/2 HTTP/1.1\r\nHost: evil\r\n\r\n": "GET /1 api.example  credential=true",
	} {
		got := r.say(req)
		if !strings.HasSuffix(got, want) || !strings.Contains(got, "HTTP/1.1 200 OK") {
			t.Errorf("%q gives %q", req, got)
		}
		r.event(KindConnection, Allowed)
	}
	// Nobody else gets it, and nothing is sent in the clear.
	if got := r.say("GET http://web.example/ HTTP/1.1\r\nHost: web.example\r\n\r\n"); !strings.Contains(got, "200 OK") || strings.Contains(got, "secret") {
		t.Errorf("another host sees %q", got)
	}
	for req, want := range map[string]string{
		"GET http://api.example:8080/ HTTP/1.1\r\nHost: api.example:8080\r\n\r\n":                    "403",
		"TRACE http://api.example/ HTTP/1.1\r\nHost: api.example\r\n\r\n":                            "400",
		"GET http://api.example/ HTTP/1.1\r\nHost: web.example\r\n\r\n":                              "400",
		"GET http://api.example/ HTTP/1.1\r\nHost: api.example\r\nConnection: Authorization\r\n\r\n": "400",
	} {
		if got := r.say(req); !strings.HasPrefix(got, "HTTP/1.1 "+want) {
			t.Errorf("%q gives %q", req, got)
		}
	}
	for _, d := range r.dialled() {
		if d != "1.2.3.5:443" && d != "1.2.3.4:80" {
			t.Errorf("dialled %s", d)
		}
	}
	r.noSecret()
}

// noSecret looks for the secret in everything that is recorded.
func (r *rig) noSecret() {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := fmt.Sprintf("%+v", r.events); strings.Contains(s, "the-secret") {
		r.t.Errorf("an event holds the secret: %s", s)
	}
}

// TestCredentialServerName: the server must prove its name.
func TestCredentialServerName(t *testing.T) {
	r := secretRig(t, testCert(t, "other.example"), func(io.Writer, *http.Request) { t.Error("a request reached a server of another name") })
	got := r.say("GET http://api.example/ HTTP/1.1\r\nHost: api.example\r\n\r\n")
	if !strings.HasPrefix(got, "HTTP/1.1 502 ") || strings.Contains(got, "the-secret") {
		t.Errorf("%q", got)
	}
	r.event(KindConnection, Failed)
	r.noSecret()
}

func TestCredentialAnswers(t *testing.T) {
	cert := testCert(t, "api.example")
	token := strings.TrimPrefix(secret, "Bearer ")
	for name, c := range map[string]struct {
		answer []string // what the server writes, piece by piece
		want   string   // what the command gets, or its beginning
		never  bool     // it must not be the end
	}{
		"redirect to itself":  {[]string{"HTTP/1.1 302 Found\r\nLocation: https://api.example/x?y\r\n\r\n"}, "HTTP/1.1 302 Found\r\nLocation: http://api.example/x?y\r\nConnection: close\r\n\r\n", false},
		"redirect elsewhere":  {[]string{"HTTP/1.1 302 Found\r\nLocation: https://web.example/x\r\n\r\n"}, "HTTP/1.1 302 Found\r\nLocation: https://web.example/x\r\nConnection: close\r\n\r\n", false},
		"secret in the head":  {[]string{"HTTP/1.1 200 OK\r\nX-Echo: " + secret + "\r\n\r\n"}, "", true},
		"secret in the body":  {[]string{"HTTP/1.1 200 OK\r\n\r\nyou sent " + token + " to me"}, "HTTP/1.1 200 OK\r\n", true},
		"secret in two parts": {[]string{"HTTP/1.1 200 OK\r\n\r\nyou sent " + token[:9], token[9:] + " to me"}, "HTTP/1.1 200 OK\r\n", true},
		"half of the secret":  {[]string{"HTTP/1.1 200 OK\r\n\r\nhalf: " + token[:9]}, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhalf: " + token[:9], false},
		"no HTTP":             {[]string{"hello\r\n\r\n"}, "", false},
		"bare line feeds":     {[]string{"HTTP/1.1 200 OK\nX: y\n\n"}, "", false},
		"other protocol":      {[]string{"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n"}, "", true},
	} {
		r := secretRig(t, cert, func(w io.Writer, _ *http.Request) {
			for _, p := range c.answer {
				_, _ = io.WriteString(w, p)
			}
		})
		conn := r.dialReal(r.proxy)
		if _, err := io.WriteString(conn, "GET http://api.example/ HTTP/1.1\r\nHost: api.example\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(conn)
		got := string(b)
		if c.want == "" || c.never {
			if strings.Contains(got, token) {
				t.Errorf("%s: the command sees %q", name, got)
			}
		} else if got != c.want {
			t.Errorf("%s: the command sees %q, want %q", name, got, c.want)
		}
		if strings.HasPrefix(name, "secret") {
			if e := r.event(KindConnection, Refused); !strings.Contains(e.Reason, "repeats the credential") {
				t.Errorf("%s: %+v", name, e)
			}
		}
		r.noSecret()
		r.g.Close()
	}
}

func TestCredentialConfig(t *testing.T) {
	cred := []Credential{{Host: "api.example", Port: 443, Header: "X", Env: "TOKEN"}}
	tlsFunc := func(context.Context, net.Conn, string) (net.Conn, error) { return nil, nil }
	for name, c := range map[string]Config{
		"no value":        {Credentials: cred, TLS: tlsFunc},
		"a line break":    {Credentials: cred, Secrets: []string{"a-secret\r\nX: y"}, TLS: tlsFunc},
		"an empty secret": {Credentials: cred, Secrets: []string{""}, TLS: tlsFunc},
	} {
		_, err := Start(c, Sockets{})
		if err == nil || strings.Contains(err.Error(), "a-secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
