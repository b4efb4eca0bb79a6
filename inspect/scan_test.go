package inspect

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

// Everything that looks like a secret is made here, when the test runs.

func random(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// drawn gives n characters of a class.
func drawn(r *rand.Rand, c class, n int) string {
	var all []byte
	for b := range byte(128) {
		if c.has(b) && b != '.' && b != '-' && b != '=' {
			all = append(all, b)
		}
	}
	out := make([]byte, n)
	for i := range out {
		out[i] = all[r.IntN(len(all))]
	}
	return string(out)
}

func armor(label string, body []byte) string {
	var b strings.Builder
	b.WriteString("-----BEGIN " + label + "-----\n")
	text := base64.StdEncoding.EncodeToString(body)
	for len(text) > 64 {
		b.WriteString(text[:64] + "\n")
		text = text[64:]
	}
	b.WriteString(text + "\n-----END " + label + "-----")
	return b.String()
}

func fakes(r *rand.Rand) map[string]string {
	list := map[string]string{}
	for _, rule := range rules() {
		if rule.more == nil && rule.least > 0 {
			list[rule.kind+" "+rule.prefix] = rule.prefix + drawn(r, rule.of, rule.least)
		}
	}
	part := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	list["jwt"] = part(`{"alg":"HS256","typ":"JWT"}`) + "." + part(`{"sub":"1234567890","name":"x"}`) + "." + base64.RawURLEncoding.EncodeToString(random(r, 32))
	list["jwt long"] = part(`{"alg":"none"}`) + "." + part(`{"x":"`+strings.Repeat("y", 200_000)+`"}`) + "."
	list["aws_secret_key in a file"] = "aws_secret_access_key" + ` = ` + drawn(r, classOf("09AZaz"), 40)
	list["aws_secret_key in JSON"] = "SecretAccessKey" + `": "` + drawn(r, classOf("09AZaz//"), 40)
	for _, label := range []string{"RSA ", "EC ", "", "ENCRYPTED ", "OPENSSH ", "DSA "} {
		list["private_key "+label] = armor(label+"PRIVATE KEY", random(r, 1200))
	}
	list["private_key PGP"] = armor("PGP "+"PRIVATE KEY BLOCK", random(r, 2000))
	list["private_key one line"] = strings.ReplaceAll(armor("PRIVATE KEY", random(r, 1200)), "\n", `\n`)
	list["base64"] = base64.StdEncoding.EncodeToString(random(r, 99))
	list["base64 folded"] = fold(base64.StdEncoding.EncodeToString(random(r, 5000)), 76, "\n")
	list["base64 folded, CR LF"] = fold(base64.StdEncoding.EncodeToString(random(r, 5000)), 64, "\r\n")
	list["base64 URL"] = base64.RawURLEncoding.EncodeToString(random(r, 3000))
	list["base64 long"] = base64.RawStdEncoding.EncodeToString(random(r, 300_000))
	list["hex"] = hex.EncodeToString(random(r, 65))
	list["hex folded"] = fold(hex.EncodeToString(random(r, 900)), 60, "\n")
	return list
}

func fold(s string, width int, end string) string {
	var out []string
	for ; len(s) > width; s = s[width:] {
		out = append(out, s[:width])
	}
	return strings.Join(append(out, s), end)
}

func scan(t *testing.T, text string) []Finding {
	t.Helper()
	found, err := Scan(context.Background(), strings.NewReader(text), "stdout")
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestScanKinds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for name, fake := range fakes(r) {
		kind, _, _ := strings.Cut(name, " ")
		for _, around := range [][2]string{{"", ""}, {"key=", "\n"}, {`{"k": "`, `"}`}, {strings.Repeat("some text, ", 7000), " more text"}} {
			want := []Finding{{kind, "stdout", uint64(len(around[0])), uint64(len(fake))}}
			if got := scan(t, around[0]+fake+around[1]); !reflect.DeepEqual(got, want) {
				t.Errorf("%s after %d bytes: got %v, want %v", name, len(around[0]), got, want)
			}
		}
	}
}

func TestScanURLPassword(t *testing.T) {
	text := "postgres" + "://" + "user:" + "pass.word" + "@host/db"
	if got := scan(t, text); len(got) != 1 || got[0] != (Finding{"url_password", "stdout", 8, 17}) {
		t.Errorf("got %v", got)
	}
}

func TestScanLeavesAlone(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for name, text := range map[string]string{
		"prose":           strings.Repeat("The quick brown fox jumps over the lazy dog. ", 1000),
		"sha256":          hex.EncodeToString(random(r, 32)) + "  file\n",
		"sha512":          hex.EncodeToString(random(r, 64)) + "  file\n",
		"integrity":       `"sha512-` + base64.StdEncoding.EncodeToString(random(r, 64)) + `"`,
		"path":            "/" + strings.Repeat("usr/lib/python/site_packages/module/", 20),
		"rule":            strings.Repeat("=", 500) + strings.Repeat("-", 500) + strings.Repeat("#", 500),
		"zeros":           strings.Repeat("0", 1000) + " " + strings.Repeat("A", 1000),
		"counter":         strings.Repeat("0123456789", 5) + "\n",
		"public key":      strings.Replace(armor("PUBLIC KEY", random(r, 60)), "\n", " ", 2),
		"certificate top": "-----BEGIN CERTIFICATE-----\n",
		"short token":     "ghp" + "_short AKIA" + "SHORT sk-" + "x eyJ" + "x.eyJ",
		"inside a word":   "x" + "ghp_" + drawn(r, classOf("az"), 36),
		"too long":        "AKIA" + drawn(r, classOf("AZ"), 17),
		"url":             "https://example.com:8080/a@b and https://user@example.com",
		"binary":          string(bytes.Repeat([]byte{0, 1, 2, 0xff, 'A'}, 10_000)),
		"nothing":         "",
	} {
		if got := scan(t, text); len(got) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestScanBounds(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	token := "ghp_" + drawn(r, classOf("az"), 36) + "\n"
	got := scan(t, strings.Repeat(token, MaxFindings+5))
	last := got[len(got)-1]
	if len(got) != MaxFindings+1 || last.Kind != "more" || last.Offset != uint64(MaxFindings*len(token)) || last.Length != uint64(5*len(token)-1) {
		t.Errorf("%d findings, the last %v", len(got), last)
	}
	// A key that never ends costs its first line only, and hides nothing for long.
	text := armor("PRIVATE KEY", random(r, 10))[:27] + strings.Repeat("\nx", maxBlock) + "\n" + hex.EncodeToString(random(r, 100))
	if got := scan(t, text); len(got) != 2 || got[0].Length != 27 || got[1].Kind != "hex" {
		t.Errorf("unfinished key: %v", got)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Scan(ctx, &spaces{}, ""); err != context.Canceled {
		t.Errorf("cancelled: %v", err)
	}
}

// TestScanNeighbours: a run is found whatever the lines above and below it are.
func TestScanNeighbours(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for kind, text := range map[string]string{
		"hex one line": hex.EncodeToString(random(r, 100)), "hex folded": fold(hex.EncodeToString(random(r, 900)), 60, "\n"), "hex, CR LF": fold(hex.EncodeToString(random(r, 900)), 64, "\r\n"),
		"base64 one line": base64.StdEncoding.EncodeToString(random(r, 300)), "base64 folded": fold(base64.StdEncoding.EncodeToString(random(r, 3000)), 76, "\n"),
	} {
		kind, _, _ := strings.Cut(strings.ReplaceAll(kind, ",", " "), " ")
		for _, above := range []string{"", "done\n", strings.Repeat("-", 79) + "\n", "/" + strings.Repeat("usr/lib/python/", 5) + "\n", strings.Repeat("=", 70) + "\n"} {
			for _, below := range []string{"", "\n", "\nthe end", "\nbad end", "\r\nOK\r\n", "\n" + strings.Repeat("-", 79) + "\n", "\n" + strings.Repeat("~", 79)} {
				got := scan(t, above+text+below)
				if len(got) != 1 || got[0].Kind != kind || got[0].Offset != uint64(len(above)) {
					t.Errorf("%s of %d between %q and %q: %v", kind, len(text), above, below, got)
					continue
				}
				// A word below may be taken for the last line: nothing tells base64, or hexadecimal of "bad", from it.
				n, word := got[0].Length, kind == "base64" || strings.HasPrefix(below, "\nbad")
				if n < uint64(len(text)) || n > uint64(len(text)+len(below)) || !word && n != uint64(len(text)) {
					t.Errorf("%s of %d between %q and %q: %v", kind, len(text), above, below, got)
				}
			}
		}
	}
	// What begins below is found too.
	one, two := hex.EncodeToString(random(r, 100)), base64.StdEncoding.EncodeToString(random(r, 300))
	want := []Finding{{"hex", "stdout", 0, 200}, {"base64", "stdout", 201, 400}}
	if got := scan(t, one+"\n"+two); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestScanUnfinishedKey: the first line of a private key hides nothing behind it unless its last line comes.
func TestScanUnfinishedKey(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	first, last := "-----BEGIN "+"RSA PRIVATE KEY-----", "-----END "+"RSA PRIVATE KEY-----"
	long, digits := base64.StdEncoding.EncodeToString(random(r, 400)), hex.EncodeToString(random(r, 100))
	body := fold(base64.StdEncoding.EncodeToString(random(r, 1200)), 64, "\n")
	token := "ghp_" + drawn(r, classOf("az"), 36)
	type part struct{ kind, text string } // of no kind: no finding
	for name, parts := range map[string][]part{
		"a run":              {{"private_key", first}, {"", "\nhello\n"}, {"base64", long}},
		"a run and more":     {{"private_key", first}, {"", "\nhello\n"}, {"base64", long}, {"", "\n"}, {"hex", digits}, {"", " bye\n"}},
		"cut off":            {{"private_key", first}, {"", "\n"}, {"base64", body}},
		"in a row":           {{"private_key", first}, {"", "\nx\n"}, {"base64", long}, {"", " "}, {"github_token", token}, {"", "\n"}, {"hex", digits}, {"", "."}},
		"then a whole one":   {{"private_key", first}, {"", "\n"}, {"hex", digits}, {"", "\n"}, {"private_key", first + "\n" + body + "\n" + last}, {"", "\n"}, {"base64", long}},
		"the end comes late": {{"private_key", first}, {"", "\n"}, {"hex", digits}, {"", strings.Repeat(" x", maxBlock/2)}, {"", "\n" + last}},
		"many chunks later":  {{"private_key", first}, {"", "\n"}, {"hex", digits}, {"", strings.Repeat(" x", 10*maxBlock) + " "}, {"base64", long}},
		"whole":              {{"private_key", first + "\nx: y\n\n" + long + "\n" + digits + "\n" + last}, {"", "\n"}},
		"whole, one long":    {{"private_key", first + "\n" + strings.Repeat("x\n", maxBlock/2-200) + digits + "\n" + last}, {"", "\n"}},
	} {
		// The beginning lies at every side of a chunk's border.
		for _, before := range []int{0, 64<<10 - lookahead - 20, 64<<10 - 300, 64<<10 - 5} {
			text := strings.Repeat(" ", before)
			var want []Finding
			for _, p := range parts {
				if p.kind != "" {
					want = append(want, Finding{p.kind, "stdout", uint64(len(text)), uint64(len(p.text))})
				}
				text += p.text
			}
			if got := scan(t, text); !reflect.DeepEqual(got, want) {
				t.Errorf("%s after %d bytes: got %v, want %v", name, before, got, want)
			}
			if parts, err := Scan(context.Background(), &pieces{[]byte(text), 7}, "stdout"); err != nil || !reflect.DeepEqual(parts, want) {
				t.Errorf("%s after %d bytes, in pieces: got %v, want %v, %v", name, before, parts, want, err)
			}
		}
	}
	// What is left out is where it was, with those that had to wait.
	text := strings.Repeat(token+" ", MaxFindings-1) + first + "\n" + digits + "\n" + long
	got := scan(t, text)
	if more := got[len(got)-1]; len(got) != MaxFindings+1 || more.Kind != "more" || more.Offset != uint64(len(text)-len(long)-1-len(digits)) || more.Offset+more.Length != uint64(len(text)) {
		t.Errorf("%d findings, the last %v", len(got), more)
	}
}

// TestScanMemory: what is scanned is not kept, whatever it is.
func TestScanMemory(t *testing.T) {
	for _, line := range []string{"eyJ", "-----BEGIN ", "A1b+", "://", "\n"} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		block := strings.Repeat(line, 1<<20/len(line))
		if _, err := Scan(context.Background(), repeated(block, 16), ""); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 3<<20 {
			t.Errorf("%q: %d bytes allocated for 16 MiB", line, got)
		}
	}
}

// FuzzScan: findings lie in the text, and the pieces in which it comes do not matter.
func FuzzScan(f *testing.F) {
	for _, fake := range fakes(rand.New(rand.NewPCG(7, 8))) {
		f.Add([]byte("-----BEGIN "+"PRIVATE KEY-----\n"+fake), uint8(5))
		f.Add([]byte("x "+fake+"\n"), uint8(3))
	}
	f.Fuzz(func(t *testing.T, text []byte, piece uint8) {
		whole, err := Scan(context.Background(), bytes.NewReader(text), "o")
		if err != nil {
			t.Fatal(err)
		}
		parts, err := Scan(context.Background(), &pieces{text, int(piece)%7 + 1}, "o")
		if err != nil || !reflect.DeepEqual(whole, parts) {
			t.Errorf("whole %v, in pieces %v, %v", whole, parts, err)
		}
		for _, w := range whole {
			if w.Length == 0 || w.Offset+w.Length > uint64(len(text)) {
				t.Errorf("%v lies outside of %d bytes", w, len(text))
			}
		}
		if _, err := Scan(context.Background(), iotest.ErrReader(context.Canceled), "o"); err == nil {
			t.Error("an error of reading is lost")
		}
	})
}
