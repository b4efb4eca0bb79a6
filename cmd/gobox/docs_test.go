package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestDocumented holds docs/cli.md to the commands and flags that are there, both ways.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	doc, planned, _ := strings.Cut(string(text), "\n## Not there yet\n")
	status := 0
	root := rootCommand(nil, &status, nil)
	known := map[string]bool{}
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		cmd.InitDefaultHelpFlag()
		cmd.InitDefaultVersionFlag()
		if !cmd.Hidden && !mentioned(doc, cmd.Name()) {
			t.Errorf("docs/cli.md lacks the command %s", cmd.CommandPath())
		}
		note := func(f *pflag.Flag) {
			known[f.Name] = true
			if f.Hidden {
				return
			}
			if f.Name != "without" && !mentioned(doc, "--"+f.Name) {
				t.Errorf("docs/cli.md lacks %s --%s", cmd.CommandPath(), f.Name)
			}
			if f.Shorthand != "" && !mentioned(doc, "-"+f.Shorthand) {
				t.Errorf("docs/cli.md lacks %s -%s", cmd.CommandPath(), f.Shorthand)
			}
		}
		cmd.Flags().VisitAll(note)
		cmd.PersistentFlags().VisitAll(note)
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(root)
	for _, name := range flagsIn(doc) {
		if !known[name] {
			t.Errorf("docs/cli.md tells of --%s, which is not there", name)
		}
	}
	run, _, err := root.Find([]string{"run"})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range flagsIn(planned) {
		if name != "workspace-mode" && name != "net" && run.Flags().Lookup(name) != nil {
			t.Errorf("docs/cli.md says that --%s is not there yet", name)
		}
	}
}

// mentioned finds a word in code.
func mentioned(doc, word string) bool {
	return regexp.MustCompile("`([^`\n]*[ ,])?" + regexp.QuoteMeta(word) + "[` ,\\[]").MatchString(doc)
}

func flagsIn(doc string) []string {
	var names []string
	for _, m := range regexp.MustCompile("[` ]--([a-z][a-z-]*)").FindAllStringSubmatch(doc, -1) {
		names = append(names, m[1])
	}
	return names
}

// Every headline of the help has its flags.
func TestGroups(t *testing.T) {
	status := 0
	cmd := runCommand(&status, nil)
	for _, g := range flagGroups() {
		if cmd.Flags().Lookup(g.from) == nil {
			t.Errorf("the headline %q begins at --%s, which is not there", g.title, g.from)
		}
	}
	var out strings.Builder
	cmd.SetOut(&out)
	if err := cmd.Usage(); err != nil {
		t.Fatal(err)
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !regexp.MustCompile("--" + f.Name + "[ \\[]").MatchString(out.String()) {
			t.Errorf("the help lacks --%s", f.Name)
		}
	})
	for _, g := range flagGroups() {
		if !strings.Contains(out.String(), "\n"+g.title+":\n") {
			t.Errorf("the help lacks the headline %q", g.title)
		}
	}
}
