package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"gobox/fsguard"
	"gobox/fsguard/changes"
	"gobox/policy"
	"gobox/record"
)

// changeCommand is what diff, apply and discard have in common.
type changeCommand struct {
	runs
	name       string
	only, skip names
}

func (c *changeCommand) define(cmd *cobra.Command, selects bool) {
	cmd.Args = oneRun
	cmd.Flags().Var(word(&c.audit, "DIR", ""), "audit", "read the records below this folder")
	if selects {
		cmd.Flags().Var((*changePaths)(&c.only), "only", "take the path `P` of the workspace and what is beneath; repeatable")
		cmd.Flags().Var((*changePaths)(&c.skip), "skip", "leave out the path `P` and what is beneath; repeatable")
	}
}

// changePaths is a flag for paths, which may have any bytes.
type changePaths = names

// stored is the run directory of a run that has ended, with its changes.
type stored struct {
	id        string
	run       *fsguard.Root
	records   string // the state directory
	workspace string // its path on the host
	counted   bool   // by its result, there are changes
	set       *changes.Set
}

func (s *stored) close() { s.run.Close() }

// find opens the directory of the run that text names.
func (c *changeCommand) find(store *record.Store, text string) (*stored, error) {
	id, err := store.Find(text)
	if err != nil {
		return nil, err
	}
	e, err := store.Load(id)
	if err != nil {
		return nil, err
	}
	if e.State == record.Running {
		return nil, c.refuse(id, errors.New("the run is still under way"), "gobox runs show "+id+" tells when it has ended")
	}
	s := &stored{id: id, records: store.Path()}
	if e.Request != nil {
		s.workspace = e.Request.Workspace
	}
	if e.Result != nil {
		w := e.Result.Workspace
		s.counted = w.Added+w.Modified+w.Deleted > 0
	}
	if s.run, err = fsguard.OpenRoot(store.Path()+"/runs/"+id, fsguard.Options{}); err != nil {
		return nil, c.refuse(id, err, "")
	}
	return s, nil
}

// open finds the run that text names, and reads its changes.
func (c *changeCommand) open(store *record.Store, text string) (*stored, error) {
	s, err := c.find(store, text)
	if err != nil {
		return nil, err
	}
	s.set, err = changes.Load(s.run)
	switch {
	case err != nil:
		err = c.failure(s, err)
	case s.set.Refused != "":
		err = c.refuse(s.id, errors.New("the changes were not kept: "+s.set.Refused), "the command has to run again; gobox discard "+s.id+" clears this away")
	}
	if err != nil {
		s.close()
		return nil, err
	}
	if s.set.Workspace != "" {
		s.workspace = s.set.Workspace
	}
	return s, nil
}

func (c *changeCommand) refuse(object string, err error, hint string) error {
	return &policy.Error{Step: c.name, Object: object, Err: err, Hint: hint}
}

// failure puts an error of the changes into the form of all others, with the way out.
func (c *changeCommand) failure(s *stored, err error) error {
	hint := ""
	var path *changes.PathError
	var stuck *changes.StuckError
	const lost = "the machine went down before all of it was on the disk (with --result or --audit it is once gobox has returned), or somebody changed what gobox had stored; "
	switch {
	case errors.Is(err, changes.ErrNone) && s.counted:
		err, hint = errors.New("its changes are gone, though the result counts them"), lost+"run the command again"
	case errors.Is(err, changes.ErrNone):
		hint = "gobox runs list shows the runs; only --workspace-mode overlay keeps changes apart"
	case errors.Is(err, changes.ErrDiscarded):
		hint = "gobox runs show " + s.id + " tells how many there were"
	case errors.Is(err, changes.ErrManifest), errors.Is(err, changes.ErrNoContent):
		hint = lost + "gobox discard " + s.id + " drops what is left"
	case errors.Is(err, changes.ErrApplied):
		hint = "a set is applied once; run the command again for another"
	case errors.Is(err, changes.ErrHash):
		hint = "gobox diff " + s.id + " shows the changes and their hash"
	case errors.Is(err, changes.ErrNothing):
		hint = "fewer --skip, or another --only; gobox diff --name-only " + s.id + " lists all"
	case errors.Is(err, changes.ErrBusy):
		hint = "try again when the other gobox has ended"
	case errors.Is(err, changes.ErrInterrupted):
		hint = "the same command without --dry-run does that first"
	case errors.As(err, &path):
		hint = "gobox diff --name-only " + s.id + " lists the paths"
	case errors.As(err, &stuck):
		hint = "put aside what is in the way of " + shellWord(stuck.Path) + ", and run the same command again"
	}
	return c.refuse(s.id, err, hint)
}

func diffCommand(status *int) *cobra.Command {
	c := &changeCommand{runs: runs{status: status}, name: "diff"}
	var stat, nameOnly, noPager bool
	cmd := &cobra.Command{
		Use:   "diff [flags] RUN",
		Short: "Show what a run changed in its workspace",
		Long: `Show what a run changed in its workspace, as a patch that git apply takes. The first lines have the hash by which
gobox apply knows the changes. A RUN is a run id, the beginning of exactly one, or the word last.

On a terminal the diff is coloured, unless NO_COLOR is set, and goes through $PAGER or less.`,
		Example: `  gobox diff last
  gobox diff last --stat
  gobox diff last --only src > fix.patch`,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.with(cmd, func(store *record.Store, out io.Writer) error {
				s, err := c.open(store, args[0])
				if err != nil {
					return err
				}
				defer s.close()
				entries, err := s.set.Select(c.only, c.skip)
				if err != nil && !(errors.Is(err, changes.ErrNothing) && len(c.only)+len(c.skip) == 0) {
					return c.failure(s, err)
				}
				switch {
				case c.json:
					return writeJSON(out, struct {
						RunID string `json:"run_id"`
						*diffSet
					}{s.id, &diffSet{s.set.Hash, s.workspace, entries, s.set.Dropped}})
				case nameOnly:
					for i := range entries {
						fmt.Fprintln(out, changes.QuoteName(entries[i].Path))
					}
					return nil
				}
				return page(out, noPager, func(w io.Writer, style changes.Style) error {
					return c.show(cmd.Context(), s, entries, w, style, stat)
				})
			})
		},
	}
	c.define(cmd, true)
	cmd.Flags().BoolVar(&stat, "stat", false, "one line for each path, and a sum")
	cmd.Flags().BoolVar(&nameOnly, "name-only", false, "the paths and nothing else, quoted as git does")
	cmd.Flags().BoolVar(&noPager, "no-pager", false, "no pager on a terminal")
	c.addJSON(cmd)
	cmd.MarkFlagsMutuallyExclusive("stat", "name-only", "json")
	return cmd
}

// diffSet is what diff --json prints of a set; the hash is always that of the whole.
type diffSet struct {
	Hash      string          `json:"hash"`
	Workspace string          `json:"workspace"`
	Entries   []changes.Entry `json:"entries"`
	Dropped   []changes.Note  `json:"dropped"`
}

func (c *changeCommand) show(ctx context.Context, s *stored, entries []changes.Entry, w io.Writer, style changes.Style, stat bool) error {
	fmt.Fprintf(w, "# run %s\n# hash %s\n", s.id, s.set.Hash)
	for _, n := range s.set.Dropped {
		fmt.Fprintf(w, "# left out: %s: %s\n", changes.QuoteName(n.Path), n.What)
	}
	if ctx == nil {
		ctx = context.Background()
	}
	contents := changes.Contents{Run: s.run}
	if workspace, err := fsguard.OpenRoot(s.workspace, fsguard.Options{}); err == nil {
		defer workspace.Close()
		contents.Workspace = workspace
	}
	var err error
	if stat {
		err = contents.WriteStat(ctx, w, entries)
	} else {
		err = contents.WriteDiff(ctx, w, entries, style)
	}
	if err != nil && !errors.Is(err, unix.EPIPE) {
		return c.failure(s, err)
	}
	return nil
}

// page has write fill out, by way of a pager when out is a terminal.
func page(out io.Writer, noPager bool, write func(w io.Writer, style changes.Style) error) error {
	to := out
	if o, ok := out.(*output); ok {
		to = o.w
	}
	file, ok := to.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return write(out, changes.Style{})
	}
	style := changes.Style{Colour: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb", Harmless: true}
	pager, set := os.LookupEnv("PAGER")
	if !set {
		pager = "less -R"
	}
	if noPager || pager == "" || pager == "cat" {
		return write(out, style)
	}
	cmd := exec.Command("/bin/sh", "-c", pager)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = os.Environ()
	if os.Getenv("LESS") == "" {
		cmd.Env = append(cmd.Env, "LESS=FRX")
	}
	pipe, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return write(out, style)
	}
	// The pager's to act on; and its end is ours to notice by a failed write.
	signal.Ignore(unix.SIGINT, unix.SIGPIPE)
	err = write(pipe, style)
	pipe.Close()
	_ = cmd.Wait()
	return err
}
