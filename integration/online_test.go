package integration

import (
	"slices"
	"strings"
	"testing"

	"gobox/integration/harness"
	"gobox/integration/testnet/heard"
	"gobox/record"
)

// online runs attempts inside a sandbox on the test's internet, and gives what the probe, the servers and the record say.
func online(t *testing.T, b *harness.Box, flags []string, attempts ...string) (harness.Report, harness.Heard, *record.Result, harness.Result) {
	t.Helper()
	file := resultFile(t, b)
	res, said := b.Online(t, harness.Run{Flags: append([]string{"--result", file}, flags...), Argv: probes(b, attempts)})
	if res.Code != 0 {
		t.Fatalf("%v", res)
	}
	rep := harness.Parse(t, res.Stdout)
	if len(rep) != len(attempts) {
		t.Fatalf("%d attempts, %d answers: %v", len(attempts), len(rep), res)
	}
	return rep, said, readResult(t, file, res), res
}

func probes(b *harness.Box, attempts []string) []string {
	argv := []string{b.Probe}
	for i, a := range attempts {
		if i > 0 {
			argv = append(argv, "+")
		}
		argv = append(argv, strings.Fields(a)...)
	}
	return argv
}

// says fails the test unless each attempt, before the arrow, succeeded with that answer behind it.
func says(t *testing.T, rep harness.Report, want ...string) {
	t.Helper()
	for _, w := range want {
		try, answer, _ := strings.Cut(w, " -> ")
		if o := rep.Of(t, try); o.Errno != "" || o.Detail != answer {
			t.Errorf("%s: errno %q, %.300q, want %q", try, o.Errno, o.Detail, answer)
		}
	}
}

func attemptsOf(want []string) (list []string) {
	for _, w := range want {
		try, _, _ := strings.Cut(w, " -> ")
		list = append(list, try)
	}
	return list
}

// Every program reaches what is allowed, with and without the proxy variables, over both IP versions.
func TestAllowedHosts(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		want := []string{
			"get-direct http://web.example.org/a -> served web.example.org /a 0",
			"get-direct https://web.example.org/b -> served web.example.org /b 0",
			"get http://web.example.org/c -> served web.example.org /c 0",
			"get https://web.example.org/d -> served web.example.org /d 0",
			"talk a.files.example.org:7000 one -> one",
			"talk b.files.example.org:7000 two -> two",
			"talk hosts.example.org:7000 three -> three", // known to the host's /etc/hosts alone
			"talk 93.184.216.42:5432 hello -> here is 93.184.216.42:5432",
		}
		rep, said, rec, _ := online(t, b, []string{
			"--allow-net", "web.example.org:80,443", "--allow-net", "*.files.example.org:7000",
			"--allow-net", "hosts.example.org:7000", "--allow-net", "93.184.216.0/24:5432", "--run-id", "allowed",
		}, attemptsOf(want)...)
		says(t, rep, want...)
		heardAt := said.Connections()
		for _, at := range []string{"93.184.216.35:7000", "[2606:2800:220:1::36]:7000", "93.184.216.43:7000", "93.184.216.42:5432"} {
			if !slices.Contains(heardAt, at) {
				t.Errorf("nobody connected to %s, only to %v", at, heardAt)
			}
		}
		if rec.Counters.DeniedConnections != 0 || len(rec.Denials) != 0 || rec.Network.Mode != "allow" || rec.Network.Connections != uint64(len(want)) || rec.Network.BytesIn == 0 {
			t.Errorf("%+v, denials %+v", rec.Network, rec.Denials)
		}
		events := b.Events(t, "allowed")
		n := 0
		for _, e := range events {
			if e.Kind == record.Connected && e.Verdict == "allowed" && e.Address != "" && e.Rule != "" && e.BytesIn > 0 {
				n++
			}
		}
		if n != len(want) {
			t.Errorf("%d of %d connections are on record: %+v", n, len(want), events)
		}
	})
}

// What no rule names is not reached by name, by address, by UDP, through the proxy or a redirect, and nothing of it is heard.
func TestN12NothingElseIsReached(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		tries := []string{
			"resolve other.example.net", "resolve secret-in-a-label.other.example.net", "talk other.example.net:7000 x", "talk 93.184.216.40:7000 x",
			"talk [2606:2800:220:1::40]:7000 x", "talk 93.184.216.40:443 x", "talk web.example.org:5432 x", "get http://other.example.net/",
			"get https://other.example.net/", "get http://web.example.org/redirect/other.example.net/", "get http://93.184.216.40/",
			"get http://169.254.169.254/latest", "talk 169.254.169.254:80 x", "talk 10.9.9.9:7000 x", "talk 100.64.0.1:7000 x",
		}
		flags := []string{"--allow-net", "web.example.org:80,443,7000"}
		// The control: the same without a sandbox's network of its own.
		rep, said, _, _ := online(t, b, []string{"--net", "host"}, "talk 93.184.216.40:7000 x", "talk other.example.net:7000 x", "get http://other.example.net/")
		rep.Allowed(t, "talk 93.184.216.40:7000 x", "talk other.example.net:7000 x", "get http://other.example.net/")
		if len(said.Connections()) < 3 {
			t.Fatalf("control: %v", said)
		}
		rep, said, rec, res := online(t, b, flags, append(tries, "dial udp 93.184.216.53:53", "talk web.example.org:7000 x")...)
		for _, try := range tries {
			if o := rep.Of(t, try); o.Errno == "" {
				t.Errorf("%s: %+v", try, o)
			}
		}
		says(t, rep, "talk web.example.org:7000 x -> x")
		for _, at := range said.Connections() {
			if !strings.HasPrefix(at, "93.184.216.34:") && !strings.HasPrefix(at, "[2606:2800:220:1::34]:") {
				t.Errorf("somebody connected to %s", at)
			}
		}
		for _, e := range said {
			if e.Kind == heard.Query && e.Name != "web.example.org" {
				t.Errorf("the name %q went out", e.Name)
			}
		}
		if rec.Counters.DeniedConnections < 9 {
			t.Errorf("%d denied connections: %+v", rec.Counters.DeniedConnections, rec.Denials)
		}
		for object, fix := range map[string]string{
			"other.example.net": "--allow-net other.example.net:443", "other.example.net:80": "--allow-net other.example.net:80",
			"web.example.org:5432": "--allow-net web.example.org:5432", // a port that is watched for the sake of this
			"93.184.216.40:443":    "--allow-net 93.184.216.40:443", "169.254.169.254:80": "",
		} {
			i := slices.IndexFunc(rec.Denials, func(d record.Denial) bool { return d.Object == object })
			if i < 0 || rec.Denials[i].Layer != "network" || rec.Denials[i].Fix != fix || rec.Denials[i].Rule == "" {
				t.Errorf("%s: no denial with %q: %+v", object, fix, rec.Denials)
			}
		}
		if n := strings.Count(string(res.Stderr), "hint: other.example.net:80 is refused by gobox's network policy"); n != 1 {
			t.Errorf("told %d times: %s", n, res.Stderr)
		}
	})
}

// An allowed name is no way to an address that is not the internet's.
func TestN09AllowedNamesOfRefusedAddresses(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		var tries []string
		for _, name := range []string{"private", "loopback", "metadata", "mapped", "nat64"} {
			tries = append(tries, "talk "+name+".example.org:7000 x")
		}
		flags := []string{"--allow-net", "*.example.org:7000,80"}
		rep, said, rec, _ := online(t, b, flags, append(tries, "talk mixed.example.org:7000 x", "resolve some-secret.example.org")...)
		for _, try := range tries {
			if o := rep.Of(t, try); o.Errno == "" {
				t.Errorf("%s: %+v", try, o)
			}
		}
		rep.Allowed(t, "resolve some-secret.example.org")
		if said.Asked("some-secret.example.org") != 0 {
			t.Error("a name below a wildcard went out before it was connected to")
		}
		for _, at := range said.Connections() {
			if at != "93.184.216.34:7000" {
				t.Errorf("somebody connected to %s", at)
			}
		}
		if rec.Counters.DeniedConnections < uint64(len(tries)) {
			t.Errorf("%+v", rec.Denials)
		}
		for name, why := range map[string]string{
			"private": "private", "loopback": "loopback", "metadata": "metadata", "mapped": "10.9.9.9 is a private", "nat64": "a NAT64 address (RFC 6052) of 10.9.9.9, a private",
		} {
			i := slices.IndexFunc(rec.Denials, func(d record.Denial) bool { return d.Object == name+".example.org:7000" })
			if i < 0 || !strings.Contains(rec.Denials[i].Rule, why) {
				t.Errorf("%s: not refused for %q: %+v", name, why, rec.Denials)
			}
		}
	})
}

// Who may use a translator to IPv4 may not reach through it what is refused without it, by name or by address.
func TestN09ThroughATranslator(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		refused := []string{"talk nat64.example.org:7000 x", "talk [64:ff9b::a09:909]:7000 x", "talk [64:ff9b::a9fe:a9fe]:7000 x"}
		want := []string{"talk public64.example.org:7000 x -> x", "talk [64:ff9b::5db8:d822]:7000 x -> x"}
		flags := []string{"--allow-net", "*.example.org:7000", "--allow-net", "[64:ff9b::/96]:7000"}
		rep, said, rec, _ := online(t, b, flags, append(refused, attemptsOf(want)...)...)
		for _, try := range refused {
			if o := rep.Of(t, try); o.Errno == "" {
				t.Errorf("%s: %+v", try, o)
			}
		}
		says(t, rep, want...)
		for _, at := range said.Connections() {
			if at != "[64:ff9b::5db8:d822]:7000" {
				t.Errorf("somebody connected to %s", at)
			}
		}
		if rec.Counters.DeniedConnections < uint64(len(refused)) {
			t.Errorf("%+v", rec.Denials)
		}
	})
}

// The command keeps a loopback and ports of its own, and has nothing of the gateway but packets.
func TestGatewayIsOutOfReach(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		flags := []string{"--allow-net", "web.example.org:443,7000"}
		netlink := []string{"netlink-newlink"}
		rep, _, _, _ := online(t, b, flags, append(netlink, "interfaces", "serve-self 0.0.0.0:443 127.0.0.1:443", "serve-self [::]:7000 [::1]:7000",
			"serve-self 127.0.0.1:53 127.0.0.1:53", "cat /proc/net/tcp", "cat /proc/net/tcp6", "talk web.example.org:7000 x")...)
		rep.Refused(t, []string{"EPERM", "EACCES", "EAFNOSUPPORT"}, netlink...)
		says(t, rep, "interfaces -> lo eth0", "serve-self 0.0.0.0:443 127.0.0.1:443 -> self", "serve-self [::]:7000 [::1]:7000 -> self",
			"serve-self 127.0.0.1:53 127.0.0.1:53 -> self", "talk web.example.org:7000 x -> x")
		for _, table := range []string{"cat /proc/net/tcp", "cat /proc/net/tcp6"} {
			if o := rep.Of(t, table); strings.Contains(o.Detail, " 0A ") {
				t.Errorf("the gateway's sockets are the command's too: %s", o.Detail)
			}
		}
	})
}

// A limit ends what exceeds it, and the result says so.
func TestNetworkLimits(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for _, tt := range []struct{ limit, value, try string }{
			{"net_bytes_in", "--net-bytes-in 1M", "get-direct http://web.example.org/large"},
			{"net_idle", "--net-idle 300ms", "stay web.example.org:7000"},
			{"net_total", "--net-total 300ms", "stay web.example.org:7000"},
		} {
			flags := append([]string{"--allow-net", "web.example.org:80,7000"}, strings.Fields(tt.value)...)
			rep, _, rec, _ := online(t, b, flags, tt.try)
			if o := rep.Of(t, tt.try); o.Errno == "" || strings.Contains(o.Errno+o.Detail, "ETIMEDOUT") {
				t.Errorf("%s: %+v", tt.limit, o)
			}
			if l := limitOf(t, rec, tt.limit); !l.Triggered || l.EnforcedBy != "supervisor" {
				t.Errorf("%+v", l)
			}
			if tt.limit == "net_bytes_in" && (rec.Network.BytesIn < 1<<19 || rec.Network.BytesIn > 1<<20+1<<18) {
				t.Errorf("%d bytes came in", rec.Network.BytesIn)
			}
		}
	})
}
