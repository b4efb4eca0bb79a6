package inspect

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
)

// pieces gives its text n bytes at a time.
type pieces struct {
	text []byte
	n    int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.text) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.text[:min(p.n, len(p.text))])
	p.text = p.text[n:]
	return n, nil
}

// repeated gives block n times.
func repeated(block string, n int) io.Reader {
	var list []io.Reader
	for range n {
		list = append(list, strings.NewReader(block))
	}
	return io.MultiReader(list...)
}

// naive is what a Redactor should do, with all of the text at hand and without its tables.
func naive(secrets map[string][]byte, text []byte) []byte {
	type pair struct {
		text []byte
		name string
	}
	var all []pair
	for _, name := range sortedKeys(secrets) {
		for _, s := range spellings(secrets[name]) {
			if len(s) >= LeastSecret {
				all = append(all, pair{s, name})
			}
		}
	}
	var out []byte
	for len(text) > 0 {
		best := pair{}
		for _, p := range all {
			if bytes.HasPrefix(text, p.text) && len(p.text) > len(best.text) {
				best = p
			}
		}
		if best.text == nil {
			out = append(out, text[0])
			text = text[1:]
			continue
		}
		out = append(out, "[secret "+best.name+"]"...)
		text = text[len(best.text):]
	}
	return out
}

func redacted(t testing.TB, secrets map[string][]byte, text []byte, piece int) []byte {
	t.Helper()
	var out bytes.Buffer
	w := newRedactor(t, &out, secrets)
	for len(text) > 0 {
		n := min(piece, len(text))
		if _, err := w.Write(text[:n]); err != nil {
			t.Fatal(err)
		}
		text = text[n:]
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestRedactorForms(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	value := "pa ss/w&örd\"<" + drawn(r, classOf("09AZaz"), 20) + "+"
	quoted, _ := json.Marshal(value)
	for name, text := range map[string]string{
		"raw":           value,
		"base64":        base64.StdEncoding.EncodeToString([]byte(value)),
		"base64 URL":    base64.RawURLEncoding.EncodeToString([]byte(value)),
		"inside base64": base64.StdEncoding.EncodeToString([]byte("x" + value + "yz")),
		"inside, two":   base64.StdEncoding.EncodeToString([]byte(`{"token":"` + value + `"}`)),
		"hex":           hex.EncodeToString([]byte(value)),
		"HEX":           strings.ToUpper(hex.EncodeToString([]byte(value))),
		"query":         url.QueryEscape(value),
		"path":          url.PathEscape(value),
		"lower escapes": lowerEscapes(percent([]byte(value))),
		"JSON":          string(quoted[1 : len(quoted)-1]),
	} {
		for piece := 1; piece < 40; piece += 3 {
			got := string(redacted(t, map[string][]byte{"TOKEN": []byte(value)}, []byte("before "+text+" after"), piece))
			if strings.Count(got, "[secret TOKEN]") != 1 || !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") {
				t.Errorf("%s in pieces of %d: %q", name, piece, got)
			}
		}
	}
	key := armor("PRIVATE KEY", random(r, 400))
	for name, text := range map[string]string{
		"indented":      strings.ReplaceAll(key, "\n", "\n    "),
		"folded base64": fold(base64.StdEncoding.EncodeToString([]byte(key)), 76, "\n"),
	} {
		got := string(redacted(t, map[string][]byte{"KEY": []byte(key)}, []byte(text), 11))
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); len(line) >= 32 && !strings.HasPrefix(line, "-----") && strings.Contains(got, line) {
				t.Errorf("%s: %q is left", name, line)
			}
		}
	}
}

func TestRedactorErrors(t *testing.T) {
	for name, v := range map[string][]byte{"short": []byte("12345"), "empty": nil, "long": make([]byte, MaxSecret+1)} {
		if _, err := NewSecrets(map[string][]byte{"A": v}); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	broken := errors.New("disk full")
	w := newRedactor(t, failing{broken}, map[string][]byte{"A": []byte("secret value")})
	_, _ = w.Write(make([]byte, 100))
	if err := w.Close(); !errors.Is(err, broken) {
		t.Errorf("the error of writing is lost: %v", err)
	}
	if _, err := w.Write([]byte("x")); err == nil {
		t.Error("written after Close")
	}
	var none *Secrets
	if none.Text("x") != "x" {
		t.Error("no secrets change the text")
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// counting remembers how much it got, and the largest piece.
type counting struct{ n, most int }

func (c *counting) Write(p []byte) (int, error) {
	c.n += len(p)
	c.most = max(c.most, len(p))
	return len(p), nil
}

func TestRedactorMemory(t *testing.T) {
	before := allocated()
	var out counting
	w := newRedactor(t, &out, map[string][]byte{"A": []byte("secret value")})
	block := bytes.Repeat([]byte("secret valu"), 1<<20/11)
	for range 32 {
		_, _ = w.Write(block)
	}
	_ = w.Close()
	if got := allocated() - before; out.n != 32*len(block) || got > 4<<20 {
		t.Errorf("%d bytes out, %d allocated", out.n, got)
	}
}

// FuzzRedactor: the output is that of naive replacement, whatever the pieces.
func FuzzRedactor(f *testing.F) {
	f.Add([]byte("secret value"), []byte("value of something"), []byte("a secret value of something, secret valuesecret value"), uint8(4))
	f.Add([]byte("aaaaaaaa"), []byte("aaaaaaaaab"), []byte("aaaaaaaaaaaaaaaaaaaaaaaaaaaaabaaaa"), uint8(1))
	f.Add([]byte("line one of it\nline two of it, longer\n"), []byte("\x00\xff\"\\<>&%"), []byte("line two of it, longer \x00\xff\"\\<>&%"), uint8(9))
	f.Fuzz(func(t *testing.T, a, b, text []byte, piece uint8) {
		if len(a) < LeastSecret || len(b) < LeastSecret || len(a)+len(b) > 500 || len(text) > 4000 {
			return
		}
		secrets := map[string][]byte{"A": a, "B": b}
		text = append(append(append(text, a...), base64.StdEncoding.EncodeToString(b)...), text...)
		want := naive(secrets, text)
		if got := redacted(t, secrets, text, int(piece)+1); !bytes.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if !bytes.Contains([]byte("[secret A][secret B]"), a) && bytes.Contains(want, a) && !bytes.Contains(want, []byte("[secret B]")) {
			t.Errorf("%q is left in %q", a, want)
		}
	})
}

func newRedactor(t testing.TB, w io.Writer, secrets map[string][]byte) *Redactor {
	t.Helper()
	s, err := NewSecrets(secrets)
	if err != nil {
		t.Fatal(err)
	}
	return s.Redactor(w)
}
