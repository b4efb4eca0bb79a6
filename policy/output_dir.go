package policy

import (
	"errors"
	"io/fs"
	"slices"
	"strings"

	"gobox/namespaces"
)

const whyOutput = "--output-dir"

// Output is the folder of the host that gets what the command leaves in the folder of the same path that it has inside.
type Output struct {
	Path  string   // absolute and free of symbolic links; empty for none
	Size  int64    // bytes that may come out, holes included; 0 for the default of package changes
	Allow []string // beneath it: protected paths that may come out; "." for all
}

// addOutput gives the command an empty folder at the place of --output-dir.
func (b *builder) addOutput() error {
	given := b.policy.OutputDir
	if given == "" {
		return nil
	}
	refuse := func(err error, hint string) error {
		return &Error{Step: "output-dir", Object: given, Err: err, Hint: hint}
	}
	const hint = "name a new or empty folder in one that you may write to"
	real, exists, err := resolveMissing(b.host.FS, b.host.Dir, given)
	if err != nil {
		return refuse(err, hint)
	}
	// What lies on the way must be there, and may have been bent by an earlier run.
	way := way{step: "output-dir", object: given, flag: "--output-dir", fixes: true}
	if exists {
		way.found, err = resolvePath(b.host.FS, b.host.Dir, given)
	} else {
		up := "."
		if given = strings.TrimRight(given, "/"); strings.Contains(given, "/") {
			up = given[:strings.LastIndexByte(given, '/')+1]
		}
		way.found, err = resolvePath(b.host.FS, b.host.Dir, up)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return refuse(errors.New("the folder that it would be in is not there"), "mkdir -p "+parent(real))
	case err != nil:
		return refuse(err, hint)
	case !way.found.Info.isDir():
		return refuse(errNotDir, hint)
	case reserved(real) || onSystem(real) || real == "/" || real == "/tmp" || within("/etc", real) || real == b.home:
		return refuse(errors.New("this place belongs to the system or the sandbox"), hint)
	}
	if exists {
		if err := b.checkEmpty(real); err != nil {
			return refuse(err, hint)
		}
	}
	b.ways = append(b.ways, way)
	b.addHops(way.found.Hops, whyOutput)
	step := namespaces.Step{Op: namespaces.OpOutput, Target: real, Attr: namespaces.NoSuid | namespaces.NoDev, Mode: 0o700, Owned: true, Why: whyOutput}
	if err := b.claim(claim{step: step, write: true, exec: true}); err != nil {
		return err
	}
	b.plan.Output = Output{Path: real, Size: int64(min(b.policy.Disk, 1<<62))}
	return nil
}

// checkEmpty refuses a folder that what comes out cannot take the place of.
func (b *builder) checkEmpty(dir string) error {
	list, err := names(b.host.FS, dir)
	switch {
	case err != nil:
		return plainCause(err)
	case len(list) > 0:
		return errors.New("is not empty")
	case b.host.Dir == "":
		return nil
	}
	if here, err := resolvePath(b.host.FS, "", b.host.Dir); err == nil && here.Path == dir {
		return errors.New("is the current folder, which cannot be replaced")
	}
	mounts, err := b.mounts()
	if err != nil {
		return err
	}
	if slices.ContainsFunc(mounts, func(m Mount) bool { return m.Point == dir }) {
		return errors.New("is a mount point, which cannot be replaced")
	}
	return nil
}

// comes tells whether the place of a claim is not there yet and will be: the supervisor makes the output folder.
func (b *builder) comes(c, cover *claim) bool {
	if c.step.Op != namespaces.OpOutput || move(c.step.Target, cover.step.Target, cover.step.Source) != b.plan.Output.Path {
		return false
	}
	_, err := lstat(b.host.FS, b.plan.Output.Path)
	return errors.Is(err, fs.ErrNotExist)
}
