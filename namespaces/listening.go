package namespaces

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// Listening looks for TCP sockets that listen in the network namespace that it was made in, by sock_diag(7), or by
// proc_pid_net(5) where the kernel lacks that.
type Listening struct {
	fd  int // -1 for /proc
	seq uint32
}

// Of <linux/sock_diag.h>, <linux/inet_diag.h> and <net/tcp_states.h>.
const (
	sockDiagByFamily   = 20
	sizeofInetDiagReq  = 56
	sizeofInetDiagMsg  = 72
	tcpListen          = 10
	maxListening       = 1 << 16 // entries looked at: the command could have any number
	inetDiagSourcePort = 4       // offsets in struct inet_diag_msg
	inetDiagSource     = 8
)

// OpenListening is for the calling thread's network namespace, and for the rest of the process's life.
func OpenListening() *Listening {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err == nil {
		err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &answerTime)
		if err != nil {
			unix.Close(fd)
		}
	}
	if err != nil {
		fd = -1
	}
	return &Listening{fd: fd}
}

// Look gives, for each of the ports, an address at which something listens on it and that can be connected to, or the
// zero Addr for none.
func (l *Listening) Look(ports []uint16) ([]netip.Addr, error) {
	found := make([]netip.Addr, len(ports))
	take := func(a netip.Addr, port uint16) {
		i := slices.Index(ports, port)
		if i < 0 {
			return
		}
		switch a = a.Unmap(); {
		case a == netip.IPv4Unspecified():
			a = netip.AddrFrom4([4]byte{127, 0, 0, 1})
		case a == netip.IPv6Unspecified():
			a = netip.IPv6Loopback()
		}
		// The loopback's own first, and of several always the same.
		if have := found[i]; !have.IsValid() || a.IsLoopback() && !have.IsLoopback() || a.IsLoopback() == have.IsLoopback() && a.Less(have) {
			found[i] = a
		}
	}
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		if l.fd >= 0 {
			err := l.dump(family, take)
			if err == nil {
				continue
			}
			if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EOPNOTSUPP) {
				return nil, err
			}
			unix.Close(l.fd)
			l.fd = -1
		}
		if err := readListening(family, take); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// dump asks for all listening sockets of one family.
func (l *Listening) dump(family byte, take func(netip.Addr, uint16)) error {
	l.seq++
	msg := binary.NativeEndian.AppendUint32(nil, unix.SizeofNlMsghdr+sizeofInetDiagReq)
	msg = binary.NativeEndian.AppendUint16(msg, sockDiagByFamily)
	msg = binary.NativeEndian.AppendUint16(msg, unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	msg = binary.NativeEndian.AppendUint32(msg, l.seq)
	msg = binary.NativeEndian.AppendUint32(msg, 0)
	req := make([]byte, sizeofInetDiagReq)
	req[0], req[1] = family, unix.IPPROTO_TCP
	binary.NativeEndian.PutUint32(req[4:], 1<<tcpListen)
	if err := unix.Sendto(l.fd, append(msg, req...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	buf := make([]byte, 32<<10)
	for entries := 0; ; {
		n, _, err := unix.Recvfrom(l.fd, buf, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		for b := buf[:n]; len(b) >= unix.SizeofNlMsghdr; {
			size := int(binary.NativeEndian.Uint32(b))
			if size < unix.SizeofNlMsghdr || size > len(b) {
				return unix.EPROTO
			}
			if binary.NativeEndian.Uint32(b[8:]) == l.seq {
				switch kind := binary.NativeEndian.Uint16(b[4:]); {
				case kind == unix.NLMSG_DONE:
					return nil
				case kind == unix.NLMSG_ERROR && size >= unix.SizeofNlMsghdr+4:
					return unix.Errno(-int32(binary.NativeEndian.Uint32(b[unix.SizeofNlMsghdr:])))
				case kind == sockDiagByFamily && size >= unix.SizeofNlMsghdr+sizeofInetDiagMsg && entries < maxListening:
					m := b[unix.SizeofNlMsghdr:]
					a, _ := netip.AddrFromSlice(m[inetDiagSource : inetDiagSource+16])
					if m[0] == unix.AF_INET {
						a, _ = netip.AddrFromSlice(m[inetDiagSource : inetDiagSource+4])
					}
					take(a, binary.BigEndian.Uint16(m[inetDiagSourcePort:]))
					entries++
				}
			}
			b = b[min((size+3)&^3, len(b)):]
		}
	}
}

// maxTable bounds what is read of a table in /proc, in bytes.
const maxTable = 8 << 20

// readListening reads the same from /proc/net, which lists the connections too.
func readListening(family byte, take func(netip.Addr, uint16)) error {
	name := "/proc/self/net/tcp"
	if family == unix.AF_INET6 {
		name = "/proc/self/net/tcp6"
	}
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT && family == unix.AF_INET6 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	defer unix.Close(fd)
	var text []byte
	buf := make([]byte, 64<<10)
	for len(text) < maxTable {
		n, err := unix.Read(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		if n == 0 {
			break
		}
		text = append(text, buf[:n]...)
	}
	for line := range bytes.Lines(text) {
		// sl, local address, remote address, state
		fields := bytes.Fields(line)
		if len(fields) < 4 || string(fields[3]) != "0A" {
			continue
		}
		host, port, ok := bytes.Cut(fields[1], []byte(":"))
		number, err := strconv.ParseUint(string(port), 16, 16)
		raw := make([]byte, hex.DecodedLen(len(host)))
		if _, bad := hex.Decode(raw, host); !ok || err != nil || bad != nil || len(raw)%4 != 0 {
			continue
		}
		// Each word as a number of the host's order.
		for i := 0; i < len(raw); i += 4 {
			binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
		}
		if a, ok := netip.AddrFromSlice(raw); ok {
			take(a, uint16(number))
		}
	}
	return nil
}
