package seccomp

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
)

// Profile is a policy over system calls as plain data. Calls of a foreign architecture (i386, x32, arm) are outside of
// it: they always end the process.
type Profile struct {
	Name    string
	Default Action // for a call that no rule names, also one newer than this table
	Rules   []Rule
	Rests   []Rest
	// Notes are remarks for the user on what an import left out or could not check, one sentence each.
	Notes []string
}

// Default is the built-in policy: deny with ENOSYS what is not listed in the tables of this package.
func Default() Profile {
	p := Profile{Name: "default", Default: denyENOSYS}
	for _, g := range allowed {
		for _, name := range g.names {
			p.Rules = append(p.Rules, Rule{Name: name, Action: Allow, Why: g.why})
		}
	}
	for _, g := range denied {
		for _, name := range g.names {
			p.Rules = append(p.Rules, Rule{Name: name, Action: Errno(g.errno), Why: g.why})
		}
	}
	for _, f := range filtered {
		for _, v := range f.values {
			p.Rules = append(p.Rules, Rule{
				Name: f.name, Action: v.action.orAllow(), Why: v.why,
				Conds: []Cond{{Arg: f.arg, Op: MaskedEqual, Mask: low32, Value: uint64(v.value)}},
			})
		}
		for _, c := range f.cases {
			p.Rules = append(p.Rules, Rule{Name: f.name, Action: c.action.orAllow(), Why: c.why, Conds: c.conds})
		}
		p.Rests = append(p.Rests, Rest{Name: f.name, Action: f.rest})
	}
	return p
}

// Allow returns the profile with the named calls allowed, whatever their arguments. It fails on a name that is no
// system call of this machine.
func (p Profile) Allow(names ...string) (Profile, error) {
	return p.override("allow", Allow, names)
}

// Deny returns the profile with the named calls refused with EPERM, whatever their arguments. It fails on a name that
// is no system call of this machine.
func (p Profile) Deny(names ...string) (Profile, error) {
	return p.override("deny", denyEPERM, names)
}

func (p Profile) override(verb string, action Action, names []string) (Profile, error) {
	if len(names) == 0 {
		return p, nil
	}
	for _, name := range names {
		if _, err := Number(name, runtime.GOARCH); err != nil {
			return Profile{}, fmt.Errorf("%s system call: %w", verb, err)
		}
	}
	q := Profile{Name: p.Name + "+" + verb + " " + strings.Join(names, ","), Default: p.Default, Notes: p.Notes}
	for _, r := range p.Rules {
		if !slices.Contains(names, r.Name) {
			q.Rules = append(q.Rules, r)
		}
	}
	for _, r := range p.Rests {
		if !slices.Contains(names, r.Name) {
			q.Rests = append(q.Rests, r)
		}
	}
	for _, name := range names {
		q.Rules = append(q.Rules, Rule{Name: name, Action: action, Why: "asked for"})
	}
	return q, nil
}

// Verdict is what a profile says about one system call.
type Verdict struct {
	Name   string
	Number int
	// Action is what happens to the call, or to those that match none of Rules when there are any with conditions.
	Action Action
	// Rules are those that look at arguments; empty when Action always applies.
	Rules []Rule
	// Why is the reason the tables give, empty for a call they do not list.
	Why string
}

// Explain gives the verdict on the named call on this machine's architecture. It fails on an unknown name.
func (p Profile) Explain(name string) (Verdict, error) {
	nr, err := Number(name, runtime.GOARCH)
	if err != nil {
		return Verdict{}, err
	}
	v := Verdict{Name: name, Number: nr, Action: p.rest(name)}
	for _, r := range p.Rules {
		switch {
		case r.Name != name:
		case len(r.Conds) == 0:
			v.Action, v.Why = r.Action, r.Why
		default:
			v.Rules = append(v.Rules, r)
		}
	}
	return v, nil
}

// rest is the action for calls of name that match no rule.
func (p Profile) rest(name string) Action {
	for _, r := range p.Rests {
		if r.Name == name {
			return r.Action
		}
	}
	return p.Default
}

// checkRunnable refuses a profile under which gobox could not start the command: it loads the filter before execve(2).
func (p Profile) checkRunnable() error {
	v, err := p.Explain("execve")
	if err != nil {
		return err
	}
	for _, r := range v.Rules {
		if !r.Action.Permits() {
			return fmt.Errorf("profile %s denies some execve: the command itself is started by execve after the filter is in force", p.Name)
		}
	}
	if !v.Action.Permits() {
		return fmt.Errorf("profile %s denies execve: the command itself is started by execve after the filter is in force", p.Name)
	}
	return nil
}
