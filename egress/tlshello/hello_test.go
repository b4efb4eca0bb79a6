package tlshello

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// hello is what the standard library's client sends first.
func hello(t testing.TB, cfg *tls.Config) []byte {
	t.Helper()
	a, b := net.Pipe()
	defer a.Close()
	go func() { _ = tls.Client(b, cfg).Handshake(); b.Close() }()
	if err := a.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	head := make([]byte, 5)
	if _, err := io.ReadFull(a, head); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, int(head[3])<<8|int(head[4]))
	if _, err := io.ReadFull(a, body); err != nil {
		t.Fatal(err)
	}
	return append(head, body...)
}

// fragment cuts the one record of b into records of n bytes.
func fragment(b []byte, n int) []byte {
	var out []byte
	for body := b[5:]; len(body) > 0; {
		k := min(n, len(body))
		out = append(append(out, 22, 3, 1, byte(k>>8), byte(k)), body[:k]...)
		body = body[k:]
	}
	return out
}

func TestServerName(t *testing.T) {
	whole := hello(t, &tls.Config{ServerName: "example.com"})
	for name, b := range map[string][]byte{
		"one record":           whole,
		"TLS 1.2":              hello(t, &tls.Config{ServerName: "example.com", MaxVersion: tls.VersionTLS12}),
		"records of 100 bytes": fragment(whole, 100),
		"records of 1 byte":    fragment(whole, 1),
		"more behind it":       append(bytes.Clone(whole), "early data"...),
	} {
		if got, err := ServerName(b); got != "example.com" || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for i := range whole {
		if _, err := ServerName(whole[:i]); err != ErrMore {
			t.Fatalf("after %d of %d bytes: %v", i, len(whole), err)
		}
	}
}

func TestServerNameRefuses(t *testing.T) {
	whole := hello(t, &tls.Config{ServerName: "example.com"})
	i := bytes.Index(whole, []byte("example.com"))
	patch := func(at int, v ...byte) []byte {
		b := bytes.Clone(whole)
		copy(b[at:], v)
		return b
	}
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"no SNI":              {hello(t, &tls.Config{InsecureSkipVerify: true}), ErrNoName},
		"HTTP":                {[]byte("GET / HTTP/1.1\r\n"), ErrNotTLS},
		"SSH":                 {[]byte("SSH-2.0-OpenSSH\r\n"), ErrNotTLS},
		"one byte of HTTP":    {[]byte("G"), ErrNotTLS},
		"SSLv2":               {[]byte{0x80, 0x2e, 1, 0, 2}, ErrNotTLS},
		"version 4":           {patch(1, 4), ErrNotTLS},
		"empty record":        {patch(3, 0, 0), ErrNotTLS},
		"record too long":     {patch(3, 0x40, 1), ErrNotTLS},
		"an alert":            {[]byte{21, 3, 1, 0, 2, 1, 0}, ErrNotTLS},
		"a ServerHello":       {patch(5, 2), ErrNotTLS},
		"hello of 16 MiB":     {patch(6, 0xff, 0xff, 0xff), errTooLong},
		"name of no length":   {patch(i-2, 0, 0), errMalformed},
		"name too long":       {patch(i-2, 0, 12), errMalformed},
		"list too short":      {patch(i-5, 0, 13), errMalformed},
		"other type of name":  {patch(i-3, 1), errMalformed},
		"session id too long": {patch(5+4+34, 33), errMalformed},
	} {
		if got, err := ServerName(c.b); !errors.Is(err, c.want) {
			t.Errorf("%s: %q, %v; want %v", name, got, err, c.want)
		}
	}
	// A second server_name extension, in place of another one of the same length or by growing the list.
	ext := []byte{0, 0, 0, 10, 0, 8, 0, 0, 5, 'e', 'v', 'i', 'l', 's'}
	b := append(bytes.Clone(whole), ext...)
	grow := func(at, size int) {
		n := 0
		for _, v := range b[at : at+size] {
			n = n<<8 | int(v)
		}
		n += len(ext)
		for k := size - 1; k >= 0; k-- {
			b[at+k] = byte(n)
			n >>= 8
		}
	}
	grow(3, 2)
	grow(6, 3)
	at := 5 + 4 + 34
	at += 1 + int(b[at])
	at += 2 + int(b[at])<<8 + int(b[at+1])
	at += 1 + int(b[at])
	grow(at, 2)
	if got, err := ServerName(b); err != errMalformed {
		t.Errorf("two names: %q, %v", got, err)
	}
	// A hello that never ends, in records that never complete it.
	endless := append([]byte{22, 3, 1, 0x40, 0, 1, 0, 0x7f, 0xff}, make([]byte, MaxHello)...)
	if _, err := ServerName(endless[:MaxHello]); err == ErrMore || err == nil {
		t.Errorf("after %d bytes: %v", MaxHello, err)
	}
}

// A hello that comes in pieces is what it is as a whole, and no byte of it is looked at twice.
func TestReader(t *testing.T) {
	whole := hello(t, &tls.Config{ServerName: "example.com"})
	for _, size := range []int{1, 7, 100, 1 << 14} {
		want := fragment(whole, size)
		var r Reader
		var b []byte
		for i, c := range want {
			b = append(b, c)
			name, err := r.ServerName(b)
			if i == len(want)-1 {
				if name != "example.com" || err != nil {
					t.Errorf("records of %d bytes: %q, %v", size, name, err)
				}
				break
			}
			if err != ErrMore {
				t.Fatalf("records of %d bytes, after %d of %d: %q, %v", size, i+1, len(want), name, err)
			}
			if r.at < len(b)-4 {
				t.Fatalf("records of %d bytes, after %d: it is at %d", size, i+1, r.at)
			}
			clear(b[:r.at])
		}
	}
}

func FuzzServerName(f *testing.F) {
	whole := hello(f, &tls.Config{ServerName: "example.com"})
	f.Add(whole)
	f.Add(fragment(whole, 7))
	f.Add(hello(f, &tls.Config{InsecureSkipVerify: true}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= MaxHello {
			return // too long as soon as so much has come
		}
		name, err := ServerName(b)
		var r Reader
		for i := range b {
			n, e := r.ServerName(b[:i+1])
			if e == ErrMore {
				continue
			}
			// Bytes behind the hello, and what is behind an error, are not looked at.
			if n != name || e != err {
				t.Fatalf("byte by byte %q, %v after %d, and at once %q, %v", n, e, i+1, name, err)
			}
			break
		}
		if err != nil {
			return
		}
		if name == "" {
			t.Fatal("an empty name")
		}
		// What crypto/tls takes for a hello, it must see the same name in.
		var seen string
		a, c := net.Pipe()
		go func() {
			_, _ = a.Write(b)
			a.Close()
		}()
		stop := errors.New("seen")
		srv := tls.Server(readOnly{c}, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			seen = h.ServerName
			return nil, stop
		}})
		if err := srv.Handshake(); errors.Is(err, stop) && seen != strings.TrimSuffix(name, ".") && seen != name {
			t.Fatalf("crypto/tls sees %q, and here it is %q", seen, name)
		}
		c.Close()
	})
}

// readOnly keeps alerts from blocking on a pipe that nobody reads.
type readOnly struct{ net.Conn }

func (readOnly) Write(b []byte) (int, error) { return len(b), nil }
