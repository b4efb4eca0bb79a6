package integration

import (
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gobox/integration/harness"
	"gobox/integration/testnet/heard"
)

// toProxy is the probe's attempt to say something to the proxy.
func toProxy(text string) string { return "proxy " + url.PathEscape(text) }

func connectTo(target string) string {
	return toProxy("CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n\r\nhello\n")
}

// socksTo asks by SOCKS 5 for a host by name, or for an address of four bytes.
func socksTo(name, addr string) string {
	if name != "" {
		return toProxy("\x05\x01\x00\x05\x01\x00\x03" + string(rune(len(name))) + name + "\x1b\x58hello\n")
	}
	return toProxy("\x05\x01\x00\x05\x01\x00\x01" + addr + "\x1b\x58hello\n")
}

// onlyAt fails the test if anything but these addresses heard of somebody.
func onlyAt(t *testing.T, said harness.Heard, addrs ...string) {
	t.Helper()
	for _, at := range said.Connections() {
		if !slices.ContainsFunc(addrs, func(a string) bool { return strings.HasPrefix(at, a+":") }) {
			t.Errorf("somebody connected to %s", at)
		}
	}
}

const (
	web4 = "93.184.216.34"
	web6 = "[2606:2800:220:1::34]"
)

// The proxy is asked for every kind of local, private and metadata address in every spelling, and says why not.
func TestN06N07N08N09N16ProxyHasTheSamePolicy(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		refused := map[string]string{
			"other.example.net:7000": "--allow-net other.example.net:7000", "web.example.org:5432": "--allow-net web.example.org:5432",
			"localhost:7000": "loopback", "127.0.0.1:7000": "loopback", "127.9.9.9:7000": "loopback", "[::1]:7000": "loopback", "0.0.0.0:7000": "this network",
			"[::]:7000": "unspecified", "10.0.2.2:3128": "no rule", "93.184.216.53:53": "no rule",
			// N07
			"169.254.169.254:80": "metadata", "169.254.169.253:80": "no rule", "[fd00:ec2::254]:80": "metadata", "100.100.100.200:80": "metadata", "metadata.google.internal:80": "metadata",
			// N08
			"2852039166:80": "number", "0xA9FEA9FE:80": "number", "0251.0376.0251.0376:80": "number", "169.254.43518:80": "number", "0xa9.0xfe.0xa9fe:80": "number",
			"127.1:7000": "number", "0:7000": "number", "[::ffff:a9fe:a9fe]:80": "metadata", "[::169.254.169.254]:80": "IPv4-compatible", "169.254.169.254.:80": "number",
			// N09
			"[64:ff9b::a9fe:a9fe]:80": "metadata", "[64:ff9b:1::1]:80": "NAT64", "[2002:a9fe:a9fe::]:80": "6to4", "[2001::1]:80": "Teredo", "[fec0::1]:80": "no rule",
			"100.64.0.1:7000": "no rule", "[fe81::1]:80": "link-local", "[fc00::1]:80": "no rule",
			// N12
			"web.example.org@other.example.net:7000": "user information",
			// N16
			"web.example.org.other.example.net:7000": "no rule", "xweb.example.org:7000": "no rule", "web.example.org%00.other.example.net:7000": "zone id",
			"files.example.org:7000": "no rule", "xfiles.example.org:7000": "no rule", "a.files.example.org.evil:7000": "no rule",
		}
		flags := []string{"--allow-net", "web.example.org:80,7000", "--allow-net", "*.files.example.org:7000", "--allow-net", "private.example.org:7000"}
		var tries []string
		for target := range refused {
			tries = append(tries, connectTo(target))
		}
		private, other := connectTo("private.example.org:7000"), socksTo("other.example.net", "")
		meta, private4, ok4 := socksTo("", "\xa9\xfe\xa9\xfe"), socksTo("private.example.org", ""), socksTo("web.example.org", "")
		want := []string{connectTo("web.example.org:7000"), connectTo("WEB.example.ORG.:7000"), connectTo("a.FILES.example.org:7000")}
		rep, said, rec, _ := online(t, b, flags, append(append(tries, want...), private, other, meta, private4, ok4)...)
		for target, word := range refused {
			o := rep.Of(t, connectTo(target))
			if !strings.HasPrefix(o.Detail, "HTTP/1.1 403 ") || !strings.Contains(o.Detail, word) || !strings.Contains(o.Detail, "policy") {
				t.Errorf("%s: %+v", target, o)
			}
		}
		for _, w := range want {
			if o := rep.Of(t, w); !strings.HasPrefix(o.Detail, "HTTP/1.1 200 ") || !strings.HasSuffix(o.Detail, "hello\n") {
				t.Errorf("%s: %+v", w, o)
			}
		}
		if o := rep.Of(t, private); !strings.HasPrefix(o.Detail, "HTTP/1.1 403 ") || !strings.Contains(o.Detail, "--allow-net 10.9.9.9:7000") {
			t.Errorf("%+v", o)
		}
		for _, try := range []string{other, meta, private4} {
			if o := rep.Of(t, try); !strings.HasPrefix(o.Detail, "\x05\x00\x05\x02") {
				t.Errorf("%s: %+v", try, o)
			}
		}
		if o := rep.Of(t, ok4); !strings.HasPrefix(o.Detail, "\x05\x00\x05\x00") || !strings.HasSuffix(o.Detail, "hello\n") {
			t.Errorf("%+v", o)
		}
		onlyAt(t, said, web4, web6, "93.184.216.35")
		if rec.Counters.DeniedConnections < uint64(len(refused)) {
			t.Errorf("%d denied connections for %d attempts", rec.Counters.DeniedConnections, len(refused))
		}
	})
}

// A request says in one place where it goes, and a second word that says otherwise is an error.
func TestN12OneHostPerRequest(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		get := func(target, host, more string) string {
			return toProxy("GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\n" + more + "\r\n")
		}
		fine := get("http://web.example.org/fine", "web.example.org", "")
		second := get("http://web.example.org/first", "web.example.org", "\r\nGET http://other.example.net/second HTTP/1.1\r\nHost: other.example.net\r\n")
		bad := map[string]string{
			get("http://web.example.org/", "other.example.net", ""):                                                  "400",
			get("http://other.example.net/", "web.example.org", ""):                                                  "400",
			get("http://other.example.net/", "other.example.net", ""):                                                "403",
			get("http://web.example.org:7000/", "web.example.org:7000", ""):                                          "403",
			get("http://web.example.org/", "web.example.org", "Host: other.example.net\r\n"):                         "400",
			get("http://web.example.org@other.example.net/", "other.example.net", ""):                                "403",
			get("/", "web.example.org", ""):                                                                          "400",
			get("http://web.example.org/", "web.example.org", "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n"): "400",
			get("http://web.example.org/", "web.example.org", "Content-Length: 4\r\nContent-Length: 5\r\n"):          "400",
			get("http://169.254.169.254/", "169.254.169.254", ""):                                                    "403",
		}
		tries := []string{fine, second}
		for try := range bad {
			tries = append(tries, try)
		}
		shakes := []string{"tls web.example.org:443 other.example.net", "tls web.example.org:443 -", "talk web.example.org:443 plain-text"}
		rep, said, _, _ := online(t, b, []string{"--allow-net", "web.example.org:80,443"}, append(append(tries, shakes...), "tls web.example.org:443 web.example.org")...)
		for _, try := range []string{fine, second} {
			if o := rep.Of(t, try); !strings.HasPrefix(o.Detail, "HTTP/1.1 200 ") || strings.Contains(o.Detail, "second") {
				t.Errorf("%s: %+v", try, o)
			}
		}
		for try, code := range bad {
			if o := rep.Of(t, try); !strings.HasPrefix(o.Detail, "HTTP/1.1 "+code+" ") {
				t.Errorf("%s: %+v", try, o)
			}
		}
		for _, try := range shakes {
			if o := rep.Of(t, try); o.Errno == "" {
				t.Errorf("%s: %+v", try, o)
			}
		}
		says(t, rep, "tls web.example.org:443 web.example.org -> web.example.org")
		onlyAt(t, said, web4, web6)
		if n := said.At(heard.Connection, web4+":443") + said.At(heard.Connection, web6+":443"); n != 1 {
			t.Errorf("%d connections to the TLS port, and one of four asked for the right name", n)
		}
		for _, e := range said {
			if e.Kind == heard.Request && e.Name != "web.example.org" {
				t.Errorf("a request for %s arrived: %s", e.Name, e.Detail)
			}
		}
	})
}

// A credential reaches its host, by TLS, and nothing that the command or the record has.
func TestCredentialStaysOutside(t *testing.T) {
	const secret = "s3cr3t-0123456789"
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		file := resultFile(t, b)
		tries := []string{
			"get http://web.example.org/with", "get http://b.files.example.org/without", "get https://web.example.org/untouched",
			toProxy("GET http://web.example.org/replaced HTTP/1.1\r\nHost: web.example.org\r\nauthorization: mine\r\n\r\n"),
			toProxy("TRACE http://web.example.org/ HTTP/1.1\r\nHost: web.example.org\r\n\r\n"),
			"cat /proc/self/environ",
		}
		res, said := b.Online(t, harness.Run{
			Flags: []string{"--result", file, "--run-id", "credential", "--allow-net", "web.example.org", "--allow-net", "*.files.example.org:80",
				"--credential", "web.example.org=header:Authorization:env:TOKEN"},
			Argv: probes(b, tries), Env: []string{"TOKEN=" + secret},
		})
		if res.Code != 0 {
			t.Fatalf("%v", res)
		}
		rep := harness.Parse(t, res.Stdout)
		says(t, rep, "get http://web.example.org/with -> served web.example.org /with 0", "get http://b.files.example.org/without -> served b.files.example.org /without 0",
			"get https://web.example.org/untouched -> served web.example.org /untouched 0")
		got := map[string]string{}
		for _, e := range said {
			if f := strings.Fields(e.Detail); e.Kind == heard.Request && len(f) >= 2 {
				got[f[1]] = strings.Join(f[2:], " ")
				if len(f) > 2 && !strings.HasSuffix(e.Local, ":443") {
					t.Errorf("a credential came to %s", e.Local)
				}
			}
		}
		for path, want := range map[string]string{"/with": secret, "/without": "", "/untouched": "", "/replaced": secret} {
			if v, ok := got[path]; !ok || v != want {
				t.Errorf("%s came with %q (%v), want %q", path, v, ok, want)
			}
		}
		if _, ok := got["/"]; ok {
			t.Error("TRACE was sent on")
		}
		if s := string(res.Stdout) + string(res.Stderr); strings.Contains(s, secret) {
			t.Errorf("the command or the messages have the secret: %s", s)
		}
		files, _ := filepath.Glob(filepath.Join(b.Home, ".local/state/gobox/runs", "credential", "*"))
		if len(files) == 0 {
			t.Error("there is no record")
		}
		for _, name := range append(files, file) {
			if text, err := os.ReadFile(name); err != nil || strings.Contains(string(text), secret) {
				t.Errorf("%s: %v, or it has the secret", filepath.Base(name), err)
			}
		}
	})
}
