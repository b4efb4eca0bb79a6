package egress

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	"gobox/egress/hostname"
	"gobox/egress/httphead"
)

// credential gives the credential for an http:// request to a host: on port 80, which stands for the TLS port, or on that one.
func (g *Gateway) credential(h hostname.Host, port uint16) (c Credential, secret string, ok bool) {
	for i, c := range g.cfg.Credentials {
		if h.Name == c.Host && (port == 80 || port == c.Port) {
			return c, g.cfg.Secrets[i], true
		}
	}
	return Credential{}, "", false
}

// forwardSecret sends a request on over TLS with the secret added, and its answer back. Policy decides about the TLS port.
// Nothing that the command sees or that is recorded holds the secret, as far as that can be seen here.
func (s *session) forwardSecret(head *httphead.Head, size int64, rest []byte, c Credential, secret string) {
	s.port = c.Port
	if d := s.decide(); !d.Allowed {
		s.reply(refusal{d})
		return
	}
	if !strings.EqualFold(head.Method, "TRACE") && head.Method != "TRACK" {
		s.sendSecret(head, size, rest, c, secret)
		return
	}
	s.reply(badRequest("a " + head.Method + " request would bring the credential back"))
}

func (s *session) sendSecret(head *httphead.Head, size int64, rest []byte, c Credential, secret string) {
	s.setHostHeader(head, 443)
	head.Del(c.Header)
	head.Add(c.Header, secret)
	// What is compressed cannot be looked through.
	head.Del("Accept-Encoding")
	head.Add("Accept-Encoding", "identity")
	up, err := s.g.dial(s.g.ctx, s.host, s.port)
	if err != nil {
		s.reply(err)
		return
	}
	ctx, cancel := context.WithTimeout(s.g.ctx, dialTimeout)
	defer cancel()
	if up.conn, err = s.g.tls(ctx, up.conn, s.host.Name); err != nil {
		s.reply(err)
		return
	}
	s.exchange(up, head, size, rest, func(r *relay) error { return s.answerSecret(r, secret) })
}

// tls makes a stream of TLS over conn, which is closed if that fails.
func (g *Gateway) tls(ctx context.Context, conn net.Conn, name string) (stream, error) {
	c, err := g.cfg.TLS(ctx, conn, name)
	if err != nil {
		return nil, fmt.Errorf("TLS with %s: %w", name, err)
	}
	s, ok := c.(stream)
	if !ok {
		c.Close()
		return nil, fmt.Errorf("TLS with %s: it cannot be ended one way", name)
	}
	return s, nil
}

// errRepeats ends a connection whose server says the secret back.
var errRepeats = refusal{Decision{Reason: "the server's answer repeats the credential"}}

// answerSecret passes an answer on: heads as they are, but for a redirect to the same host, which leads back to http:// and
// so to the credential; then the body. A server that repeats the secret, as an error page might, is cut off before that.
func (s *session) answerSecret(r *relay, secret string) error {
	var buf []byte
	for {
		head, n, err := httphead.Response(buf)
		if err == httphead.ErrMore {
			for looked := len(buf); ; {
				if k, rerr := read(r.server, &buf, httphead.MaxHead+4); rerr != nil || k == 0 {
					return fmt.Errorf("the server's answer is not complete: %w", errors.Join(rerr, err))
				}
				if httphead.Decides(buf[max(looked-1, 0):]) {
					break
				}
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("the server's answer is malformed: %w", err)
		}
		s.redirect(head)
		head.Del("Connection")
		head.Del("Keep-Alive")
		if head.Status >= 200 {
			head.Add("Connection", "close")
		}
		out := head.Append(nil)
		if bytes.Contains(out, needle(secret)) {
			return errRepeats
		}
		if err := r.write(r.client, out, &r.in, r.totalIn); err != nil {
			return err
		}
		buf = buf[n:]
		if head.Status == 101 {
			return errors.New("the server switches protocols, which nobody asked for")
		}
		if head.Status >= 200 {
			break
		}
	}
	return s.scanBody(r, buf, needle(secret))
}

// needle is what of a header's value is secret: of "Bearer TOKEN" the token, if it is long enough to tell.
func needle(secret string) []byte {
	if i := strings.LastIndexByte(secret, ' '); i >= 0 && len(secret)-i > 8 {
		secret = secret[i+1:]
	}
	return []byte(secret)
}

// scanBody passes a body on, and holds back only what could be the beginning of the secret: events of a stream are not delayed.
func (s *session) scanBody(r *relay, held, secret []byte) error {
	buf := make([]byte, copyChunk)
	for {
		if bytes.Contains(held, secret) {
			return errRepeats
		}
		keep := min(len(secret)-1, len(held))
		for !bytes.HasPrefix(secret, held[len(held)-keep:]) {
			keep--
		}
		if err := r.write(r.client, held[:len(held)-keep], &r.in, r.totalIn); err != nil {
			return err
		}
		held = append(held[:0], held[len(held)-keep:]...)
		n, err := r.server.Read(buf)
		held = append(held, buf[:n]...)
		if n == 0 && err == io.EOF {
			return r.write(r.client, held, &r.in, r.totalIn)
		}
		if n == 0 && err != nil {
			return err
		}
	}
}

// redirect makes https:// of this host and port http:// again.
func (s *session) redirect(head *httphead.Head) {
	for i, f := range head.Fields {
		if !strings.EqualFold(f.Name, "Location") && !strings.EqualFold(f.Name, "Content-Location") {
			continue
		}
		scheme, rest, ok := strings.Cut(f.Value, "://")
		if !ok || !strings.EqualFold(scheme, "https") {
			continue
		}
		end := strings.IndexAny(rest, "/?#")
		if end < 0 {
			end = len(rest)
		}
		h, port, err := hostname.ParseAuthority(rest[:end], 443)
		if err != nil || h != s.host || port != s.port {
			continue
		}
		to := "http://" + h.Name
		if port != 443 {
			to += ":" + strconv.Itoa(int(port))
		}
		head.Fields[i].Value = to + rest[end:]
	}
}
