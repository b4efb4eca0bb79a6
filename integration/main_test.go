// Package integration proves from outside what the sandbox does: the binary runs as root and as an
// ordinary user, the probe tries to get out, and the tests look at what happened to the host.
package integration

import (
	"os"
	"os/signal"
	"syscall"
	"testing"

	"gobox/integration/harness"
)

var suite *harness.Suite

func TestMain(m *testing.M) {
	if signal.Ignored(syscall.SIGHUP) {
		// As nohup has it, and what the tests start would ignore it too; a signal that is caught is what it was before in a new
		// program (execve(2)).
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	os.Exit(harness.Main(m, func(s *harness.Suite) { suite = s }))
}

// What a refusal may look like.
var (
	hidden  = []string{"ENOENT", "EACCES"}
	unread  = []string{"ENOENT", "EACCES", "EPERM"}
	frozen  = []string{"EROFS", "EACCES", "EPERM", "ENOENT"}
	barred  = []string{"EPERM", "ENOSYS"}
	outside = []string{"EXDEV", "EACCES", "EPERM", "EROFS", "ENOENT"}
)
