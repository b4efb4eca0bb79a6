package policy

import (
	"errors"
	"slices"
	"strings"
)

// setEnvironment starts from nothing: a name of the caller's environment is a secret until shown otherwise.
func (b *builder) setEnvironment() error {
	var env []string
	set := func(name, value string) {
		kv := name + "=" + value
		for i := range env {
			if strings.HasPrefix(env[i], name+"=") {
				env[i] = kv
				return
			}
		}
		env = append(env, kv)
	}
	set("PATH", b.searchPath)
	set("HOME", b.home)
	set("USER", b.account.name)
	set("LOGNAME", b.account.name)
	env = append(env, b.proxyEnv()...)
	for _, kv := range b.host.Environ {
		name, value, ok := strings.Cut(kv, "=")
		if ok && passes(name) {
			set(name, value)
		}
	}
	for _, name := range b.policy.EnvPass {
		if !envName(name) {
			return &Error{Step: "environment", Object: name, Err: errEnvName, Hint: "--env-pass NAME takes one name"}
		}
		if value, ok := b.host.lookupEnv(name); ok {
			set(name, value)
		}
	}
	for _, kv := range b.policy.Env {
		name, value, ok := strings.Cut(kv, "=")
		switch {
		case !ok:
			return &Error{Step: "environment", Object: kv, Err: errors.New("has no value"), Hint: "--env NAME=VALUE sets, --env-pass NAME passes the caller's"}
		case !envName(name):
			return &Error{Step: "environment", Object: kv, Err: errEnvName, Hint: "--env NAME=VALUE sets, --env-pass NAME passes the caller's"}
		case strings.IndexByte(value, 0) >= 0:
			return &Error{Step: "environment", Object: name, Err: errNUL, Hint: "execve(2) takes none; encode the value"}
		}
		set(name, value)
	}
	if err := b.setSecrets(env); err != nil {
		return err
	}
	slices.Sort(env)
	b.plan.Exec.Env = env
	b.plan.Exec.Dir = b.workingDir()
	return nil
}

// passes tells whether a variable of the caller's is set inside too. Of LC_* these are the categories of
// locale(7); other names, such as those that ssh passes on, are whatever their owner put there.
func passes(name string) bool {
	switch name {
	case "LANG", "TZ", "TERM", "LC_ALL", "LC_ADDRESS", "LC_COLLATE", "LC_CTYPE", "LC_IDENTIFICATION", "LC_MEASUREMENT", "LC_MESSAGES",
		"LC_MONETARY", "LC_NAME", "LC_NUMERIC", "LC_PAPER", "LC_TELEPHONE", "LC_TIME":
		return true
	}
	return false
}

var errEnvName = errors.New("no name for a variable: letters, digits and underscores, no digit first")

func envName(name string) bool {
	for i := range len(name) {
		c := name[i]
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// workingDir is the caller's, where the command can see it.
func (b *builder) workingDir() string {
	workspace := b.plan.Workspace.Path
	if workspace == "" {
		return b.home
	}
	if found, err := resolvePath(b.host.FS, "", b.host.Dir); err == nil && within(workspace, found.Path) {
		return found.Path
	}
	return workspace
}
