package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gobox/egress"
	"gobox/inspect"
	"gobox/policy"
)

// readSecrets reads those of a plan into in.
func (f *inspectFlags) readSecrets(in *inspection, list []policy.Secret, credentials []egress.Credential) error {
	if len(list) == 0 && len(credentials) == 0 {
		return nil
	}
	for _, c := range credentials {
		v, err := readSecret("env:"+c.Env, nil)
		if err == nil {
			err = egress.CheckValue(string(v))
		}
		if err == nil {
			err = f.keep(c.Env, v)
		}
		if err != nil {
			return &policy.Error{Step: "credential", Object: c.String(), Err: err, Hint: "export " + c.Env + " in gobox's own environment; the command does not get it"}
		}
		in.credentials = append(in.credentials, string(v))
	}
	for _, s := range list {
		f.tried = append(f.tried, s.Name)
		v, err := readSecret(s.Source, f.take(s.Source))
		if err == nil {
			// Each by itself, so that the error can name it.
			err = f.keep(s.Name, v)
			if strings.IndexByte(string(v), 0) >= 0 {
				err = errors.New("contains a NUL byte, which no variable can")
			}
		}
		if err != nil {
			return &policy.Error{Step: "secret", Object: s.Name, Err: cause(err), Hint: policy.SecretHint}
		}
		in.env = append(in.env, s.Name+"="+string(v))
	}
	var err error
	in.secrets, err = inspect.NewSecrets(f.values)
	return err
}

// keep remembers a value that can be looked for. Two may have one name: a credential's variable and a secret's, or two secrets of
// a command line that is refused for it.
func (f *inspectFlags) keep(name string, v []byte) error {
	if _, err := inspect.NewSecrets(map[string][]byte{name: v}); err != nil {
		return err
	}
	if f.values == nil {
		f.values = map[string][]byte{}
	}
	free := name
	for i := 2; f.values[free] != nil && string(f.values[free]) != string(v); i++ {
		free = fmt.Sprintf("%s (%d)", name, i)
	}
	f.values[free] = v
	return nil
}

// take gives the descriptors that may be read for a secret. The secret's own is closed by that, and for the next is none.
func (f *inspectFlags) take(source string) []int {
	given := f.given
	if number, ok := strings.CutPrefix(source, "fd:"); ok {
		n, _ := strconv.Atoi(number)
		f.given = slices.DeleteFunc(slices.Clone(given), func(fd int) bool { return fd == n })
	}
	return given
}

// spare takes descriptors that have another use from those that a secret may be read from: one that was read is closed, and its number
// then another file's.
func (f *inspectFlags) spare(used ...uint64) {
	f.given = slices.DeleteFunc(slices.Clone(f.given), func(fd int) bool { return slices.Contains(used, uint64(fd)) })
}

// shared refuses a secret that is to come from such a one.
func (f *runFlags) shared(secrets []policy.Secret) error {
	for _, s := range secrets {
		number, ok := strings.CutPrefix(s.Source, "fd:")
		n, err := strconv.ParseUint(number, 10, 32)
		if !ok || err != nil {
			continue
		}
		for flag, fd := range map[string]uint64{"--status-fd": f.record.status, "--control-fd": f.record.control} {
			if fd == n {
				return &policy.Error{Step: "secret", Object: s.Name, Err: errors.New("is to come from the descriptor of " + flag), Hint: "open another one: --secret " + s.Name + "=fd:9 9<FILE"}
			}
		}
	}
	return nil
}

// secretPatience is how long the record of a refusal waits for secrets that come through a pipe.
const secretPatience = 10 * time.Second

// notShown stands for every text of a refusal that could have a secret which did not come in time.
const notShown = "[not shown: a secret was not read in time]"

// known is for the record of a run that was refused before its secrets were read: it asks for nothing, and knows every secret of
// the command line that can be read.
func (f *inspectFlags) known(credentials []egress.Credential) *inspection {
	for _, c := range credentials {
		if v, err := readSecret("env:"+c.Env, nil); err == nil {
			_ = f.keep(c.Env, v)
		}
	}
	type answer struct {
		name  string
		value []byte
		err   error
	}
	answers, waiting := make(chan answer, len(f.secrets)), 0
	for _, text := range f.secrets {
		s, err := policy.ParseSecret(text)
		if err != nil || slices.Contains(f.tried, s.Name) {
			continue
		}
		source, ok := harmless(s.Source)
		if !ok {
			continue
		}
		given := f.take(source)
		waiting++
		go func() {
			v, err := readSecret(source, given)
			answers <- answer{s.Name, v, err}
		}()
	}
	in := &inspection{}
	for late := time.After(secretPatience); waiting > 0 && !in.late; waiting-- {
		select {
		case a := <-answers:
			if a.err == nil {
				_ = f.keep(a.name, a.value)
			}
		case <-late:
			in.late = true
		}
	}
	in.secrets, _ = inspect.NewSecrets(f.values)
	return in
}

// harmless gives a source that may be read without the checks of a plan: the value goes nowhere, but opening a device can do
// something.
func harmless(source string) (string, bool) {
	path, ok := strings.CutPrefix(source, "file:")
	if !ok {
		return source, true
	}
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG && st.Mode&unix.S_IFMT != unix.S_IFIFO {
		return "", false
	}
	if policy.NamesDescriptor(path) {
		return source, true
	}
	real, err := filepath.EvalSymlinks(path)
	return "file:" + real, err == nil
}

// nameless refuses a secret in what names a run: a name is on record as it is.
func (f *recordFlags) nameless(in *inspection, policyName string) error {
	for _, n := range []struct{ flag, name, hint string }{
		{"--run-id", f.id, "--run-id job-1, or leave it out"},
		{"--idempotency-key", f.key, "--idempotency-key job-1"},
		{"--policy", policyName, "give the policy another name, which is on record: cp POLICY policy.yaml"},
	} {
		if in.name(n.name) != n.name {
			return &policy.Error{Step: "usage", Object: n.flag, Err: errors.New("contains the value of a secret, and names are on record as they are"), Hint: n.hint}
		}
	}
	return nil
}

// name is text, for what may be a built-in policy, whose names are nobody's secret.
func (in *inspection) name(name string) string {
	if in == nil || slices.Contains(policy.BuiltinNames(), name) {
		return name
	}
	return in.text(name)
}

// labels are those that may be kept of list.
func (in *inspection) labels(list []string) (map[string]string, error) {
	given, err := parseLabels(list)
	if given == nil {
		return nil, err
	}
	labels := make(map[string]string, len(given))
	for k, v := range given {
		labels[in.text(k)] = in.text(v)
	}
	return labels, err
}

// readSecret gives the value, without the line end that every tool writes behind one.
func readSecret(source string, given []int) ([]byte, error) {
	kind, from, _ := strings.Cut(source, ":")
	var v []byte
	switch kind {
	case "env":
		text, ok := os.LookupEnv(from)
		if !ok {
			return nil, fmt.Errorf("the variable %s is not set", from)
		}
		return []byte(text), nil
	case "fd":
		fd, err := strconv.Atoi(from)
		if err != nil || !slices.Contains(given, fd) {
			return nil, fmt.Errorf("descriptor %s is not open", from)
		}
		f := os.NewFile(uintptr(fd), "fd")
		defer f.Close()
		if v, err = readAll(f, inspect.MaxSecret); err != nil {
			return nil, err
		}
	default:
		f, err := openSecret(from)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if v, err = readAll(f, inspect.MaxSecret); err != nil {
			return nil, err
		}
	}
	text := strings.TrimSuffix(string(v), "\n")
	return []byte(strings.TrimSuffix(text, "\r")), nil
}

// openSecret opens a secret's file, which the plan names by its real path: a symbolic link in it has come since.
func openSecret(path string) (*os.File, error) {
	if policy.NamesDescriptor(path) {
		return os.Open(path)
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NOCTTY, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}
