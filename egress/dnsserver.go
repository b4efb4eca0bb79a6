package egress

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strconv"
	"time"

	"gobox/egress/dns"
	"gobox/egress/hostname"
)

// zone is the policy as DNS sees it.
type zone struct{ g *Gateway }

// Lookup decides about the name alone. The port is decided on when it is dialled.
func (z zone) Lookup(asked string) (v4, v6 netip.Addr, r dns.Result) {
	name, err := hostname.Canonical(asked)
	if err != nil {
		z.refused(Decision{Target: quoteHost(asked), Reason: "it is no host name: " + err.Error()})
		return v4, v6, dns.NoName
	}
	if d := z.g.cfg.Policy.DecideName(name, 0); !d.Allowed {
		z.refused(d)
		return v4, v6, dns.NoName
	}
	v4, v6, ok := z.g.pool.get(name)
	if !ok {
		z.g.report.limit("", "the limit of "+strconv.Itoa(z.g.pool.capacity)+" names in one run is reached")
		return v4, v6, dns.Failed
	}
	return v4, v6, dns.Found
}

// Reverse knows the synthetic addresses.
func (z zone) Reverse(a netip.Addr) (string, bool) { return z.g.pool.name(a.Unmap()) }

// refused reports each name once: programs ask for A and AAAA, and again.
func (z zone) refused(d Decision) {
	z.g.report.refused.Add(1)
	z.g.report.once(d.Target, Event{
		Time: time.Now(), Kind: KindDNS, Name: d.Target, Verdict: Refused, Reason: d.Reason, Fix: d.Fix,
	})
}

// maxQuery is what a query may have at most: a question, and an OPT record with some options.
const maxQuery = 4096

func (g *Gateway) serveDNSPackets(c *net.UDPConn) {
	buf := make([]byte, maxQuery)
	for {
		n, from, err := c.ReadFromUDPAddrPort(buf)
		if err != nil {
			if g.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			// An ICMP error about an answer to somebody who has gone is reported here.
			time.Sleep(time.Millisecond)
			continue
		}
		if r := dns.Answer(buf[:n], zone{g}); r != nil {
			_, _ = c.WriteToUDPAddrPort(r, from)
		}
	}
}

// dnsIdle is how long a TCP connection may be silent (RFC 7766, 6.2.3).
const dnsIdle = 10 * time.Second

func (g *Gateway) serveDNSStream(c *net.TCPConn) {
	buf := make([]byte, 2+maxQuery)
	for {
		if err := c.SetDeadline(time.Now().Add(dnsIdle)); err != nil {
			return
		}
		if _, err := io.ReadFull(c, buf[:2]); err != nil {
			return
		}
		n := int(binary.BigEndian.Uint16(buf))
		if n > maxQuery {
			return
		}
		if _, err := io.ReadFull(c, buf[:n]); err != nil {
			return
		}
		r := dns.Answer(buf[:n], zone{g})
		if r == nil {
			return
		}
		msg := append(binary.BigEndian.AppendUint16(make([]byte, 0, 2+len(r)), uint16(len(r))), r...)
		if _, err := c.Write(msg); err != nil {
			return
		}
	}
}
