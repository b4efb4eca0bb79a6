package vm

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// A machine is a qemu that runs, by the files and sockets in which it can be seen.
type machine struct {
	console string // file: the kernel's messages, and what the guest is asked to tell
	output  string // file: what the script writes
	control string // socket: the guest's third serial line, read by init.sh
	monitor string // socket: qemu's own command line
}

// dumpTime is for how long a guest that is stuck may tell about itself.
const dumpTime = 40 * time.Second

// watch ends the machine by stop when the script has ended. It returns an error when the machine has been silent for too
// long: then it has the guest tell on the console what hangs, and ends the machine too.
func (m *machine) watch(ctx context.Context, quiet time.Duration, stop func()) error {
	var seen int64
	last := time.Now()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if n := size(m.console) + size(m.output); n != seen {
			seen, last = n, time.Now()
			if _, _, ended := m.status(); ended {
				stop()
				return nil
			}
		}
		if time.Since(last) < quiet {
			continue
		}
		err := fmt.Errorf("stuck: nothing came from it for %v", quiet)
		said := ask(ctx, m.monitor, "info registers -a\n", time.Second)
		ask(ctx, m.control, "dump\n", 0)
		for end, before := time.Now().Add(dumpTime), size(m.console); time.Now().Before(end) && ctx.Err() == nil; {
			time.Sleep(5 * time.Second)
			now := size(m.console)
			if now == before && now != 0 {
				break
			}
			before = now
		}
		stop()
		return fmt.Errorf("%w\n%s", err, said)
	}
}

// status reads what the script has written, and its exit status if it has ended.
func (m *machine) status() (text string, status int, ended bool) {
	out, _ := os.ReadFile(m.output)
	text = string(out)
	i := strings.LastIndex(text, endMark)
	if i < 0 {
		return text, 0, false
	}
	number, rest, whole := strings.Cut(text[i+len(endMark):], "\n")
	status, err := strconv.Atoi(number)
	if !whole || rest != "" || err != nil {
		return text, 0, false
	}
	return text[:i], status, true
}

func size(file string) int64 {
	st, err := os.Stat(file)
	if err != nil {
		return 0
	}
	return st.Size()
}

// ask writes a line to a socket and returns what comes back within a time.
func ask(ctx context.Context, socket, line string, wait time.Duration) string {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return err.Error() + "\n"
	}
	defer c.Close()
	if _, err := io.WriteString(c, line); err != nil {
		return err.Error() + "\n"
	}
	_ = c.SetReadDeadline(time.Now().Add(max(wait, time.Second)))
	answer, _ := io.ReadAll(c)
	return string(answer)
}
