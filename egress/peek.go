package egress

import (
	"errors"
	"fmt"
	"io"
	"time"

	"gobox/egress/hostname"
	"gobox/egress/tlshello"
)

// firstWordTimeout is how long a program may take for its first message on a TLS port, or to a proxy.
const firstWordTimeout = 20 * time.Second

// tlsPort says whether a port is for TLS from the first byte on (IANA's service name registry, and what is used besides):
// https, smtps, nntps, ldaps, dot, ftps, telnets, imaps, ircs, pop3s, sips, amqps, xmpps, syslog-tls, ircs, secure-mqtt.
func tlsPort(port uint16) bool {
	switch port {
	case 443, 465, 563, 636, 853, 989, 990, 992, 993, 994, 995, 5061, 5223, 5671, 6514, 6697, 8443, 8883, 9443:
		return true
	}
	return false
}

// peek reads the ClientHello on a TLS port and refuses one that asks for another host than the connection is for: many
// hosts share an address, and the server would go by that name. have was read already; everything read is given back.
// A connection by address is for whatever answers there.
func (s *session) peek(have []byte) ([]byte, error) {
	if s.host.Name == "" || !tlsPort(s.port) {
		return have, nil
	}
	if err := s.hurry(); err != nil {
		return nil, err
	}
	buf := have
	var hello tlshello.Reader
	for {
		name, err := hello.ServerName(buf)
		if err == nil {
			return buf, s.checkServerName(name)
		}
		if err != tlshello.ErrMore {
			return nil, s.notTLS(err)
		}
		n, err := s.read(&buf, tlshello.MaxHello)
		switch {
		case err == errLong:
			return nil, err
		case isTimeout(err):
			return nil, s.notTLS(fmt.Errorf("no ClientHello came within %s", s.g.cfg.firstWord))
		case err == io.EOF && len(buf) == 0:
			// A program that only looks whether somebody listens.
			return nil, errors.New("the command closed the connection without a word")
		case err == io.EOF:
			return nil, s.notTLS(tlshello.ErrMore)
		case err != nil:
			return nil, fmt.Errorf("the command's connection: %w", err)
		case n == 0:
			return nil, s.notTLS(tlshello.ErrMore)
		}
	}
}

// A first message of more than shortWord bytes needs one of maxLong places, so that thousands of connections that never
// complete one hold little memory: the supervisor's is in no limit.
const (
	shortWord = 8 << 10
	maxLong   = 64
	minRead   = 512 // room for a read
)

var errLong = fmt.Errorf("%d connections at once were in the middle of a first message of more than %d bytes", maxLong, shortWord)

// hurry sets the time until which the first message must be complete.
func (s *session) hurry() error {
	s.end = time.Now().Add(s.g.cfg.firstWord)
	return s.client.SetReadDeadline(s.end)
}

// read appends what the client has sent to its first message, up to limit bytes in all.
func (s *session) read(buf *[]byte, limit int) (int, error) {
	if len(*buf) > shortWord-minRead && !s.long {
		t := time.NewTimer(time.Until(s.end))
		defer t.Stop()
		select {
		case s.g.long <- struct{}{}:
			s.long = true
		case <-t.C:
			return 0, errLong
		case <-s.g.ctx.Done():
			return 0, errLong
		}
	}
	return read(s.client, buf, limit)
}

// passed gives the place for a long first message back: the server has it now, or nobody needs it any more.
func (s *session) passed() {
	if s.long {
		s.long = false
		<-s.g.long
	}
}

// read appends what is there, up to limit bytes in all.
func read(r io.Reader, buf *[]byte, limit int) (int, error) {
	b := *buf
	if len(b) >= limit {
		return 0, nil
	}
	if cap(b)-len(b) < minRead && cap(b) < limit {
		b = append(make([]byte, 0, min(max(4096, 2*cap(b)), limit)), b...)
	}
	n, err := r.Read(b[len(b):min(cap(b), limit)])
	*buf = b[:len(b)+n]
	if n > 0 {
		err = nil // the next read says it again
	}
	return n, err
}

func (s *session) checkServerName(sni string) error {
	name, err := hostname.Canonical(sni)
	if err == nil && name == s.host.Name {
		return nil
	}
	d := Decision{Target: s.host.HostPort(s.port)}
	if err != nil {
		d.Reason = fmt.Sprintf("the TLS server name (SNI) is no host name: %v", err)
		return refusal{d}
	}
	d.Reason = fmt.Sprintf("the connection is for %s, and the TLS server name (SNI) asks for %s", s.host.Name, name)
	if other := s.g.cfg.Policy.DecideName(name, s.port); !other.Allowed {
		d.Fix = other.Fix
	}
	return refusal{d}
}

func (s *session) notTLS(err error) error {
	return refusal{Decision{
		Target: s.host.HostPort(s.port),
		Reason: fmt.Sprintf("port %d is for TLS with the host's name in the ClientHello, and %v", s.port, err),
	}}
}
