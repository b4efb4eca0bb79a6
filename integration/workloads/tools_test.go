package workloads

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gobox/integration/harness"
)

// environment is what the commands of one identity start with.
type environment struct {
	both    []string
	outside []string // keeps the run outside from writing to the caller's own caches
}

// usual gives the identity the tools it would have in daily life: the caller's own PATH and HOME, and for
// the ordinary user beside root a HOME with a pyenv, an nvm and what else of root's tools it could not
// reach.
func usual(t *testing.T, b *harness.Box, tools []string) environment {
	t.Helper()
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	path := os.Getenv("PATH")
	if b.UID != os.Getuid() {
		path = ordinaryPath(t, b, home, tools)
		home = b.Home
	}
	for _, tool := range tools {
		if !harness.OnPath(path, tool) {
			harness.Missing(t, tool)
		}
	}
	cache := filepath.Join(b.Dir, "cache")
	b.Mkdir(t, cache)
	e := environment{both: []string{"HOME=" + home, "PATH=" + path}}
	e.outside = []string{
		"npm_config_cache=" + filepath.Join(cache, "npm"), "npm_config_update_notifier=false",
		"GOCACHE=" + filepath.Join(cache, "go"), "GOPATH=" + filepath.Join(cache, "gopath"), "GOTELEMETRY=off",
		"CARGO_HOME=" + filepath.Join(cache, "cargo"), "PYTHONPYCACHEPREFIX=",
	}
	if rustup := filepath.Join(home, ".rustup"); exists(rustup) {
		e.outside = append(e.outside, "RUSTUP_HOME="+rustup)
	}
	return e
}

// ordinaryPath fills the HOME of the ordinary user with the tools that are asked for.
func ordinaryPath(t *testing.T, b *harness.Box, rootHome string, tools []string) string {
	t.Helper()
	system := "/usr/local/bin:/usr/bin:/bin"
	var dirs []string
	for _, tool := range tools {
		switch tool {
		case "python3":
			if harness.OnPath(system, tool) {
				dirs = append(dirs, makePyenv(t, b))
			}
		case "node":
			if harness.OnPath(system, tool) {
				dirs = append(dirs, makeNvm(t, b))
			}
		case "go":
			dirs = append(dirs, b.GoDir(t))
		case "cargo":
			if !harness.OnPath(system, tool) {
				dirs = append(dirs, linkRustup(t, b, rootHome))
			}
		}
	}
	return strings.Join(append(dirs, system), ":")
}

// makePyenv makes the tree that pyenv makes, from the system's python: shims that ask a program below
// the same root which version to run.
func makePyenv(t *testing.T, b *harness.Box) string {
	t.Helper()
	out, err := exec.Command("/usr/bin/python3", "-c", "import sys, sysconfig; v = sys.version_info; "+
		"print(v.major, v.minor, v.micro, sysconfig.get_path('stdlib'), sys._base_executable)").Output()
	if err != nil {
		t.Fatalf("ask python3 for its version: %v", err)
	}
	var major, minor, micro int
	var stdlib, executable string
	if _, err := fmt.Sscan(string(out), &major, &minor, &micro, &stdlib, &executable); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	root := filepath.Join(b.Home, ".pyenv")
	version := fmt.Sprintf("%d.%d.%d", major, minor, micro)
	prefix := filepath.Join(root, "versions", version)
	name := fmt.Sprintf("python%d.%d", major, minor)
	for _, d := range []string{root, filepath.Join(root, "versions"), prefix, filepath.Join(prefix, "bin"), filepath.Join(prefix, "lib")} {
		b.Mkdir(t, d)
	}
	copyFor(t, b, executable, filepath.Join(prefix, "bin", name))
	symlink(t, b, name, filepath.Join(prefix, "bin", "python3"))
	symlink(t, b, "python3", filepath.Join(prefix, "bin", "python"))
	symlink(t, b, stdlib, filepath.Join(prefix, "lib", name))
	b.File(t, filepath.Join(root, "version"), version+"\n")
	script(t, b, filepath.Join(root, "libexec", "pyenv"), `test "$1" = exec
shift
program=$1
shift
exec "`+root+`/versions/$(cat "`+root+`/version")/bin/$program" "$@"
`)
	for _, shim := range []string{"python", "python3"} {
		script(t, b, filepath.Join(root, "shims", shim), `export PYENV_ROOT="`+root+`"
exec "`+root+`/libexec/pyenv" exec "${0##*/}" "$@"
`)
	}
	return filepath.Join(root, "shims")
}

// makeNvm makes the tree that nvm makes, from the system's node and npm.
func makeNvm(t *testing.T, b *harness.Box) string {
	t.Helper()
	prefix := filepath.Join(b.Home, ".nvm/versions/node/v20.0.0")
	for _, d := range []string{".nvm", ".nvm/versions", ".nvm/versions/node", ".nvm/versions/node/v20.0.0",
		".nvm/versions/node/v20.0.0/bin", ".nvm/versions/node/v20.0.0/lib", ".nvm/versions/node/v20.0.0/lib/node_modules"} {
		b.Mkdir(t, filepath.Join(b.Home, d))
	}
	node, err := filepath.EvalSymlinks("/usr/bin/node")
	if err != nil {
		t.Fatal(err)
	}
	copyFor(t, b, node, filepath.Join(prefix, "bin/node"))
	if npm, err := filepath.EvalSymlinks("/usr/bin/npm"); err == nil {
		symlink(t, b, filepath.Dir(filepath.Dir(npm)), filepath.Join(prefix, "lib/node_modules/npm"))
		symlink(t, b, "../lib/node_modules/npm/bin/"+filepath.Base(npm), filepath.Join(prefix, "bin/npm"))
	}
	return filepath.Join(prefix, "bin")
}

// linkRustup gives the ordinary user root's rustup: its proxies and the default toolchain.
func linkRustup(t *testing.T, b *harness.Box, rootHome string) string {
	t.Helper()
	settings, err := os.ReadFile(filepath.Join(rootHome, ".rustup/settings.toml"))
	if err != nil {
		harness.Missing(t, "cargo")
	}
	_, rest, _ := strings.Cut(string(settings), `default_toolchain = "`)
	toolchain, _, _ := strings.Cut(rest, `"`)
	b.File(t, filepath.Join(b.Home, ".rustup/settings.toml"), string(settings))
	b.Mkdir(t, filepath.Join(b.Home, ".rustup"))
	harness.LinkTree(t, filepath.Join(rootHome, ".rustup/toolchains", toolchain), filepath.Join(b.Home, ".rustup/toolchains", toolchain))
	harness.LinkTree(t, filepath.Join(rootHome, ".cargo/bin"), filepath.Join(b.Home, ".cargo/bin"))
	return filepath.Join(b.Home, ".cargo/bin")
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func script(t *testing.T, b *harness.Box, path, text string) {
	t.Helper()
	b.Mkdir(t, filepath.Dir(path))
	b.File(t, path, "#!/usr/bin/env bash\nset -e\n"+text)
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
}

func symlink(t *testing.T, b *harness.Box, text, path string) {
	t.Helper()
	if err := os.Symlink(text, path); err != nil {
		t.Fatal(err)
	}
	if err := os.Lchown(path, b.UID, b.UID); err != nil {
		t.Fatal(err)
	}
}

func copyFor(t *testing.T, b *harness.Box, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	b.File(t, to, string(data))
	if err := os.Chmod(to, 0o755); err != nil {
		t.Fatal(err)
	}
}
