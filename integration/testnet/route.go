package main

import (
	"encoding/binary"
	"net/netip"
	"os"
	"syscall"

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

// here is the table of routes (ip-rule(8)) for the networks that are served here. In the table "local" they would be the host's own
// for gobox, and for the kernel too: without that, a source must be given, and servers must be transparent.
const here = 100

// transparent lets a socket have an address that is no interface's (ip(7), ipv6(7)).
func transparent(network, _ string, c syscall.RawConn) error {
	level, option := unix.SOL_IPV6, unix.IPV6_TRANSPARENT
	if network == "udp4" {
		level, option = unix.SOL_IP, unix.IP_TRANSPARENT
	}
	var err error
	if cerr := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), level, option, 1) }); cerr != nil {
		return cerr
	}
	return os.NewSyscallError("setsockopt", err)
}

// routeHere makes every address of a network one that is served here and belongs to no interface (ip-route(8), type local).
func routeHere(p netip.Prefix) error {
	family := byte(unix.AF_INET6)
	if p.Addr().Is4() {
		family = unix.AF_INET
	}
	const loopback = 1
	// struct rtmsg: family, lengths of destination and source, tos, table, protocol, scope, type, flags
	body := []byte{family, byte(p.Bits()), 0, 0, here, unix.RTPROT_BOOT, unix.RT_SCOPE_HOST, unix.RTN_LOCAL, 0, 0, 0, 0}
	body = appendAttribute(body, unix.RTA_DST, p.Addr().AsSlice())
	body = appendAttribute(body, unix.RTA_OIF, binary.NativeEndian.AppendUint32(nil, loopback))
	if family == unix.AF_INET {
		body = appendAttribute(body, unix.RTA_PREFSRC, []byte{127, 0, 0, 1})
	}
	return ask(unix.RTM_NEWROUTE, body)
}

// ruleHere has every packet look into the table here.
func ruleHere() error {
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		// struct fib_rule_hdr: family, lengths of destination and source, tos, table, two reserved, action, flags
		if err := ask(unix.RTM_NEWRULE, []byte{family, 0, 0, 0, here, 0, 0, unix.FR_ACT_TO_TBL, 0, 0, 0, 0}); err != nil {
			return err
		}
	}
	return nil
}

func appendAttribute(b []byte, kind uint16, value []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(unix.SizeofRtAttr+len(value)))
	return append(binary.NativeEndian.AppendUint16(b, kind), value...)
}

// ask sends one request to rtnetlink(7), and gives its answer.
func ask(kind uint16, body []byte) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	msg := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body)))
	msg = binary.NativeEndian.AppendUint16(msg, kind)
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
