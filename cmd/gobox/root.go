package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"gobox/policy"
	"gobox/sandbox"
)

// execute runs the command line args, without the program's name, and gives the exit status.
func execute(args []string) int {
	status := 0
	given := givenDescriptors(args)
	// Init starts while flags are read and the plan is made.
	var waiting *sandbox.Sandbox
	if startsRun(args) {
		if err := checkOwnLimits(); err != nil {
			return messages{w: os.Stderr, quiet: wantsQuiet(args)}.fail(err)
		}
		waiting = launch()
		defer waiting.Discard()
	}
	root := rootCommand(args, &status, waiting, given...)
	root.SetArgs(args)
	out := &output{w: os.Stdout}
	root.SetOut(out)
	root.SetErr(os.Stderr)
	err := root.Execute()
	if out.err != nil {
		// What help and reports do with such an error does not matter.
		err = &policy.Error{Step: "write", Object: "stdout", Err: out.err, Hint: "what gobox had to say is not complete; give it an output that takes all of it"}
	}
	if err != nil {
		return messages{w: os.Stderr, quiet: wantsQuiet(args)}.fail(usageError(err))
	}
	return status
}

// output remembers that a write failed, which cobra does not look at.
type output struct {
	w   io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err != nil && o.err == nil {
		o.err = err
		if cause := errors.Unwrap(err); cause != nil {
			o.err = cause
		}
	}
	return n, err
}

// wantsQuiet looks for --quiet where flags could not be read to the end.
func wantsQuiet(args []string) bool {
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	return slices.Contains(args, "--quiet") || len(args) > 0 && args[0] == "extract" && slices.Contains(args, "-q")
}

// checkOwnLimits refuses what would end in the middle: without descriptors the Go runtime's poller crashes,
// and init's copy of the plan is a file like any other to RLIMIT_FSIZE. See also starved.go.
func checkOwnLimits() error {
	for _, need := range []struct {
		resource      int
		least         uint64
		object, cause string
		hint          string
	}{
		{unix.RLIMIT_NOFILE, 48, "descriptors", "the limit of open files is %d, and gobox needs %d or more", "ulimit -n 64 raises it"},
		{unix.RLIMIT_FSIZE, 1 << 20, "file size", "the limit on the size of a file is %d bytes, and gobox itself needs %d", "ulimit -f 1024 raises it; for the command alone it is --fsize SIZE"},
	} {
		var l unix.Rlimit
		if err := unix.Getrlimit(need.resource, &l); err == nil && l.Cur < need.least {
			return &policy.Error{Step: "start", Object: need.object, Err: fmt.Errorf(need.cause, l.Cur, need.least), Hint: need.hint}
		}
	}
	return nil
}

// startsRun guesses whether args will need a sandbox. A wrong guess costs time and nothing else.
func startsRun(args []string) bool {
	return len(args) > 1 && args[0] == "run" &&
		!slices.ContainsFunc(args, func(a string) bool { return a == "--dry-run" || a == "--help" || a == "-h" })
}

// rootCommand makes the tree of commands. `gobox run` comes before everything else in use and in what its
// start-up costs, so that it gets its own branch only. A command writes its exit status to status.
// given are the descriptors that the caller has opened.
func rootCommand(args []string, status *int, waiting *sandbox.Sandbox, given ...int) *cobra.Command {
	root := &cobra.Command{
		Use:           "gobox",
		Short:         "Run a command you do not trust in a fresh sandbox",
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			return &policy.Error{Step: "usage", Err: errors.New("no command given"), Hint: "gobox run -- COMMAND ARG... runs a command; gobox --help lists the rest"}
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return flagError(cmd, err) })
	root.AddCommand(runCommand(status, waiting, given...))
	if len(args) > 0 && args[0] == "run" {
		root.CompletionOptions.DisableDefaultCmd = true
		return root
	}
	root.AddCommand(runsCommand(status), extractCommand(status), versionCommand())
	root.AddCommand(diffCommand(status), applyCommand(status), discardCommand(status))
	root.AddCommand(policyCommand(), explainCommand(status), doctorCommand(status), selftestCommand(status))
	root.Version = versionText()
	root.SetVersionTemplate("gobox {{.Version}}\n")
	completeTree(root)
	completeValues(root)
	return root
}

// completeValues lets shells complete the flags of `gobox run` that take one of a few words.
func completeValues(root *cobra.Command) {
	run, _, err := root.Find([]string{"run"})
	if err != nil {
		return
	}
	for flag, words := range map[string][]cobra.Completion{
		"workspace-mode": {"ro", "rw", "overlay", "none"},
		"net":            {"none", "host"},
		"require":        {"namespaces", "landlock", "seccomp", "rlimits", "cgroup"},
		"allow-missing":  {"landlock", "seccomp"},
	} {
		_ = run.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	}
	for _, flag := range []string{"workspace", "rootfs", "audit"} {
		_ = run.MarkFlagDirname(flag)
	}
}

// completeTree makes cobra's own commands refuse what they do not know.
func completeTree(root *cobra.Command) {
	unknown := func(cmd *cobra.Command, name, what, hint string) error {
		return &policy.Error{Step: "usage", Object: cmd.CommandPath() + " " + name, Err: errors.New("no such " + what), Hint: hint}
	}
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "completion":
			cmd.Short = "Print a script that completes gobox's command line in a shell"
			cmd.Args = cobra.ArbitraryArgs
			cmd.RunE = func(cmd *cobra.Command, args []string) error {
				hint := "gobox completion bash, zsh, fish or powershell"
				if len(args) == 0 {
					return &policy.Error{Step: "usage", Err: errors.New("no shell given"), Hint: hint}
				}
				return unknown(cmd, args[0], "shell", hint)
			}
		case "help":
			cmd.Run = nil
			cmd.RunE = func(cmd *cobra.Command, args []string) error {
				found, rest, err := root.Find(args)
				if err != nil || len(rest) > 0 {
					return unknown(cmd, strings.Join(args, " "), "command", "gobox --help lists the commands")
				}
				found.InitDefaultHelpFlag()
				return found.Help()
			}
		}
	}
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), "gobox "+versionText()+"\n")
			return err
		},
	}
}

// usageError gives cobra's own complaints the form of all others.
func usageError(err error) error {
	var refusal *policy.Error
	if errors.As(err, &refusal) {
		return err
	}
	// cobra appends its suggestions on lines of their own.
	text, suggestion, _ := strings.Cut(err.Error(), "\n")
	hint := "gobox --help lists the commands"
	if _, rest, found := strings.Cut(text, " for \""); found && strings.HasPrefix(text, "unknown command ") {
		if name := strings.TrimSuffix(rest, "\""); name != "gobox" {
			hint = name + " --help says what it takes"
		}
	}
	if fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(suggestion), "Did you mean this?")); len(fields) > 0 {
		hint = "did you mean gobox " + fields[0]
	}
	return &policy.Error{Step: "usage", Err: errors.New(text), Hint: hint}
}

// flagError names the flag in the place where refusals name their object.
func flagError(cmd *cobra.Command, err error) error {
	refusal := &policy.Error{Step: "usage", Err: err, Hint: cmd.CommandPath() + " --help lists the flags"}
	var bad *pflag.InvalidValueError
	var unknown *pflag.NotExistError
	var bare *pflag.ValueRequiredError
	switch {
	case errors.As(err, &bad):
		refusal.Object, refusal.Err = "--"+bad.GetFlag().Name, errors.Unwrap(bad)
		if bad.GetValue() != "" {
			refusal.Object += " " + bad.GetValue()
		}
		if bad.GetFlag().Value.Type() == "bool" {
			refusal.Err, refusal.Hint = errors.New("takes no value"), "--"+bad.GetFlag().Name+" alone turns it on"
		}
		var hinted valueError
		if errors.As(err, &hinted) {
			refusal.Err, refusal.Hint = hinted.err, hinted.hint
		}
	case errors.As(err, &unknown):
		name := "--" + unknown.GetSpecifiedName()
		if unknown.GetSpecifiedShortnames() != "" {
			name = "-" + unknown.GetSpecifiedName()
		}
		refusal.Object, refusal.Err = name, errors.New("no such flag")
	case errors.As(err, &bare):
		refusal.Object, refusal.Err = "--"+bare.GetFlag().Name, errors.New("the value is missing")
		refusal.Hint = takes(bare.GetFlag().Value.Type())
	}
	return refusal
}
