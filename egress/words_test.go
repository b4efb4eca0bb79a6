package egress

import (
	"io"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gobox/egress/httphead"
)

// heldHeads opens connections to the proxy with a head of that size that is not complete.
func heldHeads(r *rig, count, size int) (all []*net.TCPConn) {
	head := "GET http://echo.example/ HTTP/1.1\r\nHost: echo.example\r\nX: "
	head += strings.Repeat("a", size-len(head))
	for range count {
		c := r.dialReal(r.proxy)
		if _, err := io.WriteString(c, head); err != nil {
			r.t.Fatal(err)
		}
		all = append(all, c)
	}
	return all
}

// Any number of connections in the middle of a long head hold little memory, keep no short one from its turn, and all have
// their turn when the others are done.
func TestLongHeads(t *testing.T) {
	const count = 400
	r := newRig(t, 0, []string{"echo.example:80"}, func(c *Config) { c.firstWord = patience })
	r.host("echo.example", "1.2.3.4", 80, func(c *net.TCPConn) {
		_, _ = c.Read(make([]byte, 1<<17))
		_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
		_, _ = io.Copy(io.Discard, c)
	})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	all := heldHeads(r, count, 60_000)
	for end := time.Now().Add(patience); len(r.g.long) < maxLong; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d places are taken", len(r.g.long))
		}
	}
	time.Sleep(100 * time.Millisecond)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if n := int64(after.HeapInuse) - int64(before.HeapInuse); n > 20<<20 {
		t.Errorf("%d heads take %d KiB", count, n>>10)
	}
	answers := func(c *net.TCPConn, rest string) {
		t.Helper()
		if _, err := io.WriteString(c, rest); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 12)
		if _, err := io.ReadFull(c, b); err != nil || string(b) != "HTTP/1.1 204" {
			t.Fatalf("%q, %v", b, err)
		}
	}
	short := r.dialReal(r.proxy)
	answers(short, "GET http://echo.example/ HTTP/1.1\r\nHost: echo.example\r\n\r\n")
	for _, c := range all {
		if _, err := io.WriteString(c, "\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range all {
		answers(c, "")
		c.Close()
	}
	for end := time.Now().Add(patience); len(r.g.long) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d places are never given back", len(r.g.long))
		}
	}
}

// One that waits for its turn for too long is told why.
func TestLongHeadsInVain(t *testing.T) {
	r := newRig(t, 0, []string{"echo.example:80"}, func(c *Config) { c.firstWord = 2 * time.Second })
	for range maxLong {
		r.g.long <- struct{}{}
	}
	c := heldHeads(r, 1, 20_000)[0]
	text, _ := io.ReadAll(c)
	if !strings.Contains(string(text), "in the middle of a first message") {
		t.Errorf("%q", text)
	}
	if e := r.event(KindConnection, Failed); !strings.Contains(e.Reason, "in the middle of a first message") {
		t.Errorf("%+v", e)
	}
}

// counting is a server that counts what is written at a time.
type counting struct {
	net.Conn
	writes int
	text   strings.Builder
}

func (c *counting) Write(b []byte) (int, error) { c.writes++; return c.text.Write(b) }
func (c *counting) CloseWrite() error           { return nil }

// A body in chunks of one byte does not become a write or three for each, and nothing of it is held back.
func TestSmallChunks(t *testing.T) {
	here, there := tcpPair(t)
	s := &session{g: &Gateway{}, client: here}
	server := &counting{}
	var used atomic.Uint64
	r := &relay{client: here, server: server, totalOut: &quota{used: &used}}
	head := &httphead.Head{Method: "POST", Target: "/", Minor: 1}
	go func() {
		_, _ = io.WriteString(there, strings.Repeat("1\r\na\r\n", 1000))
		time.Sleep(50 * time.Millisecond)
		_, _ = io.WriteString(there, "1\r\nb\r\n0\r\n\r\n")
		there.Close()
	}()
	_ = here.SetReadDeadline(time.Now().Add(time.Second))
	if err := s.sendRequest(r, head, httphead.Chunked, []byte("1\r\n0\r\n")); err != nil {
		t.Fatal(err)
	}
	want := "POST / HTTP/1.1\r\n\r\n1\r\n0\r\n" + strings.Repeat("1\r\na\r\n", 1000) + "1\r\nb\r\n0\r\n\r\n"
	if server.text.String() != want || server.writes > 100 {
		t.Errorf("%d writes of %.200q", server.writes, server.text.String())
	}
}

// tcpPair gives both ends of a connection.
func tcpPair(t *testing.T) (here, there *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	a, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); c.Close() })
	return a.(*net.TCPConn), c.(*net.TCPConn)
}
