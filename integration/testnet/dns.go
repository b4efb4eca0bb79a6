package main

import (
	"context"
	"net"
	"net/netip"
	"strings"

	"gobox/integration/testnet/heard"

	"golang.org/x/net/dns/dnsmessage"
)

// zone is the whole of the DNS. Addresses are of networks that nobody else has here: everything is on this loopback.
var zone = map[string][]string{
	"web.example.org":       {"93.184.216.34", "2606:2800:220:1::34"},
	"a.files.example.org":   {"93.184.216.35"},
	"b.files.example.org":   {"2606:2800:220:1::36"},
	"other.example.net":     {"93.184.216.40", "2606:2800:220:1::40"},
	"down.example.org":      {"93.184.216.41"}, // nobody listens
	"db.example.org":        {"93.184.216.42"},
	"git.example.org":       {"93.184.216.50", "2606:2800:220:1::50"},
	"index.example.org":     {"93.184.216.51", "2606:2800:220:1::51"},
	"pkg.files.example.org": {"93.184.216.52"},
	"npm.files.example.org": {"93.184.216.55"},
	"mod.files.example.org": {"2606:2800:220:1::54"},
	"sql.example.org":       {"93.184.216.60"}, // with -postgres
	"sql.example.net":       {"93.184.216.61"},
	"private.example.org":   {"10.9.9.9"},
	"loopback.example.org":  {"127.0.0.1", "::1"},
	"metadata.example.org":  {"169.254.169.254"},
	"mapped.example.org":    {"::ffff:10.9.9.9"},
	"nat64.example.org":     {"64:ff9b::a09:909"},
	"public64.example.org":  {"64:ff9b::5db8:d822"},
	"mixed.example.org":     {"10.9.9.9", "93.184.216.34"},
	"many.example.org":      many(),
}

// many gives as many addresses as the DNS has room for in one answer.
func many() (list []string) {
	a := netip.MustParseAddr("93.184.216.127")
	for range 64 {
		a = a.Next()
		list = append(list, a.String())
	}
	return list
}

// resolver is where the DNS is.
const resolver = "93.184.216.53"

func serveDNS(log *heard.Log) error {
	pc, err := (&net.ListenConfig{Control: transparent}).ListenPacket(context.Background(), "udp4", resolver+":53")
	if err != nil {
		return err
	}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			if answer := resolve(log, buf[:n]); answer != nil {
				_, _ = pc.WriteTo(answer, from)
			}
		}
	}()
	return nil
}

func resolve(log *heard.Log, query []byte) []byte {
	var p dnsmessage.Parser
	h, err := p.Start(query)
	if err != nil {
		return nil
	}
	q, err := p.Question()
	if err != nil {
		return nil
	}
	name := strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))
	log.Write(heard.Entry{Kind: heard.Query, Name: name, Detail: q.Type.String()})
	addrs, known := zone[name]
	h.Response, h.RecursionAvailable, h.Authoritative = true, true, true
	if !known {
		h.RCode = dnsmessage.RCodeNameError
	}
	b := dnsmessage.NewBuilder(nil, h)
	b.EnableCompression()
	if b.StartQuestions() != nil || b.Question(q) != nil || b.StartAnswers() != nil {
		return nil
	}
	rh := dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1}
	for _, text := range addrs {
		a := netip.MustParseAddr(text)
		switch {
		case q.Type == dnsmessage.TypeA && a.Is4():
			err = b.AResource(rh, dnsmessage.AResource{A: a.As4()})
		case q.Type == dnsmessage.TypeAAAA && a.Is6():
			err = b.AAAAResource(rh, dnsmessage.AAAAResource{AAAA: a.As16()})
		}
		if err != nil {
			return nil
		}
	}
	out, err := b.Finish()
	if err != nil {
		return nil
	}
	return out
}
