package integration

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gobox/integration/harness"
	"gobox/selftest/attempt"
)

// names of a directory, to see that nothing was made or removed in it.
func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return strings.Join(list, " ")
}

// TestF15 plants symbolic links where mounts go. CVE-2025-31133, CVE-2025-52565, CVE-2024-42472.
func TestF15MountTargetsThatAreSymlinks(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		out := filepath.Join(b.Dir, "out")
		secret := b.Canary(t, filepath.Join(out, "secret.txt"))
		b.Mkdir(t, out)
		given := b.Canary(t, filepath.Join(b.Dir, "given/data.txt"))
		before := names(t, out)

		t.Run("workspace", func(t *testing.T) {
			target := filepath.Join(b.Work, "target")
			if err := os.Symlink(out, target); err != nil {
				t.Fatal(err)
			}
			r := harness.Run{
				Flags: []string{"--workspace-mode", "rw", "--ro", filepath.Dir(given.Path) + ":" + target},
				Argv:  []string{b.Probe, "open", "r", target + "/secret.txt", "+", "write", target + "/new.txt", "x"},
			}
			if res := b.Run(t, r); res.Code == 0 {
				harness.Parse(t, res.Stdout).Refused(t, frozen, "open r "+target+"/secret.txt", "write "+target+"/new.txt x")
			} else if res.Code != 125 {
				t.Errorf("want a refusal or a run, got %v", res)
			}
		})
		// A target that is there only where the link leads outside. That the new root is never left by one, were it planned, is
		// TestBuildLinks of package namespaces.
		t.Run("below", func(t *testing.T) {
			link := filepath.Join(b.Work, "link")
			if err := os.Symlink(out, link); err != nil {
				t.Fatal(err)
			}
			target := link + "/secret.txt"
			res := b.Run(t, harness.Run{Flags: []string{"--workspace-mode", "rw", "--ro", given.Path + ":" + target}, Argv: []string{b.Probe, "cat", target}})
			if res.Code != 125 || !strings.Contains(string(res.Stderr), "a symbolic link is in the way") {
				t.Errorf("want a refusal, got %v", res)
			}
		})
		t.Run("rootfs", func(t *testing.T) {
			rootfs := filepath.Join(b.Dir, "rootfs")
			b.Mkdir(t, filepath.Join(rootfs, "etc"))
			for _, name := range []string{"dev", "proc", "tmp", "etc/passwd", "home", "work"} {
				if err := os.Symlink(out, filepath.Join(rootfs, name)); err != nil {
					t.Fatal(err)
				}
			}
			r := harness.Run{
				Flags: []string{"--rootfs", rootfs},
				Argv:  []string{b.Probe, "open", "r", secret.Path, "+", "write", "/tmp/new.txt", "x", "+", "write", "/dev/new.txt", "x"},
			}
			if res := b.Run(t, r); res.Code == 0 {
				harness.Parse(t, res.Stdout).Refused(t, frozen, "open r "+secret.Path)
			} else if res.Code < 125 || res.Code > 127 {
				t.Errorf("want a refusal or a run, got %v", res)
			}
		})
		if after := names(t, out); after != before {
			t.Errorf("directory outside: was %q, now %q", before, after)
		}
		secret.Unchanged(t)
		given.Unchanged(t)
	})
}

// TestF16 swaps a mount's target between a directory and a symbolic link while gobox starts.
// CVE-2021-30465.
func TestF16MountTargetSwappedDuringStart(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		secret := b.Canary(t, filepath.Join(b.Dir, "out/secret.txt"))
		given := b.Canary(t, filepath.Join(b.Dir, "given/data.txt"))
		parent := filepath.Join(b.Work, "parent")
		b.Mkdir(t, filepath.Join(b.Work, "real/target"))
		if err := os.Symlink(filepath.Dir(secret.Path), filepath.Join(b.Work, "fake")); err != nil {
			t.Fatal(err)
		}
		before := names(t, filepath.Dir(secret.Path))

		ctx, stop := context.WithCancel(context.Background())
		var swapper sync.WaitGroup
		swapper.Add(1)
		go func() {
			defer swapper.Done()
			for i := 0; ctx.Err() == nil; i++ {
				source := filepath.Join(b.Work, "real")
				if i%2 == 1 {
					source = filepath.Join(b.Work, "fake")
				}
				if os.Rename(source, parent) == nil {
					time.Sleep(time.Duration(i%7) * time.Millisecond)
					_ = os.Rename(parent, source)
				}
			}
		}()
		defer swapper.Wait()
		defer stop()

		ran := 0
		for range 100 {
			res := b.Run(t, harness.Run{
				Flags: []string{"--workspace-mode", "rw", "--ro", filepath.Dir(given.Path) + ":" + parent + "/target"},
				Argv:  []string{b.Probe, "open", "r", parent + "/secret.txt", "+", "open", "r", secret.Path, "+", "write", secret.Path, "x"},
			})
			// What is swapped while gobox looks through the workspace in the end cannot be looked through, and it says so.
			swapped := res.Code == 74 && strings.Contains(string(res.Stderr), "protected: not all that the command could write to was looked at")
			switch {
			case res.Code == 0 || swapped:
				ran++
				harness.Parse(t, res.Stdout).Refused(t, frozen, "open r "+parent+"/secret.txt", "open r "+secret.Path, "write "+secret.Path+" x")
			case res.Code == 125:
			default:
				t.Fatalf("want a refusal or a run, got %v", res)
			}
		}
		t.Logf("%d of 100 ran", ran)
		secret.Unchanged(t)
		if after := names(t, filepath.Dir(secret.Path)); after != before {
			t.Errorf("directory outside: was %q, now %q", before, after)
		}
	})
}

func TestF17FileHandles(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		work := "handle " + b.Work
		raw := []string{"syscall " + sysno("name_to_handle_at") + " -1 bad bad bad 0", "syscall " + sysno("open_by_handle_at") + " -1 bad 0"}
		b.OutsideAlone(t, raw[0]).Refused(t, []string{"EFAULT", "EBADF"}, raw[0])
		rep := b.Inside(t, []string{"--workspace-mode", "rw"}, append(raw, work)...)
		rep.Refused(t, barred, append(raw, work)...)
	})
}

func TestF18HardLinks(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		secret := b.Canary(t, filepath.Join(b.Dir, "out/secret.txt"))
		given := b.Canary(t, filepath.Join(b.Dir, "given/data.txt"))
		control := b.File(t, filepath.Join(b.Dir, "control/file"), "x")
		b.Outside(t, "link "+control+" "+control+"2").Allowed(t, "link "+control+" "+control+"2")
		inside := b.File(t, filepath.Join(b.Work, "file"), "x")
		tries := []string{
			"link " + secret.Path + " " + b.Work + "/l1", "link " + given.Path + " " + b.Work + "/l2",
			"link-empty " + given.Path + " " + b.Work + "/l3", "link /usr/bin/env " + b.Work + "/l4", "link /etc/passwd " + b.Work + "/l5",
		}
		good := "link " + inside + " " + b.Work + "/l6"
		rep := b.Inside(t, []string{"--workspace-mode", "rw", "--ro", filepath.Dir(given.Path)}, append(tries, good)...)
		rep.Refused(t, outside, tries...)
		rep.Allowed(t, good)
		secret.Unchanged(t)
		given.Unchanged(t)
	})
}

func TestF19Renames(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		secret := b.Canary(t, filepath.Join(b.Dir, "out/secret.txt"))
		given := b.Canary(t, filepath.Join(b.Dir, "given/data.txt"))
		mine := b.Canary(t, filepath.Join(b.Work, "mine.txt"))
		b.File(t, filepath.Join(b.Work, "sub/a"), "x")
		b.Mkdir(t, filepath.Join(b.Work, "sub2"))
		tries := []string{
			"rename " + given.Path + " " + b.Work + "/g", "rename " + mine.Path + " " + given.Path, "exchange " + mine.Path + " " + given.Path,
			"rename " + secret.Path + " " + b.Work + "/s", "rename " + mine.Path + " " + secret.Path, "exchange " + mine.Path + " " + secret.Path,
			"rename " + mine.Path + " " + b.Dir + "/new", "rename " + b.Work + " " + b.Dir + "/moved", "rename " + mine.Path + " /usr/mine",
		}
		good := []string{"rename " + b.Work + "/sub/a " + b.Work + "/sub2/a", "rename " + b.Work + "/sub2 " + b.Work + "/sub/sub3"}
		rep := b.Inside(t, []string{"--workspace-mode", "rw", "--ro", filepath.Dir(given.Path)}, append(tries, good...)...)
		rep.Refused(t, append([]string{"EBUSY"}, outside...), tries...)
		rep.Allowed(t, good...)
		for _, c := range []*harness.Canary{secret, given, mine} {
			c.Unchanged(t)
		}
	})
}

func TestF21Truncation(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		given := b.Canary(t, filepath.Join(b.Dir, "given/data.txt"))
		mine := b.Canary(t, filepath.Join(b.Work, "mine.txt"))
		control := b.File(t, filepath.Join(b.Dir, "control/file"), "x")
		b.Outside(t, "truncate "+control).Allowed(t, "truncate "+control)
		var tries []string
		for _, p := range []string{given.Path, mine.Path, b.Probe} {
			tries = append(tries, "truncate "+p, "open creat "+p, "open trunc "+p, "open rtrunc "+p, "write "+p+" x", "unlink "+p)
		}
		tries = append(tries, "open excl "+filepath.Dir(given.Path)+"/new", "open excl "+b.Work+"/new", "mkdir "+b.Work+"/newdir")
		b.Inside(t, []string{"--workspace-mode", "ro", "--ro", filepath.Dir(given.Path)}, tries...).Refused(t, append([]string{"ETXTBSY"}, frozen...), tries...)
		given.Unchanged(t)
		mine.Unchanged(t)
	})
}

// TestF23 is what Landlock alone lets through: metadata of files that are only readable.
func TestF23Metadata(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		given := b.Canary(t, filepath.Join(b.Dir, "given/data.txt"))
		mine := b.Canary(t, filepath.Join(b.Work, "mine.txt"))
		secret := b.Canary(t, filepath.Join(b.Dir, "out/secret.txt"))
		control := b.File(t, filepath.Join(b.Dir, "control/file"), "x")
		verbs := []string{"chmod", "chown", "utimes", "setxattr", "removexattr", "setflags"}
		b.Outside(t, "chmod "+control, "utimes "+control).Allowed(t, "chmod "+control, "utimes "+control)
		var tries []string
		for _, v := range verbs {
			for _, p := range []string{given.Path, mine.Path, secret.Path, filepath.Dir(secret.Path), "/usr/bin/env", b.Probe} {
				tries = append(tries, v+" "+p)
			}
		}
		rep := b.Inside(t, []string{"--workspace-mode", "ro", "--ro", filepath.Dir(given.Path)}, tries...)
		// ENOTTY: the filter or the file system knows no FS_IOC_SETFLAGS.
		rep.Refused(t, append([]string{"ENOTTY", "ENOTSUP", "EOPNOTSUPP", "ENODATA", "ENOSYS"}, frozen...), tries...)
		for _, c := range []*harness.Canary{given, mine, secret} {
			c.Unchanged(t)
		}
	})
}

// TestF24 asks whether a file exists, which Landlock alone answers.
func TestF24ExistenceIsNotTold(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		secret := b.Canary(t, filepath.Join(b.Dir, "out/secret.txt"))
		var tries []string
		for _, v := range []string{"stat", "lstat", "access", "open path", "readlink"} {
			tries = append(tries, v+" "+secret.Path)
		}
		tries = append(tries, "chdir "+filepath.Dir(secret.Path), "stat "+b.Dir+"/out", "stat /root/.bashrc", "stat /etc/shadow", "stat /etc/ssh", "stat /var/lib/dpkg", "stat /run/systemd")
		b.Outside(t, tries[:4]...).Allowed(t, tries[:4]...)
		b.Inside(t, nil, tries...).Refused(t, []string{"ENOENT"}, tries...)
	})
}

func TestF25MountCalls(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		tries := attempt.MountCalls()
		control := b.OutsideAlone(t, tries[:9]...)
		control.Refused(t, []string{"EFAULT", "EBADF", "EINVAL"}, tries[:9]...)
		b.Inside(t, nil, tries...).Refused(t, barred, tries...)
	})
}

func TestF26Chroot(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		b.OutsideAlone(t, "chroot /usr").Allowed(t, "chroot /usr")
		b.Inside(t, nil, "chroot /usr", "chroot /", systry("chroot bad")).Refused(t, barred, "chroot /usr", "chroot /", systry("chroot bad"))
	})
}

// TestF30 runs a program with the set-user-ID bit of its owner, root when the tests can make one.
func TestF30SetuidGivesNothing(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		data, err := os.ReadFile(b.Probe)
		if err != nil {
			t.Fatal(err)
		}
		tool := filepath.Join(b.Dir, "tool/suid")
		if err := os.MkdirAll(filepath.Dir(tool), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(tool, data, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(tool, 0o755|os.ModeSetuid|os.ModeSetgid); err != nil {
			t.Fatal(err)
		}
		rep := b.Inside(t, []string{"--rox", filepath.Dir(tool)}, "ids", "run "+tool+" ids", "run "+tool+" status")
		plain := rep.Of(t, "ids").Detail
		if got := rep.Of(t, "run "+tool+" ids").Detail; !strings.Contains(got, plain) {
			t.Errorf("plain %q, through a set-user-ID program %q", plain, got)
		}
		if os.Getuid() == 0 && b.UID != 0 {
			control := b.Outside(t, "run "+tool+" ids")
			if !strings.Contains(control[0].Detail, "euid 0") {
				t.Errorf("control gained nothing: %+v", control[0])
			}
		}
		confined(t, rep.Of(t, "run "+tool+" status").Detail)
	})
}

func TestF32HostSockets(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		path := filepath.Join(b.Dir, "run/bus")
		b.Mkdir(t, filepath.Dir(path))
		abstract := "@" + b.Marker
		conns := listenUnix(t, path, abstract)
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
		mine := []string{"connect-unix stream " + path, "connect-unix stream " + abstract}
		b.Outside(t, mine...).Allowed(t, mine...)
		for range mine {
			<-conns
		}
		tries := append(mine, "connect-unix dgram "+path, "stat /run/docker.sock", "stat /var/run/docker.sock", "list /run/user", "stat /run/dbus/system_bus_socket", "list /tmp/.X11-unix", "stat /run/systemd/private")
		rep := b.Inside(t, []string{"--env", "DBUS_SESSION_BUS_ADDRESS=unix:path=" + path}, tries...)
		rep.Refused(t, []string{"ENOENT", "EACCES", "EPERM", "ECONNREFUSED"}, tries...)
		select {
		case <-conns:
			t.Error("the host's listener was reached")
		case <-time.After(50 * time.Millisecond):
		}
	})
}
