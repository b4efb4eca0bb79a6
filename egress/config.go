package egress

import (
	"context"
	"net"
	"net/netip"
	"os"
	"time"
)

// Limits bound what one run does. Zero is no limit.
type Limits struct {
	Connections int           // at once
	Rate        float64       // new connections per second, with a burst of one second's worth and at least 10
	BytesIn     uint64        // to the command, all connections together
	BytesOut    uint64        // from the command, all connections together
	Idle        time.Duration // a connection that carries nothing either way for so long is ended
	Total       time.Duration // life of one connection
}

// Config is all a Gateway needs to know.
type Config struct {
	Policy Policy
	Limits Limits

	// Pool4 and Pool6 are what the command's network routes to the gateway for names; allowed names get their synthetic
	// addresses out of them. An invalid prefix means that this family is not there.
	Pool4, Pool6 netip.Prefix

	// Direct is what is routed to the gateway for rules about addresses; a connection to one of them means that address.
	Direct []netip.Prefix

	Resolver    Resolver        // nil: HostResolver
	Proxy       UpstreamProxies // the caller's own proxies; the zero value is none
	Credentials []Credential
	Secrets     []string // the value of each credential, in the same order; in no event, error or message

	// TLS makes a connection to a server that has proved to be name out of another connection, which it owns, also when it
	// fails. The result has a method CloseWrite. nil: tlsclient.Client.
	TLS func(ctx context.Context, conn net.Conn, name string) (net.Conn, error)

	// Own gives the addresses of the host itself; nil: those that its kernel takes for its own.
	Own func() ([]netip.Prefix, error)

	// Observe gets each event. It is called from many goroutines and must not block. Floods are counted in the Summary
	// and not observed one by one. May be nil.
	Observe func(Event)

	firstWord time.Duration // 0: firstWordTimeout; tests have no time for that
}

// Resolver finds the addresses of a canonical name.
type Resolver interface {
	Resolve(ctx context.Context, name string) ([]netip.Addr, error)
}

// Sockets are listening sockets in the command's network. The gateway owns them from Start on, which closes them also
// when it fails.
type Sockets struct {
	TCP        []*os.File // listeners on the allowed ports, any address
	DNSPackets []*os.File // UDP, bound to the address of the DNS server
	DNSStream  []*os.File // TCP listeners of the same
	Proxy      []*os.File // TCP listeners for CONNECT, SOCKS5 and http:// requests
}

// Kinds of event.
const (
	KindConnection = "connection" // one at the end of each connection, and of each that was refused
	KindDNS        = "dns"        // a name that was refused; the same name is reported once
	KindLimit      = "limit"      // a limit that was reached; each limit is reported once
)

// Names of the limits in events of KindLimit; a limit that nobody has set has none.
const (
	LimitConnections = "net_connections"
	LimitRate        = "net_rate"
	LimitBytesIn     = "net_bytes_in"
	LimitBytesOut    = "net_bytes_out"
	LimitIdle        = "net_idle"
	LimitTotal       = "net_total"
)

// Verdicts of a connection.
const (
	Allowed = "allowed"
	Refused = "refused" // by policy
	Failed  = "failed"  // allowed, and the network or the host did not do it
	Limited = "limit"   // allowed, and ended by a limit
)

// Event is one thing that happened, with no payload.
type Event struct {
	Time     time.Time // when it began
	Kind     string
	Name     string         // canonical name, or the address as text if that was dialled; of KindLimit, the limit
	Port     uint16         // 0 for DNS
	Addr     netip.AddrPort // what was dialled on the host's side; invalid if nothing was, or a proxy was
	Via      string         // "transparent", "connect", "socks5", "http"; empty for DNS
	BytesIn  uint64         // to the command
	BytesOut uint64         // from the command
	Verdict  string
	Rule     string // canonical form of the rule that allowed it
	Reason   string // why it was refused, failed or ended; for an allowed one, which addresses of the name were skipped
	Fix      string // the flag that would allow it
	Duration time.Duration
}

// Summary is what a Gateway did in all.
type Summary struct {
	Connections uint64 // that were allowed and made
	Refused     uint64 // connections and names refused by policy
	Failed      uint64
	Limited     uint64 // connections refused or ended by a limit
	BytesIn     uint64
	BytesOut    uint64
	Unreported  uint64 // events that were counted and not observed, since there were too many
}
