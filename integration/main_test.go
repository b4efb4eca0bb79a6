// Package integration proves from outside what the sandbox does: the binary runs as root and as an
// ordinary user, the probe tries to get out, and the tests look at what happened to the host.
package integration

import (
	"os"
	"testing"

	"gobox/integration/harness"
)

var suite *harness.Suite

func TestMain(m *testing.M) {
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
