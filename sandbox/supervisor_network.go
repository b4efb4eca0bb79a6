package sandbox

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"time"

	"gobox/egress"
	"gobox/policy"
	"gobox/record"

	"golang.org/x/sys/unix"
)

// LayerNetwork is the Layer of a [Denial] of a connection or a name.
const LayerNetwork policy.Layer = "network"

// Upstream is what the gateway of a run takes from its caller: the proxies of the host, and the values of the
// plan's credentials in their order, which are in no plan.
type Upstream struct {
	Proxies egress.UpstreamProxies
	Secrets []string
}

// network is the supervisor's end of the command's network: the gateway, and what it has to tell.
type network struct {
	gateway *egress.Gateway
	wake    int // eventfd: there are events
	summary egress.Summary
	closed  bool

	list  []*refused
	hits  map[string]bool // limits that were reached
	notes []string        // on what this kernel lacks, and limits without a name

	mu     sync.Mutex
	events []egress.Event
	deaf   bool // nobody observes any more
}

// refused is a Denial in the making: only at the end it is certain when the command started.
type refused struct {
	Denial
	at time.Time // the first one
}

// maxNetworkEvents bounds what waits to be told, when the supervisor has been busy or stopped. The rest is in the totals; of limits
// nothing is lost, since each is told once.
const maxNetworkEvents = 4096

// networkFiles is how many descriptors the gateway itself takes, beside a few for each connection.
const networkFiles = 64

// checkNetwork refuses a network for which there is no room.
func checkNetwork(n *policy.Network) error {
	if !n.Namespace.Gateway {
		return nil
	}
	var l unix.Rlimit
	need := uint64(len(n.Namespace.Ports) + len(n.Namespace.Watched) + networkFiles)
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) == nil && l.Cur < need {
		return &policy.Error{
			Step: "network", Object: "descriptors", Err: fmt.Errorf("the limit of open files is %d, and this network needs %d or more", l.Cur, need),
			Hint: "ulimit -n " + strconv.FormatUint(max(need, 1024), 10) + " raises it, or name fewer ports with --allow-net",
		}
	}
	return nil
}

// messageRoom is the room for the descriptors of the largest message that is to come.
func (r *run) messageRoom() []byte {
	if r.plan.Network.Namespace.Gateway && r.network == nil {
		return make([]byte, unix.CmsgSpace(4*maxFiles))
	}
	return make([]byte, unix.CmsgSpace(4*2)) // msgUpper with a layer on disk
}

// openNetwork starts the gateway on what init has handed over, in the order of namespaces.Sockets.List. The files are
// the gateway's then.
func (r *run) openNetwork(m message, files []int) error {
	n := &r.plan.Network
	tcp := int(m.a)
	if tcp < 0 || len(files) != tcp+3 {
		closeAll(files)
		return errWire
	}
	// Named for messages of package os only.
	file := func(fds ...int) (list []*os.File) {
		for _, fd := range fds {
			list = append(list, os.NewFile(uintptr(fd), "gateway"))
		}
		return list
	}
	w := &network{hits: map[string]bool{}}
	var err error
	if w.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		closeAll(files)
		return err
	}
	cfg := egress.Config{
		Policy: n.Policy, Limits: n.Limits, Credentials: n.Credentials, Direct: n.Policy.Prefixes(),
		Proxy: r.spec.Upstream.Proxies, Secrets: r.spec.Upstream.Secrets, Observe: w.observe,
	}
	if cfg.Pool4, err = netip.ParsePrefix(n.Pool4); err == nil && m.b&networkNoIPv6 == 0 {
		cfg.Pool6, err = netip.ParsePrefix(n.Pool6)
	}
	if err != nil {
		closeAll(files)
		unix.Close(w.wake)
		return err
	}
	w.gateway, err = egress.Start(cfg, egress.Sockets{
		TCP: file(files[:tcp]...), DNSPackets: file(files[tcp]), DNSStream: file(files[tcp+1]), Proxy: file(files[tcp+2]),
	})
	if err != nil {
		unix.Close(w.wake)
		return err
	}
	if m.b&networkShared != 0 {
		w.notes = append(w.notes, "this kernel has no veth: the gateway is on the command's own loopback, and the command cannot serve on the ports that --allow-net names")
	}
	r.network = w
	return nil
}

// observe takes in one event of the gateway's, from any of its goroutines.
func (w *network) observe(e egress.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.deaf || len(w.events) >= maxNetworkEvents && e.Kind != egress.KindLimit {
		return
	}
	w.events = append(w.events, e)
	if len(w.events) == 1 {
		_, _ = unix.Write(w.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
}

// poll is what to wait for.
func (w *network) poll() unix.PollFd {
	if w == nil || w.closed {
		return unix.PollFd{Fd: -1}
	}
	return unix.PollFd{Fd: int32(w.wake), Events: unix.POLLIN}
}

// tell passes on what the gateway has told, in its order.
func (w *network) tell(spec *Spec) {
	var buf [8]byte
	_, _ = unix.Read(w.wake, buf[:])
	w.mu.Lock()
	events := w.events
	w.events = nil
	w.mu.Unlock()
	for _, e := range events {
		w.take(spec, e)
	}
}

func (w *network) take(spec *Spec, e egress.Event) {
	if e.Kind == egress.KindLimit {
		if e.Name == "" {
			// One that nobody has set is in no list of limits, and the command saw a reset and no reason.
			w.notes = append(w.notes, "connections or names of the command's failed: "+e.Reason)
		}
		w.hits[e.Name] = true
		spec.observe(record.Event{Kind: record.LimitHit, Layer: string(LayerNetwork), What: e.Name, Detail: e.Reason})
		return
	}
	out := record.Event{
		Kind: record.Connected, Layer: string(LayerNetwork), What: "connect", Object: target(e), Detail: e.Reason, Via: e.Via, Verdict: e.Verdict,
		Rule: e.Rule, Fix: e.Fix, BytesIn: e.BytesIn, BytesOut: e.BytesOut, DurationMS: float64(e.Duration.Microseconds()) / 1000,
	}
	if e.Kind == egress.KindDNS {
		out.What = "resolve"
	}
	if e.Addr.IsValid() {
		out.Address = e.Addr.String()
	}
	spec.observe(out)
	if e.Verdict == egress.Refused {
		w.deny(out, e.Time)
	}
}

// target is what the command asked for: HOST:PORT, or a name alone.
func target(e egress.Event) string {
	if e.Port == 0 {
		return e.Name
	}
	if a, err := netip.ParseAddr(e.Name); err == nil {
		return netip.AddrPortFrom(a, e.Port).String()
	}
	return e.Name + ":" + strconv.Itoa(int(e.Port))
}

func (w *network) deny(e record.Event, at time.Time) {
	for _, known := range w.list {
		if known.What == e.What && known.Object == e.Object {
			known.Count++
			return
		}
	}
	if len(w.list) < maxDenials {
		w.list = append(w.list, &refused{Denial{Layer: LayerNetwork, What: e.What, Object: e.Object, Count: 1, Rule: e.Detail, Fix: e.Fix}, at})
	}
}

// close ends every connection and takes in the last events.
func (w *network) close(spec *Spec) {
	if w == nil || w.closed {
		return
	}
	w.summary = w.gateway.Close()
	w.tell(spec)
	w.closed = true
	// A late one must not write to what has the number of the eventfd by then.
	w.mu.Lock()
	w.deaf = true
	w.mu.Unlock()
	unix.Close(w.wake)
}

// report gives what was counted of a command that was started then.
func (w *network) report(res *Result, started time.Time) {
	if w == nil {
		return
	}
	res.Notes = append(res.Notes, w.notes...)
	for _, d := range w.list {
		d.First = max(d.at.Sub(started), 0)
		res.Denials = append(res.Denials, d.Denial)
	}
	res.DeniedConnections, res.Network = w.summary.Refused, w.summary
	for name := range w.hits {
		res.hit(name, true)
	}
}

// hit says whether a limit of the network's was reached.
func (w *network) hit(name string) bool { return w != nil && w.hits[name] }

// netLimits lists the limits of the plan's network.
func netLimits(l egress.Limits, add func(name string, value uint64, unit, by string)) {
	const by = "supervisor"
	add(egress.LimitConnections, uint64(max(l.Connections, 0)), "connections", by)
	add(egress.LimitRate, uint64(math.Ceil(l.Rate*1000)), "per_1000s", by)
	add(egress.LimitBytesIn, l.BytesIn, "bytes", by)
	add(egress.LimitBytesOut, l.BytesOut, "bytes", by)
	add(egress.LimitIdle, uint64(l.Idle.Milliseconds()), "ms", by)
	add(egress.LimitTotal, uint64(l.Total.Milliseconds()), "ms", by)
}

// errNetworks says that init was started for another network than the plan's.
var errNetworks = errors.New("init was started for another kind of network than the plan's")
