package toolchain

import (
	"os"
	"path"
)

// shim recognises a program that only stands for another, and finds that one.
func (r *resolver) shim(name string, p *place) (real string, ok bool, err error) {
	base, dir := path.Base(name), path.Dir(p.real)
	switch end := path.Base(p.real); {
	case end == "go" && path.Base(dir) == "bin":
		real = r.goToolchain(path.Dir(dir))
		return real, real != "", nil
	case end == base && path.Base(dir) != "shims":
		if !rustupProxy(base) || !r.sameFile(p, dir+"/rustup") {
			return "", false, nil
		}
		real, err = r.rustup(base)
		return real, true, err
	case end == "rustup":
		real, err = r.rustup(base)
		return real, true, err
	case end == "mise" || end == "rtx":
		real, err = r.mise(base)
		return real, true, err
	case end == "volta-shim":
		real, err = r.volta(base)
		return real, true, err
	case path.Base(dir) != "shims":
		return "", false, nil
	}
	head, err := r.FS.ReadFile(p.real, 4<<10)
	if err != nil {
		return "", false, nil
	}
	home := path.Dir(dir)
	if m := envByShim(string(head)); m != nil {
		real, err = r.envTarget(m, home, base)
		return real, true, err
	}
	if plugins := asdfPlugins(string(head)); len(plugins) > 0 {
		real, err = r.asdf(home, base, plugins)
		return real, true, err
	}
	return "", false, nil
}

// sameFile says whether other is a hard link to p.
func (r *resolver) sameFile(p *place, other string) bool {
	o := r.place(other)
	return o.err == nil && o.info != nil && p.info != nil && os.SameFile(o.info, p.info)
}

// notInstalled is the error for a version that is selected but not there.
func notInstalled(tool, manager, version, origin, hint string) *Error {
	return &Error{Kind: NotInstalled, Object: tool, Hint: hint,
		Err: errorString(manager + ": version " + show(version) + " (set by " + show(origin) + ") is not installed")}
}

type errorString string

func (e errorString) Error() string { return string(e) }

// lacks is the error for a selected installation without the tool.
func lacks(tool, manager, version, origin string) *Error {
	return &Error{Kind: NotFound, Object: tool,
		Err: errorString(manager + ": not in " + show(version) + " (set by " + show(origin) + ")")}
}

// hostile is the error for a version that is no plain name.
func hostile(tool, manager, version, origin string) *Error {
	return refuse(tool, "", "%s: %s sets %s, which is no version", manager, show(origin), show(version))
}

// runnable says whether a file is a program.
func (r *resolver) runnable(file string) bool {
	p := r.place(file)
	return p.isRegular() && r.FS.Executable(p.real)
}
