package namespaces

import (
	"net"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func TestListening(t *testing.T) {
	var ports []uint16
	var want []netip.Addr
	for at, addr := range map[string]string{
		"127.0.0.1:0": "127.0.0.1", "127.0.0.7:0": "127.0.0.7", "0.0.0.0:0": "127.0.0.1", "[::1]:0": "::1", "[::]:0": "::1",
	} {
		network := "tcp4" // "tcp" takes 0.0.0.0 for both families
		if at[0] == '[' {
			network = "tcp6"
		}
		l, err := net.Listen(network, at)
		if err != nil {
			t.Logf("left out: %v", err)
			continue
		}
		defer l.Close()
		ports = append(ports, uint16(l.Addr().(*net.TCPAddr).Port))
		want = append(want, netip.MustParseAddr(addr))
	}
	// One that is connected to does not listen, nor does a bound one.
	c, err := net.Dial("tcp", netip.AddrPortFrom(want[0], ports[0]).String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ports, want = append(ports, uint16(c.LocalAddr().(*net.TCPAddr).Port)), append(want, netip.Addr{})
	l := OpenListening()
	defer unix.Close(l.fd)
	for range 2 {
		got, err := l.Look(ports)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("sock_diag: %v, %v, want %v", got, err, want)
		}
	}
	byProc := &Listening{fd: -1}
	if got, err := byProc.Look(ports); err != nil || !slices.Equal(got, want) {
		t.Errorf("/proc: %v, %v, want %v", got, err, want)
	}
}
