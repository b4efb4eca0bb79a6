package egress

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"gobox/egress/hostname"
	"gobox/egress/httphead"
)

// UpstreamProxies are the caller's own proxies, as the variables of these names give them.
type UpstreamProxies struct {
	HTTPS string // HTTPS_PROXY: for TLS ports
	HTTP  string // HTTP_PROXY: for port 80
	All   string // ALL_PROXY: for whatever the other two do not cover
	No    string // NO_PROXY: hosts that are dialled directly
}

// ProxiesFromEnv reads the caller's environment; the lower case name goes before the upper case one, as in curl(1).
func ProxiesFromEnv(env []string) UpstreamProxies {
	get := func(name string) string { return lookupEnv(env, name) }
	return UpstreamProxies{HTTPS: get("HTTPS_PROXY"), HTTP: get("HTTP_PROXY"), All: get("ALL_PROXY"), No: get("NO_PROXY")}
}

func lookupEnv(env []string, name string) string {
	value := ""
	for _, n := range []string{name, strings.ToLower(name)} {
		for _, e := range env {
			if k, v, ok := strings.Cut(e, "="); ok && k == n && v != "" {
				value = v
			}
		}
	}
	return value
}

// proxies is UpstreamProxies, read.
type proxies struct {
	https, http, all *upstream
	no               []string
	gateway          *Gateway
}

func newProxies(u UpstreamProxies) (*proxies, error) {
	p := &proxies{}
	for _, v := range []struct {
		name, value string
		to          **upstream
	}{{"HTTPS_PROXY", u.HTTPS, &p.https}, {"HTTP_PROXY", u.HTTP, &p.http}, {"ALL_PROXY", u.All, &p.all}} {
		if v.value == "" {
			continue
		}
		up, err := parseUpstream(v.value)
		if err != nil {
			return nil, fmt.Errorf("%s of the caller: %w", v.name, err)
		}
		up.proxies = p
		*v.to = up
	}
	for item := range strings.FieldsFuncSeq(u.No, func(r rune) bool { return r == ',' || r == ' ' }) {
		p.no = append(p.no, strings.ToLower(item))
	}
	return p, nil
}

// Schemes of proxies that there are.
const (
	schemeHTTP  = "http"
	schemeHTTPS = "https" // TLS as far as the proxy
	schemeSOCKS = "socks5"
)

// upstream is one proxy of the caller's.
type upstream struct {
	scheme         string
	host           string // name or address, without brackets
	port           uint16
	user, password string
	proxies        *proxies
}

// parseUpstream reads the URL of a proxy. No error repeats it, since it may hold a password.
func parseUpstream(s string) (*upstream, error) {
	if !strings.Contains(s, "://") {
		s = "http://" + s
	}
	u, err := url.Parse(s)
	if err != nil {
		return nil, errors.New("it is no URL of a proxy")
	}
	up := &upstream{host: u.Hostname(), user: u.User.Username()}
	up.password, _ = u.User.Password()
	def := uint16(0)
	switch u.Scheme {
	case "http":
		up.scheme, def = schemeHTTP, 80
	case "https":
		up.scheme, def = schemeHTTPS, 443
	case "socks5", "socks5h":
		up.scheme, def = schemeSOCKS, 1080
	default:
		return nil, fmt.Errorf("a proxy by %s:// is not supported; http://, https:// and socks5:// are", u.Scheme)
	}
	up.port = def
	if u.Port() != "" {
		if up.port, err = hostname.ParsePort(u.Port()); err != nil {
			return nil, err
		}
	}
	if up.host == "" {
		return nil, errors.New("it names no host")
	}
	if len(up.user) > 255 || len(up.password) > 255 {
		return nil, errors.New("its user name or password is too long")
	}
	return up, nil
}

// String names the proxy without its password.
func (u *upstream) String() string {
	return u.scheme + "://" + net.JoinHostPort(u.host, fmt.Sprint(u.port))
}

// forTarget gives the proxy for a host, or nil if it is dialled directly.
func (p *proxies) forTarget(h hostname.Host, port uint16) *upstream {
	up := p.all
	switch {
	case tlsPort(port) && p.https != nil:
		up = p.https
	case port == 80 && p.http != nil:
		up = p.http
	}
	if up == nil || p.direct(h, port) {
		return nil
	}
	return up
}

// direct is NO_PROXY as curl(1) and Go read it: *, a name with its sub-domains, a name with a leading dot, an address, a
// prefix, each with a port or without.
func (p *proxies) direct(h hostname.Host, port uint16) bool {
	for _, item := range p.no {
		if item == "*" {
			return true
		}
		if pre, err := netip.ParsePrefix(item); err == nil {
			if h.Name == "" && pre.Contains(h.Addr) {
				return true
			}
			continue
		}
		if a, err := netip.ParseAddr(strings.Trim(item, "[]")); err == nil {
			if h.Name == "" && a.Unmap() == h.Addr {
				return true
			}
			continue
		}
		if host, itemPort, err := net.SplitHostPort(item); err == nil {
			if itemPort != fmt.Sprint(port) {
				continue
			}
			item = host
		}
		if a, err := netip.ParseAddr(item); err == nil {
			if h.Name == "" && a.Unmap() == h.Addr {
				return true
			}
			continue
		}
		item = strings.TrimPrefix(item, "*")
		name := strings.Trim(item, ".")
		if h.Name == "" || name == "" {
			continue
		}
		if strings.HasSuffix(h.Name, "."+name) || h.Name == name && !strings.HasPrefix(item, ".") {
			return true
		}
	}
	return false
}

// dial asks the proxy for a connection to a host, which it resolves itself. The proxy's own address is the caller's choice
// and may be a private one.
func (u *upstream) dial(ctx context.Context, h hostname.Host, port uint16) (stream, error) {
	g := u.proxies.gateway
	tcp, err := g.dialContext(ctx, &net.Dialer{}, net.JoinHostPort(u.host, fmt.Sprint(u.port)))
	if err != nil {
		return nil, fmt.Errorf("the caller's proxy: %w", dialError(u.String(), err))
	}
	var conn stream = tcp
	if u.scheme == schemeHTTPS {
		if conn, err = g.tls(ctx, tcp, u.host); err != nil {
			return nil, fmt.Errorf("the caller's proxy: %w", err)
		}
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if u.scheme != schemeSOCKS {
		err = u.connect(conn, h, port)
	} else {
		err = u.socks(conn, h, port)
	}
	if err != nil {
		conn.Close()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, fmt.Errorf("the caller's proxy %s: %w", u, err)
	}
	return conn, nil
}

func (u *upstream) connect(conn net.Conn, h hostname.Host, port uint16) error {
	target := h.HostPort(port)
	head := httphead.Head{Method: "CONNECT", Target: target}
	head.Add("Host", target)
	if u.user != "" {
		head.Add("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(u.user+":"+u.password)))
	}
	if _, err := conn.Write(head.Append(nil)); err != nil {
		return err
	}
	// Byte by byte, so that nothing of the tunnel is read. A proxy's answer is short.
	var buf []byte
	for len(buf) < 16<<10 {
		var b [1]byte
		if _, err := io.ReadFull(conn, b[:]); err != nil {
			return err
		}
		buf = append(buf, b[0])
		if b[0] != '\n' {
			continue
		}
		switch answer, _, err := httphead.Response(buf); {
		case err == httphead.ErrMore:
		case err != nil:
			return err
		case answer.Status/100 != 2:
			return fmt.Errorf("it answers %d to CONNECT", answer.Status)
		default:
			return nil
		}
	}
	return errors.New("its answer is too long")
}

// socks is RFC 1928 with the user name and password of RFC 1929.
func (u *upstream) socks(conn net.Conn, h hostname.Host, port uint16) error {
	method := byte(socksNoAuth)
	if u.user != "" {
		method = 2
	}
	if _, err := conn.Write([]byte{socksVersion, 1, method}); err != nil {
		return err
	}
	var b [4]byte
	if _, err := io.ReadFull(conn, b[:2]); err != nil {
		return err
	}
	if b[0] != socksVersion || b[1] != method {
		return errors.New("it wants another way to log in")
	}
	if method == 2 {
		msg := append([]byte{1, byte(len(u.user))}, u.user...)
		msg = append(append(msg, byte(len(u.password))), u.password...)
		if _, err := conn.Write(msg); err != nil {
			return err
		}
		if _, err := io.ReadFull(conn, b[:2]); err != nil {
			return err
		}
		if b[1] != 0 {
			return errors.New("it refuses the user name and password")
		}
	}
	req := []byte{socksVersion, socksConnect, 0}
	switch {
	case h.Name != "":
		req = append(append(req, socksName, byte(len(h.Name))), h.Name...)
	case h.Addr.Is4():
		req = append(append(req, socksIPv4), h.Addr.AsSlice()...)
	default:
		req = append(append(req, socksIPv6), h.Addr.AsSlice()...)
	}
	if _, err := conn.Write(append(req, byte(port>>8), byte(port))); err != nil {
		return err
	}
	if _, err := io.ReadFull(conn, b[:]); err != nil {
		return err
	}
	if b[1] != socksOK {
		return fmt.Errorf("it answers %d to a SOCKS request", b[1])
	}
	rest := 0
	switch b[3] {
	case socksIPv4:
		rest = 4
	case socksIPv6:
		rest = 16
	case socksName:
		if _, err := io.ReadFull(conn, b[:1]); err != nil {
			return err
		}
		rest = int(b[0])
	default:
		return errors.New("a malformed SOCKS answer")
	}
	_, err := io.ReadFull(conn, make([]byte, rest+2))
	return err
}
