package main

import (
	"errors"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// privateEnv marks the benchmark that already has a mount namespace of its own.
const privateEnv = "GOBOX_BENCH_PRIVATE"

// inPrivateMounts runs the benchmark again in its own mount namespace, where the cgroup2 hierarchy beside
// version 1 is unmounted: crun refuses a host with both, though no contender is given cgroup limits.
func inPrivateMounts() (status int, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), privateEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// isHybrid says whether the host has both cgroup versions mounted (cgroups(7)).
func isHybrid() bool {
	var top, unified unix.Statfs_t
	return unix.Statfs("/sys/fs/cgroup", &top) == nil && top.Type == unix.TMPFS_MAGIC &&
		unix.Statfs("/sys/fs/cgroup/unified", &unified) == nil && unified.Type == unix.CGROUP2_SUPER_MAGIC
}

func unmountUnified() error {
	return unix.Unmount("/sys/fs/cgroup/unified", unix.MNT_DETACH)
}
