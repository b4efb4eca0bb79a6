package toolchain

import (
	"errors"
	"path"
	"strings"
)

// shebangMax is the kernel's BINPRM_BUF_SIZE, and room for the second line of pip's /bin/sh preamble.
const shebangMax = 1024

// interpreter makes what a script's `#!` line names visible.
func (r *resolver) interpreter(file string, by origin, depth int) error {
	switch path.Dir(file) {
	case "/bin", "/sbin", "/usr/bin", "/usr/sbin":
		// The distribution's own scripts have the distribution's interpreters.
		return nil
	}
	head, err := r.FS.ReadFile(file, shebangMax)
	if err != nil {
		return nil // a program may be executable and not readable
	}
	interp, name := shebang(string(head))
	var exec string
	switch {
	case name != "":
		if by == byWorkspace {
			by = byPath
		}
		if exec, err = r.search(name, by, depth+1); err == nil {
			r.need(path.Dir(exec))
		}
	case path.IsAbs(interp):
		interp = path.Clean(interp)
		exec, err = r.admit(interp, by, depth+1)
		if err == errPass {
			exec, err = r.search(path.Base(interp), by, depth+1)
		}
		if dir := r.place(path.Dir(interp)); err == nil && exec != interp && dir.err == nil {
			// The kernel will look for the shim, which is not there inside.
			r.link(Link{Path: path.Join(dir.real, path.Base(interp)), Target: exec})
		}
	}
	var e *Error
	if errors.As(err, &e) {
		return &Error{Kind: e.Kind, Object: file, Err: errors.New("its interpreter " + e.Error()), Hint: e.Hint}
	}
	return err
}

// shebang reads the first lines of a script: the interpreter's path, or the name that env(1) looks up.
func shebang(head string) (interp, envName string) {
	rest, ok := strings.CutPrefix(head, "#!")
	if !ok {
		return "", ""
	}
	line, after, _ := strings.Cut(rest, "\n")
	words := strings.Fields(line)
	if len(words) == 0 || strings.ContainsRune(line, 0) {
		return "", ""
	}
	switch interp = words[0]; interp {
	case "/usr/bin/env", "/bin/env":
		return interp, envOperand(words[1:])
	case "/bin/sh":
		// pip and uv write this when the interpreter's path is too long for a `#!` line, or has a space.
		if real, ok := strings.CutPrefix(after, "'''exec' "); ok {
			if quoted, ok := strings.CutPrefix(real, `"`); ok {
				real, _, ok = strings.Cut(quoted, `"`)
				if !ok {
					return interp, ""
				}
			} else {
				real, _, _ = strings.Cut(real, " ")
			}
			if path.IsAbs(real) && !strings.ContainsAny(real, "\x00\n") {
				return real, ""
			}
		}
	}
	return interp, ""
}

// envOperand is the command among env's words: after options and assignments.
func envOperand(words []string) string {
	for _, w := range words {
		switch {
		case w == "-S" || w == "--split-string" || w == "-i" || w == "-":
		case strings.HasPrefix(w, "-S"):
			w = w[2:]
			fallthrough
		case !strings.HasPrefix(w, "-") && !strings.Contains(w, "="):
			if strings.Contains(w, "/") {
				return ""
			}
			return w
		case strings.HasPrefix(w, "-"):
			return "" // an option that may take a word of its own
		}
	}
	return ""
}
