package egress

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ownAddresses are those at which the host reaches itself, looked up again every few seconds.
type ownAddresses struct {
	get func() ([]netip.Prefix, error)

	mu       sync.Mutex
	until    time.Time
	prefixes []netip.Prefix
}

const ownFor = 5 * time.Second

// list gives the addresses; where they cannot be told, those of last time, and an error when there is no last time.
func (o *ownAddresses) list() ([]netip.Prefix, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now := time.Now(); o.until.Before(now) {
		prefixes, err := o.get()
		if err == nil {
			o.prefixes, o.until = prefixes, now.Add(ownFor)
		} else if o.until.IsZero() {
			return nil, fmt.Errorf("the addresses of this host, which nobody may reach unasked, cannot be told: %w", err)
		}
	}
	return o.prefixes, nil
}

// hostAddresses are those of the network namespace that gobox runs in: of its interfaces, and all others that its kernel
// takes for its own (ip-route(8), "local"), as it can for whole networks.
func hostAddresses() ([]netip.Prefix, error) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	out, err := localRoutes()
	if err != nil {
		return nil, fmt.Errorf("routes: %w", err)
	}
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				ip = ip.Unmap()
				out = append(out, netip.PrefixFrom(ip, ip.BitLen()))
			}
		}
	}
	return out, nil
}

// localRoutes asks for the routes to the host itself (rtnetlink(7)): of the table "local", and of the two others that every
// packet looks into. A local route of any other table takes a rule that sends packets there, as those of transparent proxies do by
// a mark that gobox's packets do not have.
func localRoutes() ([]netip.Prefix, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 2}); err != nil {
		return nil, err
	}
	// The kernel then leaves out what was not asked for, which can be much; one before Linux 4.20 does not know it.
	if err := unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_GET_STRICT_CHK, 1); err != nil && err != unix.ENOPROTOOPT {
		return nil, err
	}
	var out []netip.Prefix
	seq := uint32(0)
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		for _, of := range []struct{ table, kind uint8 }{{unix.RT_TABLE_LOCAL, unix.RTN_UNSPEC}, {unix.RT_TABLE_UNSPEC, unix.RTN_LOCAL}} {
			seq++
			list, err := dumpLocal(fd, seq, family, of.table, of.kind)
			missing := err == unix.ENOENT || family == unix.AF_INET6 && (err == unix.EOPNOTSUPP || err == unix.EAFNOSUPPORT)
			if err != nil && !missing { // the table, or IPv6
				return nil, err
			}
			out = append(out, list...)
		}
	}
	return out, nil
}

// dumpLocal asks for the routes of one table, or of all, and of one type, or of all.
func dumpLocal(fd int, seq uint32, family, table, kind uint8) (out []netip.Prefix, err error) {
	msg := binary.NativeEndian.AppendUint32(nil, unix.SizeofNlMsghdr+unix.SizeofRtMsg)
	msg = binary.NativeEndian.AppendUint16(msg, unix.RTM_GETROUTE)
	msg = binary.NativeEndian.AppendUint16(msg, unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	msg = binary.NativeEndian.AppendUint32(msg, seq)
	msg = append(msg, 0, 0, 0, 0) // to the kernel
	// struct rtmsg: family, lengths of destination and source, tos, table, protocol, scope, type, flags
	msg = append(msg, family, 0, 0, 0, table, 0, 0, kind, 0, 0, 0, 0)
	if err := unix.Sendto(fd, msg, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	buf := make([]byte, 1<<16)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err == unix.EINTR {
			continue
		}
		if err == unix.EAGAIN {
			err = errors.New("the kernel does not answer")
		}
		if err != nil {
			return nil, err
		}
		list, err := syscall.ParseNetlinkMessage(buf[:n])
		if err != nil {
			return nil, err
		}
		for i := range list {
			m := &list[i]
			switch {
			case m.Header.Seq != seq:
			case m.Header.Flags&unix.NLM_F_DUMP_INTR != 0:
				return nil, errors.New("they change too fast to be read")
			case m.Header.Type == unix.NLMSG_DONE:
				return out, nil
			case m.Header.Type == unix.NLMSG_ERROR:
				return nil, netlinkError(m.Data)
			case m.Header.Type == unix.RTM_NEWROUTE:
				if p, ok := localPrefix(m); ok {
					out = append(out, p)
				}
			}
		}
	}
}

func netlinkError(data []byte) error {
	if len(data) < 4 {
		return unix.EBADMSG
	}
	if errno := -int32(binary.NativeEndian.Uint32(data)); errno != 0 {
		return unix.Errno(errno)
	}
	return unix.EBADMSG // an acknowledgement that nobody asked for
}

// localPrefix takes the destination out of a route to the host itself.
func localPrefix(m *syscall.NetlinkMessage) (netip.Prefix, bool) {
	if len(m.Data) < unix.SizeofRtMsg {
		return netip.Prefix{}, false
	}
	family, bits, table, kind := m.Data[0], int(m.Data[1]), m.Data[4], m.Data[7]
	switch {
	case table == unix.RT_TABLE_LOCAL && (kind == unix.RTN_LOCAL || kind == unix.RTN_ANYCAST):
	case (table == unix.RT_TABLE_MAIN || table == unix.RT_TABLE_DEFAULT) && kind == unix.RTN_LOCAL:
	default:
		return netip.Prefix{}, false
	}
	addr := netip.IPv4Unspecified()
	if family == unix.AF_INET6 {
		addr = netip.IPv6Unspecified()
	}
	attrs, err := syscall.ParseNetlinkRouteAttr(m)
	if err != nil {
		return netip.Prefix{}, false
	}
	for _, a := range attrs {
		if a.Attr.Type == unix.RTA_DST {
			if ip, ok := netip.AddrFromSlice(a.Value); ok {
				addr = ip
			}
		}
	}
	p, err := addr.Prefix(bits)
	return p, err == nil
}
