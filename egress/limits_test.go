package egress

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// tryEcho says whether an echo over a new connection works.
func (r *rig) tryEcho(name string) bool {
	r.t.Helper()
	c := r.connect(name)
	if c == nil {
		return false
	}
	defer c.Close()
	if _, err := io.WriteString(c, "x"); err != nil {
		return false
	}
	_, err := io.ReadFull(c, make([]byte, 1))
	return err == nil
}

func TestLimitConnections(t *testing.T) {
	r := newRig(t, 0, []string{"echo.example:%d"}, func(c *Config) { c.Limits.Connections = 3 })
	r.host("echo.example", "1.2.3.4", r.port, echo)
	var held []*net.TCPConn
	for range 3 {
		c := r.connect("echo.example")
		if _, err := io.WriteString(c, "x"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
	}
	wantReset(t, r.connect("echo.example"))
	wantReset(t, r.connect("echo.example"))
	if e := r.event(KindLimit, Limited); !strings.Contains(e.Reason, "3 connections at once") {
		t.Errorf("%+v", e)
	}
	held[0].Close()
	for end := time.Now().Add(patience); !r.tryEcho("echo.example"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no connection after one has ended")
		}
	}
	if s := r.g.Close(); s.Limited < 2 {
		t.Errorf("%+v", s)
	}
}

func TestLimitRate(t *testing.T) {
	r := newRig(t, 0, []string{"echo.example:%d"}, func(c *Config) { c.Limits.Rate = 0.001 })
	r.host("echo.example", "1.2.3.4", r.port, echo)
	for i := range 10 {
		if !r.tryEcho("echo.example") {
			t.Fatalf("connection %d of the burst is refused", i)
		}
	}
	if r.tryEcho("echo.example") {
		t.Error("the eleventh is let through")
	}
	if e := r.event(KindLimit, Limited); !strings.Contains(e.Reason, "a second") {
		t.Errorf("%+v", e)
	}
}

// TestLimitBytes: not one byte more than the limit passes, over however many connections.
func TestLimitBytes(t *testing.T) {
	const limit = 1_000_000
	for _, way := range []string{"out", "in"} {
		var heard atomic.Int64
		r := newRig(t, 0, []string{"echo.example:%d"}, func(c *Config) {
			if way == "out" {
				c.Limits.BytesOut = limit
			} else {
				c.Limits.BytesIn = limit
			}
		})
		r.host("echo.example", "1.2.3.4", r.port, func(c *net.TCPConn) {
			if way == "out" {
				n, _ := io.Copy(io.Discard, c)
				heard.Add(n)
				return
			}
			_, _ = c.Write(make([]byte, 600_000))
		})
		var wg sync.WaitGroup
		for range 4 {
			c := r.connect("echo.example")
			wg.Go(func() {
				if way == "out" {
					_, _ = c.Write(make([]byte, 600_000))
					_ = c.CloseWrite()
				}
				n, _ := io.Copy(io.Discard, c)
				heard.Add(n)
			})
		}
		wg.Wait()
		e := r.event(KindLimit, Limited)
		if !strings.Contains(e.Reason, "limit of 1000000 bytes") {
			t.Errorf("%+v", e)
		}
		r.event(KindConnection, Limited)
		s := r.g.Close()
		used := s.BytesOut
		if way == "in" {
			used = s.BytesIn
		}
		if used > limit || used < limit*9/10 {
			t.Errorf("%s: %d bytes are counted", way, used)
		}
		if n := heard.Load(); n > limit {
			t.Errorf("%s: %d bytes passed", way, n)
		}
	}
}

func TestLimitIdle(t *testing.T) {
	r := newRig(t, 0, []string{"echo.example:%d"}, func(c *Config) { c.Limits.Idle = 400 * time.Millisecond })
	r.host("echo.example", "1.2.3.4", r.port, echo)
	c := r.connect("echo.example")
	// As long as it carries something it lives.
	begun := time.Now()
	for time.Since(begun) < time.Second {
		if _, err := io.WriteString(c, "x"); err != nil {
			t.Skipf("this machine pauses for longer than the limit of the test: %v", err)
		}
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Skipf("this machine pauses for longer than the limit of the test: %v", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	wantReset(t, c)
	if e := r.event(KindConnection, Limited); !strings.Contains(e.Reason, "idle") {
		t.Errorf("%+v", e)
	}
	r.event(KindLimit, Limited)
}

func TestLimitTotal(t *testing.T) {
	r := newRig(t, 0, []string{"echo.example:%d"}, func(c *Config) { c.Limits.Total = 300 * time.Millisecond })
	r.host("echo.example", "1.2.3.4", r.port, echo)
	c := r.connect("echo.example")
	var err error
	for end := time.Now().Add(patience); err == nil && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if _, err = io.WriteString(c, "x"); err == nil {
			_, err = io.ReadFull(c, make([]byte, 1))
		}
	}
	if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		t.Errorf("the connection ends with %v", err)
	}
	if e := r.event(KindConnection, Limited); !strings.Contains(e.Reason, "may last") {
		t.Errorf("%+v", e)
	}
}

// openFiles counts this process's descriptors.
func openFiles(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestThousand has 1,000 connections at once, each of which carries something before and after all the others were there.
func TestThousand(t *testing.T) {
	const count = 1000
	r := newRig(t, 0, []string{"echo.example:%d"})
	// Both ends of both connections are in this process.
	if r.g.most < count {
		t.Skipf("the limit on open files leaves room for %d connections", r.g.most)
	}
	r.host("echo.example", "1.2.3.4", r.port, echo)
	before := openFiles(t)
	addr := r.synthetic("echo.example")
	conns := make([]*net.TCPConn, count)
	ping := func(i int) error {
		msg := fmt.Sprintf("%04d", i)
		if _, err := io.WriteString(conns[i], msg); err != nil {
			return err
		}
		b := make([]byte, 4)
		if _, err := io.ReadFull(conns[i], b); err != nil {
			return err
		}
		if string(b) != msg {
			return fmt.Errorf("%q comes back in place of %q", b, msg)
		}
		return nil
	}
	for i := range conns {
		conns[i] = r.connectAddr(addr)
		if err := ping(i); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
	}
	// An idle connection holds its two sockets and no pipe. The test's own ends are two more.
	if n := openFiles(t) - before; n > 4*count+2*maxIdlePipes+20 {
		t.Errorf("%d descriptors for %d connections", n, count)
	}
	var mem runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&mem)
	if used := mem.HeapInuse + mem.StackInuse; used > 128<<20 {
		t.Errorf("%d MiB in use", used>>20)
	}
	for i := range conns {
		_ = conns[i].SetDeadline(time.Now().Add(patience))
		if err := ping(i); err != nil {
			t.Fatalf("connection %d, again: %v", i, err)
		}
		conns[i].Close()
	}
	for end := time.Now().Add(patience); openFiles(t) > before+2*maxIdlePipes+20; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d descriptors before, and %d after", before, openFiles(t))
		}
	}
	if s := r.g.Close(); s.Connections != count {
		t.Errorf("%+v", s)
	}
}

// TestNoPipes: without descriptors for pipes it is slower and nothing else.
func TestNoPipes(t *testing.T) {
	r := newRig(t, 0, []string{"echo.example:%d"})
	r.host("echo.example", "1.2.3.4", r.port, echo)
	r.g.pipes.mu.Lock()
	r.g.pipes.left = 0
	r.g.pipes.mu.Unlock()
	c := r.connect("echo.example")
	const size = 8 << 20
	go func() {
		_, _ = c.Write(make([]byte, size))
		_ = c.CloseWrite()
	}()
	if n, err := io.Copy(io.Discard, c); n != size || err != nil {
		t.Errorf("%d bytes come back, %v", n, err)
	}
}

// TestVolume sends much through one connection, in memory that stays flat.
func TestVolume(t *testing.T) {
	const size = 256 << 20
	r := newRig(t, 0, []string{"sink.example:%d"})
	got := make(chan int64, 1)
	r.host("sink.example", "1.2.3.4", r.port, func(c *net.TCPConn) {
		n, _ := io.Copy(io.Discard, c)
		got <- n
	})
	c := r.connect("sink.example")
	_ = c.SetDeadline(time.Now().Add(4 * patience))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	buf := make([]byte, 1<<20)
	for range size / len(buf) {
		if _, err := c.Write(buf); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	c.Close()
	if n := <-got; n != size {
		t.Errorf("%d bytes arrive", n)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 32<<20 {
		t.Errorf("%d MiB were allocated on the way", n>>20)
	}
	if e := r.event(KindConnection, Allowed); e.BytesOut != size {
		t.Errorf("%+v", e)
	}
}

// TestClose: nothing is left, whatever state a connection is in.
func TestClose(t *testing.T) {
	before := openFiles(t)
	goroutines := runtime.NumGoroutine()
	t.Run("run", func(t *testing.T) {
		r := newRig(t, 0, []string{"echo.example:%d", "slow.example:80"})
		r.host("echo.example", "1.2.3.4", r.port, echo)
		var all []*net.TCPConn
		for range 5 {
			c := r.connect("echo.example")
			if _, err := io.WriteString(c, "x"); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			all = append(all, c)
		}
		for _, start := range []string{"", "\x05", "CONNECT a"} {
			c := r.dialReal(r.proxy)
			if _, err := io.WriteString(c, start); err != nil {
				t.Fatal(err)
			}
			all = append(all, c)
		}
		all = append(all, r.dialReal(r.dnsTCP))
		time.Sleep(20 * time.Millisecond)
		begun := time.Now()
		r.g.Close()
		if d := time.Since(begun); d >= closeTimeout {
			t.Errorf("closing took %s", d)
		}
		for _, c := range all {
			_, _ = io.Copy(io.Discard, c)
			c.Close()
		}
		r.g.Close() // a second time does no harm
	})
	for end := time.Now().Add(patience); runtime.NumGoroutine() > goroutines+4; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines before, and %d after", goroutines, runtime.NumGoroutine())
		}
	}
	for end := time.Now().Add(patience); openFiles(t) > before+4; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d descriptors before, and %d after", before, openFiles(t))
		}
	}
}

func TestDescriptors(t *testing.T) {
	s, err := descriptors()
	if err != nil || s.conns < 8 || s.pipes < 4 || s.lookups < 2 || s.attempts < 2 {
		t.Fatalf("%+v, %v", s, err)
	}
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	low := syscall.Rlimit{Cur: 100, Max: old.Max}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	_, err = descriptors()
	if err2 := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old); err2 != nil {
		t.Fatal(err2)
	}
	if err == nil || !strings.Contains(err.Error(), "ulimit -n") {
		t.Errorf("with 100 open files: %v", err)
	}
}
