package integration

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gobox/integration/harness"
	"gobox/landlock"
	"gobox/selftest/attempt"
)

// TestWallFilterAloneEveryList: everything that the K rows try, in the host's tree and without Landlock.
func TestWallFilterAloneEveryList(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		calls := slices.Concat(attempt.PrivilegedCalls(), attempt.MountCalls(), attempt.NewNamespaces())
		weakened(t, b, []string{"landlock", "mounts"}, nil, calls...).Refused(t, barred, calls...)
		values := slices.Concat(attempt.HighBits(), attempt.Prctls(), attempt.Protocols(), []string{
			systry("personality 0x0040000"), systry("ioctl -1 0xC0045877 bad"), systry("ioctl -1 0x40086602 bad"), systry("socketpair 30 1 0 bad"),
		})
		rep := weakened(t, b, []string{"landlock", "mounts"}, nil, append(values, systry("ioctl -1 0x5401 bad"))...)
		rep.Refused(t, []string{"EPERM", "EINVAL", "ENOSYS", "ENOTTY", "EACCES", "EAFNOSUPPORT", "EPROTONOSUPPORT", "ESOCKTNOSUPPORT"}, values...)
		rep.Refused(t, []string{"EBADF"}, systry("ioctl -1 0x5401 bad")) // what is allowed reaches the kernel
	})
}

// TestWallProcessNamespaceAlone: the host's processes are not there, whatever the filter and Landlock would say.
func TestWallProcessNamespaceAlone(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		host := startHost(t, b, "signals", "SIGWINCH")
		pid := itoa(host.pid())
		tries := []string{
			"kill " + pid + " 28", "kill -" + pid + " 28", "tgkill " + pid + " 28", "pidfd-open " + pid, "ptrace 16 " + pid, "vmread " + pid,
			systry("setpriority 0 " + pid + " 19"), systry("prlimit64 " + pid + " 7 0 0"), systry("ioprio_set 1 " + pid + " 0x4007"),
		}
		rep := weakened(t, b, []string{"seccomp", "landlock"}, nil, append(tries, "cat /proc/"+pid+"/cmdline", "kill -1 28")...)
		rep.Refused(t, []string{"ESRCH"}, tries...)
		rep.Refused(t, []string{"ENOENT"}, "cat /proc/"+pid+"/cmdline")
		if line := host.line(50 * time.Millisecond); line != "" {
			t.Errorf("the host's process was signalled: %q", line)
		}
	})
}

// TestWallInitIsClosedAlone: init is not dumpable and has other rights than the command, which needs no filter.
func TestWallInitIsClosedAlone(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		tries := []string{
			"ptrace 16 1", "ptrace 0x4206 1", "vmread 1", "vmwrite 1", "open r /proc/1/environ", "open r /proc/1/maps", "open rw /proc/1/mem", "list /proc/1/fd", "list /proc/1/root",
			"list /proc/1/cwd", "open w /proc/1/exe", "open r /proc/1/exe", "open r /proc/1/ns/mnt", "pidfd-getfd 1 0", systry("kcmp 1 1 0 0 0"),
		}
		self := []string{"pidfd-open 1", "pidfd-getfd self 0"} // what is asked for is there, and would be given
		rep := weakened(t, b, []string{"seccomp", "landlock"}, nil, append(tries, self...)...)
		rep.Refused(t, []string{"EPERM", "EACCES", "ENOENT", "ESRCH"}, tries...)
		rep.Allowed(t, self...)
	})
}

// TestWallLandlockScopesAlone: from ABI 6 on, Landlock keeps signals from leaving the command's domain, as to init.
func TestWallLandlockScopesAlone(t *testing.T) {
	abi, err := landlock.ABI()
	if err != nil || abi < 6 {
		t.Skipf("Landlock has no scopes here: ABI %d, %v", abi, err)
	}
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		weakened(t, b, []string{"seccomp"}, nil, "kill 1 28").Refused(t, []string{"EPERM"}, "kill 1 28")
		// As an ordinary user init and the command are one user, and Landlock was what refused.
		if b.UID != 0 {
			weakened(t, b, []string{"seccomp", "landlock"}, nil, "kill 1 28").Allowed(t, "kill 1 28")
		}
	})
}

// TestWallTreeAlonePlaces: sockets, devices, kernel settings and other users' places are not in the tree.
func TestWallTreeAlonePlaces(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		socket, abstract := filepath.Join(b.Dir, "run/bus"), "@alone-"+b.Marker
		b.Mkdir(t, filepath.Dir(socket))
		conns := listenUnix(t, socket, abstract)
		tries := []string{
			"connect-unix stream " + socket, "connect-unix stream " + abstract, "list /run/user", "stat /run/docker.sock", "open r /dev/mem", "open r /dev/kmsg", "open rw /dev/fuse", "open rw /dev/kvm", "open rw /dev/net/tun",
			"open w /proc/sysrq-trigger", "open r /proc/kcore", "open r /proc/keys", "open r /proc/timer_list", "open w /proc/sys/kernel/core_pattern", "open w /proc/sys/user/max_user_namespaces",
			"list /sys/kernel", "list /sys/fs/cgroup", "open r /root/.bashrc", "walkup / " + socket,
		}
		rep := weakened(t, b, []string{"seccomp", "landlock"}, nil, tries...)
		rep.Refused(t, []string{"ENOENT", "EACCES", "EPERM", "EROFS", "ECONNREFUSED", "ENXIO"}, tries...)
		select {
		case name := <-conns:
			t.Errorf("the host's listener %s was reached", name)
		case <-time.After(50 * time.Millisecond):
		}
	})
}

// TestWallTerminalAlone: without the filter the command may type into its own terminal, which is not the user's.
func TestWallTerminalAlone(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		// Nothing reads the command's terminal after it, so what it injects is lost with it.
		tries := append(injections(0), "device 0")
		argv := append([]string{b.Probe}, strings.Fields(strings.Join(tries, " + "))...)
		term, cmd := onTerminal(t, b, harness.Run{Bin: b.Wall, Flags: []string{"--without", "seccomp", "--without", "landlock"}, Argv: argv})
		ended(t, term, cmd, 0)
		waitFor(t, "the probe's report", func() bool { return strings.Count(term.Text(), "\n") >= len(tries) })
		rep := probeLines(t, term.Text())
		notTheUsers(t, term, rep[len(rep)-1])
		if n := term.Waiting(t); n != 0 {
			t.Errorf("%d bytes wait in the terminal's input", n)
		}
	})
}
