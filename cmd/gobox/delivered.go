package main

import (
	"errors"
	"fmt"

	"gobox/fsguard/changes"
	"gobox/policy"
	"gobox/record"
	"gobox/sandbox"
)

// maxRefusedTold is how many of the refused paths are named.
const maxRefusedTold = 20

// tellDelivered says what became of what the command left in its output folder, when that is not all in its place.
func tellDelivered(say messages, plan *policy.Plan, result sandbox.Result) {
	out := plan.Output.Path
	if out == "" {
		return
	}
	var refused *changes.RefusedError
	switch err := result.DeliverError; {
	case errors.As(err, &refused):
		say.line("error", "output-dir "+out+": nothing comes out: "+refused.Error())
		for i, r := range refused.Entries {
			if i == maxRefusedTold {
				say.line("error", fmt.Sprintf("and %d more", len(refused.Entries)-i))
				break
			}
			say.line("error", fmt.Sprintf("%s: %s; --allow-path %s", r.Path, r.Why, out+"/"+r.Path))
		}
		say.hint("run it again with the flags, or without those files")
	case err != nil:
		say.line("error", "output-dir "+out+": nothing comes out: "+err.Error())
		say.hint("the folder is as it was; run it again when the cause is gone")
	case result.Delivered == nil && result.Outcome != "":
		say.hint("nothing comes out to " + out + ", as the outcome is " + string(result.Outcome) + " and not " + string(sandbox.Exited))
	case result.Delivered != nil:
		for i, n := range result.Delivered.Dropped {
			if i == maxRefusedTold {
				say.hint(fmt.Sprintf("left out: and %d more", len(result.Delivered.Dropped)-i))
				break
			}
			say.hint(fmt.Sprintf("left out: %s: %s", out+"/"+n.Path, n.What))
		}
	}
}

// deliveredResult is for the record, with what is not as the caller may think.
func deliveredResult(plan *policy.Plan, result sandbox.Result) (*record.OutputDir, []record.Anomaly) {
	if plan.Output.Path == "" {
		return nil, nil
	}
	out := &record.OutputDir{Path: plan.Output.Path}
	var list []record.Anomaly
	if err := result.DeliverError; err != nil {
		list = append(list, record.Anomaly{Kind: record.NotDelivered, Object: plan.Output.Path, Detail: err.Error()})
	}
	var refused *changes.RefusedError
	if errors.As(result.DeliverError, &refused) {
		for _, r := range refused.Entries[:min(len(refused.Entries), maxAsideKept)] {
			list = append(list, record.Anomaly{Kind: record.NotDelivered, Object: plan.Output.Path + "/" + r.Path, Detail: r.Why})
		}
	}
	if d := result.Delivered; d != nil {
		out.Delivered, out.Entries, out.Bytes = true, uint64(d.Entries), d.Bytes
		for _, n := range d.Dropped[:min(len(d.Dropped), maxAsideKept)] {
			list = append(list, record.Anomaly{Kind: record.NotKept, Object: plan.Output.Path + "/" + n.Path, Detail: n.What})
		}
	}
	return out, list
}
