package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"gobox/egress/address"
	"gobox/egress/hostname"
)

// DefaultPort is that of a rule that names none.
const DefaultPort = 443

// MaxRulePorts is how many ports one rule may name: each costs a listener.
const MaxRulePorts = 64

// PortRange is First to Last, both included.
type PortRange struct {
	First, Last uint16
}

// Rule is one --allow-net value. Either Name or Prefix is set. It is plain data, since it travels with the plan.
type Rule struct {
	Name     string // canonical name
	Wildcard bool   // the strict sub-domains of Name, and not Name
	Prefix   string // canonical CIDR prefix; a single address is /32 or /128
	Ports    []PortRange
}

// ParseRule reads HOST[:PORTS]. HOST is a name, *.NAME for its sub-domains, an IPv4 address or CIDR prefix, or an IPv6
// address or prefix in brackets. PORTS is a list of ports and ranges, such as 80,443 or 8000-8063; the default is 443.
//
// Refused is what would allow more than a reader expects: a wildcard above names of many owners (*, *.com), prefixes of
// half the internet, and whatever no rule can allow (loopback, metadata services).
func ParseRule(s string) (Rule, error) {
	if scheme, _, ok := strings.Cut(s, "://"); ok {
		return Rule{}, fmt.Errorf("a rule is HOST:PORTS and no URL; leave %s:// and the path off", scheme)
	}
	host, ports, err := hostname.Split(s)
	if err != nil {
		return Rule{}, err
	}
	r := Rule{Ports: []PortRange{{DefaultPort, DefaultPort}}}
	if ports != "" {
		if r.Ports, err = parsePorts(ports); err != nil {
			return Rule{}, err
		}
	}
	switch base, wild := strings.CutPrefix(host, "*"); {
	case wild:
		err = r.setWildcard(base)
	case strings.Contains(host, "/"):
		err = r.setPrefix(host)
	default:
		err = r.setHost(host)
	}
	if err != nil {
		return Rule{}, err
	}
	return r, nil
}

// parsePorts gives sorted ranges that neither overlap nor touch.
func parsePorts(s string) ([]PortRange, error) {
	var list []PortRange
	for item := range strings.SplitSeq(s, ",") {
		first, last, ranged := strings.Cut(item, "-")
		var r PortRange
		var err error
		if r.First, err = hostname.ParsePort(first); err != nil {
			return nil, err
		}
		r.Last = r.First
		if ranged {
			if r.Last, err = hostname.ParsePort(last); err != nil {
				return nil, err
			}
			if r.Last < r.First {
				return nil, fmt.Errorf("port range %s runs backwards", item)
			}
		}
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b PortRange) int { return int(a.First) - int(b.First) })
	out := list[:1]
	for _, r := range list[1:] {
		if last := &out[len(out)-1]; int(r.First) <= int(last.Last)+1 {
			last.Last = max(last.Last, r.Last)
		} else {
			out = append(out, r)
		}
	}
	n := 0
	for _, r := range out {
		n += int(r.Last) - int(r.First) + 1
	}
	if n > MaxRulePorts {
		return nil, fmt.Errorf("%d ports, and a rule may name %d", n, MaxRulePorts)
	}
	return out, nil
}

func (r *Rule) setWildcard(base string) error {
	if base == "" || base == "." {
		return errors.New("* would allow every host; name the hosts, or use *.NAME")
	}
	if base[0] != '.' {
		return errors.New("a wildcard is *.NAME")
	}
	name, err := hostname.Canonical(base[1:])
	if err != nil {
		return err
	}
	if hostname.PublicSuffix(name) {
		return fmt.Errorf("anybody can get a name below %s, so *.%s would allow hosts of anybody's; name the hosts, or *.NAME.%s", name, name, name)
	}
	if err := checkRuleName(name); err != nil {
		return err
	}
	r.Name, r.Wildcard = name, true
	return nil
}

func (r *Rule) setHost(host string) error {
	h, err := hostname.Parse(host)
	if err != nil {
		return err
	}
	if h.Name != "" {
		if err := checkRuleName(h.Name); err != nil {
			return err
		}
		r.Name = h.Name
		return nil
	}
	if c := address.Classify(h.Addr); c.Never {
		return fmt.Errorf("%s is %s, which no rule allows", h.Addr, c.Refused)
	}
	r.Prefix = netip.PrefixFrom(h.Addr, h.Addr.BitLen()).String()
	return nil
}

func checkRuleName(name string) error {
	if why := refusedName(name); why != "" {
		return fmt.Errorf("%s is %s, which no rule allows", name, why)
	}
	return nil
}

// refusedName says why no rule can allow a canonical name; "" if one can.
func refusedName(name string) string {
	switch name {
	case "metadata.google.internal", "metadata.goog", "metadata.azure.internal", "instance-data.ec2.internal":
		return "the metadata service of a cloud"
	}
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return "the command's own loopback"
	}
	return ""
}

// A shorter prefix is no rule about hosts any more.
const (
	minBits4 = 8
	minBits6 = 16
)

func (r *Rule) setPrefix(s string) error {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return fmt.Errorf("%q is no CIDR prefix, as 10.1.0.0/16 is one", s)
	}
	if p.Addr().Is4In6() {
		return errors.New("write an IPv4 prefix as IPv4")
	}
	if p != p.Masked() {
		return fmt.Errorf("%s has bits behind its length; the prefix is %s", p, p.Masked())
	}
	least := minBits4
	if p.Addr().Is6() {
		least = minBits6
	}
	if p.Bits() < least {
		return fmt.Errorf("a prefix shorter than /%d allows far too much; --net host shares the whole network and says so", least)
	}
	// Whatever lies within one network that is never allowed; single addresses of a wider prefix are refused when dialled.
	if a, b := address.Classify(p.Addr()), address.Classify(lastAddr(p)); a.Never && b.Never && a.Refused == b.Refused {
		return fmt.Errorf("%s is %s, which no rule allows", p, a.Refused)
	}
	r.Prefix = p.String()
	return nil
}

func lastAddr(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// String gives the rule as ParseRule reads it, the port always named.
func (r Rule) String() string {
	var b strings.Builder
	b.WriteString(r.host())
	for i, p := range r.Ports {
		sep := ","
		if i == 0 {
			sep = ":"
		}
		b.WriteString(sep + strconv.Itoa(int(p.First)))
		if p.Last != p.First {
			b.WriteString("-" + strconv.Itoa(int(p.Last)))
		}
	}
	return b.String()
}

func (r Rule) host() string {
	switch {
	case r.Wildcard:
		return "*." + r.Name
	case r.Name != "":
		return r.Name
	}
	p := r.prefix()
	s := p.String()
	if p.IsSingleIP() {
		s = p.Addr().String()
	}
	if p.Addr().Is6() {
		s = "[" + s + "]"
	}
	return s
}

// prefix is the zero Prefix for a rule about names, and contains nothing then.
func (r Rule) prefix() netip.Prefix {
	p, err := netip.ParsePrefix(r.Prefix)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

// matchName looks at the host only; name is canonical.
func (r Rule) matchName(name string) bool {
	if r.Name == "" {
		return false
	}
	if !r.Wildcard {
		return name == r.Name
	}
	return len(name) > len(r.Name)+1 && strings.HasSuffix(name, r.Name) && name[len(name)-len(r.Name)-1] == '.'
}

// matchPort is true for port 0, which asks about any.
func (r Rule) matchPort(port uint16) bool {
	if port == 0 {
		return true
	}
	for _, p := range r.Ports {
		if p.First <= port && port <= p.Last {
			return true
		}
	}
	return false
}
