package integration

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gobox/integration/harness"
)

func TestF01SecretsAreNotThere(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		key := b.Canary(t, filepath.Join(b.Home, ".ssh/id_ed25519"))
		other := b.Canary(t, filepath.Join(b.Dir, "other/secret.txt"))
		work := b.Canary(t, filepath.Join(b.Work, "input.txt"))
		mine := []string{"open r " + key.Path, "open r " + other.Path}
		b.Outside(t, mine...).Allowed(t, mine...)

		tries := append(mine, "open r /etc/shadow", "list /root/.ssh", "open w "+other.Path, "list "+filepath.Dir(other.Path))
		rep := b.Inside(t, []string{"--workspace-mode", "ro"}, append(tries, "open r "+work.Path, "open w "+work.Path)...)
		rep.Refused(t, hidden, tries...)
		rep.Allowed(t, "open r "+work.Path)
		rep.Refused(t, frozen, "open w "+work.Path)
		for _, c := range []*harness.Canary{key, other, work} {
			c.Unchanged(t)
		}
	})
}

func TestF02SymlinkOutOfTheWorkspace(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		secret := b.Canary(t, filepath.Join(b.Dir, "out/secret.txt"))
		link := filepath.Join(b.Work, "chain")
		fresh := filepath.Join(b.Work, "fresh")
		for from, to := range map[string]string{link: filepath.Join(b.Work, "chain2"), filepath.Join(b.Work, "chain2"): secret.Path, fresh: filepath.Join(b.Dir, "out/new.txt")} {
			if err := os.Symlink(to, from); err != nil {
				t.Fatal(err)
			}
		}
		tries := []string{"open r " + link, "open rw " + link, "open trunc " + link, "write " + fresh + " x"}
		b.Outside(t, tries[0]).Allowed(t, tries[0])
		// The control for those that write has a link of its own.
		free := filepath.Join(b.Work, "free")
		if err := os.Symlink(b.File(t, filepath.Join(b.Dir, "free/file"), "x"), free); err != nil {
			t.Fatal(err)
		}
		control := []string{"open rw " + free, "open trunc " + free, "write " + free + " x"}
		b.Outside(t, control...).Allowed(t, control...)

		made := filepath.Join(b.Work, "made")
		for _, mode := range []string{"overlay", "rw"} {
			flags := []string{"--workspace-mode", mode}
			if mode == "overlay" {
				flags = overlayFlags(t, b)
			}
			rep := b.Inside(t, flags, append(append(tries, control...), "symlink "+secret.Path+" "+made, "open rw "+made)...)
			rep.Refused(t, frozen, append(append(tries, control...), "open rw "+made)...)
			rep.Allowed(t, "symlink "+secret.Path+" "+made)
			secret.Unchanged(t)
			if got := names(t, filepath.Join(b.Dir, "out")); got != "secret.txt" {
				t.Errorf("%s: a file was made outside through a symbolic link: %s", mode, got)
			}
		}
	})
}

func TestF03DotDot(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		secret := b.Canary(t, filepath.Join(b.Dir, "out/secret.txt"))
		inside := b.Canary(t, filepath.Join(b.Work, "input.txt"))
		var tries []string
		for _, from := range []string{".", b.Work, b.Home, "/", "/tmp", "/proc/self"} {
			tries = append(tries, "walkup "+from+" "+secret.Path)
		}
		b.Outside(t, tries...).Allowed(t, tries...)
		good := "walkup . " + inside.Path
		rep := b.Inside(t, []string{"--workspace-mode", "rw"}, append(tries, good)...)
		rep.Refused(t, hidden, tries...)
		rep.Allowed(t, good)
	})
}

func TestF04RootAndCwdOfOtherProcesses(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		secret := b.Canary(t, filepath.Join(b.Dir, "out/secret.txt"))
		own := []string{"open r /proc/self/root" + secret.Path, "open r /proc/self/cwd/../out/secret.txt"}
		b.Outside(t, own...).Allowed(t, own...)
		tries := append(own, "open r /proc/1/root"+secret.Path, "list /proc/1/root", "open r /proc/1/root/etc/passwd", "list /proc/1/cwd", "list /proc/2/root"+b.Dir+"/out")
		b.Inside(t, nil, tries...).Refused(t, unread, tries...)
	})
}

func TestF05WorkingDirectoryIsInside(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		elsewhere := filepath.Join(b.Dir, "elsewhere")
		secret := b.Canary(t, filepath.Join(elsewhere, "secret.txt"))
		tries := []string{"getcwd", "cat secret.txt", "walkup . " + secret.Path}
		for name, flags := range map[string][]string{
			"none":    {"--workspace-mode", "none"},
			"another": {"--workspace", b.Work},
		} {
			t.Run(name, func(t *testing.T) {
				rep := b.InsideRun(t, harness.Run{Flags: flags, Dir: elsewhere}, tries...)
				if cwd := rep.Of(t, "getcwd"); cwd.Errno != "" || !strings.HasPrefix(cwd.Detail, "/") || cwd.Detail == elsewhere {
					t.Errorf("working directory: %+v", cwd)
				}
				rep.Refused(t, unread, tries[1:]...)
			})
		}
		// CVE-2024-21626: a directory descriptor of the parent as a way out.
		dir, err := os.Open(elsewhere)
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		var leaks []string
		for fd := 3; fd <= 20; fd++ {
			leaks = append(leaks, "open r /proc/self/fd/"+itoa(fd)+"/secret.txt", "list /proc/1/fd/"+itoa(fd))
		}
		files := slices.Repeat([]*os.File{dir}, 18)
		rep := b.InsideRun(t, harness.Run{Files: files}, leaks...)
		rep.Refused(t, []string{"ENOENT", "EACCES", "EPERM", "ENOTDIR"}, leaks...)
	})
}

func TestF06OnlyStdioReachesTheCommand(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		secret := b.Canary(t, filepath.Join(b.Dir, "out/secret.txt"))
		file, err := os.OpenFile(secret.Path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		dir, err := os.Open(filepath.Dir(secret.Path))
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		defer w.Close()
		rep := b.InsideRun(t, harness.Run{Files: []*os.File{file, dir, r, w}}, "fds", "reopen 3 rw")
		if o := rep.Of(t, "fds"); o.Ret != 3 || o.Errno != "" {
			t.Errorf("open descriptors: %+v", o)
		}
		secret.Unchanged(t)

		// Nor does init keep one, which would be all that is between the command and the file.
		cmd := b.Start(t, harness.Run{Files: []*os.File{file, dir, r, w}, Argv: []string{b.Probe, "sleep", "30s", b.Marker}})
		waitFor(t, "the command to start", func() bool { return inside(b, "sleep 30s") != 0 })
		fds := "/proc/" + itoa(initOf(t, cmd.Process.Pid)) + "/fd"
		open, err := os.ReadDir(fds)
		if err != nil && os.Getuid() != 0 {
			return // only root may look
		}
		if err != nil || len(open) < 3 {
			t.Fatalf("descriptors of init: %v, %v", open, err)
		}
		pipe, err := os.Readlink("/proc/self/fd/" + itoa(int(r.Fd())))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range open {
			if to, _ := os.Readlink(fds + "/" + e.Name()); to == secret.Path || to == filepath.Dir(secret.Path) || to == pipe {
				t.Errorf("init has descriptor %s, %s", e.Name(), to)
			}
		}
	})
}

func TestF07StdioCannotBeReopenedWider(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		in := b.Canary(t, filepath.Join(b.Dir, "io/in.txt"))
		stdin, err := os.Open(in.Path)
		if err != nil {
			t.Fatal(err)
		}
		defer stdin.Close()
		rep := b.InsideRun(t, harness.Run{Stdin: stdin}, "reopen 0 w", "reopen 0 rw", "reopen 0 trunc", "open rw /dev/stdin")
		rep.Refused(t, frozen, "reopen 0 w", "reopen 0 rw", "reopen 0 trunc", "open rw /dev/stdin")
		in.Unchanged(t)
	})
}

func TestF08TheBinaryOfInitIsOutOfReach(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		own := b.Own(t, b.Gobox)
		bin := harness.Watch(t, own)
		tries := []string{"open w /proc/1/exe", "open rw /proc/1/exe", "open r /proc/1/exe", "open path /proc/1/exe", "open w " + own, "readlink /proc/1/exe"}
		rep := b.InsideRun(t, harness.Run{Bin: own}, tries...)
		rep.Refused(t, append([]string{"ETXTBSY"}, unread...), tries...)
		bin.Unchanged(t)
	})
}

func TestF09InitCannotBeRead(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		self := []string{"open r /proc/self/mem", "open r /proc/self/environ", "open r /proc/self/maps", "list /proc/self/fd", "readlink /proc/self/ns/mnt", "list /proc/self/cwd"}
		var tries []string
		for _, s := range self {
			tries = append(tries, strings.Replace(s, "/self/", "/1/", 1))
		}
		tries = append(tries, "open rw /proc/1/mem", "open r /proc/1/ns/mnt", "open r /proc/1/ns/user", "open r /proc/1/auxv", "cat /proc/1/stack", "cat /proc/1/syscall", "list /proc/1/map_files", "open w /proc/1/oom_score_adj")
		rep := b.Inside(t, nil, append(self, tries...)...)
		rep.Allowed(t, self[1:4]...)
		rep.Refused(t, unread, tries...)
	})
}

func TestF10KernelSettings(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		var tries, before []string
		paths := []string{"kernel/core_pattern", "kernel/hostname", "kernel/domainname", "user/max_user_namespaces", "vm/overcommit_memory", "vm/drop_caches", "net/ipv4/ip_forward", "net/ipv4/ping_group_range", "kernel/modprobe", "fs/binfmt_misc/register"}
		for _, p := range paths {
			tries = append(tries, "open w /proc/sys/"+p)
			data, _ := os.ReadFile("/proc/sys/" + p)
			before = append(before, string(data))
		}
		// Not compared: the host changes it by itself.
		tries = append(tries, "open w /proc/sys/kernel/ns_last_pid")
		b.Inside(t, nil, tries...).Refused(t, frozen, tries...)
		for i, p := range paths {
			if data, _ := os.ReadFile("/proc/sys/" + p); string(data) != before[i] {
				t.Errorf("/proc/sys/%s changed from %q to %q", p, before[i], data)
			}
		}
	})
}

func TestF11DangerousProcFiles(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		var tries []string
		for _, p := range []string{"kcore", "kmsg", "keys", "key-users", "timer_list", "interrupts", "latency_stats", "sched_debug", "kpagecount", "vmallocinfo", "slabinfo"} {
			tries = append(tries, "cat /proc/"+p)
		}
		tries = append(tries, "list /proc/acpi", "list /proc/scsi", "list /proc/asound", "list /sys/firmware", "list /sys/devices/virtual/powercap", "open w /proc/sysrq-trigger")
		rep := b.Inside(t, nil, tries...)
		for _, try := range tries {
			if o := rep.Of(t, try); o.Errno == "" && o.Ret != 0 {
				t.Errorf("%s: gave %d: %.80q", try, o.Ret, o.Detail)
			}
		}
		rep.Refused(t, frozen, "open w /proc/sysrq-trigger")
	})
}

func TestF12Sys(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		tries := []string{"open w /sys/kernel/uevent_helper", "open w /sys/power/state", "open w /sys/kernel/mm/transparent_hugepage/enabled", "list /sys/kernel/debug", "list /sys/kernel/tracing", "mkdir /sys/gobox-probe", "list /sys/class", "list /sys/fs/bpf"}
		b.Inside(t, nil, tries...).Refused(t, frozen, tries...)
	})
}

func TestF14Devices(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		tries := []string{"open r /dev/mem", "open r /dev/kmsg", "open r /dev/kvm", "open r /dev/fuse", "open r /dev/net/tun", "open r /dev/vda", "open r /dev/sda", "open r /dev/vhost-net", "open r /dev/userfaultfd", "list /dev/input", "open rw /dev/loop-control"}
		nodes := []string{"mknod c /tmp/mem", "mknod b /tmp/ram", "mknod c " + b.Work + "/mem"}
		good := []string{"open rw /dev/null", "open r /dev/zero", "open r /dev/full", "open r /dev/urandom", "open r /dev/random"}
		rep := b.Inside(t, []string{"--workspace-mode", "rw"}, append(append(append([]string{"list /dev"}, tries...), nodes...), good...)...)
		rep.Refused(t, hidden, tries...)
		rep.Refused(t, []string{"EPERM", "EACCES", "ENOSYS"}, nodes...)
		rep.Allowed(t, good...)
		for _, name := range strings.Fields(rep.Of(t, "list /dev").Detail) {
			if !slices.Contains([]string{"null", "zero", "full", "random", "urandom", "fd", "stdin", "stdout", "stderr", "ptmx", "pts", "shm", "tty"}, name) {
				t.Errorf("/dev/%s is there", name)
			}
		}
	})
}
