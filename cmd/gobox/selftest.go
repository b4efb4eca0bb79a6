package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gobox/policy"
	"gobox/selftest"
)

func selftestCommand(status *int) *cobra.Command {
	t := selftestFlags{run: runFlags{policy: policy.Default()}}
	cmd := &cobra.Command{
		Use:   "selftest [flags of run]",
		Short: "Try to get out of a sandbox on this host, and report per layer",
		Long: `Make the attempts of gobox's isolation suite on this host, in sandboxes of the policy that is given, and report per layer
whether each boundary held. Every attempt is harmless where it succeeds, touches nothing but a temporary folder, loopback
listeners and a process of the test's own, and leaves nothing.

A row is open when the policy itself lets it through, and untested when this host cannot show it. The exit status is 1 when a boundary
does not hold, 3 when a layer could not be tested, 125 when gobox failed or the host refuses a sandbox (gobox doctor says why).`,
		Example: `  gobox selftest
  gobox selftest --policy agent --json
  gobox selftest --row F21 --row K04`,
		DisableFlagsInUseLine: true,
	}
	f := cmd.Flags()
	f.SetInterspersed(false)
	f.VarP(words(&t.rows, "ID"), "row", "", "only the rows of this id; a test of the isolation suite has it in its name")
	f.BoolVar(&t.inside, "inside", false, "what the sandbox runs")
	_ = f.MarkHidden("inside")
	t.run.define(f)
	f.Lookup("json").Usage = "print JSON"
	t.without.register(f)
	for name := range t.useless() {
		_ = f.MarkHidden(name)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		*status = t.execute(cmd, args)
		return nil
	}
	return cmd
}

type selftestFlags struct {
	run     runFlags
	without without
	rows    []string
	inside  bool
}

// useless are the flags of run that have no meaning here, by name.
func (t *selftestFlags) useless() map[string]bool {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	var r recordFlags
	var i inspectFlags
	r.define(set)
	i.define(set)
	names := map[string]bool{"workspace": true, "no-workspace-policy": true, "dry-run": true, "tty": true, "secret": true, "timeout": true, "grace": true, "output": true}
	set.VisitAll(func(f *pflag.Flag) { names[f.Name] = true })
	return names
}

func (t *selftestFlags) execute(cmd *cobra.Command, args []string) int {
	say := messages{w: cmd.ErrOrStderr(), quiet: t.run.quiet}
	again := []string{"selftest", "--inside"}
	if t.inside {
		var err error
		if len(args) > 0 {
			err = selftest.One(args, os.Stdout, again)
		} else {
			err = selftest.Inside(os.Stdin, os.Stdout, again)
		}
		if err != nil {
			return say.fail(&policy.Error{Step: "attempts", Err: err})
		}
		return 0
	}
	if len(args) > 0 {
		return say.fail(&policy.Error{Step: "usage", Object: args[0], Err: errors.New("selftest runs no command but its own"), Hint: "gobox selftest --help lists the flags"})
	}
	useless, given := t.useless(), ""
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if useless[f.Name] {
			given = f.Name
		}
	})
	if given != "" {
		return say.fail(&policy.Error{Step: "usage", Object: "--" + given, Err: errors.New("has no meaning for a test"), Hint: "leave it out; gobox selftest --help lists the flags"})
	}
	rep, err := t.test(cmd)
	if err != nil {
		return say.fail(err)
	}
	out := cmd.OutOrStdout()
	if t.run.json {
		err = writeJSON(out, selftestReport(rep))
	} else {
		err = writeSelftest(out, rep)
	}
	if err != nil {
		return say.fail(&policy.Error{Step: "write", Err: err})
	}
	return rep.Status()
}

func (t *selftestFlags) test(cmd *cobra.Command) (*selftest.Report, error) {
	exe, err := os.Executable()
	if err != nil || !strings.HasPrefix(exe, "/") || strings.HasSuffix(exe, " (deleted)") {
		return nil, &policy.Error{Step: "start", Object: exe, Err: errors.New("the file of this gobox cannot be found"), Hint: "start it from where it is installed"}
	}
	host := policy.CurrentHost()
	t.without.host(&host)
	asJSON := t.run.json
	// Of no use to finish, which knows it with --dry-run only.
	t.run.json, t.run.noWorkspaceFile = false, true
	p, err := t.run.finish(cmd.Flags(), []string{"true"}, false, host)
	t.run.json = asJSON
	if err != nil {
		return nil, err
	}
	return selftest.Run(context.Background(), selftest.Options{
		Policy: p, Host: host, Program: exe, Again: []string{"selftest", "--inside"}, Rows: t.rows, Change: t.without.apply,
	})
}

func selftestReport(rep *selftest.Report) any {
	return struct {
		SchemaVersion int                    `json:"schema_version"`
		Version       string                 `json:"version"`
		Kernel        string                 `json:"kernel"`
		UID           int                    `json:"uid"`
		Policy        string                 `json:"policy"`
		Landlock      int                    `json:"landlock_abi"`
		Status        int                    `json:"status"`
		Layers        []selftest.LayerReport `json:"layers"`
		Rows          []selftest.Row         `json:"rows"`
	}{1, versionText(), kernelText(), os.Geteuid(), rep.Policy, rep.Landlock, rep.Status(), rep.Layers(), rep.Rows}
}

func writeSelftest(out io.Writer, rep *selftest.Report) error {
	head := fmt.Sprintf("gobox %s, Linux %s, uid %d, policy %s, Landlock ABI %d\n", versionText(), kernelText(), os.Geteuid(), rep.Policy, rep.Landlock)
	if _, err := io.WriteString(out, head); err != nil {
		return err
	}
	return rep.WriteText(out)
}
