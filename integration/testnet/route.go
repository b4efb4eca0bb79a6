package main

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}

// routeHere makes every address of a network one that is served here and belongs to no interface (ip-route(8), type
// local), so that gobox does not take it for the host's own. By the type unicast it goes out by the loopback, and is lost.
func routeHere(p netip.Prefix, kind byte) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	family := byte(unix.AF_INET6)
	if p.Addr().Is4() {
		family = unix.AF_INET
	}
	const loopback = 1
	body := make([]byte, unix.SizeofRtMsg)
	table, scope := byte(unix.RT_TABLE_LOCAL), byte(unix.RT_SCOPE_HOST)
	if kind == unix.RTN_UNICAST {
		table, scope = unix.RT_TABLE_MAIN, unix.RT_SCOPE_LINK
	}
	body[0], body[1], body[4], body[5], body[6], body[7] = family, byte(p.Bits()), table, unix.RTPROT_BOOT, scope, kind
	attribute := func(kind uint16, value []byte) {
		body = binary.NativeEndian.AppendUint16(body, uint16(unix.SizeofRtAttr+len(value)))
		body = append(binary.NativeEndian.AppendUint16(body, kind), value...)
	}
	attribute(unix.RTA_DST, p.Addr().AsSlice())
	attribute(unix.RTA_OIF, binary.NativeEndian.AppendUint32(nil, loopback))
	msg := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body)))
	msg = binary.NativeEndian.AppendUint16(msg, unix.RTM_NEWROUTE)
	msg = binary.NativeEndian.AppendUint16(msg, unix.NLM_F_REQUEST|unix.NLM_F_ACK|unix.NLM_F_CREATE)
	msg = append(append(msg, make([]byte, 8)...), body...)
	if err := unix.Sendto(fd, msg, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	var buf [4096]byte
	n, _, err := unix.Recvfrom(fd, buf[:], 0)
	if err != nil || n < unix.SizeofNlMsghdr+4 {
		return err
	}
	if code := int32(binary.NativeEndian.Uint32(buf[unix.SizeofNlMsghdr:])); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}
