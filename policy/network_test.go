package policy

import (
	"strings"
	"testing"

	"gobox/egress"
)

func TestParsePublish(t *testing.T) {
	for text, want := range map[string]string{
		"8080:80": "127.0.0.1:8080:80", "0.0.0.0:1:65535": "0.0.0.0:1:65535", "[::1]:8080:80": "[::1]:8080:80",
	} {
		p, err := ParsePublish(text)
		if err != nil || p.String() != want {
			t.Errorf("%s: %s, %v", text, p, err)
		}
	}
	for _, text := range []string{
		"80", "0:80", "80:0", ":80", "80:", "::", "65536:1", "1:65536", "localhost:80:80", "::1:80:80", "[::1:80:80", "fe80::1%eth0:80:80",
		"[fe80::1%eth0]:80:80", "1.2.3:80:80", "+1:2", "1:+2", "80:80:80", "-1:80", "8080:80x", "1.2.3.4::80", "01.2.3.4:80:80",
	} {
		if p, err := ParsePublish(text); err == nil {
			t.Errorf("%s was taken as %s", text, p)
		}
	}
}

// What contradicts itself is refused, with what to do instead.
func TestNetworkRefuses(t *testing.T) {
	host := func(p *Policy) { p.Net = NetHost }
	for _, tt := range []struct {
		name, want string
		edit       []func(*Policy)
	}{
		{"host and list", "--net host: gives the command every host", []func(*Policy){host, func(p *Policy) { p.AllowNet = []string{"a.org"} }}},
		{"host refused", "--net host: the policy agent refuses", []func(*Policy){host, func(p *Policy) { p.Name, p.RefuseHostNet = "agent", true }}},
		{"host and publish", "--publish 127.0.0.1:1:2: with --net host", []func(*Policy){host, func(p *Policy) { p.Publish = []Publish{{"127.0.0.1", 1, 2}} }}},
		{"host and limits", "--net host: knows no limits", []func(*Policy){host, func(p *Policy) { p.NetLimits.BytesIn = 1 }}},
		{"other mode", "--net bridge: no such network", []func(*Policy){func(p *Policy) { p.Net = "bridge" }}},
		{"no rule", "--allow-net a b: ", []func(*Policy){func(p *Policy) { p.AllowNet = []string{"a b"} }}},
		{"no group", "--allow-net @x: no such group", []func(*Policy){func(p *Policy) { p.AllowNet = []string{"@x"} }}},
		{"too many ports", "--allow-net: the rules name 201 ports", []func(*Policy){func(p *Policy) {
			p.AllowNet = []string{"a.org:1-64", "b.org:101-164", "c.org:201-264", "d.org:301-309"}
		}}},
		{"credential for nobody", "--credential: no host may be reached", []func(*Policy){func(p *Policy) { p.Credentials = []egress.Credential{{Host: "a.org", Port: 443}} }}},
		{"credential for another", "--credential a.org:444=", []func(*Policy){func(p *Policy) {
			p.AllowNet, p.Credentials = []string{"a.org"}, []egress.Credential{{Host: "a.org", Port: 444}}
		}}},
		{"published twice", "--publish 127.0.0.1:1:3: the port is published twice", []func(*Policy){func(p *Policy) { p.Publish = []Publish{{"0.0.0.0", 1, 2}, {"127.0.0.1", 1, 3}} }}},
	} {
		p := Default()
		p.Argv = []string{"python3", "app.py"}
		for _, edit := range tt.edit {
			edit(&p)
		}
		_, err := Resolve(p, fakeHost(debian(), 1000, "/home/ann", "/home/ann/work"))
		if err == nil || !strings.HasPrefix(err.Error(), "network "+tt.want) {
			t.Errorf("%s: %v, want network %s", tt.name, err, tt.want)
		}
	}
}

// A rule about addresses must not meet the sandbox's own network.
func TestFreeSubnet(t *testing.T) {
	for rules, want := range map[string]string{
		"10.1.2.3:80": "10.0.2.0/24", "10.0.2.15:80": "172.29.2.0/24", "10.0.0.0/8:80 172.16.0.0/12:80": "192.168.127.0/24",
	} {
		p := Default()
		p.Argv, p.AllowNet = []string{"python3", "app.py"}, strings.Fields(rules)
		plan, err := Resolve(p, fakeHost(debian(), 1000, "/home/ann", "/home/ann/work"))
		if err != nil || plan.Network.Namespace.Subnet4 != want {
			t.Errorf("%s: %v, %v", rules, plan.Network.Namespace.Subnet4, err)
		}
	}
}

func TestNetworkAllows(t *testing.T) {
	p := Default()
	p.Argv, p.AllowNet = []string{"python3", "app.py"}, []string{"a.org:80"}
	plan, err := Resolve(p, fakeHost(debian(), 1000, "/home/ann", "/home/ann/work"))
	if err != nil {
		t.Fatal(err)
	}
	if d := plan.Network.Allows("A.org.", 80); !d.Allowed || d.Rule != "--allow-net a.org:80" {
		t.Errorf("%+v", d)
	}
	if d := plan.Network.Allows("a.org", 443); d.Allowed || d.Fix != "--allow-net a.org:443" {
		t.Errorf("%+v", d)
	}
	if d := (&Network{}).Allows("a.org", 443); d.Allowed {
		t.Errorf("%+v", d)
	}
}
