package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gobox/egress"
	"gobox/policy"
	"gobox/sandbox"
)

func netRule(to *[]string) *value {
	return &value{kind: "HOST[:PORTS]", parse: func(text string) error {
		if err := policy.ParseNetRule(text); err != nil {
			return valueError{err, "such as example.org, '*.example.org:443', example.org:80,8000-8010, 192.0.2.7:5432, 10.1.0.0/16:22, or @GROUP"}
		}
		*to = append(*to, text)
		return nil
	}}
}

func credential(to *[]egress.Credential) *value {
	return &value{kind: "HOST=SOURCE", parse: func(text string) error {
		c, err := egress.ParseCredential(text)
		if err != nil {
			return valueError{err, "--credential api.example.org=header:Authorization:env:API_AUTHORIZATION"}
		}
		*to = append(*to, c)
		return nil
	}}
}

func publish(to *[]policy.Publish) *value {
	return &value{kind: "[ADDR:]HOSTPORT:PORT", parse: func(text string) error {
		p, err := policy.ParsePublish(text)
		if err != nil {
			return valueError{err, "--publish 8080:80 leads from port 8080 of this host's loopback to port 80 inside"}
		}
		*to = append(*to, p)
		return nil
	}}
}

func netCount(text string) (int, error) {
	n, err := policy.ParseCount(text)
	return int(min(n, math.MaxInt32)), err
}

// namespacesOf are those that the command has of its own.
func namespacesOf(p *policy.Plan) []string {
	list := []string{"user", "mount", "pid", "net", "ipc", "uts", "cgroup"}
	if p.Network.Namespace.Host {
		list = slices.DeleteFunc(list, func(name string) bool { return name == "net" })
	}
	return list
}

// mostRefusals is how many refused hosts are told of on stderr; the record has the others.
const mostRefusals = 8

// tellNetwork says what the command was refused, each host once: the command itself saw a name that is not there, or a
// connection that was reset.
func tellNetwork(say messages, plan *policy.Plan, r *recorded, result sandbox.Result) {
	if plan.Network.Namespace.Host {
		say.hint("--net host: the command had the network of the host, all of it")
	}
	for _, note := range result.Notes {
		say.hint(note)
	}
	told, more := 0, 0
	for _, d := range result.Denials {
		if d.Layer != sandbox.LayerNetwork {
			continue
		}
		if told >= mostRefusals {
			more++
			continue
		}
		told++
		times := ""
		if d.Count > 1 {
			times = fmt.Sprintf(" (%d times)", d.Count)
		}
		text := egress.Decision{Target: d.Object, Reason: strings.TrimSpace(d.Rule), Fix: d.Fix}.String()
		say.hint(r.inspect.text(text) + times)
	}
	if more > 0 {
		say.hint(fmt.Sprintf("%d more hosts were refused: gobox runs show %s lists them", more, r.run.ID()))
	}
}
