package sandbox

import (
	"net/netip"
	"slices"
	"time"

	"gobox/namespaces"
	"gobox/policy"

	"golang.org/x/sys/unix"
)

const (
	// lookSoon and lookLater are how often init looks whether something listens on a published port: soon while a
	// server that has just been started is awaited.
	lookSoon  = 20 * time.Millisecond
	lookLater = 100 * time.Millisecond
	// dialLimit is how long a connection inside may take, which is made at once unless the server's backlog is full.
	dialLimit = 3 * time.Second
	// maxDials bounds those that are under way.
	maxDials = 64
)

// published is init's part in the ports of --publish: it says when something listens inside, and connects to it.
type published struct {
	ports     []uint16
	served    []netip.Addr // by port: where it is served; the zero Addr for nowhere
	listening *namespaces.Listening
	next      time.Time // of the next look; zero for never
	looks     int
	dials     []dial
}

// dial is a connection that is being made.
type dial struct {
	fd  int
	id  int32 // the supervisor's
	end time.Time
}

func (p *published) open(list []policy.Publish) {
	if len(list) == 0 {
		return
	}
	for _, publish := range list {
		p.ports = append(p.ports, publish.Port)
	}
	p.served = make([]netip.Addr, len(list))
	p.listening = namespaces.OpenListening()
	p.next = time.Now()
}

// look tells the supervisor of every port at which a server has come or gone.
func (p *published) look(sock int) {
	began := time.Now()
	found, err := p.listening.Look(p.ports)
	if err == nil {
		for i, port := range p.ports {
			now := found[slices.Index(p.ports, port)] // a port that is there twice is found once
			if now.IsValid() != p.served[i].IsValid() {
				on := int32(0)
				if now.IsValid() {
					on = 1
				}
				if sendNow(sock, message{kind: msgServing, a: int32(i), b: on}) != nil {
					continue // until the next look
				}
			}
			p.served[i] = now
		}
	}
	p.looks++
	every := lookLater
	if p.looks < int(10*time.Second/lookSoon) {
		every = lookSoon
	}
	// A command with very many sockets must not keep init busy.
	p.next = time.Now().Add(max(every, 20*time.Since(began)))
}

// begin makes a connection to where a port is served, and answers now or later.
func (p *published) begin(sock int, index, id int32) {
	refuse := func(errno unix.Errno) {
		_ = sendNow(sock, message{kind: msgDialed, a: id, errno: int32(errno)})
	}
	if index < 0 || int(index) >= len(p.served) || !p.served[index].IsValid() {
		refuse(unix.ECONNREFUSED)
		return
	}
	if len(p.dials) >= maxDials {
		refuse(unix.EAGAIN)
		return
	}
	domain, addr := namespaces.Sockaddr(netip.AddrPortFrom(p.served[index], p.ports[index]))
	fd, err := unix.Socket(domain, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		refuse(errnoOf(err))
		return
	}
	switch err := unix.Connect(fd, addr); err {
	case nil:
		answerDial(sock, dial{fd: fd, id: id}, 0)
	case unix.EINPROGRESS, unix.EINTR:
		p.dials = append(p.dials, dial{fd, id, time.Now().Add(dialLimit)})
	default:
		unix.Close(fd)
		refuse(errnoOf(err))
	}
}

// answerDial hands a connection over, or says why there is none.
func answerDial(sock int, d dial, errno unix.Errno) {
	if errno == 0 {
		err := sendNow(sock, message{kind: msgDialed, a: d.id}, d.fd)
		if err == nil {
			unix.Close(d.fd)
			return
		}
		// Descriptors in flight have a limit that others of the same user can use up (unix(7), ETOOMANYREFS).
		errno = errnoOf(err)
	}
	_ = sendNow(sock, message{kind: msgDialed, a: d.id, errno: int32(errno)})
	unix.Close(d.fd)
}

// polls appends what to wait for; ready takes its part of the outcome.
func (p *published) polls(fds []unix.PollFd) []unix.PollFd {
	for _, d := range p.dials {
		fds = append(fds, unix.PollFd{Fd: int32(d.fd), Events: unix.POLLOUT})
	}
	return fds
}

func (p *published) ready(sock int, fds []unix.PollFd) {
	if len(p.dials) == 0 {
		return
	}
	now := time.Now()
	left := p.dials[:0]
	for i, d := range p.dials {
		switch {
		case i < len(fds) && fds[i].Revents != 0:
			code, err := unix.GetsockoptInt(d.fd, unix.SOL_SOCKET, unix.SO_ERROR)
			if err != nil {
				code = int(errnoOf(err))
			}
			answerDial(sock, d, unix.Errno(code))
		case now.After(d.end):
			answerDial(sock, d, unix.ETIMEDOUT)
		default:
			left = append(left, d)
		}
	}
	p.dials = left
}

// due is when there is something to do without anything being ready.
func (p *published) due() time.Time {
	t := p.next
	for _, d := range p.dials {
		t = earlier(t, d.end)
	}
	return t
}

func errnoOf(err error) unix.Errno {
	if errno, ok := err.(unix.Errno); ok {
		return errno
	}
	return unix.EIO
}
