package cgroup

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// spawner is a helper in init's place: a process of another user namespace that starts the command in a group whose
// descriptors it was given.
func spawner(way string) {
	exe, _ := os.Readlink("/proc/self/exe")
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), helperEnv+"=where")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stdout
	if way == "fd" {
		cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: 3}
	} else {
		script := ""
		n, _ := strconv.Atoi(strings.TrimPrefix(way, "doors"))
		for fd := 3; fd < 3+n; fd++ {
			cmd.ExtraFiles = append(cmd.ExtraFiles, os.NewFile(uintptr(fd), "door"))
			script += fmt.Sprintf("echo 0 >&%d || exit 99; ", fd)
		}
		cmd.Args = []string{"sh", "-c", script + `exec "$0"`, exe}
		cmd.Path = "/bin/sh"
	}
	if err := cmd.Run(); err != nil {
		fmt.Println("spawn:", err)
	}
}

// where says which cgroup the helper is in, from outside and then from a cgroup namespace of its own.
func where() {
	runtime.LockOSThread() // the namespace is that of a thread
	show := func(when string) {
		data, _ := os.ReadFile("/proc/self/cgroup")
		fmt.Printf("%s\n%s", when, data)
	}
	show("before")
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		fmt.Println("unshare:", err)
	}
	show("after")
}

// How gobox uses a group: made by the supervisor, entered by a process that init clones in its own namespaces. A cgroup
// namespace of init's own would be in the way of the descriptor where nsdelegate is on, and never of the doors.
func TestFromNamespaces(t *testing.T) {
	s := support(t, Limits{Pids: 50})
	for _, tt := range []struct {
		way   string
		flags uintptr
	}{{"fd", 0}, {"doors", 0}, {"doors", syscall.CLONE_NEWCGROUP}} {
		if tt.way == "fd" && s.Version == 1 {
			continue // it has only doors
		}
		t.Run(fmt.Sprintf("%s-%x", tt.way, tt.flags), func(t *testing.T) {
			g := create(t, Limits{Pids: 50})
			doors, err := g.Doors()
			if err != nil {
				t.Fatal(err)
			}
			way := tt.way
			if way == "doors" {
				way += strconv.Itoa(len(doors))
			}
			cmd := helperCommand(t, "spawner:"+way)
			if tt.way == "fd" {
				dup, err := unix.FcntlInt(uintptr(g.FD()), unix.F_DUPFD_CLOEXEC, 3)
				if err != nil {
					t.Fatal(err)
				}
				f := os.NewFile(uintptr(dup), "group")
				defer f.Close()
				cmd.ExtraFiles = []*os.File{f}
			} else {
				for _, fd := range doors {
					dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
					if err != nil {
						t.Fatal(err)
					}
					f := os.NewFile(uintptr(dup), "door")
					defer f.Close()
					cmd.ExtraFiles = append(cmd.ExtraFiles, f)
				}
			}
			cmd.SysProcAttr = &syscall.SysProcAttr{
				Cloneflags:  syscall.CLONE_NEWUSER | tt.flags,
				UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
				GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
			}
			out, err := cmd.CombinedOutput()
			if err != nil && len(out) == 0 {
				t.Skipf("no user namespace: %v", err)
			}
			before, after, ok := strings.Cut(string(out), "after\n")
			if err != nil || !ok || !strings.Contains(before, "/"+g.Name()) {
				t.Fatalf("not in the group: %v, %s", err, out)
			}
			if g.Version() == 2 && after != "0::/\n" || strings.Contains(after, g.Name()) {
				t.Errorf("the command sees more than itself: %s", after)
			}
		})
	}
}
