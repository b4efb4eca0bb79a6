package policy

import (
	"errors"
	"slices"
	"strings"
)

// Secret is a variable of the command's whose value nobody else is shown. Two plans with the same names and sources
// are the same plan, whatever the values: a token that was renewed is no other request.
type Secret struct {
	Name   string
	Source string // file:PATH, env:VARIABLE or fd:NUMBER; in a plan PATH is free of symbolic links
}

const secretFile = "file:"

// SecretText stands for the value of a secret wherever a plan is shown.
const SecretText = "[secret]"

// SecretHint says how a secret is given.
const SecretHint = "--secret NAME=file:PATH, NAME=env:VARIABLE or NAME=fd:NUMBER; the value itself is never part of the command line"

// ParseSecret reads NAME=file:PATH, NAME=env:VARIABLE or NAME=fd:NUMBER. The error does not quote text, which may be a
// secret in the wrong place.
func ParseSecret(text string) (Secret, error) {
	name, source, ok := strings.Cut(text, "=")
	if !ok || !envName(name) {
		return Secret{}, &Error{Step: "secret", Err: errors.New("does not begin with NAME="), Hint: SecretHint}
	}
	kind, from, _ := strings.Cut(source, ":")
	cause := ""
	switch {
	case !slices.Contains([]string{"file", "env", "fd"}, kind) || from == "":
		cause = "has neither file:PATH nor env:VARIABLE nor fd:NUMBER behind its name"
	case kind == "env" && !envName(from):
		cause = "has no name of a variable behind env:"
	case kind == "fd" && (len(from) > 6 || strings.Trim(from, "0123456789") != "" || strings.Trim(from, "0") == "" || len(from) == 1 && from < "3"):
		cause = "has no descriptor from 3 on behind fd:"
	}
	if cause != "" {
		return Secret{}, &Error{Step: "secret", Object: name, Err: errors.New(cause), Hint: SecretHint}
	}
	return Secret{name, source}, nil
}

// NamesDescriptor tells whether a path is that of an open file of gobox's own, as a shell's /dev/fd/63 is.
// No name that leads on from there is one.
func NamesDescriptor(path string) bool {
	for _, begin := range [...]string{"/dev/fd/", "/proc/self/fd/"} {
		if number, ok := strings.CutPrefix(path, begin); ok {
			return number != "" && strings.Trim(number, "0123456789") == ""
		}
	}
	return path == "/dev/stdin"
}

// settleSecrets finds the files of secrets, so that no name that an earlier run may have bent decides what of the host's the
// command gets to read.
func (b *builder) settleSecrets() error {
	b.policy.Secrets = slices.Clone(b.policy.Secrets)
	for i := range b.policy.Secrets {
		s := &b.policy.Secrets[i]
		file, ok := strings.CutPrefix(s.Source, secretFile)
		if !ok || NamesDescriptor(file) {
			continue
		}
		found, err := resolvePath(b.host.FS, b.host.Dir, file)
		if err != nil {
			return &Error{Step: "secret", Object: s.Name, Err: err, Hint: SecretHint}
		}
		for j := range b.claims {
			c := &b.claims[j]
			if c.bound() && within(c.step.Source, found.Path) && !found.Info.isRegular() {
				return &Error{Step: "secret", Object: s.Name, Err: errors.New(found.Path + " is no regular file, and an earlier run may have put it there"), Hint: SecretHint}
			}
		}
		b.ways = append(b.ways, way{step: "secret", object: s.Name, flag: "--secret", before: s.Name + "=" + secretFile, found: found})
		s.Source = secretFile + found.Path
	}
	return nil
}

// setSecrets takes over names and sources. A name that has a value already would have two.
func (b *builder) setSecrets(env []string) error {
	secrets := slices.Clone(b.policy.Secrets)
	slices.SortFunc(secrets, func(x, y Secret) int { return strings.Compare(x.Name, y.Name) })
	for i, s := range secrets {
		switch {
		case !envName(s.Name):
			return &Error{Step: "secret", Err: errEnvName, Hint: SecretHint}
		case i > 0 && secrets[i-1].Name == s.Name:
			return &Error{Step: "secret", Object: s.Name, Err: errors.New("is given twice"), Hint: "one --secret for each name"}
		case slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, s.Name+"=") }):
			return &Error{
				Step: "secret", Object: s.Name, Err: errors.New("is a variable that the command has already"),
				Hint: "use another name, or leave out its --env or --env-pass",
			}
		}
	}
	b.plan.Exec.Secrets = secrets
	return nil
}

// shownEnv is the environment as it may be seen.
func (e *Exec) shownEnv() []string {
	env := slices.Clone(e.Env)
	for _, s := range e.Secrets {
		env = append(env, s.Name+"="+SecretText)
	}
	return env
}
