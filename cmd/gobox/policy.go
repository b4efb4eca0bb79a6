package main

import (
	"errors"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"gobox/policy"
)

func policyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Show and check policies",
		Long: `Show the built-in policies, and check policy files. gobox run --policy NAME|FILE runs a command under one;
docs/policies.md has the format.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return &policy.Error{Step: "usage", Err: errors.New("no command given"), Hint: "gobox policy list, show NAME, validate FILE or schema"}
		},
	}
	cmd.AddCommand(
		&cobra.Command{
			Use:   "list",
			Short: "List the built-in policies",
			Args:  cobra.NoArgs,
			RunE: func(cmd *cobra.Command, args []string) error {
				return listPolicies(cmd.OutOrStdout())
			},
		},
		&cobra.Command{
			Use:     "show NAME",
			Short:   "Print a built-in policy, as a file to start from",
			Example: "  gobox policy show agent > analysis.yaml",
			Args:    oneArgument("NAME", "gobox policy list lists them"),
			RunE: func(cmd *cobra.Command, args []string) error {
				text, err := policy.Builtin(args[0])
				if err == nil {
					_, err = cmd.OutOrStdout().Write(text)
				}
				return err
			},
		},
		&cobra.Command{
			Use:   "validate FILE...",
			Short: "Check policy files and what they extend",
			Long: `Check policy files and what they extend. Nothing is printed when all is well; the exit status is 125 when it is not. A file
called ` + policy.WorkspaceFile + ` is checked as one of a workspace, which can only tighten the default policy.`,
			Args: func(cmd *cobra.Command, args []string) error {
				if len(args) == 0 {
					return &policy.Error{Step: "usage", Object: cmd.CommandPath(), Err: errors.New("no FILE given"), Hint: "gobox policy validate analysis.yaml"}
				}
				return nil
			},
			RunE: func(cmd *cobra.Command, args []string) error {
				for _, file := range args {
					if err := validate(file); err != nil {
						return err
					}
				}
				return nil
			},
		},
		&cobra.Command{
			Use:     "schema",
			Short:   "Print the JSON Schema of policy files, for editors",
			Example: "  gobox policy schema > gobox.schema.json\n  # yaml-language-server: $schema=gobox.schema.json",
			Args:    cobra.NoArgs,
			RunE: func(cmd *cobra.Command, args []string) error {
				return policy.WriteSchema(cmd.OutOrStdout())
			},
		},
	)
	return cmd
}

// listPolicies prints a line for each: its name and the first sentence of its own comment.
func listPolicies(out io.Writer) error {
	t := newTable(out)
	for _, name := range policy.BuiltinNames() {
		text, err := policy.Builtin(name)
		if err != nil {
			return err
		}
		about, _, _ := strings.Cut(string(text), "\nversion:")
		about, _, _ = strings.Cut(strings.ReplaceAll(strings.TrimPrefix(about, "# "), "\n# ", " ")+" ", ". ")
		t.row(name, strings.TrimSuffix(strings.TrimSpace(about), "."))
	}
	return t.flush()
}

func validate(file string) error {
	if filepath.Base(file) == policy.WorkspaceFile {
		return policy.ValidateWorkspaceFile(file, policy.CurrentHost())
	}
	if !strings.Contains(file, "/") && filepath.Ext(file) == "" {
		file = "./" + file // what is called like a built-in policy is a file here
	}
	_, err := policy.LoadDocuments(file)
	return err
}

// oneArgument is the Args of a command that takes exactly one.
func oneArgument(what, hint string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			return nil
		}
		return &policy.Error{Step: "usage", Object: cmd.CommandPath(), Err: errors.New("takes one " + what), Hint: hint}
	}
}
