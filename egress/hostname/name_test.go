package hostname

import (
	"strings"
	"testing"
)

func TestCanonical(t *testing.T) {
	for in, want := range map[string]string{
		"example.com":                    "example.com",
		"Example.COM.":                   "example.com",
		"a_b.example.com":                "a_b.example.com",
		"1.example":                      "1.example",
		"1e5":                            "1e5",
		"0xg":                            "0xg",
		"r3---sn-x.example.com":          "r3---sn-x.example.com",
		"BÜCHER.example":                 "xn--bcher-kva.example",
		"xn--bcher-kva.example":          "xn--bcher-kva.example",
		"XN--BCHER-KVA.example":          "xn--bcher-kva.example",
		"faß.example":                    "xn--fa-hia.example", // not transitional: another name than fass.example
		"example。com":                    "example.com",
		"ｅｘａｍｐｌｅ.com":                    "example.com",
		"日本語.example":                    "xn--wgv71a119e.example",
		strings.Repeat("a", 63):          strings.Repeat("a", 63),
		strings.Repeat("a.", 126) + "b":  strings.Repeat("a.", 126) + "b",
		strings.Repeat("a.", 126) + "b.": strings.Repeat("a.", 126) + "b",
	} {
		got, err := Canonical(in)
		if err != nil || got != want {
			t.Errorf("Canonical(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
}

func TestCanonicalRefuses(t *testing.T) {
	for in, want := range map[string]string{
		"":                              "empty",
		".":                             "empty",
		"..":                            "empty label",
		"a..":                           "empty label",
		".a":                            "empty label",
		"a..b":                          "empty label",
		"a\x00b":                        "NUL",
		"a\rb":                          "line break",
		"a\nb":                          "line break",
		"a b":                           "space",
		"a\tb":                          "space",
		"a\x7f":                         "control",
		"[a]":                           "brackets",
		"fe80::1%eth0":                  "colon",
		"a%2eb":                         "zone id",
		"u@a":                           "user information",
		"a:1":                           "colon",
		"a/b":                           "path",
		"a\\b":                          "path",
		"a?b":                           "path",
		"a#b":                           "path",
		"*.a":                           "wildcard",
		"a\xff":                         "UTF-8",
		"a!b":                           "character",
		"a$b":                           "character",
		"-a.b":                          "hyphen",
		"a-.b":                          "hyphen",
		"127.0.0.1":                     "number",
		"1.2.3.4.":                      "number",
		"127.1":                         "number",
		"1":                             "number",
		"4294967295":                    "number",
		"0x7f000001":                    "number",
		"0X7F.1":                        "number",
		"0":                             "number",
		"017700000001":                  "number",
		"a.0x":                          "number",
		"a.1":                           "number",
		"①②⑦.0.0.1":                     "number", // NFKC makes digits of them
		"a\u200db":                      "internationalised",
		"xn--":                          "empty",
		"xn--zzzzzzzz":                  "internationalised",
		"ѷℷ":                            "which is none", // the library refuses it only in its second form
		"xn--a-.example":                "",
		"a\u2100b":                      "path",
		"ａ＠ｂ":                           "",
		"a\u00adb\u00ad\x00":            "NUL",
		strings.Repeat("a", 64):         "63",
		strings.Repeat("a.", 127) + "b": "253",
		strings.Repeat("a", 2000):       "1024",
	} {
		got, err := Canonical(in)
		if err == nil {
			t.Errorf("Canonical(%q) = %q", in, got)
		} else if want != "path" && !strings.Contains(err.Error(), want) {
			t.Errorf("Canonical(%q): %v, which does not say %q", in, err, want)
		}
	}
}

func TestParseAuthority(t *testing.T) {
	for in, want := range map[string]string{
		"example.com:80":       "example.com:80",
		"example.com":          "example.com:7",
		"1.2.3.4:80":           "1.2.3.4:80",
		"[2001:db8::1]:80":     "[2001:db8::1]:80",
		"[::ffff:1.2.3.4]:80":  "1.2.3.4:80",
		"[2001:db8::1]":        "[2001:db8::1]:7",
		"2001:db8::1":          "",
		"[1.2.3.4]:80":         "",
		"[example.com]:80":     "",
		"[2001:db8::1]80":      "",
		"[2001:db8::1]:":       "",
		"[2001:db8::1":         "",
		"[2001:db8::1%eth0]:1": "",
		"example.com:":         "",
		"example.com:080000":   "",
		"example.com:-1":       "",
		"example.com: 80":      "",
		"u@example.com:80":     "",
		"u:p@example.com:80":   "",
		"":                     "",
		":80":                  "",
	} {
		h, port, err := ParseAuthority(in, 7)
		got := ""
		if err == nil {
			got = h.HostPort(port)
		}
		if got != want {
			t.Errorf("ParseAuthority(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
	if _, _, err := ParseAuthority("example.com", 0); err == nil {
		t.Error("no port is let through where one is needed")
	}
}

func FuzzCanonical(f *testing.F) {
	for _, s := range []string{"Example.COM.", "bücher.example", "xn--bcher-kva.example", "127.1", "0x7f.1", "a\x00b", "①.example"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		name, err := Canonical(s)
		if err != nil {
			return
		}
		if len(name) > MaxName || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-._") != "" || strings.HasSuffix(name, ".") {
			t.Fatalf("%q becomes %q", s, name)
		}
		if again, err := Canonical(name); err != nil || again != name {
			t.Fatalf("%q becomes %q, and that %q, %v", s, name, again, err)
		}
		if h, err := Parse(s); err != nil || h.Name != name {
			t.Fatalf("%q is the name %q and also %v, %v", s, name, h, err)
		}
	})
}
