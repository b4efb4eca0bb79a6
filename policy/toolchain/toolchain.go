package toolchain

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
)

// Request is a command and the environment it was typed in.
type Request struct {
	Name string                   // argv[0]
	Dir  string                   // working directory, absolute
	Path string                   // the caller's PATH
	Home string                   // the caller's home directory; may be empty
	Env  func(name string) string // the caller's environment; nil for an empty one
	FS   FS                       // nil for HostFS
	// Visible are real paths that the command can read and execute in any case: the workspace and the
	// caller's grants. Nothing beneath them is granted again, and nothing in them is trusted.
	Visible []string
}

// Grant is a path to make readable and executable.
type Grant struct {
	Path string // free of symbolic links
	Why  string // "python (pyenv 3.11.7)"
	File bool   // one file and no directory
}

// Link is a symbolic link to make inside, so that the host's path works there too.
type Link struct {
	Path   string // absolute; its parent is free of symbolic links
	Target string // the link's text, as on the host
}

// Result is what the command needs. Grants and Links are sorted by path; no grant is beneath another,
// and no link is beneath a grant or a path that is visible anyway.
type Result struct {
	// Exec is what to execute, absolute. It may be a symbolic link: a venv's python is known by its link.
	Exec   string
	Grants []Grant
	Links  []Link
	Path   string // PATH for the inside
}

// Resolve finds what argv[0] really is and what has to be visible for it to run. Nothing is executed
// or changed. The error is always an *Error.
//
// The installations that PATH leads to are resolved too, so that a shell inside finds the same tools;
// a failure there is silent and drops the PATH entry.
func Resolve(req Request) (Result, error) {
	if req.FS == nil {
		req.FS = HostFS()
	}
	if req.Env == nil {
		req.Env = func(string) string { return "" }
	}
	r := &resolver{Request: req, places: make(map[string]*place, 64)}
	if req.Name == "" || strings.ContainsRune(req.Name, 0) || !path.IsAbs(req.Dir) {
		return Result{}, &Error{Kind: NotFound, Object: req.Name, Err: syscall.ENOENT}
	}
	r.homes = []string{}
	if req.Home != "" {
		r.homes = append(r.homes, path.Clean(req.Home))
		if p := r.place(req.Home); p.err == nil && p.real != r.homes[0] {
			r.homes = append(r.homes, p.real)
		}
	}
	r.environmentRoots()
	exec, err := r.command()
	if err != nil {
		return Result{}, err
	}
	return r.result(exec), nil
}

// resolver is the state of one Resolve.
type resolver struct {
	Request
	homes  []string // Home, and Home without links when that differs
	places map[string]*place
	depth  int // of links being followed
	roots  []root
	marks  map[string]mark
	texts  map[string]string // of small files
	venvs  []venvSeen        // whose pyvenv.cfg was read
	grants []Grant
	links  []Link
	dirs   []string // directories that must be on the inner PATH
}

// venvSeen is a virtual environment and who led to it.
type venvSeen struct {
	prefix string
	by     origin
}

// command resolves argv[0].
func (r *resolver) command() (string, error) {
	if !strings.Contains(r.Name, "/") {
		return r.search(r.Name, byCaller, 0)
	}
	name := r.Name
	if !path.IsAbs(name) {
		name = r.Dir + "/" + name
	}
	// Cleaning "a/../b" by its letters is wrong when a is a link.
	if strings.Contains(name, "..") {
		if dir := r.place(path.Dir(name + "x")); dir.err == nil {
			name = path.Join(dir.real, path.Base(name))
		}
	}
	name = path.Clean(name)
	exec, err := r.admit(name, byCaller, 0)
	if err == errPass {
		return r.search(path.Base(name), byCaller, 0)
	}
	return exec, err
}

// search finds a program as execvp(3) does, and goes on where a shim says "system".
func (r *resolver) search(name string, by origin, depth int) (string, error) {
	var denied, missing error
	for dir := range strings.SplitSeq(r.Path, ":") {
		if !path.IsAbs(dir) {
			dir = path.Join(r.Dir, dir)
		}
		file := path.Join(dir, name)
		p := r.place(file)
		if p.err != nil {
			// Also where the caller may not look: what cannot be seen is not found.
			continue
		}
		if !p.isRegular() || !r.FS.Executable(p.real) {
			if denied == nil {
				denied = &Error{Kind: NotExecutable, Object: file, Err: syscall.EACCES}
			}
			continue
		}
		exec, err := r.admit(file, by, depth)
		if err == errPass {
			continue
		}
		if e, ok := err.(*Error); ok && e.Kind == NotFound {
			// The selected version lacks this tool; another place on PATH may have it.
			if missing == nil {
				missing = err
			}
			continue
		}
		return exec, err
	}
	switch {
	case missing != nil:
		return "", missing
	case denied != nil:
		return "", denied
	}
	return "", &Error{Kind: NotFound, Object: name, Err: os.ErrNotExist,
		Hint: "it is not in any directory of PATH; give its path, or grant its directory with --rox"}
}

// maxDepth bounds shim to program to interpreter to its shim...
const maxDepth = 8

// origin is who chose a program.
type origin uint8

const (
	byCaller    origin = iota
	byPath             // the workspace chose a name, the caller's PATH what it means
	byWorkspace        // the workspace chose the path
)

// errPass says that a shim stands for whatever comes after it on PATH.
var errPass = errors.New("not this one")

// admit makes the program at an absolute path runnable inside and gives the path to execute there.
func (r *resolver) admit(name string, by origin, depth int) (string, error) {
	if depth > maxDepth {
		return "", refuse(name, "", "more than %d shims and interpreters lead to it", maxDepth)
	}
	p := r.place(name)
	switch {
	case p.err != nil && (os.IsNotExist(p.err) || errors.Is(p.err, syscall.ENOTDIR)):
		return "", &Error{Kind: NotFound, Object: name, Err: os.ErrNotExist}
	case p.err != nil:
		return "", &Error{Kind: NotExecutable, Object: name, Err: cause(p.err)}
	case p.isDir():
		return "", &Error{Kind: NotExecutable, Object: name, Err: syscall.EISDIR}
	case !p.isRegular() || !r.FS.Executable(p.real):
		return "", &Error{Kind: NotExecutable, Object: name, Err: syscall.EACCES, Hint: executableHint(p, name)}
	}
	for _, dir := range [...]string{"/proc", "/dev", "/sys"} {
		if under(name, dir) || under(p.real, dir) || slices.ContainsFunc(p.hops, func(l Link) bool { return under(l.Path, dir) }) {
			return "", refuse(name, "give the path of the program itself", "%s is not the host's inside", dir)
		}
	}
	if real, ok, err := r.shim(name, p); ok {
		if err != nil {
			return "", err
		}
		exec, err := r.admit(real, by, depth+1)
		if err == nil {
			r.need(path.Dir(exec))
		}
		return exec, err
	}
	name, p = r.stable(name, p, by)
	if err := r.reveal(name, p, by); err != nil {
		return "", err
	}
	if r.untrusted(p.real) {
		by = byWorkspace
	}
	if err := r.interpreter(p.real, by, depth); err != nil {
		return "", err
	}
	return name, nil
}

func executableHint(p *place, name string) string {
	if p.isRegular() && p.info.Mode()&0o111 == 0 {
		return "chmod +x " + show(name) + ", or run it with its interpreter"
	}
	return ""
}

func cause(err error) error {
	if e, ok := err.(*fs.PathError); ok {
		return e.Err
	}
	return err
}

// need puts dir on the inner PATH if it is not there by itself.
func (r *resolver) need(dir string) {
	if !slices.Contains(r.dirs, dir) {
		r.dirs = append(r.dirs, dir)
	}
}

// stable goes past the links in places that are fresh inside: fnm keeps a link per shell below /run.
func (r *resolver) stable(name string, p *place, by origin) (string, *place) {
	for range maxHops {
		// What is visible or installed below /tmp is as lasting as anything else.
		if !slices.ContainsFunc(p.hops, func(l Link) bool {
			return volatile(l.Path) && !r.visible(l.Path) && !r.install(l.Path, r.chosenBy(p.hops, by))
		}) {
			break
		}
		// The last link is kept while it can be: it is what identifies a venv.
		dir := r.place(path.Dir(name))
		next := path.Join(dir.real, path.Base(name))
		if next == name {
			first := p.hops[0]
			next = first.Target
			if !path.IsAbs(next) {
				next = path.Join(path.Dir(first.Path), next)
			}
		}
		name, p = next, r.place(next)
	}
	return name, p
}

// reveal grants the installations on the way to p and keeps the links between them.
func (r *resolver) reveal(name string, p *place, by origin) error {
	by = r.chosenBy(p.hops, by)
	r.keep(p.hops, by)
	if r.install(p.real, by) || r.visible(p.real) || r.granted(p.real) {
		return nil
	}
	if by == byWorkspace || by == byPath && !r.isELF(p.real) {
		return refuse(name, r.grantHint(p.real),
			"the workspace leads to %s, which is in no recognised installation", show(p.real))
	}
	if dir := packageDir(p.real); dir != "" && r.grant(dir, "packages of "+path.Base(name), false) {
		return nil
	}
	if !r.grant(p.real, path.Base(name), true) {
		return refuse(name, "", "%s is in a place that is never made visible", show(p.real))
	}
	return nil
}

// grantHint says how the caller can allow what the workspace may not choose.
func (r *resolver) grantHint(file string) string {
	hint := "grant it with --rox "
	if prefix, _ := r.marked(file); prefix != "" && r.exists(prefix+"/lib") {
		return hint + show(prefix+"/bin") + " --rox " + show(prefix+"/lib")
	}
	return hint + show(file)
}

// untrusted tells whether the workspace, or whoever can write to what the caller granted, decides what a
// path is.
func (r *resolver) untrusted(name string) bool { return r.visible(name) && !system(name) }

// chosenBy is who chose the end of a way: the workspace, if any link on it lies there.
func (r *resolver) chosenBy(hops []Link, by origin) origin {
	if slices.ContainsFunc(hops, func(l Link) bool { return r.untrusted(l.Path) }) {
		return byWorkspace
	}
	return by
}

// isELF tells a program from a script, which may hold what is the user's own.
func (r *resolver) isELF(file string) bool {
	head, err := r.FS.ReadFile(file, 4)
	return err == nil && string(head) == "\x7fELF"
}

// packageDir is the outermost node_modules that contains a file: its packages need each other.
func packageDir(file string) string {
	before, _, ok := strings.Cut(file, "/node_modules/")
	if !ok {
		return ""
	}
	return before + "/node_modules"
}

// keep makes links that were followed lead on inside: those of an installation with the installation,
// any other by itself.
func (r *resolver) keep(hops []Link, by origin) {
	for _, hop := range hops {
		if hop.Path == "/usr/local" || hop.Path == "/opt" {
			// Image-based systems keep these below /var.
			if end := r.place(hop.Path); end.isDir() {
				r.grant(end.real, "system", false)
			}
		}
		if !r.install(hop.Path, by) {
			r.link(hop)
		}
	}
}

func (r *resolver) link(l Link) {
	if !slices.Contains(r.links, l) {
		r.links = append(r.links, l)
	}
}

// granted says whether a directory that is granted already contains a path.
func (r *resolver) granted(name string) bool {
	return slices.ContainsFunc(r.grants, func(g Grant) bool { return !g.File && under(name, g.Path) })
}

// grant adds a path unless it must stay hidden, and says whether it is, or is already, visible.
func (r *resolver) grant(name, why string, file bool) bool {
	if r.visible(name) {
		return true
	}
	if r.hidden(name, file) {
		return false
	}
	if !slices.ContainsFunc(r.grants, func(g Grant) bool { return g.Path == name }) {
		r.grants = append(r.grants, Grant{Path: name, Why: why, File: file})
	}
	return true
}

// result puts what was found in order.
func (r *resolver) result(exec string) Result {
	inner := r.innerPath()
	slices.SortFunc(r.grants, func(a, b Grant) int { return strings.Compare(a.Path, b.Path) })
	var grants []Grant
	for _, g := range r.grants {
		if !slices.ContainsFunc(grants, func(outer Grant) bool { return !outer.File && under(g.Path, outer.Path) }) {
			grants = append(grants, g)
		}
	}
	var links []Link
	for _, l := range r.links {
		if r.visible(l.Path) || volatile(l.Path) ||
			slices.ContainsFunc(grants, func(g Grant) bool { return under(l.Path, g.Path) }) {
			continue
		}
		links = append(links, l)
	}
	slices.SortFunc(links, func(a, b Link) int { return strings.Compare(a.Path, b.Path) })
	return Result{Exec: exec, Grants: grants, Links: links, Path: inner}
}
