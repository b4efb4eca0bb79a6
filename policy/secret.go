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
	Source string // file:PATH, env:VARIABLE or fd:NUMBER
}

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
