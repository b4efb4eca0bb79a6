package main

import (
	"errors"
	"io"
	"net/netip"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"gobox/egress/hostname"
	"gobox/policy"
	"gobox/seccomp"
)

// explanation is what `gobox explain` was asked.
type explanation struct {
	flags   runFlags
	path    string
	access  string
	syscall string
	host    string
}

func explainCommand(status *int) *cobra.Command {
	x := explanation{flags: runFlags{policy: policy.Default()}, access: policy.AccessRead}
	cmd := &cobra.Command{
		Use:   "explain [flags of run] [-- COMMAND ARG...]",
		Short: "Show what a run may do, without running it",
		Long: `Show what a run with the same flags may do, without running it: all of it, or the answer to one question. The
answer names the rule and the flag that would change it; the exit status is 0 for allowed and 1 for denied.

What the command needs of the host, such as its interpreter's folder, is in the answer when the command is given.`,
		Example: `  gobox explain --policy agent -- python script.py
  gobox explain --path ~/.ssh/id_ed25519
  gobox explain --ro ~/data --path ~/data/out.csv --access write
  gobox explain --syscall ptrace
  gobox explain --host example.org:443`,
		DisableFlagsInUseLine: true,
	}
	f := cmd.Flags()
	f.SetInterspersed(false)
	f.VarP(word(&x.path, "P", ""), "path", "", "may the command reach this path")
	f.VarP(&value{kind: "KIND", text: policy.AccessRead, parse: func(text string) error {
		switch text {
		case policy.AccessRead, policy.AccessWrite, policy.AccessExecute:
			x.access = text
			return nil
		}
		return errors.New("is none of read, write, execute")
	}}, "access", "", "with --path: read, write or execute")
	f.VarP(word(&x.syscall, "NAME", ""), "syscall", "", "may it make this system call")
	f.VarP(word(&x.host, "H[:PORT]", ""), "host", "", "may it connect to this host")
	x.flags.define(f)
	f.Lookup("json").Usage = "print JSON"
	_ = f.MarkHidden("dry-run")
	cmd.SetUsageFunc(usageByGroup(flagGroup{"Question", "path"}))
	cmd.RunE = func(cmd *cobra.Command, argv []string) error {
		*status = x.run(cmd, argv)
		return nil
	}
	return cmd
}

func (x *explanation) run(cmd *cobra.Command, argv []string) int {
	say := messages{w: cmd.ErrOrStderr(), quiet: x.flags.quiet}
	asked := 0
	for _, q := range []string{x.path, x.syscall, x.host} {
		if q != "" {
			asked++
		}
	}
	switch {
	case asked > 1:
		return say.fail(&policy.Error{Step: "usage", Err: errors.New("more than one question"), Hint: "give one of --path, --syscall and --host"})
	case x.path == "" && cmd.Flags().Changed("access"):
		return say.fail(&policy.Error{Step: "usage", Object: "--access", Err: errors.New("goes with --path only")})
	}
	if len(argv) == 0 {
		argv = []string{"true"}
	}
	host := policy.CurrentHost()
	x.flags.dryRun = true
	p, err := x.flags.finish(cmd.Flags(), argv, term.IsTerminal(0), host)
	if err != nil {
		return say.fail(err)
	}
	p.TTY = x.flags.tty || term.IsTerminal(0) || term.IsTerminal(1) || term.IsTerminal(2)
	plan, err := policy.Resolve(p, host)
	if err != nil {
		return say.fail(err)
	}
	out := cmd.OutOrStdout()
	var a answer
	switch {
	case x.path != "":
		a, err = x.explainPath(plan, host)
	case x.syscall != "":
		a, err = explainCall(x.syscall, p, plan, host)
	case x.host != "":
		a, err = explainHost(x.host, plan)
	default:
		if err := explainAll(out, p, x.flags.sources, plan, x.flags.json); err != nil {
			return say.fail(&policy.Error{Step: "write", Err: err})
		}
		return 0
	}
	if err != nil {
		return say.fail(err)
	}
	if err := a.write(out, x.flags.json); err != nil {
		return say.fail(&policy.Error{Step: "write", Err: err})
	}
	if !a.Allowed {
		return 1
	}
	return 0
}

// answer is that to one question.
type answer struct {
	Question string         `json:"question"` // path, syscall, host
	Object   string         `json:"object"`
	Allowed  bool           `json:"allowed"`
	Rule     string         `json:"rule"`
	Fix      string         `json:"fix,omitempty"` // the flag that would change it, or why there is none
	Path     *policy.Access `json:"path,omitempty"`
	Cases    []callCase     `json:"cases,omitempty"` // of a system call whose arguments are looked at

	details []string
}

type callCase struct {
	When   string `json:"when"`
	Action string `json:"action"`
	Why    string `json:"why"`
}

func (a answer) write(out io.Writer, asJSON bool) error {
	if asJSON {
		return writeJSON(out, struct {
			SchemaVersion int `json:"schema_version"`
			answer
		}{1, a})
	}
	verdict := "denied"
	if a.Allowed {
		verdict = "allowed"
	}
	lines := []string{verdict + ": " + a.Question + " " + a.Object, "rule: " + a.Rule}
	lines = append(lines, a.details...)
	for _, c := range a.Cases {
		lines = append(lines, "case: "+c.When+": "+c.Action+" ("+c.Why+")")
	}
	if a.Fix != "" {
		lines = append(lines, "fix: "+a.Fix)
	}
	var text strings.Builder
	for _, line := range lines {
		text.WriteString(policy.Printable(line) + "\n")
	}
	_, err := io.WriteString(out, text.String())
	return err
}

func (x *explanation) explainPath(plan *policy.Plan, host policy.Host) (answer, error) {
	got, err := plan.ExplainPath(x.path, host)
	if err != nil {
		return answer{}, &policy.Error{Step: "explain", Object: "--path " + x.path, Err: err}
	}
	a := answer{Question: "path", Object: x.path, Allowed: got.Allows(x.access), Rule: got.Rule, Fix: got.Fix(x.access), Path: &got}
	if got.Path != x.path {
		a.details = append(a.details, "inside: "+got.Path)
	}
	if got.Source != "" && got.Source != got.Path {
		a.details = append(a.details, "from: "+got.Source)
	}
	var may []string
	for _, kind := range []string{policy.AccessRead, policy.AccessWrite, policy.AccessExecute} {
		if got.Allows(kind) {
			may = append(may, kind)
		}
	}
	if len(may) == 0 {
		may = []string{"nothing"}
	}
	a.details = append(a.details, "access: "+strings.Join(may, ", "))
	if !got.Exists {
		a.details = append(a.details, "exists: not when the command starts")
	}
	return a, nil
}

func explainCall(name string, p policy.Policy, plan *policy.Plan, host policy.Host) (answer, error) {
	profile, err := policy.Profile(p, host)
	if err != nil {
		return answer{}, err
	}
	v, err := profile.Explain(name)
	if err != nil {
		return answer{}, &policy.Error{Step: "explain", Object: "--syscall " + name, Err: err, Hint: "man 2 syscalls lists the names"}
	}
	a := answer{Question: "syscall", Object: name, Allowed: v.Action.Permits(), Rule: v.Why}
	if len(plan.Filter.BPF) == 0 {
		a.Allowed, a.Rule = true, "no filter: --allow-missing seccomp"
		return a, nil
	}
	if a.Rule == "" {
		a.Rule = "not listed by the profile " + profile.Name
	}
	if len(v.Rules) > 0 {
		a.Rule = "by its arguments"
		for _, r := range v.Rules {
			a.Cases = append(a.Cases, callCase{conditions(r.Conds), r.Action.String(), r.Why})
			a.Allowed = a.Allowed || r.Action.Permits()
		}
		a.Cases = append(a.Cases, callCase{"otherwise", v.Action.String(), "the rest"})
	} else if !a.Allowed {
		a.details = append(a.details, "effect: "+v.Action.String())
	}
	if !a.Allowed || len(v.Rules) > 0 {
		a.Fix = "--allow-syscall " + name
		if p.SeccompFile != "" {
			a.Fix += ", or in the profile " + p.SeccompFile
		}
	}
	return a, nil
}

func conditions(conds []seccomp.Cond) string {
	var parts []string
	for _, c := range conds {
		arg := "argument " + strconv.Itoa(int(c.Arg))
		if c.Op == seccomp.MaskedEqual {
			if c.Mask != 0xffffffff {
				arg += " & 0x" + strconv.FormatUint(c.Mask, 16)
			}
			parts = append(parts, arg+" is 0x"+strconv.FormatUint(c.Value, 16))
			continue
		}
		parts = append(parts, arg+" "+c.Op.String()+" 0x"+strconv.FormatUint(c.Value, 16))
	}
	return strings.Join(parts, " and ")
}

func explainHost(target string, plan *policy.Plan) (answer, error) {
	refuse := func(cause string) (answer, error) {
		return answer{}, &policy.Error{Step: "explain", Object: "--host " + target, Err: errors.New(cause), Hint: "--host example.org:443, or [2001:db8::1]:443"}
	}
	name, port := target, ""
	if _, err := netip.ParseAddr(target); err != nil { // which may be without brackets here
		if name, port, err = hostname.Split(target); err != nil {
			return refuse(err.Error())
		}
	}
	if name == "" || strings.ContainsAny(name, " /@") {
		return refuse("is no host and port")
	}
	var number uint16
	if port != "" {
		var err error
		if number, err = hostname.ParsePort(port); err != nil {
			return refuse(err.Error())
		}
	}
	n := &plan.Network
	addr, err := netip.ParseAddr(name)
	if (name == "localhost" || err == nil && addr.IsLoopback()) && !n.Namespace.Host {
		return answer{Question: "host", Object: target, Allowed: true, Rule: "a loopback of the sandbox's own: only what runs inside listens there, nothing of the host's"}, nil
	}
	d := n.Allows(name, number)
	a := answer{Question: "host", Object: target, Allowed: d.Allowed, Rule: d.Rule, Fix: d.Fix}
	if !d.Allowed {
		a.Rule = d.Reason
		if !n.Namespace.Gateway {
			a.Rule = "no network: the command has one of its own with nothing but a loopback"
		}
		if a.Fix == "" {
			a.Fix = "none: " + d.Reason
		}
	}
	if d.Allowed && err != nil && n.Namespace.Gateway {
		a.details = append(a.details, "addresses: those that the host's resolver gives when the command connects, but none that is private or the host's own unless a rule names it")
	}
	return a, nil
}
