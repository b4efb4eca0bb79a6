package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gobox/policy"
)

// messages is the only place that writes to the user: errors and hints, and a warning for each wall that is missing, on stderr.
type messages struct {
	w     io.Writer
	quiet bool // no hints
	// redact, when set, takes out what must not be seen of names that the command chose.
	redact func(string) string
	// fallback is the hint for an error that brings none: a fault of the host's or of gobox.
	fallback string
}

// fail prints err, with its hint when it has one, and gives the exit status that belongs to it.
func (m messages) fail(err error) int {
	m.line("error", err.Error())
	var refusal *policy.Error
	if errors.As(err, &refusal) && refusal.Hint != "" {
		m.hint(refusal.Hint)
	} else if m.fallback != "" {
		m.hint(m.fallback)
	}
	return policy.ExitCode(err)
}

func (m messages) hint(text string) {
	if !m.quiet {
		m.line("hint", text)
	}
}

// stuckLimit is how long a message waits for a terminal or pipe that takes nothing.
const stuckLimit = 300 * time.Millisecond

func (m messages) line(kind, text string) {
	if m.redact != nil {
		text = m.redact(text)
	}
	text = fmt.Sprintf("gobox: %s: %s\n", kind, policy.Printable(strings.TrimRight(text, "\n")))
	if f, ok := m.w.(*os.File); ok {
		writeSoon(int(f.Fd()), text)
		return
	}
	_, _ = io.WriteString(m.w, text)
}

// writeSoon writes what can be written within stuckLimit: the exit status says enough, and must not come late for want of a
// reader (Ctrl-S). It does without timers and threads, for which there may be no descriptor or no room.
func writeSoon(fd int, text string) {
	var st unix.Stat_t
	pipe := unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO
	b := []byte(text)
	for end := time.Now().Add(stuckLimit); len(b) > 0; {
		left := time.Until(end)
		if left <= 0 {
			return
		}
		fds := [...]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		if n, err := unix.Poll(fds[:], int(left/time.Millisecond)+1); err == unix.EINTR || err == nil && n == 0 {
			continue
		}
		var n int
		err := error(unix.EOPNOTSUPP)
		if pipe {
			// That it has room is no promise: what is left of the command's output may go there in the same moment. Kernels
			// before 6.4 do not know this of pipes.
			n, err = unix.Pwritev2(fd, [][]byte{b}, -1, unix.RWF_NOWAIT)
		}
		if err == unix.EOPNOTSUPP || err == unix.ENOSYS || err == unix.EINVAL {
			n, err = unix.Write(fd, b)
		}
		switch err {
		case nil:
			b = b[n:]
		case unix.EINTR:
		case unix.EAGAIN:
			_, _ = unix.Poll(nil, 1)
		default:
			return
		}
	}
}
