// Package address says which addresses an allowed name may never lead to: everything that is not one public host. The
// standard library's predicates are not enough for that: they let through shared address space, documentation and
// benchmarking networks, and every notation that wraps an IPv4 address in an IPv6 one.
//
// The tables follow the IANA special-purpose address registries (RFC 6890), the IPv6 global unicast assignments, and
// the metadata services of the large clouds.
package address

import (
	"net/netip"
)

// Class says what an address is. The zero value is a public address.
type Class struct {
	Refused string // why no name may lead there, as "a private address (RFC 1918)"; "" for a public address
	Never   bool   // not even a rule that names the address allows it
}

type entry struct {
	prefix string
	why    string
	never  bool
}

// Metadata services give out the credentials of the machine to whoever asks.
const metadata = "the metadata service of a cloud"

// entries gives the tables. Most specific first: the first that contains the address tells.
func entries4() []entry {
	return []entry{
		{"169.254.169.254/32", metadata, true}, // nearly all of them
		{"169.254.170.2/32", metadata, true},   // AWS ECS tasks
		{"169.254.170.23/32", metadata, true},  // AWS EKS pod identity
		{"100.100.100.200/32", metadata, true}, // Alibaba
		{"192.0.0.192/32", metadata, true},     // Oracle
		{"168.63.129.16/32", metadata, true},   // Azure's host
		{"0.0.0.0/8", "an address of this network (RFC 791)", true},
		{"127.0.0.0/8", "a loopback address", true},
		{"224.0.0.0/4", "a multicast address", true},
		{"255.255.255.255/32", "the broadcast address", true},
		{"240.0.0.0/4", "a reserved address (RFC 1112)", true},
		{"10.0.0.0/8", "a private address (RFC 1918)", false},
		{"172.16.0.0/12", "a private address (RFC 1918)", false},
		{"192.168.0.0/16", "a private address (RFC 1918)", false},
		{"100.64.0.0/10", "a shared address of a carrier (RFC 6598)", false},
		{"169.254.0.0/16", "a link-local address (RFC 3927)", false},
		{"192.0.0.0/24", "an address for protocols (RFC 6890)", false},
		{"192.0.2.0/24", "an address for documentation (RFC 5737)", false},
		{"198.51.100.0/24", "an address for documentation (RFC 5737)", false},
		{"203.0.113.0/24", "an address for documentation (RFC 5737)", false},
		{"192.31.196.0/24", "an address of AS112 (RFC 7535)", false},
		{"192.175.48.0/24", "an address of AS112 (RFC 7534)", false},
		{"192.52.193.0/24", "an address of AMT relays (RFC 7450)", false},
		{"192.88.99.0/24", "an address of 6to4 relays (RFC 7526)", false},
		{"198.18.0.0/15", "an address for benchmarks (RFC 2544)", false},
	}
}

func entries6() []entry {
	return []entry{
		{"fd00:ec2::254/128", metadata, true}, // AWS
		{"fd00:ec2::23/128", metadata, true},  // AWS EKS pod identity
		{"fd20:ce::254/128", metadata, true},  // Google
		{"::/128", "the unspecified address", true},
		{"::1/128", "the loopback address", true},
		{"::/96", "an IPv4-compatible address (RFC 4291)", true},
		{"ff00::/8", "a multicast address", true},
		{"fe80::/10", "a link-local address (RFC 4291)", true}, // it means nothing without a zone
		{"fec0::/10", "a site-local address (RFC 3879)", false},
		{"fc00::/7", "a unique local address (RFC 4193)", false},
		{"64:ff9b::/96", "a NAT64 address (RFC 6052)", false},
		{"64:ff9b:1::/48", "a local NAT64 address (RFC 8215)", true}, // where it embeds IPv4 is up to the site,
		{"2001::/32", "a Teredo address (RFC 4380)", true},
		{"2002::/16", "a 6to4 address (RFC 3056)", true},
		{"2001::/23", "an address for protocols (RFC 2928)", false},
		{"2001:db8::/32", "an address for documentation (RFC 3849)", false},
		{"3fff::/20", "an address for documentation (RFC 9637)", false},
		{"2620:4f:8000::/48", "an address of AS112 (RFC 7534)", false},
	}
}

// Classify tells what a is. An IPv4-mapped address is what it maps to.
func Classify(a netip.Addr) Class {
	if !a.IsValid() {
		return Class{"no address", true}
	}
	if a.Zone() != "" {
		return Class{"an address with a zone id", true}
	}
	a = a.Unmap()
	table := entries4
	if a.Is6() {
		table = entries6
	}
	for _, e := range table() {
		if netip.MustParsePrefix(e.prefix).Contains(a) {
			c := Class{e.why, e.never}
			if v4, ok := embedded(a); ok && !c.Never {
				// Who may reach a translator may not reach through it what is refused on this side.
				if in := Classify(v4); in.Refused != "" {
					c.Refused += " of " + v4.String() + ", " + in.Refused
					c.Never = true
				}
			}
			return c
		}
	}
	if a.Is6() && !netip.MustParsePrefix("2000::/3").Contains(a) {
		return Class{"an address outside global unicast (RFC 4291)", false}
	}
	return Class{}
}

// embedded gives the IPv4 address that a translator makes of a: the last four bytes of the well-known prefix
// (RFC 6052, 2.2).
func embedded(a netip.Addr) (netip.Addr, bool) {
	if !netip.MustParsePrefix("64:ff9b::/96").Contains(a) {
		return netip.Addr{}, false
	}
	b := a.As16()
	return netip.AddrFrom4([4]byte(b[12:])), true
}
