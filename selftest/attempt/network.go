package attempt

import (
	"net/netip"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// networkAttempt is without package net, whose resolver every start of gobox would pay for.
func networkAttempt(name string) Func {
	switch name {
	case "dial":
		return dial
	case "route":
		return route
	case "accept":
		return func(a []string) (int64, string, error) { return Accept(a, func() {}) }
	case "loopback":
		return loopback
	case "interfaces":
		return interfaces
	case "netlink-newlink":
		return newLink
	}
	return nil
}

// Address reads IP:PORT.
func Address(text string) (family int, addr unix.Sockaddr, err error) {
	ap, err := netip.ParseAddrPort(text)
	if err != nil {
		return 0, nil, err
	}
	family, addr = sockaddr(ap)
	return family, addr, nil
}

func sockaddr(ap netip.AddrPort) (int, unix.Sockaddr) {
	if ip := ap.Addr(); ip.Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Port: int(ap.Port()), Addr: ip.As4()}
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Port: int(ap.Port()), Addr: ap.Addr().As16()}
}

// socketTimeout bounds connect(2) and send(2) (SO_SNDTIMEO of socket(7)).
const socketTimeout = 3 * time.Second

// dial tcp|udp IP:PORT; over UDP one datagram is sent
func dial(a []string) (int64, string, error) {
	family, addr, err := Address(a[1])
	if err != nil {
		return -1, "", err
	}
	typ := unix.SOCK_STREAM
	if strings.HasPrefix(a[0], "udp") {
		typ = unix.SOCK_DGRAM
	}
	fd, err := unix.Socket(family, typ|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, "socket", err
	}
	defer unix.Close(fd)
	limit := unix.NsecToTimeval(int64(socketTimeout))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit); err != nil {
		return -1, "timeout", err
	}
	if err := unix.Connect(fd, addr); err != nil {
		return -1, "", err
	}
	n, err := unix.Write(fd, []byte("probe"))
	return int64(n), "", err
}

// route IP: connects a UDP socket, which asks for a route and sends nothing
func route(a []string) (int64, string, error) {
	ip, err := netip.ParseAddr(a[0])
	if err != nil {
		return -1, "", err
	}
	family, addr := sockaddr(netip.AddrPortFrom(ip, 9))
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, "socket", err
	}
	defer unix.Close(fd)
	return 0, "", unix.Connect(fd, addr)
}

// Listen opens a TCP socket at IP:PORT; with port 0 the kernel chooses one. It gives the address as well.
func Listen(text string) (fd int, at string, err error) {
	family, addr, err := Address(text)
	if err != nil {
		return -1, "", err
	}
	if fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return -1, "", err
	}
	if err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err == nil {
		if err = unix.Bind(fd, addr); err == nil {
			if err = unix.Listen(fd, 64); err == nil {
				at, err = LocalAddress(fd)
			}
		}
	}
	if err != nil {
		unix.Close(fd)
		return -1, "", err
	}
	return fd, at, nil
}

// LocalAddress is the IP:PORT of a socket.
func LocalAddress(fd int) (string, error) {
	addr, err := unix.Getsockname(fd)
	if err != nil {
		return "", err
	}
	switch a := addr.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port)).String(), nil
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port)).String(), nil
	}
	return "", unix.EAFNOSUPPORT
}

// Accept makes the attempt accept IP:PORT DURATION, which tells the number of connections that came. ready is called as soon as
// they can come.
func Accept(a []string, ready func()) (int64, string, error) {
	d, err := time.ParseDuration(a[1])
	if err != nil {
		return -1, "", err
	}
	fd, _, err := Listen(a[0])
	if err != nil {
		return -1, "", err
	}
	defer unix.Close(fd)
	ready()
	n := 0
	for deadline := time.Now().Add(d); ; {
		left := time.Until(deadline)
		if left <= 0 {
			return int64(n), "", nil
		}
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if got, err := unix.Poll(fds, int(left/time.Millisecond)+1); got <= 0 || err != nil {
			continue
		}
		if c, _, err := unix.Accept4(fd, unix.SOCK_CLOEXEC); err == nil {
			unix.Close(c)
			n++
		}
	}
}

// loopback connects to a listener of its own
func loopback([]string) (int64, string, error) {
	fd, at, err := Listen("127.0.0.1:0")
	if err != nil {
		return -1, "listen", err
	}
	defer unix.Close(fd)
	return dial([]string{"tcp", at})
}

// interfaces by getifaddrs' source, /proc/net/dev, so that no netlink socket is needed
func interfaces([]string) (int64, string, error) {
	_, text, err := cat([]string{"/proc/net/dev"})
	if err != nil {
		return -1, "", err
	}
	var names []string
	for _, line := range strings.Split(text, "\n")[2:] {
		if name, _, ok := strings.Cut(line, ":"); ok {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return int64(len(names)), strings.Join(names, " "), nil
}

// newLink asks the kernel for a dummy interface, in the network namespace it runs in.
func newLink([]string) (int64, string, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return -1, "socket", err
	}
	defer unix.Close(fd)
	name := append([]byte{10, 0, 3, 0}, "probe0"...)             // IFLA_IFNAME
	name = append(name, 0, 0)                                    // padding
	kind := []byte{9, 0, 1, 0, 'd', 'u', 'm', 'm', 'y', 0, 0, 0} // IFLA_INFO_KIND
	info := append([]byte{byte(4 + len(kind)), 0, 18, 0}, kind...)
	msg := make([]byte, 32) // nlmsghdr and ifinfomsg
	msg = append(append(msg, name...), info...)
	msg[0] = byte(len(msg))
	msg[4] = unix.RTM_NEWLINK
	msg[6], msg[7] = unix.NLM_F_REQUEST|unix.NLM_F_ACK, 0x6 // CREATE|EXCL
	if err := unix.Sendto(fd, msg, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return -1, "send", err
	}
	buf := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, buf, 0)
	if err != nil {
		return -1, "receive", err
	}
	if n >= 20 {
		if code := int32(uint32(buf[16]) | uint32(buf[17])<<8 | uint32(buf[18])<<16 | uint32(buf[19])<<24); code != 0 {
			return -1, "answer", syscall.Errno(-code)
		}
	}
	return 0, "", nil
}
