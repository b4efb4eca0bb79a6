package policy

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"

	"gobox/namespaces"
	"gobox/policy/toolchain"
)

// defaultPath is the PATH of a caller without one, and of an image.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// addCommand finds the program and makes visible what it needs of the host.
func (b *builder) addCommand() error {
	b.plan.Exec.Argv = b.policy.Argv
	if b.rootfs != "" {
		return b.addImageCommand()
	}
	request := toolchain.Request{
		Name: b.policy.Argv[0],
		Dir:  b.host.Dir,
		Path: b.host.getenv("PATH"),
		Home: b.host.getenv("HOME"),
		Env:  b.host.getenv,
		FS:   b.host.FS,
	}
	if request.Dir == "" {
		request.Dir = "/"
	}
	if request.Path == "" {
		request.Path = defaultPath
	}
	if !strings.HasPrefix(request.Home, "/") {
		request.Home = ""
	}
	for _, c := range b.claims {
		if c.exec && c.bound() && c.step.Source == c.step.Target {
			request.Visible = append(request.Visible, c.step.Source)
		}
	}
	found, err := toolchain.Resolve(request)
	if err != nil {
		return commandError(b.policy.Argv[0], err)
	}
	b.plan.Exec.Path = found.Exec
	b.searchPath = found.Path
	for _, link := range found.Links {
		b.addLink(namedLink{path: link.Path, text: link.Target, why: "command"})
	}
	for _, g := range found.Grants {
		if err := b.addToolGrant(g); err != nil {
			return err
		}
	}
	return nil
}

// addToolGrant shows an installation, read-only, unless the caller has put it there already.
func (b *builder) addToolGrant(g toolchain.Grant) error {
	for _, c := range b.claims {
		if c.step.Target != g.Path {
			continue
		}
		if !c.exec {
			return &Error{Step: "exec", Object: g.Path, Err: errors.New("the command needs to execute from here, and " + c.step.Why + " grants it without that"), Hint: "use " + c.step.Why + "x"}
		}
		return nil
	}
	info, err := lstat(b.host.FS, g.Path)
	if err != nil {
		return &Error{Step: "exec", Object: g.Path, Err: err}
	}
	step := namespaces.Step{Op: namespaces.OpBind, Source: g.Path, Target: g.Path, Attr: systemAttr, Why: g.Why}
	b.claims = append(b.claims, claim{step: step, info: info, exec: true})
	return nil
}

func commandError(name string, err error) error {
	refusal := &Error{Step: "exec", Object: name, Err: err}
	var cause *toolchain.Error
	if !errors.As(err, &cause) {
		return refusal
	}
	refusal.Object, refusal.Err, refusal.Hint = cause.Object, cause.Err, cause.Hint
	switch cause.Kind {
	case toolchain.NotFound:
		refusal.Code = ExitNotFound
	case toolchain.NotExecutable:
		refusal.Code = ExitNotExecutable
	}
	return refusal
}

// addImageCommand finds the program as it will be found inside the image, where nothing of the host's
// installations is needed.
func (b *builder) addImageCommand() error {
	b.searchPath = defaultPath
	image := imageFS{FS: b.host.FS, root: b.rootfs, claims: b.claims}
	name := b.policy.Argv[0]
	candidates := []string{name}
	if !strings.Contains(name, "/") {
		candidates = nil
		for dir := range strings.SplitSeq(b.searchPath, ":") {
			candidates = append(candidates, join(dir, name))
		}
	}
	var denied error
	for _, path := range candidates {
		found, err := resolvePath(image, b.workingDir(), path)
		switch {
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotDir):
		case err != nil:
			denied = err
		case !found.Info.isRegular() || found.Info.Mode&0o111 == 0:
			denied = syscall.EACCES
		default:
			b.plan.Exec.Path = path
			if !strings.HasPrefix(path, "/") {
				b.plan.Exec.Path = found.Path
			}
			return nil
		}
	}
	if denied != nil {
		return &Error{Step: "exec", Object: name, Err: denied, Hint: "the file in the image must be executable: chmod +x", Code: ExitNotExecutable}
	}
	return &Error{Step: "exec", Object: name, Err: syscall.ENOENT, Hint: "the program must be in the image " + b.rootfs, Code: ExitNotFound}
}

// imageFS is the file system as it will be inside an image, with what the caller put into it.
type imageFS struct {
	FS
	root   string
	claims []claim
}

func (f imageFS) onHost(path string) string {
	place, depth := join(f.root, strings.TrimPrefix(path, "/")), -1
	for _, c := range f.claims {
		if c.bound() && within(c.step.Target, path) && len(c.step.Target) > depth {
			place, depth = move(path, c.step.Target, c.step.Source), len(c.step.Target)
		}
	}
	return place
}

func (f imageFS) Lstat(path string) (fs.FileInfo, error) {
	info, err := f.FS.Lstat(f.onHost(path))
	if errors.Is(err, fs.ErrNotExist) {
		// The way to a claim need not exist in the image.
		for _, c := range f.claims {
			if below(path, c.step.Target) {
				return f.FS.Lstat("/")
			}
		}
	}
	return info, err
}

func (f imageFS) Readlink(path string) (string, error) { return f.FS.Readlink(f.onHost(path)) }
