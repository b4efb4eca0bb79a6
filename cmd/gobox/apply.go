package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"gobox/fsguard"
	"gobox/fsguard/changes"
	"gobox/record"
)

func applyCommand(status *int) *cobra.Command {
	c := &changeCommand{runs: runs{status: status}, name: "apply"}
	var request changes.Request
	cmd := &cobra.Command{
		Use:   "apply [flags] RUN --hash H",
		Short: "Make the changes of a run in its workspace",
		Long: `Make the changes of a run in its workspace, once, and all or nothing. H is the hash that gobox diff shows: exactly
what was looked at is applied. Nothing is written when the workspace has changed in the same places; each is listed.
After a crash the same command undoes what was begun and starts again, or finishes.

Files that the host would run or obey later (.git/hooks, .git/config, .bashrc, .vscode, ...) and links that lead out of
the workspace are refused, and the whole set with them, unless --allow-path names them or --skip leaves them out.
Setuid, setgid and sticky bits, owners and extended attributes are never taken over.`,
		Example: `  gobox apply last --hash 5f1c...
  gobox apply last --hash 5f1c... --only src --dry-run`,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.with(cmd, func(store *record.Store, out io.Writer) error {
				s, err := c.open(store, args[0])
				if err != nil {
					return err
				}
				defer s.close()
				request.Only, request.Skip = c.only, c.skip
				return c.apply(cmd, s, request, out)
			})
		},
	}
	c.define(cmd, true)
	cmd.Flags().Var(word(&request.Hash, "H", ""), "hash", "the hash of the changes")
	cmd.Flags().Var((*changePaths)(&request.Allow), "allow-path", "take the protected path `P` and what is beneath; repeatable")
	cmd.Flags().BoolVar(&request.DryRun, "dry-run", false, "tell what would be done, and write nothing")
	c.addJSON(cmd)
	return cmd
}

func (c *changeCommand) apply(cmd *cobra.Command, s *stored, request changes.Request, out io.Writer) error {
	if request.Hash == "" {
		return c.refuse(s.id, errors.New("the hash of the changes is needed"), "gobox diff "+s.id+" shows the changes and their hash, for --hash H")
	}
	workspace, err := fsguard.OpenRoot(s.workspace, fsguard.Options{})
	if err != nil {
		return c.refuse(s.id, fmt.Errorf("open the workspace: %w", err), "the changes go back where they came from: "+s.workspace)
	}
	defer workspace.Close()
	request.Path, request.Records = s.workspace, s.records
	// What is under way is undone first: between two steps the signal is seen too late to matter.
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer stop()
	report, err := changes.Apply(ctx, s.run, workspace, request)
	if err != nil {
		return c.objections(cmd, s, err)
	}
	if c.json {
		return writeJSON(out, report)
	}
	return writeReport(out, s, request.DryRun, report)
}

// objections lists what is in the way, a line each, before the error.
func (c *changeCommand) objections(cmd *cobra.Command, s *stored, err error) error {
	say := messages{w: cmd.ErrOrStderr()}
	var refused *changes.RefusedError
	var conflicts *changes.ConflictError
	switch {
	case errors.As(err, &refused):
		for _, o := range refused.Entries {
			word := shellWord(o.Path)
			say.line("refused", fmt.Sprintf("%s: %s: --allow-path %s takes it, --skip %s leaves it out", changes.QuoteName(o.Path), o.Why, word, word))
		}
		return c.refuse(s.id, err, "add the flag of your choice for each of them; nothing was written")
	case errors.As(err, &conflicts):
		for _, o := range conflicts.Entries {
			say.line("conflict", changes.QuoteName(o.Path)+": "+o.Why)
		}
		hint := "nothing was written; --skip P leaves out a path, and a new run sees the workspace as it is now"
		var stuck *changes.StuckError
		if errors.As(err, &stuck) {
			return c.failure(s, err)
		}
		return c.refuse(s.id, errors.New(conflicts.Error()), hint)
	case errors.Is(err, context.Canceled):
		return c.refuse(s.id, errors.New("interrupted; nothing was written"), "")
	}
	return c.failure(s, err)
}

func writeReport(out io.Writer, s *stored, dry bool, r *changes.Report) error {
	var b strings.Builder
	if r.Resumed {
		fmt.Fprintf(&b, "an earlier apply had done all but the last step; the changes of %s are applied\n", s.id)
	} else {
		done := "applied"
		if dry {
			done = "would be applied"
			for i := range r.Entries {
				e := &r.Entries[i]
				fmt.Fprintf(&b, "%-8s %s\n", e.Kind, changes.QuoteName(e.Path))
			}
		}
		fmt.Fprintf(&b, "%d changes %s to %s", len(r.Entries), done, changes.QuoteName(s.workspace))
		if r.Already > 0 {
			fmt.Fprintf(&b, ", %d were there already", r.Already)
		}
		if r.Left > 0 {
			fmt.Fprintf(&b, ", %d left out", r.Left)
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(out, b.String())
	return err
}
