package main

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"github.com/spf13/cobra"

	"gobox/fsguard"
	"gobox/fsguard/changes"
	"gobox/record"
)

func discardCommand(status *int) *cobra.Command {
	c := &changeCommand{runs: runs{status: status}, name: "discard"}
	cmd := &cobra.Command{
		Use:   "discard [flags] RUN",
		Short: "Drop the changes of a run",
		Long: `Drop the stored changes of a run for good; its record stays. An apply that was interrupted is undone first.

A RUN is a run id, the beginning of exactly one, or the word last.`,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.with(cmd, func(store *record.Store, out io.Writer) error { return c.discard(store, args[0]) })
		},
	}
	c.define(cmd, false)
	return cmd
}

func (c *changeCommand) discard(store *record.Store, text string) error {
	s, err := c.find(store, text)
	if err != nil {
		return err
	}
	defer s.close()
	if set, err := changes.Load(s.run); err == nil && set.Workspace != "" {
		s.workspace = set.Workspace
	}
	var workspace *fsguard.Root
	if s.workspace != "" {
		workspace, err = fsguard.OpenRoot(s.workspace, fsguard.Options{})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return c.refuse(s.id, err, "")
		}
		if workspace != nil {
			defer workspace.Close()
		}
	}
	if err := changes.Discard(context.Background(), s.run, workspace); err != nil {
		return c.failure(s, err)
	}
	return nil
}
