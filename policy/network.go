package policy

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"gobox/egress"
	"gobox/namespaces"
)

// NetMode is what network the command has, but for the hosts that are allowed one by one.
type NetMode string

const (
	NetNone NetMode = "none" // a loopback of its own
	NetHost NetMode = "host" // that of the host
)

// NetGroup is a name for rules, used as @NAME in place of a rule.
type NetGroup struct {
	Name  string
	Rules []string
}

// Publish is one --publish: a port of the host's that leads to one inside.
type Publish struct {
	Addr     string // of the host
	HostPort uint16
	Port     uint16 // inside
}

// String is the value of the flag that says so.
func (p Publish) String() string {
	return netip.AddrPortFrom(p.host(), p.HostPort).String() + ":" + strconv.Itoa(int(p.Port))
}

func (p Publish) host() netip.Addr {
	a, err := netip.ParseAddr(p.Addr)
	if err != nil {
		return netip.Addr{}
	}
	return a
}

// Listen is where the host listens for it.
func (p Publish) Listen() netip.AddrPort { return netip.AddrPortFrom(p.host(), p.HostPort) }

// Network is what the command reaches, decided. The zero value is a loopback of its own and nothing else.
type Network struct {
	Namespace namespaces.Network // what init makes of its network namespace
	// Policy is what the gateway lets through, within Limits; Credentials are what it adds to requests.
	Policy      egress.Policy
	Limits      egress.Limits
	Credentials []egress.Credential
	// Pool4 and Pool6 are networks whose addresses stand for names.
	Pool4, Pool6 string
	Publish      []Publish
}

// String is one phrase for a person.
func (n *Network) String() string {
	switch {
	case n.Namespace.Host:
		return "that of the host, all of it"
	case n.Namespace.Gateway:
		var rules []string
		for _, r := range n.Policy.Rules {
			rules = append(rules, r.String())
		}
		return "only " + strings.Join(rules, " ") + ", and a loopback of its own"
	}
	return "none but a loopback of its own"
}

// Allows answers whether the command may connect to the host, a name or an address. Port 0 asks for any port.
func (n *Network) Allows(host string, port uint16) egress.Decision {
	d := n.Policy.DecideName(host, port)
	switch {
	case n.Namespace.Host:
		d.Allowed, d.Rule, d.Reason, d.Fix = true, "--net host: whatever the host reaches", "", ""
	case d.Allowed:
		d.Rule = "--allow-net " + d.Rule
	}
	return d
}

// landlockScopesUNIX is the ABI from which on Landlock keeps abstract UNIX sockets from the command (landlock(7)).
const landlockScopesUNIX = 6

const (
	// maxPublish bounds what init and the supervisor have to watch.
	maxPublish = 32

	namePool4 = "198.18.0.0/15" // for benchmarks (RFC 2544), and so used by nobody
	// A unique local network (RFC 4193) of this program's.
	ownSubnet6 = "fd00:6f62:6f78::/64"
	namePool6  = "fd00:6f62:6f78:1::/64"
	proxyPort  = 3128
)

// ParsePublish reads [ADDR:]HOSTPORT:PORT. Without ADDR it is for the host's own loopback.
func ParsePublish(text string) (Publish, error) {
	form := errors.New("is not [ADDR:]HOSTPORT:PORT, such as 8080:80 or 0.0.0.0:8080:80")
	cut := strings.LastIndexByte(text, ':')
	if cut < 0 {
		return Publish{}, form
	}
	host, inside := text[:cut], text[cut+1:]
	if !strings.Contains(host, ":") {
		host = "127.0.0.1:" + host
	}
	at, err := netip.ParseAddrPort(host)
	if err != nil || at.Port() == 0 || at.Addr().Zone() != "" {
		return Publish{}, form
	}
	port, err := parsePort(inside)
	return Publish{Addr: at.Addr().String(), HostPort: at.Port(), Port: port}, err
}

func parsePort(text string) (uint16, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 || text[0] == '+' {
		return 0, errors.New("a port is a number from 1 to 65535")
	}
	return uint16(n), nil
}

// ParseNetRule checks one value of --allow-net: a rule, or @GROUP.
func ParseNetRule(text string) error {
	if name, ok := strings.CutPrefix(text, "@"); ok {
		return validGroup(name)
	}
	_, err := egress.ParseRule(text)
	return err
}

func validGroup(name string) error {
	if !validPolicyName(name) {
		return fmt.Errorf("%q is no name of a group: letters, digits, dots, dashes and underscores", name)
	}
	return nil
}

// expandRules puts the rules of groups in their place.
func expandRules(list []string, groups []NetGroup) ([]egress.Rule, error) {
	var rules []egress.Rule
	add := func(text, what string) error {
		r, err := egress.ParseRule(text)
		if err != nil {
			return &Error{Step: "network", Object: what, Err: err, Hint: "--allow-net example.org, *.example.org:443, 192.0.2.7:5432, 10.1.0.0/16:80,8000-8010"}
		}
		if !slices.ContainsFunc(rules, func(have egress.Rule) bool { return have.String() == r.String() }) {
			rules = append(rules, r)
		}
		return nil
	}
	for _, text := range list {
		name, isGroup := strings.CutPrefix(text, "@")
		if !isGroup {
			if err := add(text, "--allow-net "+text); err != nil {
				return nil, err
			}
			continue
		}
		i := slices.IndexFunc(groups, func(g NetGroup) bool { return g.Name == name })
		if i < 0 {
			hint := "a policy file defines it: groups: {" + name + ": [\"example.org:443\"]}"
			if len(groups) > 0 {
				hint = "the groups are " + strings.Join(groupNames(groups), ", ") + "; " + hint
			}
			return nil, &Error{Step: "network", Object: "--allow-net " + text, Err: errors.New("no such group"), Hint: hint}
		}
		for _, rule := range groups[i].Rules {
			if err := add(rule, "groups."+name+" "+rule); err != nil {
				return nil, err
			}
		}
	}
	return rules, nil
}

func groupNames(groups []NetGroup) []string {
	var names []string
	for _, g := range groups {
		names = append(names, "@"+g.Name)
	}
	return names
}

// netBeyond names a rule of p that bound's do not cover.
func netBeyond(p, bound *Policy) string {
	have, err := expandRules(p.AllowNet, slices.Concat(p.Groups, bound.Groups))
	if err != nil {
		return err.Error()
	}
	most, err := expandRules(bound.AllowNet, bound.Groups)
	if err != nil {
		return err.Error()
	}
	for _, r := range have {
		if !ruleCovered(r, most) {
			return r.String() + " is not in the list of what is allowed"
		}
	}
	return ""
}

// ruleCovered tells whether each host and port of r is one of the rules'.
func ruleCovered(r egress.Rule, rules []egress.Rule) bool {
	for _, ports := range r.Ports {
		for port := int(ports.First); port <= int(ports.Last); port++ {
			if !slices.ContainsFunc(rules, func(by egress.Rule) bool { return coversHost(by, r) && coversPort(by, uint16(port)) }) {
				return false
			}
		}
	}
	return true
}

func coversPort(by egress.Rule, port uint16) bool {
	return slices.ContainsFunc(by.Ports, func(p egress.PortRange) bool { return p.First <= port && port <= p.Last })
}

func coversHost(by, r egress.Rule) bool {
	if by.Prefix != "" || r.Prefix != "" {
		outer, err := netip.ParsePrefix(by.Prefix)
		inner, innerErr := netip.ParsePrefix(r.Prefix)
		return err == nil && innerErr == nil && outer.Bits() <= inner.Bits() && outer.Contains(inner.Addr())
	}
	if !by.Wildcard {
		return !r.Wildcard && by.Name == r.Name
	}
	return r.Wildcard && by.Name == r.Name || strings.HasSuffix(r.Name, "."+by.Name)
}

// decideNetwork makes the plan's network of what was asked for.
func (b *builder) decideNetwork() error {
	p := &b.policy
	n := &b.plan.Network
	b.plan.Tree.OwnNetwork = p.Net != NetHost
	refuse := func(object, cause, hint string) error {
		return &Error{Step: "network", Object: object, Err: errors.New(cause), Hint: hint}
	}
	if p.Net == NetHost {
		switch {
		case p.RefuseHostNet:
			return refuse("--net host", "the policy "+p.Name+" refuses the host's network", "--allow-net HOST:PORT allows single hosts; a policy of your own that extends "+p.Name+" can say network: {refuse_host: false}")
		case len(p.AllowNet) > 0:
			return refuse("--net host", "gives the command every host, and --allow-net or network.allow names some", "give one of the two")
		case len(p.Publish) > 0:
			return refuse("--publish "+p.Publish[0].String(), "with --net host the command's ports are the host's already", "leave it out")
		case len(p.Credentials) > 0:
			return refuse("--credential", "goes with --allow-net: with --net host nothing passes through gobox", "--allow-net "+p.Credentials[0].Host)
		case p.NetLimits != egress.Limits{}:
			return refuse("--net host", "knows no limits: nothing passes through gobox", "leave the --net- limits out, or name the hosts with --allow-net")
		}
		n.Namespace.Host = true
		b.plan.Notes = append(b.plan.Notes, "the command shares the host's network: it reaches all that the host reaches, what listens on the host's loopback included")
		if b.host.LandlockABI < landlockScopesUNIX {
			b.plan.Notes = append(b.plan.Notes, "this kernel's Landlock keeps nobody from UNIX sockets with abstract names, which belong to the network: those of the host can be connected to")
		}
		return nil
	}
	if p.Net != "" && p.Net != NetNone {
		return refuse("--net "+string(p.Net), "no such network", "--net none or host; single hosts with --allow-net HOST:PORT")
	}
	if err := b.addPublish(); err != nil {
		return err
	}
	var err error
	if n.Policy.Rules, err = expandRules(p.AllowNet, p.Groups); err != nil {
		return err
	}
	if len(n.Policy.Rules) == 0 {
		if len(p.Credentials) > 0 {
			return refuse("--credential", "no host may be reached", "--allow-net "+p.Credentials[0].Host)
		}
		return nil
	}
	if err := n.Policy.Check(); err != nil {
		return &Error{Step: "network", Object: "--allow-net", Err: err, Hint: "name fewer ports"}
	}
	for _, c := range p.Credentials {
		if d := n.Policy.DecideName(c.Host, c.Port); !d.Allowed {
			return refuse("--credential "+c.String(), d.Reason, cmp.Or(d.Fix, "--allow-net "+c.Host))
		}
	}
	for _, c := range p.Credentials {
		for _, kv := range p.Secrets {
			if kv.Source == "env:"+c.Env {
				return refuse("--credential "+c.String(), "the command gets the same value by --secret "+kv.Name, "leave one of the two out")
			}
		}
		if slices.Contains(p.EnvPass, c.Env) {
			return refuse("--credential "+c.String(), "the command gets the same value by --env-pass "+c.Env, "leave one of the two out")
		}
	}
	n.Limits, n.Credentials = p.NetLimits, p.Credentials
	n.Pool4, n.Pool6 = namePool4, namePool6
	n.Namespace.Gateway = true
	n.Namespace.Ports = n.Policy.Ports()
	for _, port := range watchedPorts() {
		if !slices.Contains(n.Namespace.Ports, port) {
			n.Namespace.Watched = append(n.Namespace.Watched, port)
		}
	}
	n.Namespace.Subnet6 = ownSubnet6
	if n.Namespace.Subnet4, err = freeSubnet(n.Policy.Prefixes()); err != nil {
		return err
	}
	n.Namespace.ProxyPort = proxyPort
	return nil
}

// watchedPorts are those on which a connection that no rule allows is accepted, so that it can be put on record, and
// then reset. On any other port the kernel refuses it and nobody hears of it.
func watchedPorts() []uint16 {
	return []uint16{21, 22, 25, 80, 443, 587, 993, 1433, 3306, 5432, 5671, 6379, 8080, 8443, 9418, 27017}
}

// freeSubnet finds an IPv4 network for the command's interface in which no rule names an address.
func freeSubnet(prefixes []netip.Prefix) (string, error) {
	for _, subnet := range []string{"10.0.2.0/24", "172.29.2.0/24", "192.168.127.0/24", "100.127.255.0/24", "192.0.2.0/24"} {
		own := netip.MustParsePrefix(subnet)
		if !slices.ContainsFunc(prefixes, own.Overlaps) {
			return subnet, nil
		}
	}
	return "", &Error{Step: "network", Object: "--allow-net", Err: errors.New("the rules name addresses in every network that could be the sandbox's own"), Hint: "name smaller networks"}
}

func (b *builder) addPublish() error {
	list := b.policy.Publish
	if len(list) > maxPublish {
		return &Error{Step: "network", Object: "--publish", Err: fmt.Errorf("more than %d ports", maxPublish)}
	}
	for i, p := range list {
		if !p.host().IsValid() || p.HostPort == 0 || p.Port == 0 {
			return &Error{
				Step: "network", Object: "--publish " + fmt.Sprintf("%s:%d:%d", p.Addr, p.HostPort, p.Port), Err: errors.New("it names no address of the host, or not both ports"),
				Hint: "ParsePublish gives one that is whole, for the host's own loopback where nothing else is said",
			}
		}
		for _, before := range list[:i] {
			if before.HostPort == p.HostPort && (before.Addr == p.Addr || before.host().IsUnspecified() || p.host().IsUnspecified()) {
				return &Error{Step: "network", Object: "--publish " + p.String(), Err: errors.New("the port is published twice"), Hint: "choose another HOSTPORT"}
			}
		}
	}
	b.plan.Network.Publish = list
	return nil
}

// proxyEnv are the variables by which programs that look for a proxy find the gateway's. All of them speak HTTP to it: many
// programs fail on a variable that wants a library for SOCKS.
func (b *builder) proxyEnv() []string {
	ns := &b.plan.Network.Namespace
	if !ns.Gateway {
		return nil
	}
	host, err := namespaces.Host(ns.Subnet4, namespaces.GatewayHost)
	if err != nil {
		return nil
	}
	url := "http://" + netip.AddrPortFrom(host.Addr(), ns.ProxyPort).String()
	const own = "localhost,127.0.0.1,::1," + Hostname
	return []string{
		"HTTP_PROXY=" + url, "HTTPS_PROXY=" + url, "ALL_PROXY=" + url, "NO_PROXY=" + own,
		"http_proxy=" + url, "https_proxy=" + url, "all_proxy=" + url, "no_proxy=" + own,
	}
}

// nameFiles are the files of /etc by which names become addresses.
func (b *builder) nameFiles() (hosts, resolv, sources string) {
	hosts = "127.0.0.1\tlocalhost " + Hostname + "\n::1\tlocalhost " + Hostname + " ip6-localhost ip6-loopback\n"
	resolv, sources = "# no network\n", "files"
	switch ns := &b.plan.Network.Namespace; {
	case ns.Gateway:
		if name, err := namespaces.Host(ns.Subnet4, namespaces.NameHost); err == nil {
			resolv, sources = "nameserver "+name.Addr().String()+"\n", "files dns"
		}
	case ns.Host:
		sources = "files dns"
		resolv = b.hostText("/etc/resolv.conf", "# the host has none\n")
		hosts = b.hostText("/etc/hosts", hosts)
	}
	return hosts, resolv, sources
}

// hostText is a text file of the host's, which may be a link to wherever, as /etc/resolv.conf often is.
func (b *builder) hostText(path, without string) string {
	found, err := resolvePath(b.host.FS, "", path)
	if err != nil || !found.Info.isRegular() || !found.Info.worldReadable() {
		return without
	}
	text, err := b.host.FS.ReadFile(found.Path, maxRead)
	if err != nil {
		return without
	}
	return string(text)
}
