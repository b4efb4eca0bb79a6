package sandbox

import (
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"gobox/egress"
	"gobox/namespaces"
	"gobox/policy"

	"golang.org/x/sys/unix"
)

const (
	// doorBacklog is how many connections to a published port may wait until the inside one is made.
	doorBacklog = 128
	// answerLimit is how long init may take to make a connection inside, beyond its own limit for that.
	answerLimit = dialLimit + 2*time.Second
	// maxPassed bounds the connections at once, each of which takes passedFiles descriptors: two, and four of pipes for splice(2).
	maxPassed   = 1024
	passedFiles = 6
	// doorPause is how long a door stays shut for which there was no descriptor.
	doorPause = 100 * time.Millisecond
)

// doors are the published ports of a run, on the host's side. Each is bound before the command starts, and listens only
// while something listens inside: a caller who is too early is refused, as without a sandbox.
//
//	init says that something listens -> listen
//	someone connects                 -> ask init for a connection inside -> accept, and pass bytes both ways
//	init has none to give            -> accept and reset
//	init says that nothing does      -> bound again
type doors struct {
	list []*door
	sock int // to init
	wake int // eventfd: something below has changed

	mu     sync.Mutex
	over   bool
	passed map[*passing]struct{}
	most   int           // of them at once
	served chan struct{} // closed when serve has returned
}

// door is one port. Its fields are under the lock of doors.
type door struct {
	publish policy.Publish
	fd      int
	serve   bool // something listens inside
	listens bool
	asked   int32 // id of the connection that init was asked for, 0 for none
	inside  int   // what init has given, or -1
	until   time.Time
	retry   time.Time // when to try to listen again
	pause   time.Time // until then nobody is let in
	ids     int32
}

// openDoors binds the ports of the plan. A port that someone else has is an error now, and not in the middle of the run.
func openDoors(list []policy.Publish, gateway bool) (*doors, error) {
	if len(list) == 0 {
		return nil, nil
	}
	d := &doors{most: passable(gateway), passed: map[*passing]struct{}{}, served: make(chan struct{}), sock: -1, wake: -1}
	for _, p := range list {
		fd, err := bindDoor(p)
		if err != nil {
			d.close()
			return nil, explainDoor(p, err)
		}
		d.list = append(d.list, &door{publish: p, fd: fd, inside: -1})
	}
	var err error
	if d.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		d.close()
		return nil, &policy.Error{Step: "publish", Err: err}
	}
	return d, nil
}

// passable is how many connections the limit of open files has room for. A gateway takes seven eighths of it (package egress),
// and a supervisor without a descriptor could not take what init sends.
func passable(gateway bool) int {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return 1
	}
	const others = 192
	free := int(min(l.Cur, 1<<13)) - others
	if gateway {
		free /= 8
	}
	return min(max(free/passedFiles, 1), maxPassed)
}

func explainDoor(p policy.Publish, err error) error {
	e := &policy.Error{Step: "publish", Object: p.Listen().String(), Err: err, Hint: "choose another port: --publish HOSTPORT:" + strconv.Itoa(int(p.Port))}
	switch err {
	case unix.EACCES:
		e.Hint = "ports below " + firstFreePort() + " are for root; " + e.Hint
	case unix.EADDRNOTAVAIL:
		e.Hint = "name an address of this host, or leave it out for 127.0.0.1"
	}
	return e
}

func firstFreePort() string {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_unprivileged_port_start")
	if err != nil {
		return "1024"
	}
	return string(slices.DeleteFunc(text, func(c byte) bool { return c < '0' || c > '9' }))
}

// bindDoor gives a bound socket that does not listen. It is bound without SO_REUSEADDR, so that nobody else gets the
// port before it listens; but connections of an earlier run, which the kernel remembers for a minute (TIME_WAIT), must not
// count, and those are told from a server by listening for a moment.
func bindDoor(p policy.Publish) (int, error) {
	fd, err := boundSocket(p, false)
	if err != unix.EADDRINUSE {
		return fd, err
	}
	if fd, err = boundSocket(p, true); err != nil {
		return -1, err
	}
	if err = unix.Listen(fd, doorBacklog); err == nil {
		err = unix.Shutdown(fd, unix.SHUT_RDWR)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func boundSocket(p policy.Publish, reuse bool) (fd int, err error) {
	domain, addr := namespaces.Sockaddr(p.Listen())
	if fd, err = unix.Socket(domain, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
		return -1, err
	}
	if domain == unix.AF_INET6 {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1)
	}
	if err == nil && reuse {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	}
	if err == nil {
		err = unix.Bind(fd, addr)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// start serves in the background. sock is that to init, and stays the caller's.
func (d *doors) start(sock int) {
	if d == nil {
		return
	}
	d.sock = sock
	go d.serve()
}

func (d *doors) poke() { _, _ = unix.Write(d.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }

// serving takes in init's word on a port.
func (d *doors) serving(index int32, on bool) {
	if d == nil || index < 0 || int(index) >= len(d.list) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list[index].serve = on
	d.poke()
}

// dialed takes in init's answer to the question id: a connection, which is the doors' then, or -1.
func (d *doors) dialed(id int32, fd int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, door := range d.list {
		if id == 0 || door.asked != id || d.over {
			continue
		}
		if fd < 0 {
			d.turnAway(i)
		} else {
			door.inside = fd
		}
		door.asked = 0
		d.poke()
		return
	}
	if fd >= 0 {
		unix.Close(fd)
	}
}

// turnAway resets the first connection that waits.
func (d *doors) turnAway(i int) {
	fd, _, err := unix.Accept4(d.list[i].fd, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
	if err != nil {
		return
	}
	_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	unix.Close(fd)
}

// serve waits for what happens at the doors until they are closed.
func (d *doors) serve() {
	defer close(d.served)
	for {
		fds, end, over := d.settle()
		if over {
			return
		}
		poll(fds, end)
		if fds[0].Revents != 0 {
			var buf [8]byte
			_, _ = unix.Read(d.wake, buf[:])
		}
		d.knocked(fds[1:])
	}
}

// settle brings each door into the state that it should be in, and says what to wait for: the eventfd first, and then
// the door of each index.
func (d *doors) settle() (fds []unix.PollFd, end time.Time, over bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fds = append(fds, unix.PollFd{Fd: int32(d.wake), Events: unix.POLLIN})
	now := time.Now()
	for i, o := range d.list {
		if o.inside >= 0 {
			d.letIn(o)
		}
		if o.asked != 0 && now.After(o.until) {
			o.asked = 0
			d.turnAway(i)
		}
		if o.serve != o.listens && (!o.serve || now.After(o.retry)) {
			if d.toggle(o) != nil {
				o.retry = now.Add(time.Second)
			}
		}
		fd := int32(-1)
		if o.listens && o.asked == 0 && len(d.passed) < d.most {
			if now.After(o.pause) {
				fd = int32(o.fd)
			} else {
				end = earlier(end, o.pause)
			}
		}
		fds = append(fds, unix.PollFd{Fd: fd, Events: unix.POLLIN})
		if o.asked != 0 {
			end = earlier(end, o.until)
		}
		if o.serve && !o.listens {
			end = earlier(end, o.retry)
		}
	}
	return fds, end, d.over
}

// toggle listens, or is bound only: shutdown(2) on a listening socket ends that, and resets what waits.
func (d *doors) toggle(o *door) error {
	if !o.serve {
		o.listens = false
		return unix.Shutdown(o.fd, unix.SHUT_RDWR)
	}
	// From now on the port has connections, which would keep the socket from listening again.
	if err := unix.SetsockoptInt(o.fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return err
	}
	if err := unix.Listen(o.fd, doorBacklog); err != nil {
		return err
	}
	o.listens = true
	return nil
}

// knocked asks init for a connection inside for each door at which someone waits.
func (d *doors) knocked(fds []unix.PollFd) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, fd := range fds {
		o := d.list[i]
		if d.over || fd.Revents == 0 || !o.listens || o.asked != 0 {
			continue
		}
		// Ids are unique over all doors, and an answer that comes too late has none.
		o.ids++
		o.asked, o.until = o.ids*int32(len(d.list))+int32(i), time.Now().Add(answerLimit)
		if sendNow(d.sock, message{kind: msgDial, a: int32(i), b: o.asked}) != nil {
			o.asked = 0
			d.turnAway(i)
		}
	}
}

// letIn accepts the connection for which there is one inside now. Whoever waited may be gone.
func (d *doors) letIn(o *door) {
	inside := o.inside
	o.inside = -1
	fd, _, err := unix.Accept4(o.fd, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
	if err != nil {
		unix.Close(inside)
		if err == unix.EMFILE || err == unix.ENFILE {
			o.pause = time.Now().Add(doorPause) // whoever waits goes on waiting
		}
		return
	}
	a, err := tcpConn(fd)
	b, otherErr := tcpConn(inside)
	if err != nil || otherErr != nil {
		for _, c := range []*net.TCPConn{a, b} {
			if c != nil {
				c.Close()
			}
		}
		return
	}
	egress.FewUnsent(a)
	egress.FewUnsent(b)
	p := &passing{a, b}
	d.passed[p] = struct{}{}
	go func() {
		p.pass()
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.passed, p)
		if !d.over {
			d.poke()
		}
	}()
}

// tcpConn takes over fd.
func tcpConn(fd int) (*net.TCPConn, error) {
	f := os.NewFile(uintptr(fd), "connection")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	t, ok := c.(*net.TCPConn)
	if !ok {
		c.Close()
		return nil, errors.New("no TCP connection")
	}
	return t, nil
}

// passing is a connection from outside and its other half inside.
type passing struct{ outside, inside *net.TCPConn }

// pass copies both ways until both are at their end; what one side resets is reset on the other.
func (p *passing) pass() {
	defer p.outside.Close()
	defer p.inside.Close()
	var both sync.WaitGroup
	var ended atomic.Int32
	half := func(to, from *net.TCPConn) {
		if _, err := io.Copy(to, from); err != nil {
			p.abort()
			return
		}
		if to.CloseWrite() != nil {
			p.abort()
			return
		}
		if ended.Add(1) == 2 {
			p.outside.Close()
			p.inside.Close()
			return
		}
		if from == p.outside && egress.WaitReset(from) != nil {
			p.abort()
		}
	}
	both.Go(func() { half(p.inside, p.outside) })
	both.Go(func() { half(p.outside, p.inside) })
	both.Wait()
}

// abort ends both with a reset (SO_LINGER, socket(7)).
func (p *passing) abort() {
	for _, c := range []*net.TCPConn{p.outside, p.inside} {
		_ = c.SetLinger(0)
		c.Close()
	}
}

// close ends all of it. What the command has written to a connection by its end is still passed on, for a moment.
func (d *doors) close() {
	if d == nil {
		return
	}
	d.mu.Lock()
	if d.over {
		d.mu.Unlock()
		return
	}
	d.over = true
	left := len(d.passed)
	if d.wake >= 0 {
		d.poke()
	}
	d.mu.Unlock()
	if d.sock >= 0 {
		<-d.served
	}
	for end := time.Now().Add(passLimit); left > 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		d.mu.Lock()
		left = len(d.passed)
		d.mu.Unlock()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for p := range d.passed {
		p.abort()
	}
	for _, o := range d.list {
		closeAll([]int{o.fd, o.inside})
	}
	if d.wake >= 0 {
		unix.Close(d.wake)
	}
}

// passLimit is for close.
const passLimit = lastPatience / 5
