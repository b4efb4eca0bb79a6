package policy

import (
	"errors"
	"io/fs"
	paths "path"
	"strconv"
	"strings"

	"gobox/fsguard/changes"
	"gobox/namespaces"

	"golang.org/x/sys/unix"
)

const (
	whyProtected = "protected: "
	whyLocked    = "protected: cannot be looked into"
	// protectEntries is how many files and folders of what the command may write to are looked at for protected ones.
	protectEntries = 1 << 20
	// protectMounts is how many of them are held, each by a mount.
	protectMounts = 1000
)

// Guard is a folder of the host that the command writes to, and what in it is protected. What was there when the run
// was planned is held by mounts; what comes later is found when the run is over.
type Guard struct {
	Path  string   // absolute
	Known []string // beneath it: held where they are, or not the command's by this folder
	Named []string // beneath it: protected, also when it comes later, since a repository's config names it
	// Aliases are folders beneath it that symbolic links show at places where something protected may lie, and bare repositories,
	// which are as good as a .git.
	Aliases []Alias
	Allow   []string // beneath it, with all beneath them: not protected
}

// Alias is a folder and the name that a link gives it, both beneath the Guard's.
type Alias struct{ Path, Name string }

// protectFiles holds what the host would run or obey of the folders that the command may change: each such file
// or folder becomes a read-only mount of itself.
func (b *builder) protectFiles() error {
	covers := b.claims // grows below
	held := 0
	for i := range covers {
		c := &covers[i]
		if c.step.Op != namespaces.OpBind || !c.write || !c.info.isDir() {
			continue
		}
		p := protection{b: b, cover: c, names: changes.NewNames(c.step.Source), guard: Guard{Path: c.step.Source}, seen: map[string]bool{}}
		for _, path := range b.allowed {
			if within(path, c.step.Source) {
				p.whole = true
			} else if below(c.step.Source, path) {
				p.guard.Allow = append(p.guard.Allow, p.relative(path))
			}
		}
		if p.whole {
			continue
		}
		if err := p.folder(".", "."); err != nil {
			return err
		}
		if held += len(p.held); held > protectMounts {
			return &Error{Step: "protect", Object: c.step.Source, Err: errors.New("has more than " + strconv.Itoa(protectMounts) + " files that the host would run or obey, and each takes a mount to hold it"),
				Hint: "--allow-path P leaves those at or beneath P to the command; --workspace-mode overlay needs no mounts"}
		}
		b.claims = append(b.claims, p.held...)
		b.plan.Guards = append(b.plan.Guards, p.guard)
	}
	return nil
}

// allowPaths settles --allow-path, each of which must mean something.
func (b *builder) allowPaths() error {
	for _, given := range b.policy.AllowPath {
		path := given
		if !strings.HasPrefix(path, "/") {
			dir := b.plan.Workspace.Path
			if dir == "" {
				dir = b.host.Dir
			}
			path = join(dir, path)
		}
		path = cleanPath(path)
		if real, _, err := resolveMissing(b.host.FS, "", path); err == nil {
			if link := b.bent(path); link != "" {
				return &Error{Step: "protect", Object: "--allow-path " + given, Err: errors.New("the link " + link + " leads to " + real + ", and an earlier run may have put it there"),
					Hint: "if that is what you mean, name it: --allow-path " + real}
			}
			path = real
		}
		b.allowed = append(b.allowed, path)
		meant := false
		if out := b.plan.Output.Path; out != "" {
			switch {
			case within(path, out):
				b.plan.Output.Allow, meant = []string{"."}, true
			case within(out, path):
				b.plan.Output.Allow, meant = append(b.plan.Output.Allow, path[len(out)+1:]), true
			}
		}
		for i := range b.claims {
			c := &b.claims[i]
			if c.step.Op == namespaces.OpBind && c.write && (within(c.step.Source, path) || within(path, c.step.Source)) {
				meant = true
			}
		}
		if meant {
			continue
		}
		refusal := &Error{Step: "protect", Object: "--allow-path " + given, Err: errors.New("nothing there is the command's to change"), Hint: "it goes with --workspace-mode rw, --rw, --rwx and --output-dir; paths are relative to the workspace"}
		if b.plan.Workspace.Mode == ModeOverlay {
			refusal.Hint = "in an overlay the command can change everything, and gobox apply takes --allow-path; " + refusal.Hint
		}
		return refusal
	}
	return nil
}

// bent gives a symbolic link on the way to path, which need not be there, that the command could have made; else nothing.
func (b *builder) bent(path string) string {
	for {
		found, err := resolvePath(b.host.FS, "", path)
		if err != nil && path != "/" {
			path = parent(path)
			continue
		}
		for _, h := range found.Hops {
			for i := range b.claims {
				if c := &b.claims[i]; c.step.Op == namespaces.OpBind && c.write && below(c.step.Source, h.Path) {
					return h.Path
				}
			}
		}
		return ""
	}
}

// protection is the search of one folder.
type protection struct {
	b     *builder
	cover *claim
	names *changes.Names
	guard Guard
	held  []claim
	seen  map[string]bool // held or gone into
	count int
	whole bool // all of it is allowed
}

// folder looks through the folder at path, which goes by name where a link leads to it. Both are beneath the guard's.
func (p *protection) folder(path, name string) error {
	if p.seen[path+"\x00"+name] {
		return nil
	}
	p.seen[path+"\x00"+name] = true
	entries, err := p.b.host.FS.ReadDir(p.source(path))
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return nil
	default:
		// Whoever owns it could still unlock it and put something in.
		if path == "." {
			return &Error{Step: "protect", Object: p.guard.Path, Err: plainCause(err), Hint: "gobox looks there for files that the host would run or obey; --allow-path . does without"}
		}
		return p.hold(path, whyLocked)
	}
	if p.count += len(entries); p.count > protectEntries {
		return &Error{Step: "protect", Object: p.guard.Path, Err: errors.New("has more than " + strconv.Itoa(protectEntries) + " files, too many to look for those that the host would run or obey"),
			Hint: "--workspace-mode overlay, or a smaller folder; --allow-path P leaves what is at or beneath P to the command"}
	}
	has := func(name string) bool {
		for _, e := range entries {
			if e.Name() == name {
				return true
			}
		}
		return false
	}
	own := name // what its repository's files are called
	if own == "." {
		own = p.guard.Path
	}
	if strings.EqualFold(paths.Base(own), ".git") {
		top := ".."
		if name != "." {
			top = paths.Dir(name)
		}
		if err := p.config(path, top); err != nil {
			return err
		}
	} else if changes.IsBare(has) {
		if err := p.config(path, path); err != nil {
			return err
		}
		name = child(name, ".git")
		p.guard.Aliases = append(p.guard.Aliases, Alias{path, name})
	}
	for _, e := range entries {
		if err := p.entry(child(path, e.Name()), child(name, e.Name()), e.Type()); err != nil {
			return err
		}
	}
	return nil
}

func (p *protection) entry(path, name string, kind fs.FileMode) error {
	if p.allows(path) {
		return nil
	}
	if !p.shown(path) {
		// What is there inside is something else, and this is not to be looked at in the end.
		p.guard.Known = append(p.guard.Known, path)
		return nil
	}
	link := kind&fs.ModeSymlink != 0
	why := p.names.Protects(name, kind.IsDir())
	switch {
	case why != "":
		if err := p.hold(path, whyProtected+why); err != nil {
			return err
		}
		if link {
			return p.behind(path, name, true)
		}
	case link && p.names.Leads(name):
		if err := p.hold(path, whyProtected+"it leads to what the host would obey"); err != nil {
			return err
		}
		return p.behind(path, name, false)
	case kind.IsDir() && !p.names.Data(name):
		return p.folder(path, name)
	}
	return nil
}

// behind deals with what a link leads to, where that is beneath the guard's folder.
func (p *protection) behind(path, name string, protected bool) error {
	found, err := resolvePath(p.b.host.FS, "", p.source(path))
	if err != nil {
		if text, err := p.b.host.FS.Readlink(p.source(path)); err == nil && protected {
			// Dangling: what it names may come yet.
			real, _, err := resolveMissing(p.b.host.FS, parent(p.source(path)), text)
			if err == nil && below(p.guard.Path, real) {
				p.guard.Named = append(p.guard.Named, p.relative(real))
			}
		}
		return nil
	}
	for _, h := range found.Hops {
		// Each could be turned to something else.
		if below(p.guard.Path, h.Path) {
			if err := p.hold(p.relative(h.Path), whyProtected+"the link "+name+" leads through it"); err != nil {
				return err
			}
		}
	}
	if !below(p.guard.Path, found.Path) {
		return nil // where the command changes nothing by this folder
	}
	real := p.relative(found.Path)
	if p.allows(real) || !p.shown(real) {
		return nil
	}
	if protected {
		return p.hold(real, whyProtected+"the link "+name+" leads to it")
	}
	if !found.Info.isDir() || p.seen[real+"\x00"+name] {
		return nil
	}
	p.guard.Aliases = append(p.guard.Aliases, Alias{real, name})
	return p.folder(real, name)
}

// config holds what the config of the repository at path names; top is its working tree.
func (p *protection) config(path, top string) error {
	dir := path
	if top != path && top != ".." {
		dir = child(top, ".git") // by whatever link it was found
	}
	files := []string{child(path, "config"), child(path, "config.worktree")}
	if text, ok := p.line(child(path, "gitdir")); ok {
		// A linked worktree's own folder: it obeys the config of the whole repository as well, from its own top
		// (gitrepository-layout(5)).
		if tree := parent(leadsTo(p.source(path), text)); within(p.guard.Path, tree) {
			top = p.relative(tree)
		}
		if common, ok := p.line(child(path, "commondir")); ok {
			if place := leadsTo(p.source(path), common); within(p.guard.Path, place) {
				files = append(files, child(p.relative(place), "config"))
			}
		}
	}
	for _, file := range files {
		if err := p.configFile(file, top, dir); err != nil {
			return err
		}
	}
	return nil
}

// line reads a file of git's that has one.
func (p *protection) line(path string) (string, bool) {
	text, err := p.b.host.FS.ReadFile(p.source(path), maxRead)
	return strings.TrimRight(string(text), "\r\n"), err == nil
}

func leadsTo(dir, path string) string {
	if !strings.HasPrefix(path, "/") {
		path = dir + "/" + path
	}
	return cleanPath(path)
}

func (p *protection) configFile(file, top, dir string) error {
	text, err := p.b.host.FS.ReadFile(p.source(file), maxRead)
	if err != nil {
		return nil // none, or none that the command could read
	}
	for _, named := range p.names.Config(p.guard.Path, top, dir, string(text)) {
		p.guard.Named = append(p.guard.Named, named)
		info, err := lstat(p.b.host.FS, p.source(named))
		if err != nil {
			continue
		}
		found, err := resolvePath(p.b.host.FS, "", p.source(named))
		if err == nil && found.Path == p.source(named) && !info.isSymlink() {
			err = p.hold(named, whyProtected+"the repository's config names it")
		} else {
			err = p.behind(named, named, true)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// hold makes a file or folder, or a link itself, a read-only mount of itself.
func (p *protection) hold(path, why string) error {
	if p.seen[path] || p.allows(path) || !p.shown(path) {
		return nil
	}
	p.seen[path] = true
	source := p.source(path)
	info, err := lstat(p.b.host.FS, source)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &Error{Step: "protect", Object: source, Err: err}
	}
	p.guard.Known = append(p.guard.Known, path)
	step := namespaces.Step{Op: namespaces.OpBind, Source: source, Target: p.place(path), Attr: p.cover.step.Attr | namespaces.ReadOnly, Held: true, Why: why}
	p.held = append(p.held, claim{step: step, info: info, exec: p.cover.exec})
	return nil
}

// relative is the inverse of source.
func (p *protection) relative(path string) string {
	if path == p.guard.Path {
		return "."
	}
	return path[len(strings.TrimSuffix(p.guard.Path, "/"))+1:]
}

func (p *protection) source(path string) string { return beneath(p.guard.Path, path) }
func (p *protection) place(path string) string  { return beneath(p.cover.step.Target, path) }

// shown tells whether the path is the cover's own, and nothing else is mounted there.
func (p *protection) shown(path string) bool { return p.b.shows(p.cover, p.place(path)) }

func (p *protection) allows(path string) bool {
	for _, allowed := range p.guard.Allow {
		if within(allowed, path) {
			return true
		}
	}
	return false
}

func beneath(dir, path string) string {
	if path == "." {
		return dir
	}
	return join(dir, path)
}

func child(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}
