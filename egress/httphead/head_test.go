package httphead

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestRequest(t *testing.T) {
	in := "POST http://example.com/x?y HTTP/1.1\r\nHost: example.com\r\nContent-Length:  3 \r\nEmpty:\r\nConnection: close, X-Drop\r\nX-Drop: 1\r\nProxy-Authorization: Basic x\r\n\r\nabc"
	h, n, err := Request([]byte(in))
	if err != nil {
		t.Fatal(err)
	}
	if in[n:] != "abc" || h.Method != "POST" || h.Target != "http://example.com/x?y" || h.Minor != 1 {
		t.Errorf("%+v, %d", h, n)
	}
	if size, err := h.RequestBody(); size != 3 || err != nil {
		t.Errorf("body %d, %v", size, err)
	}
	if err := h.DropHopByHop(); err != nil {
		t.Error(err)
	}
	want := "POST http://example.com/x?y HTTP/1.1\r\nHost: example.com\r\nContent-Length: 3\r\nEmpty: \r\n\r\n"
	if got := string(h.Append(nil)); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for i := range n {
		if _, _, err := Request([]byte(in[:i])); err != ErrMore {
			t.Fatalf("after %d bytes: %v", i, err)
		}
	}
}

func TestRequestRefuses(t *testing.T) {
	for name, in := range map[string]string{
		"TLS":                 "\x16\x03\x01",
		"bare LF":             "GET / HTTP/1.1\nHost: a\n\n",
		"one bare LF":         "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n",
		"bare CR":             "GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n",
		"NUL":                 "GET / HTTP/1.1\r\nHost: a\x00\r\n\r\n",
		"folded line":         "GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n",
		"space before colon":  "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
		"no colon":            "GET / HTTP/1.1\r\nHost\r\n\r\n",
		"empty name":          "GET / HTTP/1.1\r\n: a\r\n\r\n",
		"two spaces":          "GET  / HTTP/1.1\r\n\r\n",
		"tab in request line": "GET\t/ HTTP/1.1\r\n\r\n",
		"HTTP/2.0":            "GET / HTTP/2.0\r\n\r\n",
		"HTTP/0.9":            "GET /\r\n\r\n",
		"no target":           "GET  HTTP/1.1\r\n\r\n",
		"UTF-8 in target":     "GET /ü HTTP/1.1\r\n\r\n",
		"leading empty line":  "\r\nGET / HTTP/1.1\r\n\r\n",
		"too long":            "GET / HTTP/1.1\r\nX: " + strings.Repeat("a", MaxHead),
		"too many":            "GET / HTTP/1.1\r\n" + strings.Repeat("X: a\r\n", maxFields+1) + "\r\n",
	} {
		if h, _, err := Request([]byte(in)); err == nil || err == ErrMore {
			t.Errorf("%s: %+v, %v", name, h, err)
		}
	}
}

func TestRequestBody(t *testing.T) {
	for in, want := range map[string]int64{
		"Content-Length: 5\r\n":          5,
		"":                               None,
		"Transfer-Encoding: chunked\r\n": Chunked,
		"Transfer-Encoding: Chunked\r\n": Chunked,
		"Content-Length: 5\r\nContent-Length: 5\r\n":             -9,
		"Content-Length: 5, 5\r\n":                               -9,
		"Content-Length: +5\r\n":                                 -9,
		"Content-Length: -5\r\n":                                 -9,
		"Content-Length: 0x5\r\n":                                -9,
		"Content-Length:\r\n":                                    -9,
		"Content-Length: 99999999999999999999\r\n":               -9,
		"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n":    -9,
		"Transfer-Encoding: gzip, chunked\r\n":                   -9,
		"Transfer-Encoding: chunked, identity\r\n":               -9,
		"Transfer-Encoding: xchunked\r\n":                        -9,
		"Transfer-Encoding: chunked\r\nTransfer-Encoding: a\r\n": -9,
	} {
		h, _, err := Request([]byte("POST / HTTP/1.1\r\n" + in + "\r\n"))
		if err != nil {
			t.Fatal(err)
		}
		n, err := h.RequestBody()
		if err != nil {
			n = -9
		}
		if n != want {
			t.Errorf("%q: %d, want %d", in, n, want)
		}
	}
}

func TestConnectionNames(t *testing.T) {
	for _, v := range []string{"host", "Content-Length", "close, transfer-encoding", "a b", "authorization"} {
		h, _, err := Request([]byte("GET / HTTP/1.1\r\nConnection: " + v + "\r\n\r\n"))
		if err != nil {
			t.Fatal(err)
		}
		if err := h.DropHopByHop(); err == nil {
			t.Errorf("Connection: %s is let through", v)
		}
	}
}

func TestResponse(t *testing.T) {
	h, n, err := Response([]byte("HTTP/1.1 302 Found\r\nLocation: /x\r\n\r\nbody"))
	if err != nil || h.Status != 302 || h.Phrase != "Found" || n != 36 || h.Get("location")[0] != "/x" {
		t.Errorf("%+v, %d, %v", h, n, err)
	}
	if h, _, err := Response([]byte("HTTP/1.1 200\r\n\r\n")); err != nil || h.Status != 200 {
		t.Errorf("%+v, %v", h, err)
	}
	for _, in := range []string{"HTTP/2 200 OK\r\n\r\n", "HTTP/1.1 20 OK\r\n\r\n", "HTTP/1.1 +20 OK\r\n\r\n", "ICY 200 OK\r\n\r\n"} {
		if h, _, err := Response([]byte(in)); err == nil {
			t.Errorf("%q: %+v", in, h)
		}
	}
}

func TestCopyChunked(t *testing.T) {
	for in, want := range map[string]string{
		"3\r\nabc\r\n0\r\n\r\n":                                "3\r\nabc\r\n0\r\n\r\n",
		"00A;x=\"y\"\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n": "a\r\n0123456789\r\n0\r\n\r\n",
		"0\r\n\r\n":              "0\r\n\r\n",
		"3\nabc\n0\n\n":          "",
		"3 \r\nabc\r\n0\r\n\r\n": "",
		"-3\r\nabc\r\n":          "",
		"0x3\r\nabc\r\n":         "",
		"\r\nabc":                "",
		"3\r\nabcd\r\n0\r\n\r\n": "",
		"ffffffffffffffffff\r\n": "",
		"3\r\nab":                "",
		"3;" + strings.Repeat("x", maxTrailer) + "\r\nabc\r\n0\r\n\r\n": "",
		"0\r\n" + strings.Repeat("X: y\r\n", maxTrailer) + "\r\n":       "",
	} {
		var out bytes.Buffer
		err := CopyChunked(&out, bufio.NewReader(strings.NewReader(in)))
		if want == "" {
			if err == nil || err == io.EOF {
				t.Errorf("%.40q gives %.40q, %v", in, &out, err)
			}
		} else if err != nil || out.String() != want {
			t.Errorf("%.40q gives %q, %v", in, &out, err)
		}
	}
}

// FuzzRequest: what is taken here, net/http must take as well, and see the same target, host and length in it.
func FuzzRequest(f *testing.F) {
	f.Add([]byte("GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n"))
	f.Add([]byte("CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n"))
	f.Add([]byte("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: x\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, n, err := Request(b)
		if err != nil {
			return
		}
		size, err := h.RequestBody()
		if err != nil || len(h.Get("Host")) != 1 {
			return
		}
		before := string(h.Append(nil))
		again, _, err := Request([]byte(before))
		if err != nil || string(again.Append(nil)) != before {
			t.Fatalf("%q reads as %+v, and that written is %q: %v", b[:n], h, before, err)
		}
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b[:n])))
		if err != nil {
			return // net/http judges the target as well
		}
		if r.Method != h.Method || r.RequestURI != h.Target || r.ContentLength != size {
			t.Fatalf("net/http reads %q %q %d, and here it is %+v, %d", r.Method, r.RequestURI, r.ContentLength, h, size)
		}
	})
}

func FuzzCopyChunked(f *testing.F) {
	f.Add([]byte("3\r\nabc\r\n0\r\n\r\n"))
	f.Add([]byte("a;x=y\r\n0123456789\r\n0\r\nT: x\r\n\r\nrest"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var out bytes.Buffer
		if CopyChunked(&out, bufio.NewReader(bytes.NewReader(b))) != nil {
			return
		}
		var again bytes.Buffer
		if err := CopyChunked(&again, bufio.NewReader(bytes.NewReader(out.Bytes()))); err != nil || again.String() != out.String() {
			t.Fatalf("%q gives %q, and that %q: %v", b, &out, &again, err)
		}
	})
}

// TestDecides: where it does not ask for another look, that would have found the same.
func TestDecides(t *testing.T) {
	for _, in := range []string{
		"GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\nX:\ta b\r\n\r\nbody",
		"GET / HTTP/1.1\nHost: a\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\x00\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\x7f\r\n\r\n",
	} {
		skipped := 0
		for from := 1; from < len(in); from++ {
			if _, _, err := Request([]byte(in[:from])); err != ErrMore {
				break
			}
			for to := from + 1; to <= len(in); to++ {
				if Decides([]byte(in[from-1 : to])) {
					continue
				}
				skipped++
				if _, _, err := Request([]byte(in[:to])); err != ErrMore {
					t.Fatalf("%q and then %q: %v, and nobody would have looked", in[:from], in[from:to], err)
				}
			}
		}
		if skipped == 0 {
			t.Errorf("%q is looked at after every byte", in)
		}
	}
}

// A head with too many lines is wrong before its end has come.
func TestTooManyLines(t *testing.T) {
	if _, _, err := Request([]byte("GET / HTTP/1.1\r\n" + strings.Repeat("X: a\r\n", maxFields+1))); err == nil || err == ErrMore {
		t.Errorf("%d fields and no end: %v", maxFields+1, err)
	}
	if _, _, err := Request([]byte("GET / HTTP/1.1\r\n" + strings.Repeat("X: a\r\n", maxFields) + "\r\n" + strings.Repeat("\n", 300))); err != nil {
		t.Errorf("%d fields: %v", maxFields, err)
	}
}
