package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"gobox/policy"
	"gobox/sandbox"
)

func runCommand(status *int, waiting *sandbox.Sandbox, given ...int) *cobra.Command {
	flags := runFlags{policy: policy.Default(), record: recordFlags{given: given}, output: inspectFlags{given: given}}
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND ARG...",
		Short: "Run one command in a fresh sandbox",
		Long: `Run one command in a fresh sandbox: no network but the hosts that --allow-net names, system folders read-only, the
current directory writable to the command and unchanged on the host, private /tmp, HOME, /dev and /proc, an empty environment,
default-deny system calls. gobox diff shows what the command wrote, gobox apply makes it so.

Sizes are bytes, or have a binary unit: 64k, 512MiB, 1G. Durations are such as 30s or 1m30s; a bare
number is seconds. 0 means no limit. Flags end at the command or at --. No shell is involved: for pipes,
variables and builtins, gobox run -- sh -c 'LINE'.

The exit status is the command's own, 128+n when signal n ended it, 124 when its time was over, 137 when
it exceeded a limit on memory, disk or output, 125 when gobox failed or refused and the command never ran, 126
and 127 when it could not be executed or found, 74 when its output could not be passed on or kept,
65 when it is not what --strict-output asks for.`,
		Example: `  gobox run -- python script.py
  gobox run --workspace-mode rw --timeout 5m -- make test
  gobox run --ro ~/data:/data --tmpfs /scratch:1G -- ./analyse /data
  gobox run --allow-net registry.example.org --allow-net '*.files.example.org' -- npm ci
  gobox run --dry-run -- node app.js`,
		DisableFlagsInUseLine: true,
	}
	// What follows the command belongs to it.
	cmd.Flags().SetInterspersed(false)
	cmd.SetUsageFunc(usageByGroup())
	flags.define(cmd.Flags())
	var without without
	without.register(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, argv []string) error {
		*status = run(cmd, &flags, without, waiting, argv)
		return nil
	}
	return cmd
}

func run(cmd *cobra.Command, flags *runFlags, without without, waiting *sandbox.Sandbox, argv []string) int {
	say := messages{w: cmd.ErrOrStderr(), quiet: flags.quiet, fallback: "the same command with --dry-run shows the plan that failed"}
	// What is not known of a run that is refused stays empty on record.
	name, known := "", &policy.Plan{Exec: policy.Exec{Argv: argv}}
	var output *inspection
	refused := func(err error) int {
		if flags.dryRun {
			return say.fail(err)
		}
		secrets := func() *inspection {
			if output != nil {
				return output
			}
			return flags.output.known(flags.policy.Credentials)
		}
		return refuse(say, &flags.record, name, known, secrets, err)
	}
	flags.record.addInputs(flags.inputs)
	flags.output.spare(flags.record.status, flags.record.control)
	if len(argv) == 0 {
		return refused(&policy.Error{Step: "usage", Err: errors.New("no command given"), Hint: "gobox run -- COMMAND ARG..."})
	}
	host := policy.CurrentHost()
	p, err := flags.finish(cmd.Flags(), argv, term.IsTerminal(0), host)
	if err != nil {
		return refused(err)
	}
	name = p.Name
	flags.record.addInputs(func() []input { return policyInputs(p) })
	if p.Net == policy.NetHost && !flags.dryRun {
		// The one that waits has a network of its own.
		if waiting != nil {
			waiting.Discard()
		}
		waiting = sandbox.LaunchInNetwork()
		defer waiting.Discard()
	}
	p.TTY = flags.tty || term.IsTerminal(0) || term.IsTerminal(1) || term.IsTerminal(2)
	plan, err := policy.Resolve(p, host)
	if err != nil {
		return refused(explainTyped(err, argv))
	}
	if flags.dryRun {
		return dryRun(say, plan, flags.json)
	}
	for _, layer := range plan.Missing {
		// The caller has accepted it; whoever reads the log may not know.
		_, cause := host.Lack(layer)
		say.line("warning", fmt.Sprintf("%s: %v; --allow-missing lets the command run without this wall", layer, cause))
	}
	known = plan
	if err := without.apply(plan); err != nil {
		return refused(err)
	}
	if err := flags.record.hold(p); err != nil {
		return refused(err)
	}
	opened, err := flags.output.open(plan, flags.tty)
	if err != nil {
		return refused(err)
	}
	output = opened
	if err := flags.record.nameless(output, name); err != nil {
		return refused(err)
	}
	if waiting == nil {
		waiting = sandbox.Launch()
	}
	return runPlan(say, waiting, p.Name, plan, flags.tty, &flags.record, output)
}

// dryRun prints the plan on stdout: the command, whose stdout it otherwise is, does not run.
func dryRun(say messages, plan *policy.Plan, json bool) int {
	write := plan.WriteText
	if json {
		write = plan.WriteJSON
	}
	if err := write(os.Stdout); err != nil {
		return say.fail(&policy.Error{Step: "write plan", Err: err})
	}
	return 0
}
