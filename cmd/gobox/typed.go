package main

import (
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"

	"gobox/policy"
)

// explainTyped says what was probably meant by a command that cannot be executed: a line for a shell, or a
// folder.
func explainTyped(err error, argv []string) error {
	var refusal *policy.Error
	if !errors.As(err, &refusal) || refusal.Step != "exec" || len(argv) == 0 {
		return err
	}
	name := argv[0]
	told := *refusal
	told.Object = name
	folder := refusal.Code == policy.ExitNotExecutable && isFolder(refusal.Object)
	switch {
	case folder || name == "." || name == "..":
		told.Err, told.Code = syscall.EISDIR, policy.ExitNotExecutable
		told.Hint = "name a program, such as ./PROGRAM in it; gobox run --workspace DIR -- COMMAND runs one that works on a folder"
	case refusal.Code == policy.ExitNotExecutable && refusal.Hint == "":
		told.Object = refusal.Object
		told.Hint = "ls -l shows who may execute it; chmod +x makes a script a program, and gobox run -- sh FILE runs one that is none"
	case refusal.Code != policy.ExitNotFound:
		return err
	case isAssignment(name):
		told.Err = errors.New("not found: this sets a variable in a shell, and gobox runs none")
		told.Hint = "gobox run --env " + shellQuote(name) + " -- COMMAND; or a shell: gobox run -- sh -c " + shellQuote(strings.Join(argv, " "))
	case strings.ContainsAny(name, " \t\n|&;<>()$`*?"):
		told.Err = errors.New("not found: there is no program of this name, and gobox runs no shell that would take it apart")
		told.Hint = "gobox run -- sh -c " + shellQuote(strings.Join(argv, " "))
	case slices.Contains(strings.Fields(builtins), name):
		told.Err = errors.New("not found: this is a builtin of the shell, and gobox runs none")
		told.Hint = "gobox run -- sh -c " + shellQuote(strings.Join(argv, " ")+"; ...")
	default:
		return err
	}
	return &told
}

// builtins are words of the shell's that are rarely files (POSIX.1-2017, 2.4 and 2.14, and 1.6 of XCU).
const builtins = "alias bg break case cd command continue do done elif else esac eval exec exit export fc fg fi for function getopts hash if in jobs local pushd popd read readonly return set shift source then times trap type ulimit umask unalias unset until wait while { } [[ :"

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// isAssignment tells NAME=VALUE.
func isAssignment(word string) bool {
	name, _, found := strings.Cut(word, "=")
	if !found || name == "" || name[0] >= '0' && name[0] <= '9' {
		return false
	}
	return strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// shellQuote writes text as one word of a POSIX shell's.
func shellQuote(text string) string {
	if text != "" && strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_=./-") == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
