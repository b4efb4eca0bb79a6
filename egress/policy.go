package egress

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"gobox/egress/address"
	"gobox/egress/hostname"
)

// MaxPorts is how many ports all rules together may name: each is a listener.
const MaxPorts = 200

// Policy is what may be reached. The zero value allows nothing. It does not change during a run.
type Policy struct {
	Rules []Rule
}

// Decision is the answer about one host and port.
type Decision struct {
	Allowed bool
	Target  string // HOST:PORT in canonical form, or HOST if no port was asked about, or what was asked for as it came
	Rule    string // the rule that allows it, in canonical form
	Reason  string // why it is refused
	Fix     string // the flag that would allow it; empty if none can
}

// String gives a refusal as it reads in the DNS log, the body of a 403, and the result.
func (d Decision) String() string {
	if d.Allowed {
		return d.Target + " is allowed by --allow-net " + d.Rule
	}
	s := d.Target + " is refused by gobox's network policy, which is no fault of the network: " + d.Reason
	if d.Fix != "" {
		s += "; to allow it: " + d.Fix
	}
	return s
}

// Ports gives every port of the rules once, sorted.
func (p Policy) Ports() []uint16 {
	var all []uint16
	for _, r := range p.Rules {
		for _, ports := range r.Ports {
			for n := int(ports.First); n <= int(ports.Last); n++ {
				all = append(all, uint16(n))
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Check refuses a policy with more ports than there may be listeners.
func (p Policy) Check() error {
	if n := len(p.Ports()); n > MaxPorts {
		return fmt.Errorf("the rules name %d ports, and %d is what all of them together may name", n, MaxPorts)
	}
	return nil
}

// Prefixes gives the prefixes of the rules about addresses, which the command's network routes to the gateway.
func (p Policy) Prefixes() []netip.Prefix {
	var all []netip.Prefix
	for _, r := range p.Rules {
		if r.Prefix != "" {
			all = append(all, r.prefix())
		}
	}
	return all
}

// DecideName decides about a host as a program writes it: a name, or an address without brackets. Port 0 asks whether
// any port is allowed. It does not resolve the name; each address it has is decided on when it is dialled.
func (p Policy) DecideName(name string, port uint16) Decision {
	h, err := hostname.Parse(name)
	if err != nil {
		return Decision{Target: quoteHost(name), Reason: "it is no host: " + err.Error()}
	}
	return p.decide(h, port)
}

// quoteHost is for a message about what is no host. What is refused for its bytes is not repeated as it came: it goes to logs
// and terminals.
func quoteHost(s string) string {
	q := strconv.QuoteToASCII(s)
	if len(q) > 300 {
		q = q[:300] + "..."
	}
	return q
}

func (p Policy) decide(h hostname.Host, port uint16) Decision {
	d := Decision{Target: h.String()}
	if port != 0 {
		d.Target = h.HostPort(port)
	}
	match := func(r Rule) bool { return r.matchName(h.Name) }
	if h.Name != "" {
		if why := refusedName(h.Name); why != "" {
			d.Reason = "it is " + why + ", which no rule allows"
			return d
		}
	} else {
		c := address.Classify(h.Addr)
		if c.Never {
			d.Reason = "it is " + c.Refused + ", which no rule allows"
			return d
		}
		match = func(r Rule) bool { return r.prefix().Contains(h.Addr) }
	}
	var near []string
	for _, r := range p.Rules {
		if !match(r) {
			continue
		}
		if r.matchPort(port) {
			d.Allowed, d.Rule = true, r.String()
			return d
		}
		near = append(near, r.String())
	}
	switch {
	case len(near) > 0:
		d.Reason = "the rule for this host is about other ports: " + strings.Join(near[:min(len(near), 4)], ", ")
	case len(p.Rules) == 0:
		d.Reason = "there are no rules, and without one nothing is allowed"
	default:
		d.Reason = "no rule names it"
	}
	fix := port
	if fix == 0 {
		fix = DefaultPort
	}
	d.Fix = "--allow-net " + h.HostPort(fix)
	return d
}

// Resolved decides about an address that an allowed name resolved to: a public one, or one that a rule about addresses
// names as well. name is for the text. own are the addresses of the host itself.
func (p Policy) Resolved(name string, a netip.Addr, port uint16, own []netip.Prefix) Decision {
	a = a.Unmap()
	d := Decision{Target: hostname.Host{Name: name}.HostPort(port)}
	if name == "" {
		d.Target = netip.AddrPortFrom(a, port).String()
	}
	c := address.Classify(a)
	isOwn := slices.ContainsFunc(own, func(p netip.Prefix) bool { return p.Contains(a) })
	switch {
	case c.Never:
		d.Reason = fmt.Sprintf("its address %s is %s, which no rule allows", a, c.Refused)
		return d
	case c.Refused == "" && !isOwn:
		d.Allowed = true
		return d
	}
	for _, r := range p.Rules {
		// A wide prefix does not mean this host's own services: those are allowed by the very address.
		if pre := r.prefix(); pre.Contains(a) && r.matchPort(port) && (!isOwn || pre.IsSingleIP()) {
			d.Allowed, d.Rule = true, r.String()
			return d
		}
	}
	why := c.Refused
	if isOwn {
		why = "an address of this host itself"
	}
	d.Reason = fmt.Sprintf("its address %s is %s, and no rule names that address", a, why)
	d.Fix = "--allow-net " + netip.AddrPortFrom(a, port).String()
	return d
}
