// Package clients runs the programs that people use on a network (curl, git, pip, npm, go, Java, Node, ssh, psql) inside the sandbox, as
// root and as an ordinary user, on an internet that integration/testnet plays with a small site made here.
package clients

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"gobox/integration/harness"
)

var suite *harness.Suite

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, func(s *harness.Suite) {
		suite = s
		dir := filepath.Join(s.Dir, "site")
		if err := makeSite(dir); err != nil {
			// Every run then says that there is no such site.
			fmt.Fprintln(os.Stderr, "clients: make the site:", err)
		}
		s.NetFlags = []string{"-site", dir}
	}))
}
