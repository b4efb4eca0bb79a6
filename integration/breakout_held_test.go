package integration

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gobox/integration/harness"
)

// TestBreakoutNamespaceCallsByFlag: a caller who lets these calls through the filter has not given up
// the walls behind it: no further user namespace, and no capability for any other kind.
func TestBreakoutNamespaceCallsByFlag(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		var flags []string
		for _, name := range []string{"unshare", "setns", "clone3", "mount", "fsopen", "open_tree", "chroot", "ptrace", "pidfd_getfd", "open_by_handle_at", "name_to_handle_at"} {
			flags = append(flags, "--allow-syscall", name)
		}
		var tries []string
		for _, ns := range []string{"0x10000000", "0x20000000", "0x20000", "0x40000000", "0x4000000", "0x8000000", "0x2000000", "0x80"} {
			tries = append(tries, systry("unshare "+ns))
		}
		for _, ns := range []string{"user", "mnt", "net", "pid", "ipc", "uts", "cgroup"} {
			tries = append(tries, "setns /proc/self/ns/"+ns+" 0")
		}
		tries = append(tries, "chroot /", "ptrace 0x4206 1", "handle "+b.Work)
		b.Inside(t, flags, tries...).Refused(t, []string{"EPERM", "ENOSPC", "EINVAL", "EOPNOTSUPP"}, tries...)
	})
}

// TestBreakoutVersionFiles plants files in the workspace that choose a toolchain: FIFOs must not hold
// the start up, and no name in them may lead out of the manager's own versions.
func TestBreakoutVersionFiles(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		pyenv := filepath.Join(b.Home, ".pyenv")
		shim := b.File(t, pyenv+"/shims/tool", "#!/bin/sh\nexec \""+pyenv+"/libexec/pyenv\" exec tool \"$@\"\n")
		b.File(t, pyenv+"/libexec/pyenv", "#!/bin/sh\n")
		probe, err := os.ReadFile(b.Probe)
		if err != nil {
			t.Fatal(err)
		}
		tool := b.File(t, pyenv+"/versions/1.0/bin/tool", string(probe))
		for _, f := range []string{shim, tool} {
			if err := os.Chmod(f, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		b.File(t, pyenv+"/version", "1.0\n")
		// What a name in a version file could lead to has a tool of its own there.
		key := b.Canary(t, filepath.Join(b.Home, ".ssh/id"))
		lure := b.File(t, filepath.Join(b.Home, ".ssh/bin/tool"), string(probe))
		if err := os.Chmod(lure, 0o755); err != nil {
			t.Fatal(err)
		}
		run := func(t *testing.T) harness.Result {
			t.Helper()
			return b.Run(t, harness.Run{NoGrant: true, Timeout: 20 * time.Second, Argv: []string{"tool", "open", "r", key.Path}, Env: []string{"PATH=" + pyenv + "/shims:/usr/bin:/bin"}})
		}
		t.Run("fifos", func(t *testing.T) {
			for _, name := range []string{".python-version", ".tool-versions", "package.json", "rust-toolchain", "rust-toolchain.toml", "mise.toml", "pyvenv.cfg"} {
				path := filepath.Join(b.Work, name)
				if err := syscall.Mkfifo(path, 0o666); err != nil {
					t.Fatal(err)
				}
				defer os.Remove(path)
			}
			res := run(t)
			if res.Code != 0 {
				t.Fatalf("%v", res)
			}
			harness.Parse(t, res.Stdout).Refused(t, hidden, "open r "+key.Path)
		})
		for _, version := range []string{"../../.ssh", "..", ".", "1.0/../../../.ssh", "1.0/envs/../../../../.ssh", b.Home + "/.ssh", "system/../../../.ssh", "1.0:../../.ssh"} {
			t.Run(strings.ReplaceAll(version, "/", "_"), func(t *testing.T) {
				b.File(t, filepath.Join(b.Work, ".python-version"), version+"\n")
				if res := run(t); res.Code == 0 {
					harness.Parse(t, res.Stdout).Refused(t, hidden, "open r "+key.Path)
				} else if res.Code < 125 || res.Code > 127 {
					t.Errorf("want a refusal, got %v", res)
				}
			})
		}
		key.Unchanged(t)
	})
}

// TestBreakoutIdsInTheWorkspace: in a workspace of root's, whose files the command may use, it becomes
// nobody else and makes no device.
func TestBreakoutIdsInTheWorkspace(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		tries := []string{
			"syscall " + itoa(unix.SYS_SETUID) + " 0", "syscall " + itoa(unix.SYS_SETGID) + " 0",
			"syscall " + itoa(unix.SYS_SETRESUID) + " 0 0 0", "syscall " + itoa(unix.SYS_SETGROUPS) + " 0 0",
			"mknod c " + b.Work + "/c", "mknod b " + b.Work + "/b", "setflags " + b.Work,
		}
		made := filepath.Join(b.Work, "made")
		rep := b.Inside(t, []string{"--workspace-mode", "rw"}, append(tries, "write "+made+" x")...)
		// An id that is not mapped is no id (EINVAL).
		rep.Refused(t, []string{"EPERM", "EINVAL", "ENOTTY"}, tries...)
		rep.Allowed(t, "write "+made+" x")
		var st syscall.Stat_t
		if err := syscall.Stat(made, &st); err != nil || int(st.Uid) != b.UID || int(st.Gid) != b.UID {
			t.Errorf("%v, made by uid %d gid %d, want %d", err, st.Uid, st.Gid, b.UID)
		}
	})
}

// TestBreakoutReadOnlyInsideWritable: the mount alone keeps it, since Landlock cannot take a right away.
func TestBreakoutReadOnlyInsideWritable(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		fixed := b.Canary(t, filepath.Join(b.Work, "deep/fixed/file"))
		dir := filepath.Dir(fixed.Path)
		tries := []string{
			"write " + fixed.Path + " x", "open trunc " + fixed.Path, "chmod " + fixed.Path, "utimes " + fixed.Path, "setxattr " + fixed.Path,
			"link " + fixed.Path + " " + b.Work + "/link", "rename " + fixed.Path + " " + b.Work + "/moved", "rename " + dir + " " + b.Work + "/moved",
			"exchange " + dir + " " + b.Home, "unlink " + fixed.Path, "mkdir " + dir + "/new", "truncate " + fixed.Path,
			// Found again under another name of the folder above.
			"write " + b.Work + "/elsewhere/fixed/file x", "chmod " + b.Work + "/elsewhere/fixed/file",
		}
		tries = append(tries[:12], append([]string{"rename " + b.Work + "/deep " + b.Work + "/elsewhere"}, tries[12:]...)...)
		rep := b.Inside(t, []string{"--workspace-mode", "rw", "--ro", dir}, tries...)
		for _, try := range tries {
			if !strings.HasPrefix(try, "rename "+b.Work+"/deep ") {
				rep.Refused(t, append([]string{"EBUSY", "EXDEV", "EINVAL"}, frozen...), try)
			}
		}
		if rep.Of(t, "rename "+b.Work+"/deep "+b.Work+"/elsewhere").Errno == "" {
			if err := os.Rename(b.Work+"/elsewhere", b.Work+"/deep"); err != nil {
				t.Fatal(err)
			}
		}
		fixed.Unchanged(t)
	})
}

// TestBreakoutDeniedFileMoves: what is hidden stays hidden whatever happens to the folder above. A name
// for it that the command could bend is refused.
func TestBreakoutDeniedFileMoves(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		secret := b.Canary(t, filepath.Join(b.Work, "deep/secret"))
		alias := filepath.Join(b.Work, "alias")
		if err := os.Symlink("deep/secret", alias); err != nil {
			t.Fatal(err)
		}
		moved := filepath.Join(b.Work, "moved/secret")
		tries := []string{"open r " + secret.Path, "open r " + alias, "unlink " + secret.Path, "rename " + secret.Path + " " + b.Work + "/s", "link " + secret.Path + " " + b.Work + "/l"}
		if res := b.Run(t, harness.Run{Flags: []string{"--workspace-mode", "rw", "--deny", alias}, Argv: []string{"/bin/true"}}); res.Code != 125 || !strings.Contains(string(res.Stderr), "--deny "+secret.Path) {
			t.Errorf("denied by a link in the writable workspace: %v", res)
		}
		rep := b.Inside(t, []string{"--workspace-mode", "rw", "--deny", secret.Path}, append(tries, "rename "+b.Work+"/deep "+b.Work+"/moved", "open r "+moved, "chmod "+moved)...)
		rep.Refused(t, append([]string{"EBUSY", "EXDEV"}, frozen...), append(tries, "open r "+moved, "chmod "+moved)...)
		if rep.Of(t, "rename "+b.Work+"/deep "+b.Work+"/moved").Errno == "" {
			if err := os.Rename(b.Work+"/moved", b.Work+"/deep"); err != nil {
				t.Fatal(err)
			}
		}
		secret.Unchanged(t)
	})
}

// TestBreakoutInitByHand starts init's own entry without a supervisor: whatever lies at descriptor 3,
// it does nothing and says nothing.
func TestBreakoutInitByHand(t *testing.T) {
	for _, tool := range []string{"/usr/bin/unshare", "/bin/bash"} {
		if _, err := os.Stat(tool); err != nil {
			t.Skip(err)
		}
	}
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		junk := b.File(t, filepath.Join(b.Dir, "junk"), strings.Repeat("\xff\x00\x01", 999))
		for name, redirect := range map[string]string{"closed": "3<&-", "file": "3<" + junk, "null": "3<>/dev/null", "folder": "3<" + b.Work} {
			t.Run(name, func(t *testing.T) {
				res := b.Run(t, harness.Run{Bin: "/usr/bin/unshare", Args: []string{"-U", "-r", "-p", "-f", "/bin/bash", "-c", "exec -a gobox-init " + b.Gobox + " " + redirect}, Timeout: 20 * time.Second})
				if res.Code != 1 || len(res.Stdout)+len(res.Stderr) > 0 {
					t.Errorf("%v", res)
				}
			})
		}
	})
}

// TestBreakoutSetuidInTheWorkspace: the mount inside is nosuid, the one on the host is not. What the
// command leaves there runs with the rights of the workspace's owner, root's among them, for whoever can reach it.
func TestBreakoutSetuidInTheWorkspace(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		file := filepath.Join(b.Work, "tool")
		made := filepath.Join(b.Work, "made")
		b.Inside(t, []string{"--workspace-mode", "rw"}, "run /bin/cp /bin/true "+file, "run /bin/chmod 4755 "+file, "run /usr/bin/install -m 4755 /bin/true "+made)
		for _, path := range []string{file, made} {
			info, err := os.Lstat(path)
			if err == nil && info.Mode()&os.ModeSetuid != 0 {
				t.Errorf("%s is left as %v of uid %d", path, info.Mode(), info.Sys().(*syscall.Stat_t).Uid)
			}
		}
	})
}

// TestBreakoutMountHelperIsLeft: the process that lends its user namespace to an idmapped mount must end
// with gobox too, also when that is killed before the process has asked for it. strace holds the
// process there, and gobox before it ends the process itself; without it one of a thousand kills leaves it on a busy machine.
func TestBreakoutMountHelperIsLeft(t *testing.T) {
	const strace = "/usr/bin/strace"
	if os.Getuid() != 0 {
		t.Skip("only root makes idmapped mounts")
	}
	if _, err := os.Stat(strace); err != nil {
		t.Skip(err)
	}
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		if b.UID != 0 {
			return
		}
		tracer := b.Start(t, harness.Run{Bin: strace, Args: []string{"-f", "-qq", "-o", "/dev/null", "-e", "trace=prctl,kill", "-e", "inject=prctl:delay_enter=1500000:when=1", "-e", "inject=kill:delay_enter=1000000",
			b.Own(t, b.Gobox), "run", "--workspace-mode", "rw", "--", "/bin/true"}})
		waitFor(t, "the helper", func() bool {
			for _, gobox := range children(tracer.Process.Pid) {
				for _, pid := range children(gobox) {
					status, _ := os.ReadFile("/proc/" + itoa(pid) + "/status")
					// Init has a second number, its own.
					if _, ids, _ := strings.Cut(string(status), "\nNSpid:"); len(strings.Fields(strings.SplitN(ids, "\n", 2)[0])) == 1 {
						_ = syscall.Kill(gobox, syscall.SIGKILL)
						return true
					}
				}
			}
			return false
		})
		time.Sleep(2 * time.Second)
		_ = tracer.Process.Kill()
		_ = tracer.Wait()
		b.NoSurvivors(t)
	})
}

// children are the processes that any thread of pid has started.
func children(pid int) []int {
	var list []int
	files, _ := filepath.Glob("/proc/" + itoa(pid) + "/task/*/children")
	for _, f := range files {
		data, _ := os.ReadFile(f)
		for _, word := range strings.Fields(string(data)) {
			if n, err := strconv.Atoi(word); err == nil {
				list = append(list, n)
			}
		}
	}
	return list
}

// TestBreakoutSetgidInTheWorkspace: as with setuid, for the group of the workspace's owner: root's, where
// root started the run.
func TestBreakoutSetgidInTheWorkspace(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		file := filepath.Join(b.Work, "tool")
		b.Inside(t, []string{"--workspace-mode", "rw"}, "run /bin/cp /bin/true "+file, "run /bin/chmod 2755 "+file)
		if info, err := os.Lstat(file); err != nil || info.Mode()&os.ModeSetgid != 0 {
			t.Errorf("%v, left as %v of gid %d", err, info.Mode(), info.Sys().(*syscall.Stat_t).Gid)
		}
	})
}

// TestBreakoutInotifyInstances: they count for the caller too, whose own programs then get none.
func TestBreakoutInotifyInstances(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		data, err := os.ReadFile("/proc/sys/fs/inotify/max_user_instances")
		if err != nil {
			t.Skip(err)
		}
		limit, err := strconv.Atoi(strings.TrimSpace(string(data)))
		if err != nil {
			t.Fatal(err)
		}
		if limit > 1000 {
			t.Skipf("%d instances are more than the command may have files", limit)
		}
		// Three quarters of what the caller has must be out of reach.
		var tries []string
		for i := range limit * 3 / 4 {
			tries = append(tries, "syscall "+itoa(unix.SYS_INOTIFY_INIT1)+" "+itoa(i&1*unix.O_NONBLOCK))
		}
		for _, o := range b.Inside(t, nil, tries...) {
			if o.Errno != "" {
				return
			}
		}
		t.Errorf("the command took %d of the caller's %d inotify instances", len(tries), limit)
	})
}

// TestBreakoutDeviceTimes: every sandbox and the host share the device nodes, whose times anybody who may
// write to one may set.
func TestBreakoutDeviceTimes(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		const device, touch = "/dev/full", "run /usr/bin/touch -c -d @981173106 "
		file := b.File(t, filepath.Join(b.Work, "file"), "")
		modified := func(path string) int64 {
			var st unix.Stat_t
			if err := unix.Stat(path, &st); err != nil {
				t.Error(err)
			}
			return st.Mtim.Sec
		}
		before := modified(device)
		b.Inside(t, []string{"--workspace-mode", "rw"}, touch+file, touch+device, "stat "+device).Allowed(t, touch+file, "stat "+device)
		if now := modified(device); now != before || now == 981173106 {
			t.Errorf("the time of the host's %s was %d and is %d", device, before, now)
		}
		if now := modified(file); now != 981173106 { // the same where it may
			t.Errorf("the time of a file is %d", now)
		}
	})
}
