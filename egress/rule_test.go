package egress

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"gobox/egress/hostname"
)

func TestParseRule(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"example.com", "example.com:443"},
		{"EXAMPLE.com.", "example.com:443"},
		{"example.com:80,443", "example.com:80,443"},
		{"example.com:443,80,81", "example.com:80-81,443"},
		{"example.com:8000-8063", "example.com:8000-8063"},
		{"bücher.example:22", "xn--bcher-kva.example:22"},
		{"*.files.example.org", "*.files.example.org:443"},
		{"_srv.example.com", "_srv.example.com:443"},
		{"db", "db:443"},
		{"10.1.2.3:5432", "10.1.2.3:5432"},
		{"8.8.8.8", "8.8.8.8:443"},
		{"10.0.0.0/8:5432", "10.0.0.0/8:5432"},
		{"[2001:db8::1]:443", "[2001:db8::1]:443"},
		{"[2001:DB8:0:0::1]", "[2001:db8::1]:443"},
		{"[fd12:3456::/32]:80", "[fd12:3456::/32]:80"},
		{"[::ffff:10.1.2.3]:80", "10.1.2.3:80"},
		{"[64:ff9b::808:808]:80", "[64:ff9b::808:808]:80"},
		{"169.254.0.0/16:80", "169.254.0.0/16:80"},
	} {
		r, err := ParseRule(c.in)
		if err != nil {
			t.Errorf("%q: %v", c.in, err)
			continue
		}
		if r.String() != c.want {
			t.Errorf("%q reads as %q, want %q", c.in, r, c.want)
		}
		again, err := ParseRule(r.String())
		if err != nil || again.String() != r.String() {
			t.Errorf("%q again: %q, %v", r, again, err)
		}
	}
}

func TestParseRuleRefuses(t *testing.T) {
	for in, want := range map[string]string{
		"":                            "empty",
		"*":                           "every host",
		"*.":                          "every host",
		"*:443":                       "every host",
		"*.com":                       "anybody",
		"*.co.uk":                     "anybody",
		"*.github.io":                 "anybody",
		"*.internal":                  "anybody",
		"*example.com":                "*.NAME",
		"a.*.example.com":             "wildcard",
		"*.*.example.com":             "wildcard",
		"https://example.com/":        "URL",
		"example.com:0":               "1 to 65535",
		"example.com:65536":           "1 to 65535",
		"example.com:":                "port is missing",
		"example.com:80-79":           "backwards",
		"example.com:80,":             "1 to 65535",
		"example.com:+80":             "not a number",
		"example.com:1-65":            "65 ports",
		"example.com:1-32,100-132":    "65 ports",
		"2001:db8::1":                 "brackets",
		"[example.com]:443":           "brackets",
		"[10.0.0.1]:443":              "brackets",
		"[fe80::1%eth0]:80":           "zone",
		"user@example.com":            "user information",
		"exa mple.com":                "space",
		"example.com\n":               "line break",
		"example.com\x00":             "NUL",
		"127.1":                       "number",
		"2130706433":                  "number",
		"0x7f.1":                      "number",
		"0x7f000001":                  "number",
		"0177.0.0.1":                  "number",
		"example.0x":                  "number",
		"１２７.0.0.1":                   "number",
		"127.0.0.1:80":                "loopback",
		"[::1]:80":                    "loopback",
		"[::ffff:127.0.0.1]:80":       "loopback",
		"localhost:80":                "loopback",
		"x.localhost:80":              "loopback",
		"0.0.0.0:80":                  "this network",
		"169.254.169.254:80":          "metadata",
		"[fd00:ec2::254]:80":          "metadata",
		"metadata.google.internal:80": "metadata",
		"Metadata.Google.Internal.":   "metadata",
		"[64:ff9b::a9fe:a9fe]:80":     "no rule",
		"[64:ff9b::10.0.0.1]:80":      "no rule",
		"[2002:0a00:1::1]:80":         "6to4",
		"[2001::1]:80":                "Teredo",
		"0.0.0.0/0:443":               "too much",
		"10.0.0.0/7:443":              "too much",
		"[::/0]:443":                  "too much",
		"10.0.0.1/8:443":              "10.0.0.0/8",
		"127.0.0.0/8:80":              "loopback",
		"127.1.0.0/16:80":             "loopback",
		"10.0.0.0/33:80":              "CIDR",
		"example.com/24":              "CIDR",
		"-oProxyCommand=x":            "",
		"-a.example.com":              "hyphen",
		"a..example.com":              "empty label",
		"xn--a.example.com":           "internationalised",
		strings.Repeat("a.", 127) + "example.com": "longer than 253",
		strings.Repeat("a", 64) + ".com":          "longer than 63",
	} {
		r, err := ParseRule(in)
		if err == nil {
			t.Errorf("%q reads as %q, and should be refused", in, r)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, which does not say %q", in, err, want)
		}
	}
}

func policyOf(t testing.TB, rules ...string) Policy {
	t.Helper()
	var p Policy
	for _, s := range rules {
		r, err := ParseRule(s)
		if err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		p.Rules = append(p.Rules, r)
	}
	return p
}

func TestN15N16Decide(t *testing.T) {
	p := policyOf(t, "example.com", "*.files.example.org:80,443", "10.1.0.0/16:5432", "[fd00:1::5]:80", "8.8.8.8:53", "100.64.0.0/10:80")
	for _, c := range []struct {
		host   string
		port   uint16
		rule   string // "" for refused
		reason string
		fix    string
	}{
		{"example.com", 443, "example.com:443", "", ""},
		{"EXAMPLE.COM.", 443, "example.com:443", "", ""},
		{"example.com", 0, "example.com:443", "", ""},
		{"example.com", 80, "", "other ports: example.com:443", "--allow-net example.com:80"},
		{"www.example.com", 443, "", "no rule", "--allow-net www.example.com:443"},
		{"example.com.evil.net", 443, "", "no rule", "--allow-net example.com.evil.net:443"},
		{"evilexample.com", 443, "", "no rule", "--allow-net evilexample.com:443"},
		{"a.files.example.org", 80, "*.files.example.org:80,443", "", ""},
		{"a.b.files.example.org", 443, "*.files.example.org:80,443", "", ""},
		{"files.example.org", 443, "", "no rule", "--allow-net files.example.org:443"},
		{"evilfiles.example.org", 443, "", "no rule", "--allow-net evilfiles.example.org:443"},
		{".files.example.org", 443, "", "empty label", ""},
		{"10.1.2.3", 5432, "10.1.0.0/16:5432", "", ""},
		{"::ffff:10.1.2.3", 5432, "10.1.0.0/16:5432", "", ""},
		{"10.2.2.3", 5432, "", "no rule", "--allow-net 10.2.2.3:5432"},
		{"10.1.2.3", 22, "", "other ports", "--allow-net 10.1.2.3:22"},
		{"fd00:1::5", 80, "[fd00:1::5]:80", "", ""},
		{"fd00:1::6", 80, "", "no rule", "--allow-net [fd00:1::6]:80"},
		{"100.100.100.200", 80, "", "metadata", ""},
		{"100.100.100.201", 80, "100.64.0.0/10:80", "", ""},
		{"169.254.169.254", 80, "", "metadata", ""},
		{"metadata.google.internal", 80, "", "metadata", ""},
		{"localhost", 80, "", "loopback", ""},
		{"allowed@evil", 80, "", "user information", ""},
		{"0x7f000001", 80, "", "number", ""},
	} {
		d := p.DecideName(c.host, c.port)
		if d.Allowed != (c.rule != "") || d.Rule != c.rule || !strings.Contains(d.Reason, c.reason) || d.Fix != c.fix {
			t.Errorf("%s:%d: %+v", c.host, c.port, d)
		}
		if !d.Allowed && (!strings.Contains(d.String(), "policy") || !strings.Contains(d.String(), "no fault")) {
			t.Errorf("%s:%d: a refusal reads %q", c.host, c.port, d)
		}
		if a, err := netip.ParseAddr(c.host); err == nil {
			if got := p.decide(hostname.Host{Addr: a.Unmap()}, c.port); got != d {
				t.Errorf("address %s, port %d: %+v, and by name %+v", a, c.port, got, d)
			}
		}
	}
	if d := (Policy{}).DecideName("example.com", 443); d.Allowed || !strings.Contains(d.Reason, "no rules") {
		t.Errorf("no rules: %+v", d)
	}
	if d := p.DecideName("a\x1b[31m\n", 1); strings.ContainsAny(d.String(), "\x1b\n") {
		t.Errorf("control characters reach the message: %q", d)
	}
}

func TestResolved(t *testing.T) {
	p := policyOf(t, "example.com", "10.1.0.0/16:443", "192.168.7.7:443")
	var own []netip.Prefix
	for _, p := range []string{"10.1.0.1/32", "10.1.9.0/24", "93.184.216.34/32", "192.168.7.7/32", "2001:db8:9::/48"} {
		own = append(own, netip.MustParsePrefix(p))
	}
	for _, c := range []struct {
		addr   string
		port   uint16
		ok     bool
		reason string
		fix    string
	}{
		{"1.2.3.4", 443, true, "", ""},
		{"2606:4700::1", 443, true, "", ""},
		{"10.1.2.3", 443, true, "", ""},
		{"10.1.2.3", 80, false, "private", "--allow-net 10.1.2.3:80"},
		{"10.2.2.3", 443, false, "private", "--allow-net 10.2.2.3:443"},
		{"::ffff:10.2.2.3", 443, false, "private", "--allow-net 10.2.2.3:443"},
		{"10.1.0.1", 443, false, "this host itself", "--allow-net 10.1.0.1:443"},
		{"10.1.9.200", 443, false, "this host itself", "--allow-net 10.1.9.200:443"},
		{"2001:db8:9::1", 443, false, "this host itself", "--allow-net [2001:db8:9::1]:443"},
		{"93.184.216.34", 443, false, "this host itself", "--allow-net 93.184.216.34:443"},
		{"192.168.7.7", 443, true, "", ""},
		{"127.0.0.1", 443, false, "loopback", ""},
		{"169.254.169.254", 443, false, "metadata", ""},
		{"64:ff9b::a9fe:a9fe", 443, false, "metadata", ""},
		{"64:ff9b::1.2.3.4", 443, false, "NAT64", "--allow-net [64:ff9b::102:304]:443"},
	} {
		d := p.Resolved("example.com", netip.MustParseAddr(c.addr), c.port, own)
		if d.Allowed != c.ok || !strings.Contains(d.Reason, c.reason) || d.Fix != c.fix {
			t.Errorf("%s:%d: %+v", c.addr, c.port, d)
		}
	}
}

func TestPorts(t *testing.T) {
	p := policyOf(t, "a.example:80,443", "b.example:443,8000-8003", "10.0.0.0/8:22")
	if got, want := p.Ports(), []uint16{22, 80, 443, 8000, 8001, 8002, 8003}; !slices.Equal(got, want) {
		t.Errorf("ports %v, want %v", got, want)
	}
	if err := p.Check(); err != nil {
		t.Error(err)
	}
	if err := policyOf(t, "a:1-64", "b:65-128", "c:129-192", "d:193-200").Check(); err != nil {
		t.Errorf("200 ports: %v", err)
	}
	if err := policyOf(t, "a:1-64", "b:65-128", "c:129-192", "d:193-201").Check(); err == nil {
		t.Error("201 ports are allowed")
	}
}

func TestParseCredential(t *testing.T) {
	c, err := ParseCredential("API.example.com=header:Authorization:env:TOKEN")
	if err != nil || c != (Credential{"api.example.com", 443, "Authorization", "TOKEN"}) {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err := ParseCredential("api.example.com:8443=header:X-Key:env:K"); err != nil || c.Port != 8443 {
		t.Errorf("%+v, %v", c, err)
	}
	for _, s := range []string{"", "a", "a=b", "a=header:X:env:", "a=header::env:V", "a=header:X Y:env:V", "a=header:Host:env:V",
		"a=header:Transfer-Encoding:env:V", "10.0.0.1=header:X:env:V", "a=query:X:env:V", "a=header:X:file:V", "a=header:X:env:A=B"} {
		if c, err := ParseCredential(s); err == nil {
			t.Errorf("%q reads as %+v", s, c)
		}
	}
}

func FuzzParseRule(f *testing.F) {
	for _, s := range []string{"example.com:80,443", "*.a.example.org", "[fd00::/64]:1-64", "10.0.0.0/8:5432", "bücher.example"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseRule(s)
		if err != nil {
			return
		}
		again, err := ParseRule(r.String())
		if err != nil || again.String() != r.String() {
			t.Fatalf("%q reads as %q, and that as %q: %v", s, r, again, err)
		}
		if (r.Name == "") == (r.Prefix == "") {
			t.Fatalf("%q is %+v", s, r)
		}
	})
}
