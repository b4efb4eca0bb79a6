package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

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

// stuckLimit is how long a message waits for a terminal or pipe that takes nothing, in milliseconds.
const stuckLimit = 300

func (m messages) line(kind, text string) {
	if m.redact != nil {
		text = m.redact(text)
	}
	// The exit status says enough, and must not come late for want of a reader (Ctrl-S).
	if f, ok := m.w.(*os.File); ok {
		fds := [...]unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLOUT}}
		if n, err := unix.Poll(fds[:], stuckLimit); n == 0 && err == nil {
			return
		}
	}
	fmt.Fprintf(m.w, "gobox: %s: %s\n", kind, policy.Printable(strings.TrimRight(text, "\n")))
}
