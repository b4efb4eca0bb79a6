package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"gobox/fsguard/changes"
	"gobox/record"
	"gobox/rlimit/cgroup"
)

func (c *runs) gcCommand() *cobra.Command {
	do := record.Cleanup{Keep: applied, SetAside: setAside}
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Clean up after killed runs, and remove old records",
		Long: `Clean up what a killed gobox left behind, try again to destroy what is in quarantine, and remove the records that
--older-than names. A run under way is never touched, nor one whose apply was cut short. The exit status is 1 when something could not be done.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.with(cmd, func(s *record.Store, out io.Writer) error {
				report, err := s.Clean(do)
				if err != nil {
					return err
				}
				removeCgroups(&report, do.DryRun)
				if len(report.Problems) > 0 {
					*c.status = 1
				}
				if c.json {
					return writeJSON(out, struct {
						SchemaVersion int `json:"schema_version"`
						record.Cleaned
					}{record.SchemaVersion, report})
				}
				return writeCleaned(out, report, do.DryRun)
			})
		},
	}
	cmd.Flags().Var(&value{kind: "D", parse: parsed(&do.OlderThan, func(text string) (time.Duration, error) {
		age, err := parseAge(text)
		return max(age, 1), err // 0 is all of them, and not none
	})},
		"older-than", "remove the records of runs that started longer ago, such as 12h or 30d")
	cmd.Flags().Var(word(&do.Key, "KEY", ""), "key", "forget an idempotency key")
	cmd.Flags().BoolVar(&do.DryRun, "dry-run", false, "only say what would be done")
	c.addJSON(cmd)
	return cmd
}

// applied keeps the record of a run whose changes are in the workspace by half: without it nothing could undo them.
func applied(run string) error {
	err := changes.Finished(run)
	if errors.Is(err, changes.ErrUnfinished) {
		id := filepath.Base(run)
		return fmt.Errorf("%w; the same gobox apply again ends it (gobox diff %s tells the hash)", err, id)
	}
	return err
}

// cgroupRemoval is how long what a killed gobox has left in a cgroup may take to end.
const cgroupRemoval = 2 * time.Second

// removeCgroups removes what killed gobox processes have left, on record or not.
func removeCgroups(report *record.Cleaned, dry bool) {
	left, err := cgroup.Leftovers(cgroup.Detect())
	if err != nil {
		report.Problems = append(report.Problems, record.Problem{Object: "cgroup", Message: err.Error()})
		return
	}
	for _, l := range left {
		// Another pid namespace's gobox may still run, and what is another user's is that one's to clean up.
		if l.Foreign || !removable(l.Paths) {
			continue
		}
		if !dry {
			if err := l.Remove(cgroupRemoval); err != nil {
				report.Problems = append(report.Problems, record.Problem{Object: "cgroup " + l.Name, Message: err.Error()})
				continue
			}
		}
		report.Cgroups = append(report.Cgroups, l.Name)
	}
}

func removable(paths []string) bool {
	for _, p := range paths {
		var st unix.Stat_t
		if unix.Stat(p, &st) == nil && os.Geteuid() != 0 && int(st.Uid) != os.Geteuid() {
			return false
		}
	}
	return true
}

func writeCleaned(out io.Writer, r record.Cleaned, dry bool) error {
	t := newTable(out)
	each := func(what, would string, ids []string) {
		if dry {
			what = would
		}
		for _, id := range ids {
			t.row(what, id)
		}
	}
	each("crashed, cleaned up", "crashed, would be cleaned up", r.Crashed)
	each("removed", "would be removed", r.Removed)
	each("destroyed", "would be destroyed", r.Destroyed)
	each("quarantined", "quarantined", r.Quarantined)
	each("cgroup removed", "cgroup would be removed", r.Cgroups)
	for _, a := range r.SetAside {
		t.row("set aside", a.Path+" is now "+a.To[strings.LastIndexByte(a.To, '/')+1:])
	}
	if r.Keys > 0 {
		t.row("keys forgotten", fmt.Sprint(r.Keys))
	}
	for _, p := range r.Problems {
		t.row("problem", p.Object+": "+p.Message)
	}
	return t.flush()
}
