package address

import (
	"net/netip"
	"strings"
	"testing"
)

// TestClassify has the first and the last address of every network that is refused, the ones beside it, and every notation
// that wraps another address.
func TestClassify(t *testing.T) {
	for _, c := range []struct {
		addr  string
		why   string // "" for public
		never bool
	}{
		{"0.0.0.0", "this network", true}, {"0.255.255.255", "this network", true}, {"1.0.0.0", "", false},
		{"9.255.255.255", "", false}, {"10.0.0.0", "private", false}, {"10.255.255.255", "private", false}, {"11.0.0.0", "", false},
		{"100.63.255.255", "", false}, {"100.64.0.0", "shared", false}, {"100.127.255.255", "shared", false}, {"100.128.0.0", "", false},
		{"126.255.255.255", "", false}, {"127.0.0.0", "loopback", true}, {"127.0.0.1", "loopback", true}, {"127.255.255.255", "loopback", true}, {"128.0.0.0", "", false},
		{"169.253.255.255", "", false}, {"169.254.0.0", "link-local", false}, {"169.254.169.253", "link-local", false}, {"169.254.255.255", "link-local", false}, {"169.255.0.0", "", false},
		{"172.15.255.255", "", false}, {"172.16.0.0", "private", false}, {"172.31.255.255", "private", false}, {"172.32.0.0", "", false},
		{"192.0.0.0", "protocols", false}, {"192.0.0.255", "protocols", false}, {"192.0.1.0", "", false},
		{"192.0.2.0", "documentation", false}, {"192.0.2.255", "documentation", false}, {"192.0.3.0", "", false},
		{"192.31.196.0", "AS112", false}, {"192.31.197.0", "", false}, {"192.52.193.0", "AMT", false}, {"192.52.194.0", "", false},
		{"192.88.99.0", "6to4", false}, {"192.88.100.0", "", false}, {"192.167.255.255", "", false},
		{"192.168.0.0", "private", false}, {"192.168.255.255", "private", false}, {"192.169.0.0", "", false},
		{"192.175.48.0", "AS112", false}, {"192.175.49.0", "", false},
		{"198.17.255.255", "", false}, {"198.18.0.0", "benchmarks", false}, {"198.19.255.255", "benchmarks", false}, {"198.20.0.0", "", false},
		{"198.51.100.0", "documentation", false}, {"198.51.101.0", "", false}, {"203.0.113.255", "documentation", false}, {"203.0.114.0", "", false},
		{"223.255.255.255", "", false}, {"224.0.0.0", "multicast", true}, {"239.255.255.255", "multicast", true},
		{"240.0.0.0", "reserved", true}, {"255.255.255.254", "reserved", true}, {"255.255.255.255", "broadcast", true},
		{"8.8.8.8", "", false}, {"1.1.1.1", "", false}, {"168.63.129.15", "", false},

		{"169.254.169.254", "metadata", true}, {"169.254.170.2", "metadata", true}, {"169.254.170.23", "metadata", true},
		{"100.100.100.200", "metadata", true}, {"192.0.0.192", "metadata", true}, {"168.63.129.16", "metadata", true},
		{"fd00:ec2::254", "metadata", true}, {"fd00:ec2::23", "metadata", true}, {"fd20:ce::254", "metadata", true},

		{"::", "unspecified", true}, {"::1", "loopback", true}, {"::2", "IPv4-compatible", true},
		{"::169.254.169.254", "IPv4-compatible", true}, {"::8.8.8.8", "IPv4-compatible", true},
		{"::ffff:127.0.0.1", "loopback", true}, {"::ffff:10.0.0.1", "private", false}, {"::ffff:8.8.8.8", "", false}, {"::ffff:a9fe:a9fe", "metadata", true},
		{"::ffff:0:8.8.8.8", "outside global", false}, // IPv4-translated, RFC 2765
		{"64:ff9b::8.8.8.8", "NAT64", false}, {"64:ff9b::10.0.0.1", "private", true}, {"64:ff9b::169.254.169.254", "metadata", true}, {"64:ff9b::127.0.0.1", "loopback", true},
		{"64:ff9b:1::8.8.8.8", "NAT64", true}, {"64:ff9b:1:ffff::1", "NAT64", true}, {"64:ff9b:2::1", "outside global", false},
		{"100::1", "outside global", false}, {"1fff:ffff::1", "outside global", false},
		{"2000::", "", false}, {"2001::1", "Teredo", true}, {"2001:0:53aa:64c::1", "Teredo", true}, {"2001:1::1", "protocols", false}, {"2001:1ff::1", "protocols", false}, {"2001:200::1", "", false},
		{"2001:db7:ffff::1", "", false}, {"2001:db8::1", "documentation", false}, {"2001:db9::1", "", false},
		{"2002::1", "6to4", true}, {"2002:7f00:1::", "6to4", true}, {"2002:808:808::1", "6to4", true}, {"2003::1", "", false},
		{"2620:4f:8000::1", "AS112", false}, {"2620:4f:8001::1", "", false},
		{"2606:4700::1111", "", false}, {"3ffe:ffff::1", "", false}, {"3fff::1", "documentation", false}, {"3fff:fff:ffff::1", "documentation", false}, {"3fff:1000::1", "", false},
		{"3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "", false}, {"4000::", "outside global", false},
		{"5f00::1", "outside global", false}, {"fc00::1", "unique local", false}, {"fdff:ffff::1", "unique local", false}, {"fe00::1", "outside global", false},
		{"fe80::1", "link-local", true}, {"febf:ffff::1", "link-local", true}, {"fec0::1", "site-local", false}, {"feff::1", "site-local", false},
		{"ff00::1", "multicast", true}, {"ff02::1", "multicast", true}, {"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "multicast", true},
		{"2606:4700::1111%eth0", "zone", true},
	} {
		got := Classify(netip.MustParseAddr(c.addr))
		if (got.Refused == "") != (c.why == "") || !strings.Contains(got.Refused, c.why) || got.Never != c.never {
			t.Errorf("%s: %+v, want %q, never %v", c.addr, got, c.why, c.never)
		}
	}
	if c := Classify(netip.Addr{}); !c.Never {
		t.Errorf("no address: %+v", c)
	}
}

// TestDesign holds the networks of the design against the table, every one of them whole.
func TestDesign(t *testing.T) {
	for _, s := range []string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
		"192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24",
		"203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32",
		"2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20", "::/3", "4000::/2", "8000::/1",
	} {
		p := netip.MustParsePrefix(s)
		// The edges, and every address that differs from the first in one bit.
		a := p.Addr()
		check := func(a netip.Addr) {
			if !p.Contains(a) {
				t.Fatalf("%s is not in %s", a, p)
			}
			if Classify(a).Refused == "" && !a.Is4In6() {
				t.Errorf("%s of %s is let through", a, p)
			}
		}
		check(a)
		all := a.AsSlice()
		for i := p.Bits(); i < a.BitLen(); i++ {
			one := a.AsSlice()
			one[i/8] |= 0x80 >> (i % 8)
			all[i/8] |= 0x80 >> (i % 8)
			b, _ := netip.AddrFromSlice(one)
			check(b)
			b, _ = netip.AddrFromSlice(all)
			check(b)
		}
	}
}

// FuzzClassify: an address and its IPv4-mapped form are one.
func FuzzClassify(f *testing.F) {
	f.Add([]byte{127, 0, 0, 1})
	f.Add(netip.MustParseAddr("64:ff9b::a00:1").AsSlice())
	f.Fuzz(func(t *testing.T, b []byte) {
		a, ok := netip.AddrFromSlice(b)
		if !ok {
			return
		}
		c := Classify(a)
		if a.Is4() {
			if m := Classify(netip.AddrFrom16(a.As16())); m != c {
				t.Fatalf("%s: %+v, and mapped %+v", a, c, m)
			}
		}
		// Whatever netip finds special is refused as well.
		u := a.Unmap()
		if c.Refused == "" && (u.IsPrivate() || u.IsLoopback() || u.IsMulticast() || u.IsLinkLocalUnicast() || u.IsUnspecified() || !u.IsGlobalUnicast()) {
			t.Fatalf("%s is let through", a)
		}
	})
}
