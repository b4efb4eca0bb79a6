package dns

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// zone knows one name, and gives no address of one family for another.
type zone struct{}

func (zone) Lookup(name string) (v4, v6 netip.Addr, r Result) {
	switch strings.ToLower(name) {
	case "allowed.example":
		return netip.MustParseAddr("198.18.0.5"), netip.MustParseAddr("fd00::5"), Found
	case "four.example":
		return netip.MustParseAddr("198.18.0.6"), netip.Addr{}, Found
	case "full.example":
		return netip.Addr{}, netip.Addr{}, Failed
	}
	return netip.Addr{}, netip.Addr{}, NoName
}

func (zone) Reverse(a netip.Addr) (string, bool) {
	return "allowed.example", a == netip.MustParseAddr("198.18.0.5") || a == netip.MustParseAddr("fd00::5")
}

func query(t testing.TB, name string, typ dnsmessage.Type, edns bool) []byte {
	t.Helper()
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: 4711, RecursionDesired: true})
	n, err := dnsmessage.NewName(name + ".")
	if err != nil {
		t.Fatal(err)
	}
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	check(b.StartQuestions())
	check(b.Question(dnsmessage.Question{Name: n, Type: typ, Class: dnsmessage.ClassINET}))
	if edns {
		check(b.StartAdditionals())
		var h dnsmessage.ResourceHeader
		check(h.SetEDNS0(1232, dnsmessage.RCodeSuccess, true))
		check(b.OPTResource(h, dnsmessage.OPTResource{Options: []dnsmessage.Option{{Code: 10, Data: make([]byte, 8)}}}))
	}
	msg, err := b.Finish()
	check(err)
	return msg
}

// describe says what an independent reader makes of a reply.
func describe(t testing.TB, msg []byte) string {
	t.Helper()
	var m dnsmessage.Message
	if err := m.Unpack(msg); err != nil {
		t.Fatalf("the reply %x does not parse: %v", msg, err)
	}
	s := m.RCode.String()
	for _, a := range m.Answers {
		switch b := a.Body.(type) {
		case *dnsmessage.AResource:
			s += fmt.Sprint(" ", a.Header.Name, netip.AddrFrom4(b.A))
		case *dnsmessage.AAAAResource:
			s += fmt.Sprint(" ", a.Header.Name, netip.AddrFrom16(b.AAAA))
		case *dnsmessage.PTRResource:
			s += fmt.Sprint(" ", b.PTR)
		}
	}
	return s
}

func TestAnswer(t *testing.T) {
	for _, c := range []struct {
		name string
		typ  dnsmessage.Type
		want string
	}{
		{"allowed.example", dnsmessage.TypeA, "RCodeSuccess allowed.example. 198.18.0.5"},
		{"AlloweD.ExamplE", dnsmessage.TypeA, "RCodeSuccess AlloweD.ExamplE. 198.18.0.5"},
		{"allowed.example", dnsmessage.TypeAAAA, "RCodeSuccess allowed.example. fd00::5"},
		{"four.example", dnsmessage.TypeAAAA, "RCodeSuccess"},
		{"allowed.example", dnsmessage.TypeMX, "RCodeSuccess"},
		{"allowed.example", dnsmessage.TypeTXT, "RCodeSuccess"},
		{"allowed.example", 65, "RCodeSuccess"}, // HTTPS
		{"allowed.example", 64, "RCodeSuccess"}, // SVCB
		{"allowed.example", dnsmessage.TypePTR, "RCodeSuccess"},
		{"allowed.example", 252, "RCodeRefused"},
		{"other.example", dnsmessage.TypeA, "RCodeNameError"},
		{"other.example", dnsmessage.TypeTXT, "RCodeNameError"},
		{"data\x00.allowed.example", dnsmessage.TypeA, "RCodeNameError"},
		{"full.example", dnsmessage.TypeA, "RCodeServerFailure"},
		{"5.0.18.198.in-addr.arpa", dnsmessage.TypePTR, "RCodeSuccess allowed.example."},
		{"6.0.18.198.in-addr.arpa", dnsmessage.TypePTR, "RCodeNameError"},
		{"5.0.18.in-addr.arpa", dnsmessage.TypePTR, "RCodeNameError"},
		{"5" + strings.Repeat(".0", 27) + ".0.0.d.f.ip6.arpa", dnsmessage.TypePTR, "RCodeSuccess allowed.example."},
		{"6" + strings.Repeat(".0", 27) + ".0.0.d.f.ip6.arpa", dnsmessage.TypePTR, "RCodeNameError"},
	} {
		for _, edns := range []bool{false, true} {
			r := Answer(query(t, c.name, c.typ, edns), zone{})
			if got := describe(t, r); got != c.want {
				t.Errorf("%s %v: %s, want %s", c.name, c.typ, got, c.want)
			}
			if len(r) > MaxReply {
				t.Errorf("%s: %d bytes", c.name, len(r))
			}
			var m dnsmessage.Message
			if err := m.Unpack(r); err != nil || !m.Response || m.ID != 4711 || !m.RecursionDesired || len(m.Questions) != 1 || (len(m.Additionals) == 1) != edns {
				t.Errorf("%s: %+v, %v", c.name, m, err)
			}
		}
	}
}

func TestAnswerMalformed(t *testing.T) {
	good := query(t, "allowed.example", dnsmessage.TypeA, false)
	with := func(i int, b ...byte) []byte {
		m := append([]byte{}, good...)
		copy(m[i:], b)
		return m
	}
	for name, c := range map[string]struct {
		msg  []byte
		want string // "" for no answer
	}{
		"empty":           {nil, ""},
		"short header":    {good[:11], ""},
		"a response":      {with(2, 0x81), ""},
		"header only":     {good[:12], "RCodeFormatError"},
		"no question":     {with(4, 0, 0), "RCodeFormatError"},
		"two questions":   {with(4, 0, 2), "RCodeFormatError"},
		"65535 questions": {with(4, 0xff, 0xff), "RCodeFormatError"},
		"answers":         {with(6, 0, 1), "RCodeFormatError"},
		"truncated flag":  {with(2, 0x03), "RCodeFormatError"},
		"an update":       {with(2, 0x28), "RCodeNotImplemented"},
		"cut name":        {good[:20], "RCodeFormatError"},
		"cut type":        {good[:len(good)-1], "RCodeFormatError"},
		"label too long":  {with(12, 0x40), "RCodeFormatError"},
		"pointer to self": {with(12, 0xc0, 0x0c), "RCodeFormatError"},
		"class CH":        {with(len(good)-1, 3), "RCodeRefused"},
		"OPT missing":     {with(10, 0, 1), "RCodeSuccess allowed.example. 198.18.0.5"},
		"name of 255":     {append(append(append([]byte{}, good[:12]...), []byte(strings.Repeat("\x3f"+strings.Repeat("a", 63), 4))...), 0, 0, 1, 0, 1), "RCodeFormatError"},
		"no end of name":  {append(append([]byte{}, good[:12]...), []byte(strings.Repeat("\x01a", 300))...), "RCodeFormatError"},
		"the root":        {append(append([]byte{}, good[:12]...), 0, 0, 1, 0, 1), "RCodeNameError"},
	} {
		r := Answer(c.msg, zone{})
		got := ""
		if r != nil {
			got = describe(t, r)
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	edns := query(t, "allowed.example", dnsmessage.TypeA, true)
	i := strings.Index(string(edns), "\x00\x00\x29")
	edns[i+6] = 1
	r := Answer(edns, zone{})
	if describe(t, r) != "RCodeSuccess" || r[len(r)-6] != 1 {
		t.Errorf("EDNS version 1 gives %x, want extended code 16", r)
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add(query(f, "allowed.example", dnsmessage.TypeA, true))
	f.Add(query(f, "other.example", dnsmessage.TypeTXT, false))
	f.Add([]byte("00\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03a.b\x00\x00\x01\x00\x01"))
	f.Add(query(f, "5.0.18.198.in-addr.arpa", dnsmessage.TypePTR, false))
	f.Fuzz(func(t *testing.T, msg []byte) {
		r := Answer(msg, zone{})
		if r == nil {
			return
		}
		if len(r) > MaxReply {
			t.Fatalf("%d bytes", len(r))
		}
		// The judge takes no dot within a label, where a DNS name may have any byte; it comes back as it was asked.
		var p dnsmessage.Parser
		if _, err := p.Start(msg); err == nil {
			if _, err := p.Question(); err != nil && r[5] == 1 {
				return
			}
		}
		var m dnsmessage.Message
		if err := m.Unpack(r); err != nil {
			t.Fatalf("%x gives %x: %v", msg, r, err)
		}
		// Only the one allowed name ever gets an address.
		for _, a := range m.Answers {
			if a.Header.Type != dnsmessage.TypePTR && !strings.HasSuffix(strings.ToLower(a.Header.Name.String()), ".example.") {
				t.Fatalf("an address for %s", a.Header.Name)
			}
		}
	})
}
