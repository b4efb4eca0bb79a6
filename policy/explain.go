package policy

import (
	"errors"
	"io/fs"
	"path"
	"strings"

	"gobox/landlock"
	"gobox/namespaces"
)

// The kinds of access that can be asked about.
const (
	AccessRead    = "read"
	AccessWrite   = "write"
	AccessExecute = "execute"
)

// Access says what the command may do with a path, as far as the policy goes: the file's own mode still applies.
type Access struct {
	Asked   string `json:"asked"`
	Path    string `json:"path"`   // inside, free of symbolic links
	Source  string `json:"source"` // on the host; empty for what the sandbox has of its own
	Exists  bool   `json:"exists"` // inside, when the command starts
	Read    bool   `json:"read"`
	Write   bool   `json:"write"` // also to make it where it does not exist
	Execute bool   `json:"execute"`
	Rule    string `json:"rule"`
	Hidden  bool   `json:"hidden"` // by --deny

	step namespaces.Step
	// What a flag could grant: the place, or for one that the host lacks the folder that is to have it; empty for neither.
	grant, folder string
}

// Allows answers for one kind of access.
func (a Access) Allows(kind string) bool {
	switch kind {
	case AccessRead:
		return a.Read
	case AccessWrite:
		return a.Write
	case AccessExecute:
		return a.Execute
	}
	return false
}

// Fix is the flag that would change a refusal, or why there is none.
func (a Access) Fix(kind string) string {
	if a.Allows(kind) {
		return ""
	}
	flag := map[string]string{AccessRead: "--ro ", AccessWrite: "--rw ", AccessExecute: "--rox "}[kind]
	switch {
	case a.Path == "/" || a.Path == "/etc":
		return "none: this is the sandbox's own"
	case reserved(a.Path):
		return "none: the sandbox has its own /proc and /dev and no /sys"
	case a.Hidden:
		return "leave it out of --deny or filesystem.deny"
	case kind == AccessWrite && onSystem(a.Path):
		return "none: system folders are read-only in every sandbox"
	case kind == AccessWrite && strings.HasPrefix(a.step.Why, whyProtected):
		return "--allow-path " + a.Source
	case kind == AccessWrite && a.step.Why == whyWorkspace:
		return "--workspace-mode overlay, or rw to change the host's"
	case kind == AccessWrite && a.grant == "" && a.folder != "":
		// A grant must exist, and a file can be made where its folder is granted.
		if a.step.Op == namespaces.OpBind && a.step.Attr&namespaces.NoExec == 0 {
			flag = "--rwx "
		}
		return a.instead(flag+a.folder, path.Dir(a.Path))
	case a.grant == "":
		return "none: it is not there, and what is not there cannot be granted"
	case kind == AccessWrite && a.Execute, kind == AccessExecute && a.Write && a.Source != "":
		flag = "--rwx "
	}
	return a.instead(flag+a.grant, a.Path)
}

// instead says when a flag is to take another one's place, since two for the same place are refused.
func (a Access) instead(flag, place string) string {
	if a.step.Target == place && strings.HasPrefix(a.step.Why, "--r") {
		flag += " in place of " + a.step.Why
	}
	return flag
}

// grantable sets what a flag could name for a place that is not granted as asked.
func (a *Access) grantable(h Host) {
	name := func(place string) string {
		source, text := place, place
		if a.step.Op == namespaces.OpBind && within(a.step.Target, place) && a.step.Source != a.step.Target {
			source = move(place, a.step.Target, a.step.Source)
			text = source + ":" + place
		}
		if _, err := h.FS.Lstat(source); errors.Is(err, fs.ErrNotExist) {
			return ""
		}
		return text
	}
	a.grant = name(a.Path)
	// Of folders only the next: in one further up is more than what was asked about.
	if dir := path.Dir(a.Path); !reserved(dir) && !onSystem(dir) {
		a.folder = name(dir)
	}
}

// ExplainPath says what the plan does with name, a path inside or relative to the caller's directory. Symbolic links
// are followed as they will be inside. It fails on what is no path, and on one that cannot be followed.
func (p *Plan) ExplainPath(name string, h Host) (Access, error) {
	if name == "" {
		return Access{}, errEmpty
	}
	if strings.IndexByte(name, 0) >= 0 {
		return Access{}, errNUL
	}
	asked := name
	if !strings.HasPrefix(name, "/") {
		if h.Dir == "" {
			return Access{}, errNoDir
		}
		name = h.Dir + "/" + name
	}
	current, rest := "/", name
	for hops := 0; ; {
		rest = strings.TrimLeft(rest, "/")
		if rest == "" {
			break
		}
		var part string
		part, rest, _ = strings.Cut(rest, "/")
		if part == "." {
			continue
		}
		if part == ".." {
			current = path.Dir(current)
			continue
		}
		next := join(current, part)
		text, link := p.linkAt(next, h)
		if !link {
			current = next
			continue
		}
		if hops++; hops > maxHops {
			return Access{}, errTooManyHop
		}
		if strings.HasPrefix(text, "/") {
			current = "/"
		}
		rest = text + "/" + rest
	}
	a := p.access(current, h)
	a.Asked = asked
	a.grantable(h)
	return a, nil
}

// linkAt gives the text of a symbolic link at a place inside.
func (p *Plan) linkAt(place string, h Host) (string, bool) {
	step, _ := p.covering(place)
	switch step.Op {
	case namespaces.OpSymlink:
		return step.Source, step.Target == place
	case namespaces.OpBind, namespaces.OpOverlay:
		source := move(place, step.Target, step.Source)
		if info, err := lstat(h.FS, source); err == nil && info.isSymlink() {
			text, err := h.FS.Readlink(source)
			return text, err == nil
		}
	}
	return "", false
}

// covering is the step that decides about a place, the zero Step for the root's own tmpfs. leads tells whether a
// step makes the place or something below it.
func (p *Plan) covering(place string) (step namespaces.Step, leads bool) {
	for _, s := range p.Tree.Steps {
		switch {
		case s.Op == namespaces.OpPivot:
			continue
		case within(s.Target, place):
			leads = leads || s.Target == place
			// Of two at one place the later covers the earlier.
			if len(s.Target) >= len(step.Target) {
				step = s
			}
		case below(place, s.Target):
			leads = true
		}
	}
	return step, leads
}

// access judges a place that is free of symbolic links.
func (p *Plan) access(place string, h Host) Access {
	step, leads := p.covering(place)
	a := Access{Path: place, step: step, Exists: leads, Rule: step.Why}
	exact := step.Target == place
	own := step.Op == namespaces.OpBind || step.Op == namespaces.OpOverlay || step.Op == namespaces.OpTmpfs || step.Op == namespaces.OpScratch || step.Op == namespaces.OpOutput
	write, exec := own && step.Attr&namespaces.ReadOnly == 0, own && step.Attr&namespaces.NoExec == 0
	switch step.Op {
	case namespaces.OpBind, namespaces.OpOverlay:
		a.Source = move(place, step.Target, step.Source)
		_, err := h.FS.Lstat(a.Source)
		a.Exists = !errors.Is(err, fs.ErrNotExist)
	case namespaces.OpMask:
		a.Exists, a.Hidden, a.Source = true, step.Why == whyDeny, ""
		a.Rule = maskRule(step.Why)
		return a
	case namespaces.OpDevice, namespaces.OpDevpts:
		a.Exists, write, a.Source = true, true, step.Source
	case namespaces.OpProc:
		a.Exists = true
	}
	if a.Rule == "" || !own && !exact && step.Op != namespaces.OpProc && step.Op != namespaces.OpDevpts {
		a.Rule = "nothing grants it"
	}
	if !own && leads && !exact {
		a.Rule = "the way to what is granted below"
	}
	a.Read, a.Write, a.Execute = a.Exists, write, a.Exists && exec
	if p.Landlock.ABI > 0 {
		var have landlock.Access
		for _, r := range p.Landlock.Rules {
			if within(r.Path, place) {
				have |= r.Access
			}
		}
		a.Read = a.Read && have&(landlock.Read|landlock.List) != 0
		a.Write = a.Write && have&(landlock.Write|landlock.WriteExisting) != 0
		a.Execute = a.Execute && have&landlock.Execute != 0
	}
	return a
}

const whyDeny = "--deny"

func maskRule(why string) string {
	if why == whyDeny {
		return "hidden by --deny"
	}
	return "covered: " + why
}
