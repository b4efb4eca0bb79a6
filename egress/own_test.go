package egress

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A kernel can take whole networks for its own, and no interface shows it.
func TestHostAddresses(t *testing.T) {
	const child = "GOBOX_TEST_OWN_NETWORK"
	if os.Getenv(child) != "" {
		printHostAddresses(t)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestHostAddresses$")
	cmd.Env = append(os.Environ(), child+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// The others are lo's own and what the kernel routes for it.
	for _, want := range []string{"127.0.0.0/8", "127.0.0.1/32", "198.51.100.0/24", "2001:db8:77::/48", "192.0.2.0/25", "192.0.2.128/25", "::1/128"} {
		if !strings.Contains(string(out), "own "+want+"\n") {
			t.Errorf("no %s in %s", want, out)
		}
	}
	for _, other := range []string{"203.0.113.0/24", "0.0.0.0/0", "::/0"} {
		if strings.Contains(string(out), "own "+other+"\n") {
			t.Errorf("%s is not the host's: %s", other, out)
		}
	}
}

// printHostAddresses runs in a network of its own.
func printHostAddresses(t *testing.T) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	up := []byte{unix.AF_UNSPEC, 0, 0, 0, 1, 0, 0, 0, unix.IFF_UP, 0, 0, 0, unix.IFF_UP, 0, 0, 0} // struct ifinfomsg of lo
	change(t, fd, unix.RTM_NEWLINK, up)
	for _, r := range []struct {
		to          string
		table, kind byte
	}{
		{"198.51.100.0/24", unix.RT_TABLE_LOCAL, unix.RTN_LOCAL},
		{"2001:db8:77::/48", unix.RT_TABLE_LOCAL, unix.RTN_LOCAL},
		{"192.0.2.0/25", unix.RT_TABLE_MAIN, unix.RTN_LOCAL},
		{"192.0.2.128/25", unix.RT_TABLE_DEFAULT, unix.RTN_LOCAL},
		{"203.0.113.0/24", unix.RT_TABLE_MAIN, unix.RTN_UNICAST},
		{"0.0.0.0/0", 100, unix.RTN_LOCAL}, // as transparent proxies have
	} {
		p := netip.MustParsePrefix(r.to)
		family, scope := byte(unix.AF_INET), byte(unix.RT_SCOPE_HOST)
		if p.Addr().Is6() {
			family = unix.AF_INET6
		}
		if r.kind == unix.RTN_UNICAST {
			scope = unix.RT_SCOPE_LINK
		}
		body := []byte{family, byte(p.Bits()), 0, 0, r.table, unix.RTPROT_BOOT, scope, r.kind, 0, 0, 0, 0}
		if p.Bits() > 0 {
			body = attribute(body, unix.RTA_DST, p.Addr().AsSlice())
		}
		change(t, fd, unix.RTM_NEWROUTE, attribute(body, unix.RTA_OIF, binary.NativeEndian.AppendUint32(nil, 1)))
	}
	list, err := hostAddresses()
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(list, netip.Prefix.Compare)
	for _, p := range list {
		fmt.Printf("own %s\n", p)
	}
}

func attribute(msg []byte, kind uint16, value []byte) []byte {
	msg = binary.NativeEndian.AppendUint16(msg, uint16(4+len(value)))
	msg = binary.NativeEndian.AppendUint16(msg, kind)
	return append(msg, value...)
}

func change(t *testing.T, fd int, kind uint16, body []byte) {
	t.Helper()
	msg := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body)))
	msg = binary.NativeEndian.AppendUint16(msg, kind)
	msg = binary.NativeEndian.AppendUint16(msg, unix.NLM_F_REQUEST|unix.NLM_F_ACK|unix.NLM_F_CREATE)
	msg = append(append(msg, make([]byte, 8)...), body...)
	if err := unix.Sendto(fd, msg, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	if n, _, err := unix.Recvfrom(fd, buf, 0); err != nil || n < 20 || binary.NativeEndian.Uint32(buf[16:]) != 0 {
		t.Fatalf("message %d: %v, error %d", kind, err, -int32(binary.NativeEndian.Uint32(buf[16:])))
	}
}
