package egress

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stream is a connection that can be ended one way: TCP, or TLS over it.
type stream interface {
	net.Conn
	CloseWrite() error
}

// Sizes of the copying loops, in bytes.
const (
	spliceChunk = 1 << 20  // asked of one splice(2); a pipe holds less
	copyChunk   = 16 << 10 // where there is no splice
)

// errLimit ends a connection that has used up a limit; the first one is the reason.
type errLimit string

func (e errLimit) Error() string { return string(e) }

// relay carries one connection, in both directions at once.
type relay struct {
	client, server stream
	pipes          *pipes
	passed         func() // called when the server has the first message

	in, out           atomic.Uint64 // bytes to and from the command
	totalIn, totalOut *quota
	active            atomic.Int64 // time of the last byte, in ns since start
	start             time.Time

	ended atomic.Int32 // directions that came to an orderly end
	once  sync.Once
	cause error // why it was cut off; set once, before both ends are closed
}

// run carries bytes until both directions have ended, and gives the reason if it had to be cut off. Both ends are closed
// then. initial is what was read from the client already.
func (r *relay) run(initial []byte) error {
	var wg sync.WaitGroup
	wg.Go(func() {
		r.direction(r.client, r.server, &r.in, r.totalIn, nil)
	})
	r.direction(r.server, r.client, &r.out, r.totalOut, initial)
	wg.Wait()
	r.client.Close()
	r.server.Close()
	r.once.Do(func() {}) // whoever comes now comes too late
	return r.cause
}

// direction carries one way. An orderly end is passed on as one, and the other way goes on; anything else resets both ends.
func (r *relay) direction(dst, src stream, n *atomic.Uint64, total *quota, initial []byte) {
	err := r.write(dst, initial, n, total)
	if err == nil {
		if src == r.client {
			r.passed()
		}
		err = r.carry(dst, src, n, total)
	}
	if err == nil {
		// The other end may have closed already, and then there is nothing to say.
		_ = dst.CloseWrite()
		if r.ended.Add(1) == 2 {
			r.client.Close()
			r.server.Close()
			return
		}
		if src != r.client {
			return
		}
		// A client that has said all, or is gone, as far as can be seen. A server may take any time to notice.
		if err = WaitReset(src); err == nil {
			return
		}
	}
	r.cut(err)
}

// WaitReset waits until a connection that has been read to its end is reset, or known to be dead, and gives that as an error;
// nil when it is closed on this side, or its deadline for reading comes. Nothing else can read it meanwhile.
func WaitReset(c net.Conn) error {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = t.NetConn()
	}
	t, ok := c.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return nil //nolint:nilerr // it is closed
	}
	reset := false
	_ = raw.Read(func(fd uintptr) bool {
		p := []unix.PollFd{{Fd: int32(fd)}}
		_, _ = unix.Poll(p, 0)
		reset = p[0].Revents&unix.POLLERR != 0
		return reset
	})
	if reset {
		return unix.ECONNRESET
	}
	return nil
}

// cut resets both ends. The first cause stays.
func (r *relay) cut(cause error) {
	r.once.Do(func() {
		r.cause = cause
		reset(r.client)
		reset(r.server)
	})
}

// reset closes so that the other end sees a reset and no orderly end (SO_LINGER of socket(7) with a time of zero).
func reset(c stream) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		if t, ok := t.NetConn().(*net.TCPConn); ok {
			_ = t.SetLinger(0)
		}
	}
	c.Close()
}

// write passes on what was read before, within the limits.
func (r *relay) write(dst io.Writer, b []byte, n *atomic.Uint64, total *quota) error {
	for len(b) > 0 {
		k := total.reserve(len(b))
		if k == 0 {
			return total.err
		}
		m, err := dst.Write(b[:k])
		r.count(n, total, k, m)
		if err != nil {
			return err
		}
		b = b[m:]
	}
	return nil
}

func (r *relay) count(n *atomic.Uint64, total *quota, reserved, used int) {
	total.settle(reserved, used)
	if used > 0 {
		n.Add(uint64(used))
		r.active.Store(int64(time.Since(r.start)))
	}
}

func (r *relay) carry(dst, src stream, n *atomic.Uint64, total *quota) error {
	s, ok1 := src.(*net.TCPConn)
	d, ok2 := dst.(*net.TCPConn)
	if !ok1 || !ok2 {
		return r.copy(dst, src, n, total)
	}
	from, err := s.SyscallConn()
	if err != nil {
		return err
	}
	to, err := d.SyscallConn()
	if err != nil {
		return err
	}
	for {
		// A connection that has nothing to say holds no pipe, which would be two descriptors.
		if err := waitReadable(from); err != nil {
			return err
		}
		p, ok := r.pipes.get()
		if !ok {
			if end, err := r.copyOnce(dst, src, n, total); end || err != nil {
				return err
			}
			continue
		}
		end, err := r.splice(p, to, from, n, total)
		r.pipes.put(p, err == nil)
		if end || err != nil {
			return err
		}
	}
}

// splice moves what is there from one socket to the other through a pipe (splice(2)), until nothing more is there.
func (r *relay) splice(p pipe, to, from syscall.RawConn, n *atomic.Uint64, total *quota) (end bool, err error) {
	for {
		k := total.reserve(spliceChunk)
		if k == 0 {
			return false, total.err
		}
		var got int64
		var serr error
		err := from.Read(func(fd uintptr) bool {
			got, serr = splice(int(fd), p.w, k)
			return true
		})
		if err == nil {
			err = serr
		}
		if err != nil || got <= 0 {
			total.settle(k, 0)
			if err == unix.EAGAIN {
				return false, nil
			}
			return err == nil, err
		}
		r.count(n, total, k, int(got))
		for got > 0 {
			var put int64
			err := to.Write(func(fd uintptr) bool {
				put, serr = splice(p.r, int(fd), int(got))
				return serr != unix.EAGAIN
			})
			if err == nil {
				err = serr
			}
			if err != nil {
				return false, err
			}
			got -= put
			r.active.Store(int64(time.Since(r.start)))
		}
	}
}

func splice(from, to, n int) (int64, error) {
	for {
		k, err := unix.Splice(from, nil, to, nil, n, unix.SPLICE_F_NONBLOCK|unix.SPLICE_F_MOVE)
		if err != unix.EINTR {
			return k, err
		}
	}
}

func waitReadable(c syscall.RawConn) error {
	var perr error
	err := c.Read(func(fd uintptr) bool {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(p, 0)
		if err == unix.EINTR {
			return true // whoever reads finds out
		}
		perr = err
		return err != nil || n > 0
	})
	if err != nil {
		return err
	}
	return perr
}

// copy is for what is no TCP socket, as TLS.
func (r *relay) copy(dst, src stream, n *atomic.Uint64, total *quota) error {
	for {
		if end, err := r.copyOnce(dst, src, n, total); end || err != nil {
			return err
		}
	}
}

func (r *relay) copyOnce(dst, src stream, n *atomic.Uint64, total *quota) (end bool, err error) {
	buf := make([]byte, copyChunk)
	k, err := src.Read(buf)
	if werr := r.write(dst, buf[:k], n, total); werr != nil {
		return false, werr
	}
	if err == io.EOF {
		return true, nil
	}
	return false, err
}

// quota is a limit on the bytes of all connections in one direction. Bytes are reserved before they are read, so that no
// more than the limit ever passes.
type quota struct {
	used  *atomic.Uint64
	limit uint64 // 0: none
	err   error  // for who finds nothing left
	gone  func() // told when that happens

	reserved atomic.Uint64
}

func (q *quota) reserve(n int) int {
	if q.limit == 0 {
		return n
	}
	for {
		r := q.reserved.Load()
		if r >= q.limit {
			q.gone()
			return 0
		}
		k := min(uint64(n), q.limit-r, 64<<10)
		if q.reserved.CompareAndSwap(r, r+k) {
			return int(k)
		}
	}
}

func (q *quota) settle(reserved, used int) {
	q.used.Add(uint64(used))
	if q.limit != 0 {
		q.reserved.Add(-uint64(reserved - used))
	}
}

// hungUp says whether an error is what the end of a connection looks like and no fault of gobox's.
func hungUp(err error) bool {
	return errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF)
}
