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

// usageByGroup writes the flags of `gobox run` under headlines.
func usageByGroup(cmd *cobra.Command) error {
	var out strings.Builder
	fmt.Fprintf(&out, "Usage:\n  %s\n\nExamples:\n%s\n", cmd.UseLine(), cmd.Example)
	groups := flagGroups()
	var set *pflag.FlagSet
	flush := func() {
		if set != nil {
			out.WriteString(set.FlagUsages())
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
