package namespaces

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func testNetwork() *Network {
	return &Network{
		Gateway: true, Ports: []uint16{53, 443, 3128}, Subnet4: "10.0.2.0/24", Subnet6: "fd00:6f62:6f78::/64", ProxyPort: 3128,
	}
}

// lookAtGateway makes a gateway as the child of a test, which has a network namespace of its own, and dials through it.
func lookAtGateway(a *answer, o order) {
	before, _ := os.Readlink("/proc/thread-self/ns/net")
	s, err := openForTest(*o.Network, o.Shared)
	if err != nil {
		a.Index, a.Err = -1, err.Error()
		return
	}
	after, _ := os.Readlink("/proc/thread-self/ns/net")
	a.Seen["namespace"] = fmt.Sprint(before == after)
	a.Seen["shared"], a.Seen["noIPv6"] = fmt.Sprint(s.Shared), fmt.Sprint(s.NoIPv6)
	names := []string{"tcp 53", "tcp 443", "tcp 3128", "packets", "name", "proxy"}
	heard := make(chan string, 16)
	for i, fd := range s.List() {
		f := os.NewFile(uintptr(fd), names[i])
		if i == 3 {
			p, err := net.FilePacketConn(f)
			if err != nil {
				a.Err = err.Error()
				return
			}
			go func() {
				var buf [64]byte
				n, from, err := p.ReadFrom(buf[:])
				if err == nil {
					_, _ = p.WriteTo(buf[:n], from)
				}
			}()
			continue
		}
		l, err := net.FileListener(f)
		if err != nil {
			a.Err = err.Error()
			return
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				heard <- names[i] + " " + c.LocalAddr().String()
				c.Close()
			}
		}()
	}
	for _, what := range o.Look {
		verb, at, _ := strings.Cut(what, " ")
		a.Seen[what] = dialGateway(verb, at, heard)
	}
}

func openForTest(n Network, shared bool) (*Sockets, error) {
	if !shared {
		return OpenGateway(n)
	}
	a, err := n.addresses()
	if err != nil {
		return nil, err
	}
	here, err := openRtnetlink()
	if err != nil {
		return nil, err
	}
	defer here.close()
	return openShared(n, a, here)
}

func dialGateway(verb, at string, heard <-chan string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	switch verb {
	case "listen":
		l, err := net.Listen("tcp", at)
		if err != nil {
			return errnoOf(err)
		}
		l.Close()
		return "listens"
	case "interfaces":
		list, _ := net.Interfaces()
		var names []string
		for _, i := range list {
			if i.Flags&net.FlagUp != 0 {
				names = append(names, i.Name)
			}
		}
		return strings.Join(names, " ")
	}
	c, err := (&net.Dialer{}).DialContext(ctx, verb, at)
	if err != nil {
		return errnoOf(err)
	}
	defer c.Close()
	if verb == "udp" {
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		if _, err := c.Write([]byte("ping")); err != nil {
			return errnoOf(err)
		}
		var buf [64]byte
		n, err := c.Read(buf[:])
		if err != nil {
			return errnoOf(err)
		}
		return string(buf[:n])
	}
	select {
	case h := <-heard:
		return h
	case <-ctx.Done():
		return "nobody accepts"
	}
}

func errnoOf(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return unix.ErrnoName(errno)
	}
	return err.Error()
}

func checkSeen(t *testing.T, got answer, want map[string]string) {
	t.Helper()
	if got.Err != "" {
		t.Fatalf("%s", got.Err)
	}
	for what, expected := range want {
		if strings.Contains(what, "[") && got.Seen["noIPv6"] == "true" {
			continue
		}
		if got.Seen[what] != expected {
			t.Errorf("%s: %q, want %q", what, got.Seen[what], expected)
		}
	}
}

func lookFor(want map[string]string) (list []string) {
	for what := range want {
		if strings.Contains(what, " ") {
			list = append(list, what)
		}
	}
	return list
}

// Every address is the gateway's, and which one was dialled is what its socket is called.
func TestGateway(t *testing.T) {
	if !hasVeth(t) {
		t.Skip("the kernel has no veth")
	}
	want := map[string]string{
		"namespace": "true", "shared": "false",
		"tcp 198.18.7.9:443":            "tcp 443 198.18.7.9:443",
		"tcp 93.184.216.34:443":         "tcp 443 93.184.216.34:443",
		"tcp [fd00:6f62:6f78:1::5]:443": "tcp 443 [fd00:6f62:6f78:1::5]:443",
		"tcp [2606:2800:220:1::1]:443":  "tcp 443 [2606:2800:220:1::1]:443",
		"tcp 198.18.7.9:80":             "ECONNREFUSED",
		"tcp [2606:2800:220:1::1]:80":   "ECONNREFUSED",
		"udp 93.184.216.34:443":         "ECONNREFUSED",
		"udp 10.0.2.3:53":               "ping",
		"tcp 10.0.2.3:53":               "name 10.0.2.3:53",
		"tcp 198.18.7.9:53":             "tcp 53 198.18.7.9:53",
		"tcp 10.0.2.2:3128":             "proxy 10.0.2.2:3128",
		"tcp 198.18.7.9:3128":           "tcp 3128 198.18.7.9:3128",
		// Its own loopback stays its own, and so do its ports.
		"tcp 127.0.0.1:443":      "ECONNREFUSED",
		"tcp [::1]:443":          "ECONNREFUSED",
		"listen 0.0.0.0:443":     "listens",
		"listen [::]:443":        "listens",
		"listen 10.0.2.15:443":   "listens",
		"listen 93.184.216.34:1": "EADDRNOTAVAIL",
		"interfaces up":          "lo eth0",
	}
	checkSeen(t, inChild(t, order{Network: testNetwork(), Look: lookFor(want)}), want)
}

// Without veth all but serving on the same ports works.
func TestGatewayShared(t *testing.T) {
	want := map[string]string{
		"shared":                        "true",
		"tcp 198.18.7.9:443":            "tcp 443 198.18.7.9:443",
		"tcp 93.184.216.34:443":         "tcp 443 93.184.216.34:443",
		"tcp [fd00:6f62:6f78:1::5]:443": "tcp 443 [fd00:6f62:6f78:1::5]:443",
		"tcp 198.18.7.9:80":             "ECONNREFUSED",
		"udp 93.184.216.34:443":         "ECONNREFUSED",
		"udp 10.0.2.3:53":               "ping",
		"tcp 10.0.2.3:53":               "name 10.0.2.3:53",
		"tcp 10.0.2.2:3128":             "proxy 10.0.2.2:3128",
		"listen 127.0.0.1:8000":         "listens",
		"interfaces up":                 "lo",
	}
	checkSeen(t, inChild(t, order{Network: testNetwork(), Shared: true, Look: lookFor(want)}), want)
}

// hasVeth asks for one in a network namespace of the test's own.
func hasVeth(t *testing.T) bool {
	t.Helper()
	return inChild(t, order{Network: testNetwork()}).Seen["shared"] != "true"
}
