package egress

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"gobox/egress/hostname"
	"gobox/egress/httphead"
)

// forward sends one http:// request on, on a connection of its own, and its answer back. The request is written anew from
// what was understood, with a body of exactly the length it says, so that the server cannot understand anything else.
func (s *session) forward(head *httphead.Head, rest []byte) {
	path, err := s.requestTarget(head)
	if err != nil {
		s.reply(err)
		return
	}
	size, err := head.RequestBody()
	if err != nil {
		s.reply(badRequest(err.Error()))
		return
	}
	if err := head.DropHopByHop(); err != nil {
		s.reply(badRequest(err.Error()))
		return
	}
	head.Add("Connection", "close")
	head.Target = path
	if c, secret, ok := s.g.credential(s.host, s.port); ok {
		s.forwardSecret(head, size, rest, c, secret)
		return
	}
	if d := s.decide(); !d.Allowed {
		s.reply(refusal{d})
		return
	}
	up, err := s.g.dial(s.g.ctx, s.host, s.port)
	if err != nil {
		s.reply(err)
		return
	}
	s.exchange(up, head, size, rest, nil)
}

// exchange sends the request and passes the answer on, by way of filter if there is one.
func (s *session) exchange(up dialled, head *httphead.Head, size int64, rest []byte, filter func(*relay) error) {
	r := s.relay(up.conn)
	stop := s.watch(r)
	var wg sync.WaitGroup
	var answered atomic.Bool
	wg.Go(func() {
		if err := s.sendRequest(r, head, size, rest); err != nil && !answered.Load() {
			r.cut(err)
		}
	})
	if filter == nil {
		filter = func(r *relay) error { return r.carry(r.client, r.server, &r.in, r.totalIn) }
	}
	if err := filter(r); err != nil {
		r.cut(err)
	}
	// The server has said all it will: what is still on its way there is for nobody.
	r.server.Close()
	answered.Store(true)
	_ = s.client.SetReadDeadline(time.Unix(1, 0))
	wg.Wait()
	linger(s.client)
	r.once.Do(func() {})
	stop()
	s.ended(up, r, r.cause)
}

// requestTarget reads the absolute form of a request's target (RFC 9112, 3.2.2), sets the session's host and port, and gives
// the form for the server. A Host header must say the same (3.2.3), and there must be exactly one in HTTP/1.1.
func (s *session) requestTarget(head *httphead.Head) (path string, err error) {
	scheme, rest, ok := strings.Cut(head.Target, "://")
	switch {
	case !ok:
		return "", badRequest("this is a proxy: the target of a request is http://HOST/PATH, or HOST:PORT of a CONNECT")
	case strings.EqualFold(scheme, "https"):
		return "", badRequest("https:// goes through a CONNECT")
	case !strings.EqualFold(scheme, "http"):
		return "", badRequest("only http:// is forwarded")
	case strings.Contains(rest, "#"):
		return "", badRequest("a fragment in the target")
	}
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	authority, path := rest[:end], rest[end:]
	h, port, err := hostname.ParseAuthority(authority, 80)
	if err != nil {
		return "", refusal{Decision{Target: quoteHost(authority), Reason: "it is no host and port: " + err.Error()}}
	}
	s.host, s.port = s.g.target(h), port
	hosts := head.Get("Host")
	if len(hosts) > 1 || len(hosts) == 0 && head.Minor == 1 {
		return "", badRequest("a request has exactly one Host header")
	}
	if len(hosts) == 1 {
		h, port, err := hostname.ParseAuthority(hosts[0], 80)
		if err != nil || s.g.target(h) != s.host || port != s.port {
			return "", badRequest("the Host header names another host than the target of the request")
		}
	}
	s.setHostHeader(head, 80)
	switch {
	case path == "" && head.Method == "OPTIONS":
		return "*", nil
	case path == "" || path[0] == '?':
		return "/" + path, nil
	}
	return path, nil
}

// setHostHeader names the session's host, and the port unless it is the scheme's own.
func (s *session) setHostHeader(head *httphead.Head, def uint16) {
	host := s.host.HostPort(s.port)
	if s.port == def {
		host = strings.TrimSuffix(host, ":"+strconv.Itoa(int(def)))
	}
	head.Del("Host")
	head.Fields = append([]httphead.Field{{Name: "Host", Value: host}}, head.Fields...)
}

// sendRequest writes head and body, and then leaves the connection open: a server may take its end for that of the
// request. An error is the client's, or a limit; a server that does not want all of it may still have an answer.
func (s *session) sendRequest(r *relay, head *httphead.Head, size int64, rest []byte) error {
	dst := &serverWriter{r: r}
	out := bufio.NewWriter(dst)
	src := bufio.NewReader(&flushing{out, io.MultiReader(bytes.NewReader(rest), then(s.passed), s.client)})
	_, err := dst.Write(head.Append(nil))
	switch {
	case err != nil:
	case size == httphead.Chunked:
		// Three small writes for each chunk would be a hundred times the work of who sends chunks of one byte.
		if err = httphead.CopyChunked(struct{ io.Writer }{out}, src); err == nil {
			err = out.Flush()
		}
	case size > 0:
		if _, err = io.CopyN(dst, src, size); err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
	}
	var l errLimit
	if err != nil && (dst.err == nil || errors.As(err, &l)) {
		return err
	}
	// No second request is taken, or what is called one request here could be two there. What comes is read, so that closing
	// does not become a reset, and a client that goes away is seen.
	if _, err := io.Copy(io.Discard, src); err != nil {
		if errors.Is(err, unix.ECONNRESET) {
			return err
		}
		return nil
	}
	return WaitReset(s.client)
}

// flushing sends what has been written before it waits for more to read. An error of that is seen by the next write.
type flushing struct {
	out *bufio.Writer
	in  io.Reader
}

func (f *flushing) Read(b []byte) (int, error) {
	_ = f.out.Flush()
	return f.in.Read(b)
}

// then is called when a reader comes to it, and is empty.
type then func()

func (f then) Read([]byte) (int, error) {
	f()
	return 0, io.EOF
}

// serverWriter writes to the server within the limits, and keeps the error.
type serverWriter struct {
	r   *relay
	err error
}

func (w *serverWriter) Write(b []byte) (int, error) {
	if w.err = w.r.write(w.r.server, b, &w.r.out, w.r.totalOut); w.err != nil {
		return 0, w.err
	}
	return len(b), nil
}
