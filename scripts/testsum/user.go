package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// ordinaryUID is nobody: an id without files or rights on any Linux.
const ordinaryUID = 65534

// runAsUser runs a test binary as an ordinary user, in the directory it was started in. go test leaves
// the binary below a folder only root can enter, so a copy is run.
func runAsUser(argv []string) int {
	status, err := execAsUser(argv)
	if err != nil {
		fmt.Fprintf(os.Stderr, "testsum: error: run %s as uid %d: %v\n", filepath.Base(argv[0]), ordinaryUID, err)
		return 1
	}
	return status
}

func execAsUser(argv []string) (int, error) {
	home, err := os.MkdirTemp("/tmp", "gobox-user-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(home)
	if err := os.Chmod(home, 0o755); err != nil {
		return 0, err
	}
	if err := os.Chown(home, ordinaryUID, ordinaryUID); err != nil {
		return 0, err
	}
	binary := filepath.Join(home, filepath.Base(argv[0]))
	if err := copyExecutable(argv[0], binary); err != nil {
		return 0, err
	}
	cmd := exec.Command(binary, argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = userEnv(home)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: ordinaryUID, Gid: ordinaryUID},
		Pdeathsig:  syscall.SIGKILL,
	}
	if err := cmd.Run(); err != nil {
		if cmd.ProcessState == nil {
			return 0, err
		}
		fmt.Fprintf(os.Stderr, "as uid %d: %v\n", ordinaryUID, err)
		return 1, nil
	}
	return 0, nil
}

// userEnv is root's environment without root's own folders.
func userEnv(home string) []string {
	var env []string
	for _, kv := range os.Environ() {
		switch name, _, _ := strings.Cut(kv, "="); name {
		case "HOME", "TMPDIR", "GOTMPDIR", "GOCACHE", "GOPATH", "GOENV", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "USER", "LOGNAME":
		default:
			env = append(env, kv)
		}
	}
	return append(env, "HOME="+home, "TMPDIR="+home, "USER=nobody", "LOGNAME=nobody")
}

func copyExecutable(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}
