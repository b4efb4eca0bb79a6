package namespaces

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// rtnetlink is a socket of rtnetlink(7). It works on the network namespace that it was made in, wherever
// its user goes afterwards.
type rtnetlink struct {
	fd  int
	seq uint32
}

// answerTime is how long the kernel may take to answer a request, which it does at once.
var answerTime = unix.Timeval{Sec: 10}

func openRtnetlink() (*rtnetlink, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("rtnetlink socket: %w", err)
	}
	if err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &answerTime); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("rtnetlink socket: %w", err)
	}
	return &rtnetlink{fd: fd}, nil
}

func (r *rtnetlink) close() { unix.Close(r.fd) }

// request is the body of a message: a fixed header and attributes, in native order and aligned to four
// bytes (netlink(7)).
type request []byte

func (b *request) attribute(kind uint16, value []byte) {
	*b = binary.NativeEndian.AppendUint16(*b, uint16(unix.SizeofRtAttr+len(value)))
	*b = binary.NativeEndian.AppendUint16(*b, kind)
	*b = append(*b, value...)
	for len(*b)%unix.RTA_ALIGNTO != 0 {
		*b = append(*b, 0)
	}
}

func (b *request) number(kind uint16, n uint32) {
	b.attribute(kind, binary.NativeEndian.AppendUint32(nil, n))
}

// text is a string with its final NUL.
func (b *request) text(kind uint16, s string) { b.attribute(kind, append([]byte(s), 0)) }

// do sends one request and waits for the kernel's word on it. The error is a bare errno.
func (r *rtnetlink) do(kind, flags uint16, body request) error {
	r.seq++
	msg := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body)))
	msg = binary.NativeEndian.AppendUint16(msg, kind)
	msg = binary.NativeEndian.AppendUint16(msg, flags|unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	msg = binary.NativeEndian.AppendUint32(msg, r.seq)
	msg = binary.NativeEndian.AppendUint32(msg, 0)
	msg = append(msg, body...)
	if err := unix.Sendto(r.fd, msg, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	var buf [8192]byte
	for {
		n, _, err := unix.Recvfrom(r.fd, buf[:], 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if n < unix.SizeofNlMsghdr+4 || binary.NativeEndian.Uint32(buf[8:]) != r.seq {
			continue
		}
		if binary.NativeEndian.Uint16(buf[4:]) != unix.NLMSG_ERROR {
			return unix.EPROTO
		}
		if code := int32(binary.NativeEndian.Uint32(buf[unix.SizeofNlMsghdr:])); code != 0 {
			return unix.Errno(-code)
		}
		return nil
	}
}

// link is the header struct ifinfomsg, with the flags that are to be set.
func link(index int32, flags uint32) request {
	b := make(request, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(b[4:], uint32(index))
	binary.NativeEndian.PutUint32(b[8:], flags)
	binary.NativeEndian.PutUint32(b[12:], flags) // ifi_change
	return b
}

const (
	vethInfoPeer = 1 // VETH_INFO_PEER of <linux/veth.h>
	// lo is the first interface of every network namespace.
	loIndex = 1
	// vethIndex is chosen here, so that nobody has to ask for it. A new namespace can have a few
	// interfaces of its own already, such as sit0.
	vethIndex = 100
	// vethMTU, in bytes, is the largest (ETH_MAX_MTU of <linux/if_ether.h>): no wire has to carry it.
	vethMTU = 65535
)

// makeVeth makes a pair of interfaces, joined by a wire (veth(4)): one called name in the socket's own
// namespace, the other called peer in the namespace that the descriptor there is of. Both have the
// index vethIndex.
func (r *rtnetlink) makeVeth(name, peer string, there int) error {
	other := link(vethIndex, 0)
	other.text(unix.IFLA_IFNAME, peer)
	other.number(unix.IFLA_MTU, vethMTU)
	other.number(unix.IFLA_NET_NS_FD, uint32(there))
	var data, info request
	data.attribute(vethInfoPeer, other)
	info.text(unix.IFLA_INFO_KIND, "veth")
	info.attribute(unix.IFLA_INFO_DATA, data)
	b := link(vethIndex, 0)
	b.text(unix.IFLA_IFNAME, name)
	b.number(unix.IFLA_MTU, vethMTU)
	b.attribute(unix.IFLA_LINKINFO, info)
	return r.do(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, b)
}

func (r *rtnetlink) up(index int32) error {
	return r.do(unix.RTM_NEWLINK, 0, link(index, unix.IFF_UP))
}

// addAddress gives an interface an address with the length of its network. Duplicate address detection
// would make an IPv6 address wait for a second (RFC 4862), and there is nobody else.
func (r *rtnetlink) addAddress(index int32, p netip.Prefix) error {
	b := make(request, unix.SizeofIfAddrmsg)
	b[0], b[1], b[2] = family(p.Addr()), byte(p.Bits()), unix.IFA_F_NODAD
	binary.NativeEndian.PutUint32(b[4:], uint32(index))
	b.attribute(unix.IFA_LOCAL, p.Addr().AsSlice())
	b.attribute(unix.IFA_ADDRESS, p.Addr().AsSlice())
	return r.do(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL, b)
}

// route is one of ip-route(8).
type route struct {
	to    netip.Prefix
	via   netip.Addr // gateway; the zero Addr for none
	index int32      // interface
	table byte       // RT_TABLE_*
	kind  byte       // RTN_*
}

func (r *rtnetlink) addRoute(t route) error {
	b := make(request, unix.SizeofRtMsg)
	scope := byte(unix.RT_SCOPE_LINK)
	switch {
	case t.kind == unix.RTN_LOCAL:
		scope = unix.RT_SCOPE_HOST
	case t.via.IsValid():
		scope = unix.RT_SCOPE_UNIVERSE
	}
	b[0], b[1], b[4], b[5], b[6], b[7] = family(t.to.Addr()), byte(t.to.Bits()), t.table, unix.RTPROT_BOOT, scope, t.kind
	if t.to.Bits() > 0 {
		b.attribute(unix.RTA_DST, t.to.Addr().AsSlice())
	}
	if t.via.IsValid() {
		b.attribute(unix.RTA_GATEWAY, t.via.AsSlice())
	}
	b.number(unix.RTA_OIF, uint32(t.index))
	return r.do(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, b)
}

func family(a netip.Addr) byte {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}
