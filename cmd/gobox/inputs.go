package main

import (
	"errors"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gobox/policy"
)

// input is a file that a run is given, to read or for what it writes. It is looked at early: a secret's descriptor is closed later.
type input struct {
	name string // for messages
	path string // empty for a descriptor
	fd   int
	file [2]uint64 // device and inode
}

// inputs are those that the command line names.
func (f *runFlags) inputs() []input {
	list := []input{{name: "stdin", fd: 0}, {name: "stdout", fd: 1}, {name: "stderr", fd: 2}}
	if f.record.status > 0 {
		list = append(list, input{name: "--status-fd " + strconv.FormatUint(f.record.status, 10), fd: int(f.record.status)})
	}
	for _, file := range policy.DocumentFiles(f.named) {
		list = append(list, input{name: "--policy " + file, path: file})
	}
	if !f.noWorkspaceFile {
		file := filepath.Join(f.folder, policy.WorkspaceFile)
		list = append(list, input{name: "the workspace's " + policy.WorkspaceFile, path: file})
	}
	list = append(list, input{name: "the host's " + policy.CeilingFile, path: policy.CeilingFile})
	if f.output.expect != "" && f.output.expect != anyJSON {
		list = append(list, input{name: "--expect-json=" + f.output.expect, path: f.output.expect})
	}
	for _, text := range f.output.secrets {
		s, err := policy.ParseSecret(text)
		if err != nil {
			continue
		}
		kind, from, _ := strings.Cut(s.Source, ":")
		switch fd, err := strconv.Atoi(from); {
		case kind == "file":
			list = append(list, input{name: "--secret " + s.Name, path: from})
		case kind == "fd" && err == nil:
			list = append(list, input{name: "--secret " + s.Name, fd: fd})
		}
	}
	return append(list, policyInputs(f.policy)...)
}

// policyInputs are those of a policy.
func policyInputs(p policy.Policy) (list []input) {
	for _, k := range p.Keep {
		list = append(list, input{name: k.Flag + " " + k.Path, path: k.Path})
	}
	if p.SeccompFile != "" {
		list = append(list, input{name: "--seccomp " + p.SeccompFile, path: p.SeccompFile})
	}
	for _, g := range p.Grants {
		list = append(list, input{name: g.Flag + " " + g.Source, path: g.Source})
	}
	return list
}

// addInputs remembers what --result must not replace.
func (f *recordFlags) addInputs(list func() []input) {
	if f.result == "" {
		return
	}
	for _, in := range list() {
		var st unix.Stat_t
		var err error
		if in.path != "" {
			err = unix.Stat(in.path, &st)
		} else {
			err = unix.Fstat(in.fd, &st)
		}
		if err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
			in.file = [2]uint64{st.Dev, st.Ino}
			f.inputs = append(f.inputs, in)
		}
	}
}

// overwrites refuses a result that would replace what the run is given. Only regular files are ever replaced.
func (f *recordFlags) overwrites() error {
	var st unix.Stat_t
	if unix.Lstat(f.result, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil
	}
	for _, in := range f.inputs {
		if in.file == [2]uint64{st.Dev, st.Ino} {
			return &policy.Error{
				Step: "usage", Object: "--result " + f.result, Err: errors.New("is the same file as " + in.name + ", and the result would replace it"),
				Hint: "give the result a name of its own: --result " + shellQuote(f.result+".result.json"),
			}
		}
	}
	return nil
}
