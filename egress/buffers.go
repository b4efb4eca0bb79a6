package egress

import (
	"net"

	"golang.org/x/sys/unix"
)

// What the kernel holds for the supervisor's sockets is in no limit of the command's, which has it hold much by reading nothing on
// many connections. So what waits to be sent on one is unsentBytes at most, which costs no speed, however long the way: what is on the
// way does not count (TCP_NOTSENT_LOWAT, tcp(7)). And what has come and waits for a slow reader grows beyond the kernel's first
// measure for the first largeConns connections at once only; more of them share a way between them anyway.
const (
	unsentBytes = 128 << 10
	largeConns  = 32
	smallBuffer = 64 << 10 // which the kernel doubles for its own needs (socket(7))
)

// FewUnsent keeps the kernel from holding much that cannot be sent.
func FewUnsent(c net.Conn) { setOption(c, unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsentBytes) }

// fewUnread keeps the kernel from holding much that is not read.
func fewUnread(c net.Conn) { setOption(c, unix.SOL_SOCKET, unix.SO_RCVBUF, smallBuffer) }

// setOption sets an option of a TCP connection, also below TLS. Without it everything works, with more memory.
func setOption(c net.Conn, level, option, value int) {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = t.NetConn()
	}
	t, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	if raw, err := t.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), level, option, value) })
	}
}
