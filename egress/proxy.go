package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"gobox/egress/hostname"
	"gobox/egress/httphead"
)

// serveProxy is the listener that proxy variables name. The first byte tells SOCKS from HTTP.
func (g *Gateway) serveProxy(c *net.TCPConn) {
	s := &session{g: g, client: c, via: viaHTTP, begun: time.Now()}
	defer s.passed()
	if err := s.hurry(); err != nil {
		return
	}
	var buf []byte
	if n, err := s.read(&buf, httphead.MaxHead+4); n == 0 || err != nil {
		return // somebody looked whether we are there
	}
	if buf[0] < ' ' {
		s.serveSOCKS(buf)
		return
	}
	s.serveHTTP(buf)
}

// until reads on until parse is done with what is there. With decides, it is asked only where that says so of what has come and the byte before.
func (s *session) until(buf []byte, decides func([]byte) bool, parse func([]byte) error) ([]byte, error) {
	looked := 0 // at so much of it
	for {
		err := httphead.ErrMore
		if looked == 0 || decides == nil || decides(buf[looked-1:]) {
			err = parse(buf)
		}
		looked = len(buf)
		if err != errShort && err != httphead.ErrMore {
			return buf, err
		}
		n, err := s.read(&buf, httphead.MaxHead+4)
		switch {
		case err == errLong:
			return buf, err
		case isTimeout(err):
			return buf, fmt.Errorf("the request was not complete within %s", s.g.cfg.firstWord)
		case err != nil:
			return buf, fmt.Errorf("the command's connection ended within the request: %w", err)
		case n == 0:
			return buf, errors.New("the request is too long")
		}
	}
}

// goodbye reports why a client was turned away, and closes in order: a reset would overtake the words it was told.
func (s *session) goodbye(err error) {
	s.fail(err)
	linger(s.client)
}

// Bounds on waiting for a client to read its answer.
const (
	lingerTime  = 2 * time.Second
	lingerBytes = 1 << 20
)

func linger(c *net.TCPConn) {
	_ = c.CloseWrite()
	if c.SetReadDeadline(time.Now().Add(lingerTime)) == nil {
		_, _ = io.CopyN(io.Discard, c, lingerBytes)
	}
	c.Close()
}

// badRequest is an error that is the client's.
type badRequest string

func (e badRequest) Error() string { return string(e) }

// serveHTTP takes one request: CONNECT, or one with an http:// target, after which the connection ends.
func (s *session) serveHTTP(buf []byte) {
	var head *httphead.Head
	n := 0
	buf, err := s.until(buf, httphead.Decides, func(b []byte) (err error) { head, n, err = httphead.Request(b); return err })
	if err != nil {
		s.reply(badRequest(err.Error()))
		return
	}
	if head.Method == "CONNECT" {
		s.connect(head, buf[n:])
		return
	}
	s.forward(head, buf[n:])
}

func (s *session) connect(head *httphead.Head, rest []byte) {
	s.via = viaConnect
	if err := s.authority(head.Target, 0); err != nil {
		s.reply(err)
		return
	}
	// RFC 9110, 9.3.6: no content, and what follows is the tunnel's already.
	if size, err := head.RequestBody(); err != nil || size != httphead.None {
		s.reply(badRequest("a CONNECT request with a body"))
		return
	}
	if hosts := head.Get("Host"); len(hosts) > 1 {
		s.reply(badRequest("more than one Host header"))
		return
	}
	up, err := s.g.dial(s.g.ctx, s.host, s.port)
	if err != nil {
		s.reply(err)
		return
	}
	s.tunnel(up, []byte("HTTP/1.1 200 Connection established\r\n\r\n"), rest)
}

// authority sets the session's host and port from HOST:PORT and asks the policy.
func (s *session) authority(authority string, def uint16) error {
	h, port, err := hostname.ParseAuthority(authority, def)
	if err != nil {
		d := Decision{Target: quoteHost(authority), Reason: "it is no host and port: " + err.Error()}
		return refusal{d}
	}
	s.host, s.port = s.g.target(h), port
	if d := s.decide(); !d.Allowed {
		return refusal{d}
	}
	return nil
}

// reply tells the client in words why there is no connection, and ends it.
func (s *session) reply(err error) {
	status, phrase, param := 502, "Bad Gateway", "error=connection_terminated"
	var r refusal
	var b badRequest
	text := ""
	switch {
	case errors.As(err, &r):
		status, phrase, param = 403, "Forbidden", "error=http_request_denied"
		text = r.Error()
	case errors.As(err, &b):
		status, phrase, param = 400, "Bad Request", "error=http_request_error"
		text = "gobox's proxy refuses this request: " + err.Error()
	case errors.Is(err, context.DeadlineExceeded):
		status, phrase, param = 504, "Gateway Timeout", "error=connection_timeout"
	}
	if text == "" {
		text = fmt.Sprintf("%s is allowed, but could not be reached: %v", s.host.HostPort(s.port), err)
	}
	text = "gobox: " + strings.TrimPrefix(text, "gobox: ") + "\n"
	// Proxy-Status is RFC 9209.
	_ = s.client.SetWriteDeadline(time.Now().Add(lingerTime))
	_, _ = fmt.Fprintf(s.client, "HTTP/1.1 %d %s\r\nProxy-Status: gobox; %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		status, phrase, param, len(text), text)
	s.goodbye(err)
}
