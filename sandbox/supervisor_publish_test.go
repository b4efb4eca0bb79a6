package sandbox

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"gobox/egress"

	"golang.org/x/sys/unix"
)

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

// Whoever has said all to a published port and goes away then takes no place there any more, also when the command never answers.
func TestPassingOfOneThatIsGone(t *testing.T) {
	outside, peer := tcpPair(t)
	inside, server := tcpPair(t)
	done := make(chan struct{})
	p := &passing{outside, inside}
	go func() { p.pass(); close(done) }()
	if err := peer.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	_ = server.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.Copy(io.Discard, server); err != nil {
		t.Fatal(err)
	}
	_ = peer.SetLinger(0)
	peer.Close()
	_ = server.SetReadDeadline(time.Now().Add(20 * time.Second))
	if err := egress.WaitReset(server); !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("the command sees %v", err)
	}
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Error("the connection is never over")
	}
}

// What ends in order on both sides, one after the other, has passed whole.
func TestPassingToTheEnd(t *testing.T) {
	outside, peer := tcpPair(t)
	inside, server := tcpPair(t)
	done := make(chan struct{})
	p := &passing{outside, inside}
	go func() { p.pass(); close(done) }()
	if _, err := io.WriteString(peer, "question"); err != nil {
		t.Fatal(err)
	}
	_ = peer.CloseWrite()
	if b, err := io.ReadAll(server); err != nil || string(b) != "question" {
		t.Fatalf("%q, %v", b, err)
	}
	time.Sleep(50 * time.Millisecond)
	_, _ = io.WriteString(server, "answer")
	server.Close()
	if b, err := io.ReadAll(peer); err != nil || string(b) != "answer" {
		t.Errorf("%q, %v", b, err)
	}
	<-done
}
