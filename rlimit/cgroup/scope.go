package cgroup

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A user's systemd gives cgroups away: a transient scope with Delegate=yes, holding a process that exists
// (org.freedesktop.systemd1(5)). One call on its private socket is all that is said, which is less than what a D-Bus
// library costs each start of gobox in package initialisation.

// userBus is the private socket of the user's systemd, or "" when it has none.
func userBus() string {
	dir := os.Getenv("XDG_RUNTIME_DIR")
	if dir == "" {
		dir = "/run/user/" + strconv.Itoa(os.Geteuid())
	}
	socket := dir + "/systemd/private"
	var st unix.Stat_t
	// Not a socket that somebody else has put there.
	if unix.Stat(socket, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK || int(st.Uid) != os.Geteuid() {
		return ""
	}
	return socket
}

// CreateScope is [Create] for a user whose own cgroups lack what l needs, see [Support.Scope]: it asks the user's systemd for a scope and
// moves pid, gobox's init, into it, since a scope needs a process. The group is beside init in the scope, which
// ends with init.
func CreateScope(name string, l Limits, s Support, pid int, timeout time.Duration) (*Group, error) {
	if !s.scope {
		return nil, fmt.Errorf("create scope: this user has no systemd session")
	}
	if err := checkID(name); err != nil {
		return nil, err
	}
	me, err := self()
	if err != nil {
		return nil, err
	}
	end := time.Now().Add(timeout)
	g := &Group{name: me.name(name), version: 2, dirs: make(map[controllers]string), fd: -1, events: -1}
	unit := g.name + ".scope"
	if err := startScope(s.host.bus, unit, pid, end); err != nil {
		return nil, fmt.Errorf("start %s: %w", unit, err)
	}
	dir, err := s.awaitScope(unit, pid, end)
	if err != nil {
		return nil, err
	}
	need := l.needs()
	if lack := need &^ parseControllers(dir+"/cgroup.controllers"); lack != 0 {
		return nil, fmt.Errorf("limit %s by cgroup: %s", lack, s.explainV2(lack, 0, nil, "/user@").why)
	}
	p := placement{level: level{dir: dir}, need: need, enable: true, evacuate: true}
	if err := p.prepare(); err != nil {
		return nil, err
	}
	if err := g.fillV2(dir, l); err != nil {
		g.discard()
		return nil, err
	}
	return g, nil
}

// awaitScope waits until systemd has moved the process, and gives the scope's directory.
func (s Support) awaitScope(unit string, pid int, end time.Time) (string, error) {
	var dir string
	found := waitFor(time.Until(end), func() bool {
		data, err := readAll(fmt.Sprintf("%s/proc/%d/cgroup", s.host.prefix, pid), 1<<16)
		p := parseMembership(data)[""]
		dir = path.Join(s.point, p)
		return err == nil && path.Base(p) == unit
	})
	if !found {
		return "", fmt.Errorf("start %s: systemd has not moved process %d in time", unit, pid)
	}
	return dir, nil
}

// startScope has the user's systemd make a scope.
func startScope(socket, unit string, pid int, end time.Time) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	left := unix.NsecToTimeval(max(time.Until(end), time.Millisecond).Nanoseconds())
	for _, option := range [...]int{unix.SO_RCVTIMEO, unix.SO_SNDTIMEO} {
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, option, &left); err != nil {
			return err
		}
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: socket}); err != nil {
		return fmt.Errorf("connect to %s: %w", socket, err)
	}
	c := busConn{fd: fd}
	if err := c.authenticate(os.Geteuid()); err != nil {
		return err
	}
	return c.call(scopeCall(unit, pid))
}

// busConn speaks as much of D-Bus as one method call takes
// (https://dbus.freedesktop.org/doc/dbus-specification.html).
type busConn struct{ fd int }

// authenticate proves the user by the socket's credentials: mechanism EXTERNAL with the uid's digits in hex.
func (c busConn) authenticate(uid int) error {
	hello := fmt.Sprintf("\x00AUTH EXTERNAL %x\r\nBEGIN\r\n", strconv.Itoa(uid))
	if err := c.write([]byte(hello)); err != nil {
		return err
	}
	var line []byte
	for !bytes.HasSuffix(line, []byte("\r\n")) {
		var b [1]byte
		if err := c.read(b[:]); err != nil {
			return err
		}
		if line = append(line, b[0]); len(line) > 512 {
			return fmt.Errorf("authenticate: %w", unix.EPROTO)
		}
	}
	if !bytes.HasPrefix(line, []byte("OK ")) {
		return fmt.Errorf("authenticate: answer %q: %w", line, unix.EACCES)
	}
	return nil
}

func (c busConn) write(b []byte) error {
	for len(b) > 0 {
		n, err := retry(func() (int, error) { return unix.SendmsgN(c.fd, b, nil, nil, unix.MSG_NOSIGNAL) })
		if err != nil {
			return fmt.Errorf("write to systemd: %w", err)
		}
		b = b[n:]
	}
	return nil
}

func (c busConn) read(b []byte) error {
	for len(b) > 0 {
		n, err := retry(func() (int, error) { return unix.Read(c.fd, b) })
		if err == nil && n == 0 {
			err = unix.ECONNRESET
		}
		if err != nil {
			return fmt.Errorf("read from systemd: %w", err)
		}
		b = b[n:]
	}
	return nil
}

// Message types, and the header field that a body's type is in.
const (
	busCall   = 1
	busReturn = 2
	busError  = 3
)

// call sends a message with serial number 1 and waits for its answer; signals may come before.
func (c busConn) call(message []byte) error {
	if err := c.write(message); err != nil {
		return err
	}
	for range 1000 {
		var h [16]byte
		if err := c.read(h[:]); err != nil {
			return err
		}
		body, fields := binary.LittleEndian.Uint32(h[4:]), binary.LittleEndian.Uint32(h[12:])
		if h[0] != 'l' || body > 1<<20 || fields > 1<<16 {
			return fmt.Errorf("read from systemd: %w", unix.EPROTO)
		}
		rest := make([]byte, (fields+7)&^7+body)
		if err := c.read(rest); err != nil {
			return err
		}
		switch h[1] {
		case busReturn:
			return nil
		case busError:
			// An error's body begins with a sentence.
			text := rest[(fields+7)&^7:]
			if len(text) > 5 {
				if n := binary.LittleEndian.Uint32(text); int(n) <= len(text)-5 {
					return fmt.Errorf("systemd refuses: %s", strings.ToLower(string(text[4:4+n])))
				}
			}
			return fmt.Errorf("systemd refuses: %w", unix.EPERM)
		}
	}
	return fmt.Errorf("read from systemd: %w", unix.EPROTO)
}

// scopeCall is StartTransientUnit(name, mode, properties, auxiliary units).
func scopeCall(unit string, pid int) []byte {
	var body busWriter
	body.str(unit)
	body.str("fail")
	body.array(8, func() {
		body.property("Description", "s", func() { body.str("gobox's command") })
		body.property("Delegate", "b", func() { body.u32(1) })
		body.property("CollectMode", "s", func() { body.str("inactive-or-failed") })
		body.property("PIDs", "au", func() { body.array(4, func() { body.u32(uint32(pid)) }) })
	})
	body.array(8, func() {})

	var m busWriter
	m.b = append(m.b, 'l', busCall, 0, 1)
	m.u32(uint32(len(body.b)))
	m.u32(1)
	m.array(8, func() {
		field := func(code byte, signature, value string) {
			m.align(8)
			m.b = append(m.b, code)
			m.signature(signature)
			if signature == "g" {
				m.signature(value)
				return
			}
			m.str(value)
		}
		field(1, "o", "/org/freedesktop/systemd1")
		field(2, "s", "org.freedesktop.systemd1.Manager")
		field(3, "s", "StartTransientUnit")
		field(6, "s", "org.freedesktop.systemd1")
		field(8, "g", "ssa(sv)a(sa(sv))")
	})
	m.align(8)
	return append(m.b, body.b...)
}

// busWriter marshals in little endian; everything is aligned to its own size.
type busWriter struct{ b []byte }

func (w *busWriter) align(n int) {
	for len(w.b)%n != 0 {
		w.b = append(w.b, 0)
	}
}

func (w *busWriter) u32(n uint32) {
	w.align(4)
	w.b = binary.LittleEndian.AppendUint32(w.b, n)
}

func (w *busWriter) str(s string) {
	w.u32(uint32(len(s)))
	w.b = append(append(w.b, s...), 0)
}

func (w *busWriter) signature(s string) {
	w.b = append(append(append(w.b, byte(len(s))), s...), 0)
}

// array writes elements of an alignment with their length, which does not count the padding before the first.
func (w *busWriter) array(align int, elements func()) {
	w.u32(0)
	at := len(w.b)
	w.align(align)
	start := len(w.b)
	elements()
	binary.LittleEndian.PutUint32(w.b[at-4:], uint32(len(w.b)-start))
}

// property is a struct of a name and a variant.
func (w *busWriter) property(name, signature string, value func()) {
	w.align(8)
	w.str(name)
	w.signature(signature)
	value()
}
