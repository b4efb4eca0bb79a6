package egress

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// A command that reads nothing does not have the host hold much: less for each of many connections.
func TestBuffers(t *testing.T) {
	for _, c := range []struct {
		name         string
		others, most int
	}{{"alone", 0, 3 << 20}, {"among many", largeConns + 1, 1 << 20}} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, 0, []string{"echo.example:%d", "much.example:%d"})
			r.host("echo.example", "1.2.3.4", r.port, echo)
			wrote := make(chan int, 1)
			r.host("much.example", "1.2.3.5", r.port, func(c *net.TCPConn) {
				_ = c.SetWriteBuffer(64 << 10)
				_, _ = io.ReadFull(c, make([]byte, 1))
				n := 0
				for b := make([]byte, 16<<10); ; {
					_ = c.SetWriteDeadline(time.Now().Add(time.Second))
					k, err := c.Write(b)
					n += k
					if err != nil {
						if !errors.Is(err, os.ErrDeadlineExceeded) {
							n = -1
						}
						break
					}
				}
				wrote <- n
			})
			for range c.others {
				other := r.connect("echo.example")
				if _, err := io.WriteString(other, "x"); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(other, make([]byte, 1)); err != nil {
					t.Fatal(err)
				}
			}
			client := r.connect("much.example")
			_ = client.SetReadBuffer(4096)
			if _, err := io.WriteString(client, "x"); err != nil {
				t.Fatal(err)
			}
			if n := <-wrote; n < 0 || n > c.most {
				t.Errorf("%d KiB are on their way to who does not read", n>>10)
			} else {
				t.Logf("%d KiB", n>>10)
			}
		})
	}
}
