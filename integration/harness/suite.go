// Package harness builds the binaries of the isolation suite once per test process and runs them as
// root and as an ordinary user, with what every test needs to judge effects: canary files, positive
// controls outside the sandbox, and checks that no process and no mount is left.
package harness

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// Tags and linker flags of the shipped binary, as in the Makefile.
const (
	tags    = "landlocktsync,netgo,osusergo"
	ldflags = "-linkmode external -extldflags -static"
)

// Suite is what all tests of one process share. Its directories can be entered by every user.
type Suite struct {
	Dir   string // everything lives below it, but for Aside
	Aside string // outside of /tmp, which the sandbox has one of its own of, with the rules for it
	Gobox string // the binary as shipped
	Wall  string // the same with `run --without LAYER`, empty when the source has no such build
	Probe string // integration/probe, static
	Net   string // integration/testnet, which plays the internet

	NetFlags []string // of Net, for all runs
}

// Start builds the binaries. GOBOX_BIN, GOBOX_WALL_BIN and GOBOX_PROBE name ready ones instead.
func Start() (*Suite, error) {
	dir, err := os.MkdirTemp("", "gobox-suite-")
	if err != nil {
		return nil, err
	}
	s := &Suite{Dir: dir}
	if s.Aside, err = os.MkdirTemp("/var/tmp", "gobox-suite-"); err != nil {
		s.Close()
		return nil, err
	}
	if err := s.prepare(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Suite) prepare() error {
	for _, d := range []string{s.Dir, s.Aside} {
		if err := os.Chmod(d, 0o755); err != nil {
			return err
		}
	}
	for _, d := range []string{s.Dir + "/bin", s.Dir + "/probe", s.Dir + "/box", s.Aside + "/box"} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
	}
	_, file, _, _ := runtime.Caller(0)
	module := filepath.Join(filepath.Dir(file), "../..")
	for _, b := range []struct {
		path *string
		env  string
		name string
		args []string
		cgo  string
	}{
		{&s.Gobox, "GOBOX_BIN", "bin/gobox", []string{"-tags", tags, "-ldflags", ldflags, "./cmd/gobox"}, "1"},
		{&s.Wall, "GOBOX_WALL_BIN", "bin/gobox-wall", []string{"-tags", tags + ",gobox_walltest", "-ldflags", ldflags, "./cmd/gobox"}, "1"},
		{&s.Probe, "GOBOX_PROBE", "probe/probe", []string{"./integration/probe"}, "0"},
		{&s.Net, "GOBOX_TESTNET", "bin/testnet", []string{"./integration/testnet"}, "0"},
	} {
		*b.path = filepath.Join(s.Dir, b.name)
		if ready := os.Getenv(b.env); ready != "" {
			if err := copyExecutable(ready, *b.path); err != nil {
				return fmt.Errorf("%s: %w", b.env, err)
			}
			continue
		}
		cmd := exec.Command("go", append([]string{"build", "-o", *b.path}, b.args...)...)
		cmd.Dir = module
		cmd.Env = append(os.Environ(), "CGO_ENABLED="+b.cgo)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", b.name, err, out)
		}
	}
	return nil
}

// copyExecutable puts a binary where every user can run it.
func copyExecutable(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o755)
}

// Close removes everything that Start made.
func (s *Suite) Close() {
	for _, d := range []string{s.Dir, s.Aside} {
		if d == "" {
			continue
		}
		if err := os.RemoveAll(d); err != nil {
			fmt.Fprintln(os.Stderr, "harness: remove:", err)
		}
	}
}

// Main is the body of a TestMain: it gives the suite to use, runs the tests and cleans up.
func Main(m *testing.M, use func(*Suite)) int {
	s, err := Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, "harness:", err)
		return 1
	}
	defer s.Close()
	use(s)
	// Programs that every sandbox of the run could read, and none may change (catalogue F42).
	shared := map[string]string{s.Gobox: "", s.Wall: "", s.Probe: "", "/bin/sh": "", "/usr/bin/env": ""}
	for path := range shared {
		shared[path] = digest(path)
	}
	code := m.Run()
	for path, was := range shared {
		if now := digest(path); now != was {
			fmt.Fprintf(os.Stderr, "harness: %s has changed: was %s, is %s\n", path, was, now)
			code = 1
		}
	}
	if left := s.leftovers(); len(left) > 0 {
		fmt.Fprintln(os.Stderr, "harness: left after all tests:")
		for _, line := range left {
			fmt.Fprintln(os.Stderr, "\t"+line)
		}
		return 1
	}
	return code
}

// digest is the SHA-256 of a file, or why there is none.
func digest(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))
}

// leftovers are processes of the suite's programs and mounts below its directory.
func (s *Suite) leftovers() []string {
	var left []string
	for range 100 {
		left = Processes(s.Dir, s.Aside)
		if len(left) == 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	return append(left, s.Mounts()...)
}
