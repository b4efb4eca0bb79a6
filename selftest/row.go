package selftest

import (
	"fmt"
	"slices"
	"strings"

	"gobox/policy"
	"gobox/selftest/attempt"
)

// Layer is what a row proves. The names of those that `--allow-missing` knows are the same there.
type Layer string

// The layers, in the order in which they are reported.
const (
	Namespaces  Layer = "namespaces"  // processes and their ids
	Mounts      Layer = "mounts"      // the tree of files
	Landlock    Layer = "landlock"    // with nothing else in the way
	Seccomp     Layer = "seccomp"     // the system calls
	Privileges  Layer = "privileges"  // capabilities, no_new_privs
	Init        Layer = "init"        // PID 1 and what it hands on
	Network     Layer = "network"     // sockets of the host's
	Environment Layer = "environment" // variables, credentials, what the host is called
	Limits      Layer = "limits"
)

// Layers lists them all.
func Layers() []Layer {
	return []Layer{Namespaces, Mounts, Landlock, Seccomp, Privileges, Init, Network, Environment, Limits}
}

// row is one boundary: attempts made inside, and what must be true of their answers and of the host afterwards. ID is
// that of the isolation suite's test; one ID can have a row in each of several layers.
type row struct {
	id    string
	layer Layer
	title string
	tries []try
	// effect looks at the host after the run and tells what should not have happened, "" for nothing.
	effect func() string
	// skip says why the row cannot be tried here.
	skip string
}

// try is one attempt, and how its answer is judged.
type try struct {
	do   []string
	want []string // errnos that are a refusal; "" is success
	// check judges the answer when want is nil: a problem, or "".
	check func(o attempt.Outcome) string
	// call is the system call that the filter decides on. Where the policy asked for lets it through, it is no hole.
	call string
	// path and access are what the policy decides on in the same way.
	path, access string
	// variable of the caller's, which the policy may pass on.
	variable string
	// control makes the same attempt outside too, in namespaces of its own: it must get further there.
	control bool
}

func words(line string) []string { return strings.Fields(line) }

func (t try) name() string { return strings.Join(t.do, " ") }

// verdict of one try.
type verdict int

const (
	held verdict = iota
	failed
	open     // by the policy
	unproven // the host refuses it outside as well
)

// judge compares an answer with what is wanted. control is the answer to the same attempt outside, nil for none.
func (t try) judge(o attempt.Outcome, control *attempt.Outcome, allows func(try) bool) (verdict, string) {
	problem := ""
	switch {
	case t.want != nil:
		if !slices.Contains(t.want, o.Errno) {
			problem = "got " + told(o) + ", want " + wanted(t.want)
		}
	case t.check != nil:
		problem = t.check(o)
	}
	if problem != "" {
		if allows(t) {
			return open, problem
		}
		return failed, problem
	}
	if control != nil && (control.Errno == "EPERM" || control.Errno == "ENOSYS") {
		return unproven, "the host refuses it outside as well: " + control.Errno
	}
	return held, ""
}

func told(o attempt.Outcome) string {
	if o.Errno != "" {
		return o.Errno
	}
	if o.Detail == "" {
		return "success"
	}
	return fmt.Sprintf("success: %.120q", o.Detail)
}

func wanted(want []string) string {
	var names []string
	for _, w := range want {
		if w == "" {
			w = "success"
		}
		names = append(names, w)
	}
	return strings.Join(names, " or ")
}

// refused makes tries of attempts that must answer with one of want.
func refused(want []string, lines ...string) []try {
	var list []try
	for _, line := range lines {
		list = append(list, try{do: words(line), want: want})
	}
	return list
}

// onPath makes an attempt on one path that must be refused with one of want, unless the policy gives that access.
func onPath(verb, path, access string, want ...string) try {
	return try{do: append(words(verb), path), want: want, path: path, access: access}
}

// onPair is onPath for attempts with two paths; the policy decides by the first.
func onPair(verb, path, access, other string, want ...string) try {
	return try{do: append(words(verb), path, other), want: want, path: path, access: access}
}

// filtered makes tries that the filter decides on.
func filtered(want []string, call string, lines ...string) []try {
	list := refused(want, lines...)
	for i := range list {
		list[i].call = call
	}
	return list
}

// raw makes tries of system calls as package attempt lists them, each decided by the call that it makes.
func raw(want []string, lines ...string) []try {
	list := refused(want, lines...)
	for i := range list {
		list[i].call = attempt.CallOf(list[i].do)
	}
	return list
}

// controlled has the attempts made outside as well.
func controlled(list []try) []try {
	for i := range list {
		list[i].control = true
	}
	return list
}

// checked is an attempt whose answer is judged by f.
func checked(line string, f func(o attempt.Outcome) string) try {
	return try{do: words(line), check: f}
}

// succeeds is an attempt that must not be refused: without it, what is refused proves little.
func succeeds(line string) try { return try{do: words(line), want: []string{""}} }

// The answers that are a refusal.
func hidden() []string { return []string{"ENOENT"} }
func barred() []string { return []string{"EPERM", "ENOSYS"} }
func unread() []string { return []string{"ENOENT", "EACCES", "EPERM"} }
func frozen() []string { return []string{"EROFS"} }
func foreign() []string {
	return []string{"ESRCH", "EPERM"}
}

func unreachable() []string {
	return []string{"ECONNREFUSED", "ENETUNREACH", "EHOSTUNREACH", "EADDRNOTAVAIL"}
}

func noSocket() []string {
	return []string{"EPERM", "EACCES", "ENOSYS", "EAFNOSUPPORT", "EPROTONOSUPPORT", "ESOCKTNOSUPPORT"}
}

// permits says whether the plan itself lets a try through: then what succeeded is what was asked for.
func (s *scene) permits(t try) bool {
	switch {
	case t.call != "":
		got, err := s.profile.Explain(t.call)
		if err != nil {
			return false
		}
		usual, err := s.usual.Explain(t.call)
		if err != nil || fmt.Sprint(got) == fmt.Sprint(usual) {
			// The built-in policy refuses it, whatever rules it has for other arguments.
			return false
		}
		permitted := got.Action.Permits()
		for _, r := range got.Rules {
			permitted = permitted || r.Action.Permits()
		}
		return permitted
	case t.path != "":
		a, err := s.plan.ExplainPath(t.path, s.host)
		return err == nil && (a.Allows(t.access) || t.access == policy.AccessRead && a.Exists && a.Allows(policy.AccessExecute))
	case t.variable != "":
		return slices.Contains(s.policy.EnvPass, t.variable)
	}
	return false
}
