package main

import (
	"fmt"
	"strings"

	"gobox/policy"
	"gobox/record"
	"gobox/sandbox"
)

// maxAsideTold is how many files that were set aside are named; the record has more.
const maxAsideTold = 20

// maxAsideKept is how many of them are in the record.
const maxAsideKept = 1000

// tellAside says which files came to places where the host would obey them.
func tellAside(say messages, plan *policy.Plan, result sandbox.Result) {
	for i, a := range result.Aside {
		if i == maxAsideTold {
			say.line("error", fmt.Sprintf("protected: and %d more", len(result.Aside)-i))
			break
		}
		if a.Err != nil {
			say.line("error", fmt.Sprintf("protected: %s came during the run and could not be set aside: %v (%s)", a.Path, a.Err, a.Why))
			continue
		}
		say.line("error", fmt.Sprintf("protected: %s came during the run and is now %s (%s)", a.Path, a.To[strings.LastIndexByte(a.To, '/')+1:], a.Why))
	}
	if len(result.Aside) > 0 {
		say.hint("--allow-path " + inWorkspace(plan, result.Aside[0].Path) + " lets the command make it")
	}
	if result.AsideError != nil {
		say.line("error", "protected: not all that the command could write to was looked at: "+result.AsideError.Error())
		say.hint("look yourself for files that the host would run or obey, such as .git/hooks and .envrc")
	}
}

// inWorkspace is the path as --allow-path takes it.
func inWorkspace(plan *policy.Plan, path string) string {
	if rest, ok := strings.CutPrefix(path, plan.Workspace.Path+"/"); ok && plan.Workspace.Path != "" {
		return rest
	}
	return path
}

// asideAnomalies are for the record.
func asideAnomalies(result sandbox.Result) []record.Anomaly {
	var list []record.Anomaly
	for i, a := range result.Aside {
		if i == maxAsideKept {
			list = append(list, record.Anomaly{Kind: record.SetAside, Object: a.Path, Detail: fmt.Sprintf("and %d more", len(result.Aside)-i)})
			break
		}
		detail := "is now " + a.To + ": " + a.Why
		if a.Err != nil {
			detail = "could not be renamed: " + a.Err.Error() + ": " + a.Why
		}
		list = append(list, record.Anomaly{Kind: record.SetAside, Object: a.Path, Detail: detail})
	}
	if result.AsideError != nil {
		list = append(list, record.Anomaly{Kind: record.NotLookedAt, Object: "workspace", Detail: result.AsideError.Error()})
	}
	return list
}
