package main

import (
	"errors"
	"os"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"gobox/policy"
	"gobox/record"
)

// combine puts the flags on top of the policy that they name, under the host's ceiling.
func (f *runFlags) combine(set *pflag.FlagSet, stdinTerminal bool, host policy.Host) (policy.Policy, error) {
	f.policy.Labels = f.record.labels
	c, err := policy.Combine(policy.Request{
		Named: f.named, Flags: f.policy, Changed: set.Changed, Terminal: stdinTerminal,
		NoWorkspaceFile: f.noWorkspaceFile, Ceiling: policy.CeilingFile, Host: host,
	})
	if err != nil {
		return policy.Policy{}, err
	}
	f.record.labels, f.sources = c.Policy.Labels, c.Sources
	return c.Policy, nil
}

// hold holds the record's flags to the policy, and refuses a run whose policy's gate is closed.
func (f *recordFlags) hold(p policy.Policy) error {
	limits := thresholds(p)
	f.durable = p.AuditRequired
	// A gate counts what is on record.
	f.required = p.AuditRequired || limits.Any()
	if !limits.Any() {
		return nil
	}
	dir := f.audit
	if dir == "" {
		var err error
		if dir, err = record.StateDir(os.Getenv); err != nil {
			return recordError(err)
		}
	}
	open, figures, err := record.CheckGate(dir, p.Name, limits, time.Now())
	if err != nil {
		return recordError(err)
	}
	if open {
		return nil
	}
	refusal := &policy.Error{Step: "gate", Object: p.Name, Err: errors.New("closed"), Hint: gateHint(p.Name, f.audit)}
	for _, g := range figures {
		if g.Exceeded {
			refusal.Err = errors.New("closed: " + g.Name + " is " + strconv.FormatFloat(g.Value, 'f', -1, 64) + ", more than " + strconv.FormatFloat(*g.Max, 'f', -1, 64))
			break
		}
	}
	return refusal
}

// thresholds is what the gate of a policy goes by: where a record is required, one quarantined environment closes it by default.
func thresholds(p policy.Policy) record.Thresholds {
	limits := record.Thresholds(p.Gate)
	if p.AuditRequired && limits.MaxQuarantined == nil {
		none := uint64(0)
		limits.MaxQuarantined = &none
	}
	return limits
}

func gateHint(name, audit string) string {
	at := ""
	if audit != "" {
		at = " --audit " + audit
	}
	return "gobox runs list" + at + " shows what happened under the policy " + name + "; gobox runs gate --clear" + at + " opens the gate"
}
