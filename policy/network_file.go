package policy

import (
	"errors"
	"math"
	"strconv"
	"time"

	"gobox/egress"
)

func netModes() []string { return []string{string(NetNone), string(NetHost)} }

// readGroups reads lists of rules by name. A group names no other group.
func readGroups(p *Policy, n *node) error {
	if n.kind != mapNode {
		return at(n.line, "is %s where a mapping of names to lists belongs", n.kind)
	}
	for _, e := range n.keys {
		if err := validGroup(e.name); err != nil {
			return at(e.line, "%w", err)
		}
		g := NetGroup{Name: e.name}
		read := textsOf(func(_ *Policy, text string) error {
			_, err := egress.ParseRule(text)
			g.Rules = append(g.Rules, text)
			return err
		})
		if err := read(p, e.value); err != nil {
			return err
		}
		p.Groups = append(p.Groups, g)
	}
	return nil
}

func parseInt(text string) (int, error) {
	n, err := ParseCount(text)
	if err == nil && n > math.MaxInt32 {
		err = errTooLarge
	}
	return int(n), err
}

// ParseRate reads a number of events per second: a decimal number, 0 for no limit.
func ParseRate(text string) (float64, error) {
	n, err := ParseCPUs(text)
	if err != nil {
		return 0, errors.New("is no number of connections per second, from 0.01 to 65536, such as 0.5 or 20; 0 for none")
	}
	return n, nil
}

// checkNetworkCeiling: the host's network has none of the ceiling's other bounds, and so must be in it by name. A
// ceiling whose mode is none has no hosts but those that it lists.
func (c *combination) checkNetworkCeiling(ceiling *Document) error {
	p := &c.out.Policy
	const hint = "ask for less, with --net or --allow-net or in the policy: this host's ceiling, which no flag or policy exceeds"
	if p.Net == NetHost && ceiling.policy.Net != NetHost {
		return ceiling.refuse("network.mode", hint, "network.mode: the host's network is not in the ceiling")
	}
	if ceiling.States("network.mode") && ceiling.policy.Net != NetHost && !ceiling.States("network.allow") && len(p.AllowNet) > 0 {
		return ceiling.refuse("network.mode", hint, "network.mode: %s is more than none", p.AllowNet[0])
	}
	return nil
}

// writeText writes the plan's network for a person to read.
func (n *Network) writeText(line func(name, format string, args ...any)) {
	line("network", "%s", n.String())
	for _, limit := range n.LimitTexts() {
		line("  limit", "%s", limit)
	}
	for _, c := range n.Credentials {
		line("  header", "%s", c.String())
	}
	for _, p := range n.Publish {
		line("publish", "%v to port %d inside", p.Listen(), p.Port)
	}
}

// LimitTexts are the limits, a phrase each.
func (n *Network) LimitTexts() []string {
	l := n.Limits
	var list []string
	if l.Connections > 0 {
		list = append(list, strconv.Itoa(l.Connections)+" connections at once")
	}
	if l.Rate > 0 {
		list = append(list, strconv.FormatFloat(l.Rate, 'f', -1, 64)+" new connections per second")
	}
	if l.BytesIn > 0 {
		list = append(list, Size(l.BytesIn)+" in")
	}
	if l.BytesOut > 0 {
		list = append(list, Size(l.BytesOut)+" out")
	}
	for _, d := range []struct {
		what string
		time time.Duration
	}{{"idle", l.Idle}, {"in all", l.Total}} {
		if d.time > 0 {
			list = append(list, "a connection "+d.time.String()+" "+d.what)
		}
	}
	return list
}

// Mode is the word of plans and records for it.
func (n *Network) Mode() string {
	switch {
	case n.Namespace.Host:
		return "host"
	case n.Namespace.Gateway:
		return "allow"
	}
	return "none"
}

func (n *Network) writeJSON(j *jsonWriter) {
	rules := []string{}
	for _, r := range n.Policy.Rules {
		rules = append(rules, r.String())
	}
	j.object(func() {
		j.text("mode", n.Mode())
		j.texts("allow", rules)
		j.field("limits", func() {
			j.object(func() {
				l := n.Limits
				j.count("connections", uint64(l.Connections))
				j.field("rate", func() { j.out.WriteString(strconv.FormatFloat(l.Rate, 'f', -1, 64)) })
				j.count("bytes_in", l.BytesIn)
				j.count("bytes_out", l.BytesOut)
				j.count("idle_ms", uint64(l.Idle.Milliseconds()))
				j.count("total_ms", uint64(l.Total.Milliseconds()))
			})
		})
		if len(n.Credentials) > 0 {
			j.field("credentials", func() { j.list(len(n.Credentials), func(i int) { j.quote(n.Credentials[i].String()) }) })
		}
		j.field("publish", func() { j.list(len(n.Publish), func(i int) { j.quote(n.Publish[i].String()) }) })
	})
}
