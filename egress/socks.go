package egress

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"gobox/egress/hostname"
)

// SOCKS 5 (RFC 1928), CONNECT without authentication.
const (
	socksVersion   = 5
	socksNoAuth    = 0
	socksNoMethod  = 0xff
	socksConnect   = 1
	socksIPv4      = 1
	socksName      = 3
	socksIPv6      = 4
	socksOK        = 0
	socksFailure   = 1
	socksForbidden = 2 // not allowed by ruleset
	socksNetwork   = 3
	socksHost      = 4
	socksRefused   = 5
	socksTimeout   = 6 // TTL expired, which is what clients show as no answer
	socksCommand   = 7
	socksAddress   = 8
)

var errShort = errors.New("incomplete")

// socksGreeting reads version and methods, and gives the length of it; errShort while it can still become one.
func socksGreeting(b []byte) (n int, noAuth bool, err error) {
	if len(b) > 0 && b[0] != socksVersion {
		return 0, false, fmt.Errorf("SOCKS version %d; only 5 is there", b[0])
	}
	if len(b) < 2 || len(b) < 2+int(b[1]) {
		return 0, false, errShort
	}
	n = 2 + int(b[1])
	for _, m := range b[2:n] {
		if m == socksNoAuth {
			noAuth = true
		}
	}
	return n, noAuth, nil
}

// socksError is a request that cannot be served, with the code for the reply.
type socksError struct {
	code   byte
	reason string
}

func (e socksError) Error() string { return e.reason }

// socksRequest reads a request, the host still as it was written. errShort while it can still become one.
func socksRequest(b []byte) (host string, port uint16, n int, err error) {
	if len(b) < 5 {
		return "", 0, 0, errShort
	}
	if b[0] != socksVersion || b[2] != 0 {
		return "", 0, 0, socksError{socksFailure, "malformed SOCKS request"}
	}
	size, at := 0, 4
	switch b[3] {
	case socksIPv4:
		size = 4
	case socksIPv6:
		size = 16
	case socksName:
		size, at = int(b[4]), 5
	default:
		return "", 0, 0, socksError{socksAddress, "unknown type of address in a SOCKS request"}
	}
	n = at + size + 2
	if len(b) < n {
		return "", 0, 0, errShort
	}
	raw := b[at : at+size]
	port = uint16(b[n-2])<<8 | uint16(b[n-1])
	host = string(raw)
	if b[3] != socksName {
		a, _ := netip.AddrFromSlice(raw)
		host = a.String()
	}
	switch {
	case b[1] != socksConnect:
		return host, port, n, socksError{socksCommand, "a SOCKS command other than CONNECT; only TCP connections to the outside are there"}
	case port == 0:
		return host, port, n, socksError{socksFailure, "port 0"}
	}
	return host, port, n, nil
}

// socksReply names no bound address: it is the host's, and none of the command's business.
func socksReply(code byte) []byte {
	return []byte{socksVersion, code, 0, socksIPv4, 0, 0, 0, 0, 0, 0}
}

// socksCode is the reply for an error of dialling.
func socksCode(err error) byte {
	var r refusal
	var s socksError
	switch {
	case errors.As(err, &r):
		return socksForbidden
	case errors.As(err, &s):
		return s.code
	case errors.Is(err, syscall.ECONNREFUSED):
		return socksRefused
	case errors.Is(err, syscall.ENETUNREACH):
		return socksNetwork
	case errors.Is(err, context.DeadlineExceeded):
		return socksTimeout
	}
	return socksHost
}

// serveSOCKS goes on after the first bytes, which are in buf.
func (s *session) serveSOCKS(buf []byte) {
	s.via = viaSOCKS
	n, noAuth, err := 0, false, error(nil)
	if buf, err = s.until(buf, nil, func(b []byte) error { n, noAuth, err = socksGreeting(b); return err }); err != nil {
		s.abort(err)
		return
	}
	if !noAuth {
		_, _ = s.client.Write([]byte{socksVersion, socksNoMethod})
		s.goodbye(errors.New("a SOCKS client that insists on a password; none is needed here"))
		return
	}
	if _, err := s.client.Write([]byte{socksVersion, socksNoAuth}); err != nil {
		s.abort(err)
		return
	}
	buf = buf[n:]
	var host string
	buf, err = s.until(buf, nil, func(b []byte) error { host, s.port, n, err = socksRequest(b); return err })
	if err == nil {
		err = s.setHost(host)
	}
	if err != nil {
		_, _ = s.client.Write(socksReply(socksCode(err)))
		s.goodbye(err)
		return
	}
	up, err := s.g.dial(s.g.ctx, s.host, s.port)
	if err != nil {
		_, _ = s.client.Write(socksReply(socksCode(err)))
		s.goodbye(err)
		return
	}
	s.tunnel(up, socksReply(socksOK), buf[n:])
}

// setHost makes the host canonical and asks the policy. The error is a refusal.
func (s *session) setHost(host string) error {
	h, err := hostname.Parse(host)
	if err != nil {
		return refusal{s.g.cfg.Policy.DecideName(host, s.port)}
	}
	s.host = s.g.target(h)
	if d := s.decide(); !d.Allowed {
		return refusal{d}
	}
	return nil
}

// tunnel tells the client that it is connected, and carries what it then sends.
func (s *session) tunnel(up dialled, reply, initial []byte) {
	if _, err := s.client.Write(reply); err != nil {
		reset(up.conn)
		s.abort(err)
		return
	}
	initial, err := s.peek(initial)
	if err != nil {
		reset(up.conn)
		s.abort(err)
		return
	}
	s.carry(up, initial)
}
