package policy

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Request is what a run's policy is made of.
type Request struct {
	Named   string                 // by --policy: a built-in policy or a file; empty for the default
	Flags   Policy                 // what the flags say, on top of the default
	Changed func(flag string) bool // whether a flag was given
	// Terminal lifts the default's wall clock, for a person who sits at it.
	Terminal bool
	// NoWorkspaceFile leaves out the file that the workspace has.
	NoWorkspaceFile bool
	Ceiling         string // file, CeilingFile in all but tests
	Host            Host
}

// Combined is a policy and where it comes from.
type Combined struct {
	Policy  Policy
	Sources []string // files and built-in policies, in the order of their say
}

// Combine puts a run's policy together: default <- what the named policy extends <- the named policy <- the
// workspace's file, which may only tighten <- flags. Each replaces single values and adds to lists. The host's
// ceiling lowers the default, and whatever still exceeds it in the end is refused. The error is an *Error.
func Combine(r Request) (Combined, error) {
	ceiling, err := LoadCeiling(r.Ceiling)
	if err != nil {
		return Combined{}, err
	}
	return combine(r, ceiling)
}

// combine is Combine under a ceiling that was read, nil for none.
func combine(r Request, ceiling *Document) (Combined, error) {
	c := combination{Request: r, stated: map[string]bool{}, out: Combined{Policy: Default(), Sources: []string{whyBuiltin + "default"}}}
	if ceiling != nil {
		c.table = fields()
		c.settle(ceiling)
		c.lower(ceiling)
	}
	if r.Named != "" {
		if err := c.addNamed(); err != nil {
			return Combined{}, err
		}
	}
	if err := c.addWorkspaceFile(); err != nil {
		return Combined{}, err
	}
	if err := c.addFlags(); err != nil {
		return Combined{}, err
	}
	p := &c.out.Policy
	if r.Terminal && !c.stated["limits.timeout"] {
		p.Timeout = 0
		if ceiling != nil {
			p.Timeout = ceiling.policy.Timeout
		}
	}
	if !c.stated["limits.fsize"] {
		p.Fsize = p.Disk
	}
	if ceiling != nil {
		if err := c.checkCeiling(ceiling); err != nil {
			return Combined{}, err
		}
		if err := c.checkNetworkCeiling(ceiling); err != nil {
			return Combined{}, err
		}
	}
	return c.out, nil
}

type combination struct {
	Request
	out    Combined
	table  []field         // nil until a file is there: a plain run needs none
	stated map[string]bool // keys that something other than the default says
	files  []string        // real paths of the named policy's files
}

// lower makes the default fit under the ceiling.
func (c *combination) lower(ceiling *Document) {
	p := &c.out.Policy
	for i := range c.table {
		f := &c.table[i]
		if !ceiling.States(f.path) {
			continue
		}
		if f.adds || f.section() == "gate" || f.looser != nil && f.bounds == nil && f.looser(p, &ceiling.policy) != "" {
			f.take(p, &ceiling.policy)
			c.stated[f.path] = true
		}
	}
	c.out.Sources = append(c.out.Sources, ceiling.File)
}

func (c *combination) addNamed() error {
	chain, err := LoadDocuments(c.Named)
	if err != nil {
		return err
	}
	c.table = fields()
	for _, d := range chain {
		c.add(d)
		if d.real != "" {
			c.files = append(c.files, d.real)
			// By the name that it was found by: the command must not change where a link on the way leads either.
			c.out.Policy.Keep = append(c.out.Policy.Keep, Kept{"--policy", d.File})
		}
		c.out.Policy.Name = d.Name
	}
	return nil
}

// add takes what d states.
func (c *combination) add(d *Document) {
	c.settle(d)
	for i := range c.table {
		if f := &c.table[i]; d.States(f.path) {
			f.take(&c.out.Policy, &d.policy)
			c.stated[f.path] = true
		}
	}
	if !slices.Contains(c.out.Sources, d.File) {
		c.out.Sources = append(c.out.Sources, d.File)
	}
}

// settle makes a file's path of a seccomp profile one of its own folder.
func (c *combination) settle(d *Document) {
	if s := d.policy.SeccompFile; s != "" {
		if d.dir != "" && !strings.HasPrefix(s, "/") && !strings.HasPrefix(s, "~/") {
			s = join(d.dir, s)
		}
		d.policy.SeccompFile = c.tilde(s)
	}
}

func (c *combination) mode() Mode {
	if c.Changed("workspace-mode") {
		return c.Flags.Workspace.Mode
	}
	return c.out.Policy.Workspace.Mode
}

// workspace is the folder that the run will have, empty for none.
func (c *combination) workspace() string {
	path := c.tilde(c.out.Policy.Workspace.Path)
	if c.Changed("workspace") {
		path = c.Flags.Workspace.Path
	}
	switch {
	case c.mode() == ModeNone:
		return ""
	case strings.HasPrefix(path, "/"):
		return path
	case c.Host.Dir == "":
		return ""
	}
	return cleanPath(join(c.Host.Dir, path))
}

// addWorkspaceFile takes the file that the workspace has. Anyone may have written it, so it can only tighten.
func (c *combination) addWorkspaceFile() error {
	dir := c.workspace()
	if dir == "" || c.NoWorkspaceFile {
		return nil
	}
	d, err := ReadDocument(join(dir, WorkspaceFile), true)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil // what is no folder is refused with the workspace
	}
	const leaveOut = "--no-workspace-policy runs without this file"
	if err != nil {
		var cause *Error
		if errors.As(err, &cause) {
			cause.Hint = leaveOut
		}
		return err
	}
	if d.real != "" && slices.Contains(c.files, d.real) {
		return nil // the caller has named it, and so trusts it
	}
	if c.table == nil {
		c.table = fields()
	}
	for _, key := range []string{"name", "extends"} {
		if d.States(key) {
			return d.refuse(key, leaveOut, "%s: a workspace's own policy has none, it can only tighten the run's", key)
		}
	}
	p := &c.out.Policy
	if !c.stated["limits.fsize"] {
		p.Fsize = p.Disk
	}
	if err := c.checkTightens(d, leaveOut); err != nil {
		return err
	}
	c.add(d)
	if p.Workspace.Mode == ModeNone {
		p.Workspace.Path, p.Workspace.Explicit = "", false
	}
	return nil
}

// checkTightens goes through all that d states.
func (c *combination) checkTightens(d *Document, leaveOut string) error {
	p := &c.out.Policy
	for i := range c.table {
		f := &c.table[i]
		if !d.States(f.path) {
			continue
		}
		if f.notWorkspace {
			return d.refuse(f.path, leaveOut, "%s: is not for a workspace's own policy, which can only tighten the run's", f.path)
		}
		if f.looser != nil {
			if cause := f.looser(&d.policy, p); cause != "" {
				return d.refuse(f.path, "a workspace's own policy can only tighten the run's; "+leaveOut, "%s: %s", f.path, cause)
			}
		}
	}
	return nil
}

// ValidateWorkspaceFile checks a workspace's own policy against the default policy.
func ValidateWorkspaceFile(file string, h Host) error {
	c := combination{
		Request: Request{Changed: func(flag string) bool { return flag == "workspace" }, Host: h},
		stated:  map[string]bool{}, out: Combined{Policy: Default()},
	}
	c.Flags.Workspace.Path = filepath.Dir(file)
	if _, err := os.Lstat(file); err != nil {
		return &Error{Step: "policy", Object: file, Err: plainCause(err)}
	}
	return c.addWorkspaceFile()
}

// addFlags puts what the flags say on top. Flags without a key in policy files have their say alone.
func (c *combination) addFlags() error {
	base := c.out.Policy
	p := c.Flags
	p.Name = base.Name
	if c.table == nil {
		// No file at all: the flags are on top of the default already.
		c.out.Policy = p
		c.stated["limits.timeout"], c.stated["limits.fsize"] = c.Changed("timeout"), c.Changed("fsize")
		return nil
	}
	if err := c.place(&base); err != nil {
		return err
	}
	for i := range c.table {
		f := &c.table[i]
		if f.flag != "" && c.Changed(f.flag) {
			c.stated[f.path] = true
			if !f.lists() {
				f.take(&base, &p)
			}
		}
	}
	base.Grants = append(slices.Clip(base.Grants), p.Grants...)
	base.Deny = append(slices.Clip(base.Deny), p.Deny...)
	base.AllowPath = append(slices.Clip(base.AllowPath), p.AllowPath...)
	base.Env = append(slices.Clip(base.Env), p.Env...)
	base.EnvPass = append(slices.Clip(base.EnvPass), p.EnvPass...)
	base.AllowNet = append(slices.Clip(base.AllowNet), p.AllowNet...)
	base.AllowSyscall = append(slices.Clip(base.AllowSyscall), p.AllowSyscall...)
	base.DenySyscall = append(slices.Clip(base.DenySyscall), p.DenySyscall...)
	base.Require = append(slices.Clip(base.Require), p.Require...)
	base.Labels = append(slices.Clip(base.Labels), p.Labels...)
	base.Keep = append(slices.Clip(base.Keep), p.Keep...)

	base.Scratch = p.Scratch
	base.Argv, base.TTY, base.Rootfs, base.Tmpfs, base.Address, base.AllowMissing = p.Argv, p.TTY, p.Rootfs, p.Tmpfs, p.Address, p.AllowMissing
	base.Publish, base.Credentials, base.Secrets = p.Publish, p.Credentials, p.Secrets
	c.out.Policy = base
	return nil
}

func (f *field) lists() bool {
	return f.kind == fieldTexts || f.kind == fieldWords || f.kind == fieldPairs
}

// place makes the paths of files absolute: those of a file system relative to the workspace.
func (c *combination) place(p *Policy) error {
	p.Workspace.Path = c.tilde(p.Workspace.Path)
	dir := c.workspace()
	settle := func(path string) (string, error) {
		path = c.tilde(path)
		switch {
		case strings.HasPrefix(path, "/"):
			return path, nil
		case dir != "":
			return join(dir, path), nil
		}
		return "", &Error{Step: "policy", Object: path, Err: errors.New("is relative to the workspace, and there is none"), Hint: "write the whole path, or ~/ for HOME"}
	}
	var err error
	p.Grants = slices.Clone(p.Grants)
	for i := range p.Grants {
		if p.Grants[i].Source, err = settle(p.Grants[i].Source); err != nil {
			return err
		}
	}
	var deny []string
	for _, path := range p.Deny {
		placed, err := settle(path)
		if err == nil {
			// What the command makes in an overlay stays in it: there is nothing of the host's to hide yet.
			if _, missing := resolvePath(c.Host.FS, c.Host.Dir, placed); c.mode() != ModeOverlay || !errors.Is(missing, fs.ErrNotExist) || !within(dir, placed) {
				deny = append(deny, placed)
			}
		} else if dir != "" || strings.HasPrefix(path, "~/") {
			return err
		}
		// Without a workspace there is nothing in it to hide.
	}
	p.Deny = deny
	if p.OutputDir != "" {
		if p.OutputDir, err = settle(p.OutputDir); err != nil {
			return err
		}
	}
	p.AllowPath = slices.Clone(p.AllowPath)
	for i := range p.AllowPath {
		if p.AllowPath[i], err = settle(p.AllowPath[i]); err != nil {
			return err
		}
	}
	return nil
}

// tilde is for files what a shell does for flags.
func (c *combination) tilde(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if home := c.Host.getenv("HOME"); strings.HasPrefix(home, "/") {
			return join(home, rest)
		}
	}
	return path
}

// checkCeiling refuses what exceeds the ceiling, whoever asked for it.
func (c *combination) checkCeiling(ceiling *Document) error {
	p := &c.out.Policy
	limit := ceiling.policy
	if err := c.place(&limit); err != nil {
		return err
	}
	for i := range c.table {
		f := &c.table[i]
		if !ceiling.States(f.path) {
			continue
		}
		cause := ""
		switch {
		case f.bounds != nil:
			cause = f.bounds(p, &limit, c.Host)
		case f.looser != nil:
			cause = f.looser(p, &limit)
		}
		if cause != "" {
			hint := "this host's ceiling, which no flag or policy exceeds"
			if f.flag != "" {
				hint = "ask for less, with --" + f.flag + " or in the policy: " + hint
			}
			return ceiling.refuse(f.path, hint, "%s: %s", f.path, cause)
		}
	}
	return nil
}

// grantsBeyond names a grant of p, listed under the named key, that bound lacks.
func grantsBeyond(p, bound *Policy, name string) string {
	for _, g := range p.Grants {
		if g.listed() == name && !slices.Contains(bound.Grants, g) {
			return g.Source + " is not granted by the run's policy"
		}
	}
	return ""
}

// readBeyond, executeBeyond and writeBeyond name a grant outside of the ceiling's. Whatever is granted can be read.
func readBeyond(p, ceiling *Policy, h Host) string {
	all := func(Grant) bool { return true }
	if p.Rootfs != "" && !inGrants(p.Rootfs, ceiling, h, all) {
		return p.Rootfs + " is not below what may be granted"
	}
	return beyond(p, ceiling, h, all)
}

func executeBeyond(p, ceiling *Policy, h Host) string {
	if p.Rootfs != "" && !inGrants(p.Rootfs, ceiling, h, func(g Grant) bool { return g.Exec }) {
		return p.Rootfs + " is not below what may be executed"
	}
	return beyond(p, ceiling, h, func(g Grant) bool { return g.Exec })
}

func writeBeyond(p, ceiling *Policy, h Host) string {
	if p.OutputDir != "" {
		real, _, err := resolveMissing(h.FS, h.Dir, p.OutputDir)
		if err != nil || !inGrants(parent(real), ceiling, h, func(g Grant) bool { return g.Write }) {
			return "--output-dir " + p.OutputDir + " is not below what may be granted"
		}
	}
	return beyond(p, ceiling, h, func(g Grant) bool { return g.Write })
}

// beyond names a grant of the kind that is not below one of the ceiling's of that kind.
func beyond(p, ceiling *Policy, h Host, kind func(Grant) bool) string {
	for _, g := range p.Grants {
		if kind(g) && !inGrants(g.Source, ceiling, h, kind) {
			return g.Flag + " " + g.Source + " is not below what may be granted"
		}
	}
	return ""
}

func inGrants(path string, ceiling *Policy, h Host, kind func(Grant) bool) bool {
	found, err := resolvePath(h.FS, h.Dir, path)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(ceiling.Grants, func(g Grant) bool {
		top, err := resolvePath(h.FS, h.Dir, g.Source)
		return err == nil && kind(g) && within(top.Path, found.Path)
	})
}

// workspaceBeyond tells whether the workspace is not in the ceiling's.
func workspaceBeyond(p, ceiling *Policy, h Host) string {
	if p.Workspace.Mode == ModeNone {
		return ""
	}
	found, err := resolvePath(h.FS, h.Dir, p.Workspace.Path)
	top, topErr := resolvePath(h.FS, h.Dir, ceiling.Workspace.Path)
	if err != nil || topErr != nil || !within(top.Path, found.Path) {
		return p.Workspace.Path + " is not below " + ceiling.Workspace.Path
	}
	return ""
}

// profileBeyond: a profile of the caller's can allow anything, so that it must be the ceiling's own.
func profileBeyond(p, ceiling *Policy, h Host) string {
	if p.SeccompFile == "" && ceiling.SeccompFile == "" {
		return ""
	}
	have, err := resolvePath(h.FS, h.Dir, p.SeccompFile)
	most, mostErr := resolvePath(h.FS, h.Dir, ceiling.SeccompFile)
	switch {
	case p.SeccompFile == "", ceiling.SeccompFile != "" && err == nil && mostErr == nil && have.Path == most.Path:
		return ""
	}
	return "the seccomp profile " + p.SeccompFile + " is not the ceiling's"
}
