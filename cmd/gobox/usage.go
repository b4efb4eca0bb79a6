package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagGroup is a headline in the help of `gobox run`, before the flag from which it holds on.
type flagGroup struct{ title, from string }

// flagGroups follow the order in which the flags are defined.
func flagGroups() []flagGroup {
	return []flagGroup{
		{"Policy", "policy"},
		{"Files", "workspace"},
		{"Environment", "env"},
		{"Network", "net"},
		{"Limits", "timeout"},
		{"Walls", "allow-syscall"},
		{"Records and control", "result"},
		{"Inspection", "expect-json"},
		{"Output", "dry-run"},
	}
}

// usageByGroup writes the flags of `gobox run`, and those of the commands that take them too, under headlines; own is the
// group of such a command's own flags, which come first.
func usageByGroup(own ...flagGroup) func(*cobra.Command) error {
	return func(cmd *cobra.Command) error { return writeUsage(cmd, own) }
}

func writeUsage(cmd *cobra.Command, own []flagGroup) error {
	var out strings.Builder
	fmt.Fprintf(&out, "Usage:\n  %s\n\nExamples:\n%s\n", cmd.UseLine(), cmd.Example)
	groups := append(own, flagGroups()...)
	var set *pflag.FlagSet
	flush := func() {
		if set != nil {
			// pflag writes the value of a flag that may go without one the other way round.
			out.WriteString(strings.Replace(set.FlagUsages(), "--expect-json SCHEMA[="+anyJSON+"]", "--expect-json[=SCHEMA]  ", 1))
		}
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if len(groups) > 0 && f.Name == groups[0].from {
			flush()
			fmt.Fprintf(&out, "\n%s:\n", groups[0].title)
			groups = groups[1:]
			set = pflag.NewFlagSet(cmd.Name(), pflag.ContinueOnError)
			set.SortFlags = false
		}
		if set != nil {
			set.AddFlag(f)
		}
	})
	flush()
	_, err := cmd.OutOrStderr().Write([]byte(out.String()))
	return err
}
