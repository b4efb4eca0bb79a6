package namespaces

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// Network is what the command's network namespace has besides its loopback. The zero value is nothing.
//
// With a gateway, every address is at the other end of the interface eth0: in a second network namespace
// in which all addresses are its own ("AnyIP", RTN_LOCAL), so that whoever listens there on a port gets every
// connection to it, with the address that was dialled as its own (getsockname(2)). Only the listening
// sockets refer to that namespace, and those go to the supervisor: the command has no descriptor, capability or
// path by which to get at it.
type Network struct {
	// Host says that there is no namespace for the command: it has the network of the host.
	Host bool
	// Gateway asks for a gateway that listens on Ports (TCP). The rest is where.
	Gateway bool
	Ports   []uint16
	// Watched are further ports to listen on, where that keeps the command from nothing.
	Watched []uint16
	// Subnet4 and Subnet6 are networks of the command's and the gateway's own, with an IPv4 /24 and an IPv6 /64;
	// see CommandHost and the like for who has which address.
	Subnet4, Subnet6 string
	ProxyPort        uint16
}

// The last number of each address in the subnets.
const (
	GatewayHost = 2  // the way to all addresses, and the proxy
	NameHost    = 3  // IPv4 only: who answers DNS
	CommandHost = 15 // the command's own
)

// Host gives the address in a subnet that ends with the number.
func Host(subnet string, number byte) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(subnet)
	if err != nil {
		return netip.Prefix{}, err
	}
	b := p.Masked().Addr().AsSlice()
	b[len(b)-1] = number
	a, _ := netip.AddrFromSlice(b)
	return netip.PrefixFrom(a, p.Bits()), nil
}

// Sockets are what listens at the gateway. The caller owns them.
type Sockets struct {
	TCP                     []int // one for each of Network.Ports, and of Watched unless Shared, for every address
	NamePackets, NameStream int   // DNS over UDP and TCP
	Proxy                   int
	// Shared says that there is no gateway of its own but the routes of one on the command's own loopback, as
	// the kernel has no veth. The command cannot serve on Ports then.
	Shared bool
	// NoIPv6 says that the kernel has no IPv6, or has it switched off.
	NoIPv6 bool
}

// List gives all of them in order: those of TCP, then NamePackets, NameStream, Proxy.
func (s *Sockets) List() []int {
	return append(append([]int{}, s.TCP...), s.NamePackets, s.NameStream, s.Proxy)
}

// Close closes all of them.
func (s *Sockets) Close() {
	for _, fd := range s.List() {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

const gatewayName, commandName = "gate0", "eth0"

// addresses are those of a Network, parsed.
type addresses struct {
	command, gateway, name netip.Prefix // IPv4
	command6, gateway6     netip.Prefix
}

func (n *Network) addresses() (a addresses, err error) {
	for _, x := range []struct {
		to     *netip.Prefix
		subnet string
		number byte
	}{
		{&a.command, n.Subnet4, CommandHost}, {&a.gateway, n.Subnet4, GatewayHost}, {&a.name, n.Subnet4, NameHost},
		{&a.command6, n.Subnet6, CommandHost}, {&a.gateway6, n.Subnet6, GatewayHost},
	} {
		if *x.to, err = Host(x.subnet, x.number); err != nil {
			return a, err
		}
	}
	return a, nil
}

// OpenGateway makes the gateway of n for the calling process's network namespace, in which it must hold
// CAP_NET_ADMIN, and gives what listens there. It must be called once and before capabilities go. After an error
// the process must not go on: its thread may be in the wrong namespace.
func OpenGateway(n Network) (*Sockets, error) {
	// The namespace is the thread's own until it is back.
	runtime.LockOSThread()
	a, err := n.addresses()
	if err != nil {
		return nil, err
	}
	here, err := openRtnetlink()
	if err != nil {
		return nil, err
	}
	defer here.close()
	// SIOCGSKNS needs no /proc, which may not be there (netlink(7), ioctl_ns(2)).
	home, err := unix.IoctlRetInt(here.fd, unix.SIOCGSKNS)
	if err != nil {
		return nil, fmt.Errorf("open the network namespace: %w", err)
	}
	defer unix.Close(home)
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("make a network namespace: %w", err)
	}
	s, err := openBeyond(n, a, here, home)
	if back := unix.Setns(home, unix.CLONE_NEWNET); back != nil {
		return nil, errors.Join(err, fmt.Errorf("return to the network namespace: %w", back))
	}
	if errors.Is(err, errNoVeth) {
		s, err = openShared(n, a, here)
	}
	if err != nil {
		return nil, err
	}
	runtime.UnlockOSThread()
	return s, nil
}

var errNoVeth = errors.New("the kernel has no veth")

// openBeyond works in the gateway's new namespace, while here is a socket of the command's, home its namespace.
func openBeyond(n Network, a addresses, here *rtnetlink, home int) (*Sockets, error) {
	there, err := openRtnetlink()
	if err != nil {
		return nil, err
	}
	defer there.close()
	switch err := there.makeVeth(gatewayName, commandName, home); {
	case err == unix.EOPNOTSUPP:
		return nil, errNoVeth
	case err != nil:
		return nil, fmt.Errorf("make a veth pair: %w", err)
	}
	for _, up := range []struct {
		side  *rtnetlink
		index int32
	}{{there, loIndex}, {there, vethIndex}, {here, vethIndex}} {
		if err := up.side.up(up.index); err != nil {
			return nil, fmt.Errorf("set interface %d up: %w", up.index, err)
		}
	}
	var zero4, zero6 = netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	// The kernel looks into the table local first, in which everything is the gateway's own but the way back.
	err = steps(
		func() error { return here.addAddress(vethIndex, a.command) },
		func() error { return there.addAddress(vethIndex, a.gateway) },
		func() error { return there.addAddress(vethIndex, netip.PrefixFrom(a.name.Addr(), 32)) },
		func() error {
			return there.addRoute(route{to: netip.PrefixFrom(a.command.Addr(), 32), index: vethIndex, table: unix.RT_TABLE_LOCAL, kind: unix.RTN_UNICAST})
		},
		func() error {
			return there.addRoute(route{to: zero4, index: loIndex, table: unix.RT_TABLE_LOCAL, kind: unix.RTN_LOCAL})
		},
		func() error {
			return here.addRoute(route{to: zero4, via: a.gateway.Addr(), index: vethIndex, table: unix.RT_TABLE_MAIN, kind: unix.RTN_UNICAST})
		},
	)
	if err != nil {
		return nil, fmt.Errorf("IPv4: %w", err)
	}
	noIPv6, err := ipv6Missing(steps(
		func() error { return here.addAddress(vethIndex, a.command6) },
		func() error { return there.addAddress(vethIndex, a.gateway6) },
		func() error {
			return there.addRoute(route{to: netip.PrefixFrom(a.command6.Addr(), 128), index: vethIndex, table: unix.RT_TABLE_LOCAL, kind: unix.RTN_UNICAST})
		},
		func() error {
			return there.addRoute(route{to: zero6, index: loIndex, table: unix.RT_TABLE_LOCAL, kind: unix.RTN_LOCAL})
		},
		func() error {
			return here.addRoute(route{to: zero6, via: a.gateway6.Addr(), index: vethIndex, table: unix.RT_TABLE_MAIN, kind: unix.RTN_UNICAST})
		},
	))
	if err != nil {
		return nil, err
	}
	return listenAll(n, a, noIPv6, false)
}

// openShared puts the gateway's addresses and routes on the command's own loopback. glibc's getaddrinfo with AI_ADDRCONFIG
// wants an address that is not of the loopback's kind, which CommandHost is.
func openShared(n Network, a addresses, here *rtnetlink) (*Sockets, error) {
	var zero4, zero6 = netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	single := func(p netip.Prefix) netip.Prefix { return netip.PrefixFrom(p.Addr(), p.Addr().BitLen()) }
	err := steps(
		func() error { return here.up(loIndex) },
		func() error { return here.addAddress(loIndex, single(a.command)) },
		func() error { return here.addAddress(loIndex, single(a.gateway)) },
		func() error { return here.addAddress(loIndex, single(a.name)) },
		func() error {
			return here.addRoute(route{to: zero4, index: loIndex, table: unix.RT_TABLE_LOCAL, kind: unix.RTN_LOCAL})
		},
	)
	if err != nil {
		return nil, fmt.Errorf("IPv4 on the loopback: %w", err)
	}
	noIPv6, err := ipv6Missing(steps(
		func() error { return here.addAddress(loIndex, single(a.command6)) },
		func() error {
			return here.addRoute(route{to: zero6, index: loIndex, table: unix.RT_TABLE_LOCAL, kind: unix.RTN_LOCAL})
		},
	))
	if err != nil {
		return nil, err
	}
	return listenAll(n, a, noIPv6, true)
}

func steps(list ...func() error) error {
	for i, step := range list {
		if err := step(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return nil
}

// ipv6Missing tells an IPv6 that the kernel was started or built without (EOPNOTSUPP, EAFNOSUPPORT), or that is switched
// off by the sysctl disable_ipv6 (EACCES, EPERM), from a failure.
func ipv6Missing(err error) (bool, error) {
	for _, errno := range []unix.Errno{unix.EOPNOTSUPP, unix.EAFNOSUPPORT, unix.EACCES, unix.EPERM} {
		if errors.Is(err, errno) {
			return true, nil
		}
	}
	if err != nil {
		return false, fmt.Errorf("IPv6: %w", err)
	}
	return false, nil
}

// backlog is how many connections may wait to be accepted; the kernel caps it by net.core.somaxconn.
const backlog = 4096

// listenAll opens what listens, in the namespace that the thread is in.
func listenAll(n Network, a addresses, noIPv6, shared bool) (_ *Sockets, err error) {
	s := &Sockets{NamePackets: -1, NameStream: -1, Proxy: -1, Shared: shared, NoIPv6: noIPv6}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	everywhere := netip.IPv6Unspecified()
	if noIPv6 {
		everywhere = netip.IPv4Unspecified()
	}
	ports := n.Ports
	if !shared {
		ports = slices.Concat(ports, n.Watched)
	}
	for _, port := range ports {
		fd, err := listen(unix.SOCK_STREAM, netip.AddrPortFrom(everywhere, port))
		if err != nil {
			return nil, err
		}
		s.TCP = append(s.TCP, fd)
	}
	const dns = 53
	if s.NamePackets, err = listen(unix.SOCK_DGRAM, netip.AddrPortFrom(a.name.Addr(), dns)); err != nil {
		return nil, err
	}
	if s.NameStream, err = listen(unix.SOCK_STREAM, netip.AddrPortFrom(a.name.Addr(), dns)); err != nil {
		return nil, err
	}
	if s.Proxy, err = listen(unix.SOCK_STREAM, netip.AddrPortFrom(a.gateway.Addr(), n.ProxyPort)); err != nil {
		return nil, err
	}
	return s, nil
}

// Sockaddr is an address as the kernel takes it, and its family.
func Sockaddr(at netip.AddrPort) (domain int, addr unix.Sockaddr) {
	if at.Addr().Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Port: int(at.Port()), Addr: at.Addr().As16()}
}

// listen opens a socket on the address: of the kind SOCK_STREAM one that listens, for IPv4 too where it is
// the unspecified address of IPv6.
func listen(kind int, at netip.AddrPort) (_ int, err error) {
	domain, addr := Sockaddr(at)
	fd, err := unix.Socket(domain, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
			err = fmt.Errorf("listen on %v: %w", at, err)
		}
	}()
	if domain == unix.AF_INET6 {
		if err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0); err != nil {
			return -1, err
		}
	}
	// One of the ports may be that of the DNS or the proxy too, whose sockets have the closer address.
	if err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return -1, err
	}
	if err = unix.Bind(fd, addr); err != nil {
		return -1, err
	}
	if kind == unix.SOCK_STREAM {
		if err = unix.Listen(fd, backlog); err != nil {
			return -1, err
		}
	}
	return fd, nil
}
