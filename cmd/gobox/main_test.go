package main

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"gobox/sandbox"
)

// The scripts in testdata run this test binary under the name gobox. What a sandbox does is for the tests in
// integration/.
func TestMain(m *testing.M) {
	if sandbox.IsInit() {
		sandbox.Init()
	}
	testscript.Main(m, map[string]func(){
		"gobox": func() {
			runtime.LockOSThread()
			os.Exit(execute(os.Args[1:]))
		},
	})
}

func TestCLI(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			// A working directory below a home of its own, as a user would have it.
			env.Setenv("HOME", env.WorkDir+"/home")
			env.Setenv("PWD", env.WorkDir)
			env.Setenv("ESC", "\x1b")
			// testscript puts the gobox of this test first in PATH; what follows is the tester's own affair.
			first, _, _ := strings.Cut(env.Getenv("PATH"), ":")
			env.Setenv("PATH", first+":/usr/bin:/bin")
			if err := os.MkdirAll(env.WorkDir+"/home", 0o755); err != nil {
				return err
			}
			return os.MkdirAll(env.WorkDir+"/work", 0o755)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"status": status,
		},
	})
}
