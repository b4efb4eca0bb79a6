package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gobox/integration/harness"
	"gobox/landlock"
)

// TestF34DriverCommands: ioctls of a device that every sandbox has.
func TestF34DriverCommands(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		entropy := "ioctl /dev/urandom 0x80045200" // RNDGETENTCNT
		b.Outside(t, entropy).Allowed(t, entropy)
		tries := []string{entropy, "ioctl /dev/random 0x80045200", "ioctl /dev/null 0x5204", "ioctl /dev/urandom 0x5206"} // RNDZAPENTCNT, RNDCLEARPOOL
		rep := b.Inside(t, nil, append(tries, "open r /dev/urandom")...)
		rep.Refused(t, []string{"ENOTTY", "EACCES", "EPERM"}, tries...)
		rep.Allowed(t, "open r /dev/urandom")
	})
}

// TestF35Leases: on a file that is only readable. flock(2) and POSIX locks work there; the documentation says so.
func TestF35Leases(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		mine := b.File(t, filepath.Join(b.Work, "mine.txt"), "x")
		lease, notify := "lease "+mine+" 1024 0", "lease "+b.Work+" 1026 0x80000001" // F_RDLCK; DN_ACCESS
		b.Outside(t, lease, notify).Allowed(t, lease, notify)
		// Of the host's own file, which an overlay would only copy.
		b.Inside(t, []string{"--workspace-mode", "ro"}, lease, notify).Refused(t, []string{"EPERM"}, lease, notify)
	})
}

func TestF36Fanotify(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		// FAN_CLASS_NOTIF with FAN_REPORT_FID, which no privilege is needed for.
		plain := systry("fanotify_init 0x200 0")
		if o := b.Outside(t, plain)[0]; o.Errno != "" {
			t.Logf("this kernel refuses it outside as well: %+v", o)
		}
		b.Inside(t, nil, plain, systry("fanotify_mark -1 1 1 -100 bad")).Refused(t, barred, plain, systry("fanotify_mark -1 1 1 -100 bad"))
	})
}

// TestF37NoMeetingPlaces: what one sandbox puts into its /tmp, /dev/shm, System V memory and message queues, neither
// another one nor the host finds.
func TestF37NoMeetingPlaces(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		name, key := b.Marker, fmt.Sprintf("%#x", 0x60b0000+b.UID%1000+os.Getpid()%1000*1000)
		made := []string{"write /tmp/" + name + " x", "write /dev/shm/" + name + " x", "shm-make " + key}
		seen := []string{"open r /tmp/" + name, "open r /dev/shm/" + name, "shm-find " + key}
		// Landlock has no rule for the file system of message queues, and so refuses them all.
		queue := []string{"mq-make " + name, "mq-find " + name}
		b.OutsideAlone(t, queue...).Allowed(t, queue...)
		b.Inside(t, nil, queue...).Refused(t, []string{"", "EACCES"}, queue...)
		weakened(t, b, []string{"landlock"}, nil, queue...).Allowed(t, queue...)
		saw := &watcher{want: "ready", seen: make(chan struct{})}
		script := strings.Join(append([]string{b.Probe}, append(joinAttempts(made), append([]string{"+"}, joinAttempts(seen)...)...)...), " ") + "; echo ready; exec sleep 60"
		cmd := b.Command(t.Context(), harness.Run{Argv: []string{"/bin/sh", "-c", script, b.Marker}})
		cmd.Stdout = saw
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = cmd.Process.Signal(unix.SIGTERM); _ = cmd.Wait() }()
		saw.wait(t)
		said, _, _ := strings.Cut(saw.String(), "ready")
		first := harness.Parse(t, []byte(said))
		first.Allowed(t, append(made, seen...)...)

		b.Inside(t, nil, seen...).Refused(t, []string{"ENOENT"}, seen...)
		b.Outside(t, append(seen, queue[1])...).Refused(t, []string{"ENOENT"}, append(seen, queue[1])...)
		weakened(t, b, []string{"landlock"}, nil, queue[1]).Refused(t, []string{"ENOENT"}, queue[1])
	})
}

func joinAttempts(attempts []string) []string {
	var words []string
	for i, a := range attempts {
		if i > 0 {
			words = append(words, "+")
		}
		words = append(words, strings.Fields(a)...)
	}
	return words
}

// TestF42PageCache: CVE-2022-0847, and its kin that write to a file that is only read. The suite also compares its own
// programs, which every sandbox could read, before and after.
func TestF42PageCache(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		mine := b.Canary(t, filepath.Join(b.Work, "mine.txt"))
		given := b.Canary(t, filepath.Join(b.Dir, "given/data.txt"))
		tries := []string{"dirty-pipe " + mine.Path, "dirty-pipe " + given.Path, "dirty-pipe /usr/bin/env"}
		system := harness.Watch(t, "/usr/bin/env")
		rep := b.Inside(t, []string{"--ro", filepath.Dir(given.Path)}, tries...)
		// The calls themselves are those of cat(1): the attempt is made, and must not arrive.
		rep.Allowed(t, tries...)
		for _, c := range []*harness.Canary{mine, given, system} {
			c.Unchanged(t)
		}
	})
}

// TestE04Keyrings: the filter refuses the calls, and without it the caller's session keyring is not there.
func TestE04Keyrings(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		runtime.LockOSThread() // and never unlocked: the thread, whose keyring is changed, ends with the test
		if _, err := unix.KeyctlJoinSessionKeyring("gobox-test"); err != nil {
			t.Skipf("no keyrings for this test: %v", err)
		}
		if _, err := unix.AddKey("user", b.Marker, []byte("canary"), unix.KEY_SPEC_SESSION_KEYRING); err != nil {
			t.Skipf("no keys for this test: %v", err)
		}
		find := "key-find " + b.Marker
		control := b.Outside(t, find)
		if o := control.Of(t, find); o.Detail != "canary" {
			t.Fatalf("control: %+v", o)
		}
		calls := []string{find, systry("keyctl 0 -3 0"), systry("keyctl 0 -4 0"), systry("keyctl 0 -5 0"), systry("keyctl 1 0"), systry("add_key bad bad bad 0 -3"), systry("request_key bad bad bad -3")}
		rep := b.Inside(t, nil, append(calls, "open r /proc/keys", "open r /proc/key-users")...)
		rep.Refused(t, barred, calls...)
		rep.Refused(t, unread, "open r /proc/keys")
		weakened(t, b, []string{"seccomp"}, nil, find).Refused(t, []string{"ENOKEY", "EACCES", "EPERM", "EKEYREVOKED"}, find)
	})
}

// TestF28WhatIsOnlyRead is not executed: directly, through the dynamic linker, or mapped. A script can be read to its interpreter.
func TestF28WhatIsOnlyRead(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		linkers, _ := filepath.Glob("/lib*/ld-linux-*.so.*")
		if len(linkers) == 0 {
			t.Skip("no dynamic linker of glibc on this host")
		}
		dir := filepath.Join(b.Dir, "given")
		b.Mkdir(t, dir)
		program := filepath.Join(dir, "true")
		data, err := os.ReadFile("/bin/true")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(program, data, 0o755); err != nil {
			t.Fatal(err)
		}
		b.File(t, filepath.Join(dir, "script.sh"), "exit 0\n")
		tries := []string{"run " + program, "run " + linkers[0] + " " + program}
		script := "run /bin/sh " + dir + "/script.sh"
		b.Outside(t, append(tries, script)...).Allowed(t, append(tries, script)...)
		rep := b.Inside(t, []string{"--ro", dir}, append(tries, script)...)
		for _, try := range tries {
			if o := rep.Of(t, try); o.Errno == "" {
				t.Errorf("%s: %+v", try, o)
			}
		}
		rep.Allowed(t, script)
		granted := b.Inside(t, []string{"--rox", dir}, tries...)
		granted.Allowed(t, tries...)
		// The mount says it without Landlock.
		alone := weakened(t, b, []string{"landlock", "seccomp"}, []string{"--ro", dir}, tries...)
		for _, try := range tries {
			if o := alone.Of(t, try); o.Errno == "" {
				t.Errorf("without Landlock, %s: %+v", try, o)
			}
		}
	})
}

// TestF29RunFromMemory is possible, and what runs so is as confined as all else.
func TestF29RunFromMemory(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		secret := b.Canary(t, filepath.Join(b.Dir, "out/secret.txt"))
		tries := []string{"memfd-run status", "memfd-run open r " + secret.Path, "memfd-run " + systry("mount bad bad bad 0 bad")}
		rep := b.Inside(t, nil, tries...)
		confined(t, rep.Of(t, tries[0]).Detail)
		for _, try := range tries[1:] {
			if o := rep.Of(t, try); o.Errno == "" && strings.Contains(o.Detail, `"errno":""`) {
				t.Errorf("%s: %+v", try, o)
			}
		}
	})
}

// TestF27MountTable: what the command reads of its mounts names no folder of the host that it was not given.
func TestF27MountTable(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		calls := []string{systry("statmount bad bad 0 0"), systry("listmount bad bad 0 0"), systry("listns bad bad 0 0")}
		rep := b.Inside(t, []string{"--workspace-mode", "ro"}, append(calls, "cat /proc/self/mountinfo", "cat /proc/self/mounts")...)
		rep.Refused(t, []string{"ENOSYS"}, calls...)
		rep.Allowed(t, "cat /proc/self/mountinfo")
		place := filepath.Base(filepath.Dir(b.Dir)) + "/" + filepath.Base(b.Dir) // the test's own, by whatever mount it lies in
		found := false
		for line := range strings.Lines(rep.Of(t, "cat /proc/self/mountinfo").Detail) {
			root := strings.Fields(line)[3]
			if _, kind, _ := strings.Cut(line, " - "); strings.HasPrefix(kind, "tmpfs ") {
				continue // the sandbox's own, whose paths are those inside
			}
			if strings.HasSuffix(root, place+"/work") {
				found = true
			} else if strings.Contains(root, place) {
				t.Errorf("mount table: %s", line)
			}
		}
		if !found {
			t.Error("the workspace is not in the mount table")
		}
	})
}

func TestF13CgroupFiles(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		var tries []string
		for _, dir := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/unified", "/proc/1/root/sys/fs/cgroup"} {
			tries = append(tries, "list "+dir, "mkdir "+dir+"/gobox-probe", "write "+dir+"/cgroup.procs 1", "write "+dir+"/release_agent /bin/true", "write "+dir+"/cgroup.subtree_control -memory", "write "+dir+"/notify_on_release 1")
		}
		mount := systry("mount bad bad bad 0 bad")
		rep := b.Inside(t, nil, append(tries, mount, "cat /proc/self/cgroup")...)
		rep.Refused(t, frozen, tries...)
		rep.Refused(t, barred, mount)
		// Nor is told where in the host's tree of groups the command is: the root of its namespace is its own.
		groups := rep.Of(t, "cat /proc/self/cgroup").Detail
		for line := range strings.Lines(groups) {
			if parts := strings.SplitN(line, ":", 3); len(parts) != 3 || parts[2] != "/\n" {
				t.Errorf("the command is in the group %q", line)
			}
		}
		if groups == "" {
			t.Error("/proc/self/cgroup is empty")
		}
		// The mount tree alone keeps them away: CVE-2022-0492 needs a cgroup file system of version 1.
		weakened(t, b, []string{"seccomp", "landlock"}, nil, tries...).Refused(t, frozen, tries...)
	})
}

// TestF20DisconnectedFolders moves a folder out of the scope of a bind mount while standing in it; erratum 3 of Landlock
// and CVE-2015-2925.
func TestF20DisconnectedFolders(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		secret := b.Canary(t, filepath.Join(b.Dir, "out/secret.txt"))
		b.Mkdir(t, filepath.Join(b.Work, "a"))
		file := b.Canary(t, filepath.Join(b.Work, "a/b/file"))
		up := strings.Repeat("../", 12) + strings.TrimPrefix(secret.Path, "/")
		script := `cd /mnt/b && mv "$0/a/b" "$0/moved" || exit 9
			cat ../../out/secret.txt ` + up + ` && echo READ
			(echo x > file) && echo WROTE
			ln file /tmp/link && echo LINKED
			mv file ../file && echo MOVED
			mv file "$0/taken" && echo TAKEN
			echo done`
		res := b.Run(t, harness.Run{Flags: []string{"--workspace-mode", "rw", "--ro", filepath.Join(b.Work, "a") + ":/mnt"}, Argv: []string{"/bin/sh", "-c", script, b.Work}})
		if res.Code != 0 || string(res.Stdout) != "done\n" {
			t.Errorf("want only done, got %v", res)
		}
		secret.Unchanged(t)
		file.Path = filepath.Join(b.Work, "moved/file")
		file.Unchanged(t)
	})
}

func TestK03NestedNamespaces(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		var tries []string
		for _, bit := range []uint64{0x20000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000} {
			tries = append(tries, fmt.Sprintf("clone %#x", bit|0x10000000), fmt.Sprintf("clone %#x", bit))
		}
		b.OutsideAlone(t, "clone 0x10020000").Allowed(t, "clone 0x10020000")
		// No capability for the others, and no further user namespace that would give one.
		rep := weakened(t, b, []string{"seccomp", "landlock"}, nil, append(tries, "clone 0")...)
		rep.Refused(t, []string{"EPERM", "ENOSPC", "EUSERS"}, tries...)
		rep.Allowed(t, "clone 0")
	})
}

func TestK13Socketcall(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		if o := b.Outside(t, "child socketcall 1")[0]; !strings.Contains(o.Detail, `"errno":""`) {
			t.Skipf("this kernel has no 32-bit entry: %+v", o)
		}
		for _, family := range []string{"1", "38", "40"} { // AF_UNIX, AF_ALG, AF_VSOCK
			wrongArchitecture(t, b.Inside(t, nil, "child socketcall "+family)[0])
		}
	})
}

func TestK14Personality(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		var tries []string
		// ADDR_NO_RANDOMIZE, MMAP_PAGE_ZERO, ADDR_COMPAT_LAYOUT, READ_IMPLIES_EXEC, ADDR_LIMIT_32BIT, PER_SVR4.
		for _, p := range []string{"0x0040000", "0x0100000", "0x0200000", "0x0400000", "0x0800000", "0x4100001"} {
			tries = append(tries, systry("personality "+p))
		}
		query, set := systry("personality 0xffffffff"), systry("personality 0x0040000")
		b.Outside(t, set).Allowed(t, set)
		rep := b.Inside(t, nil, append(tries, query)...)
		rep.Refused(t, []string{"EPERM"}, tries...)
		if o := rep.Of(t, query); o.Errno != "" || o.Ret != 0 {
			t.Errorf("personality inside: %+v", o)
		}
	})
}

func TestK15LocalDescriptorTable(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("modify_ldt is a call of x86 only")
	}
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		read := systry("modify_ldt 0 bad 0")
		if o := b.Outside(t, read)[0]; o.Errno == "EPERM" {
			t.Errorf("control: %+v", o)
		}
		b.Inside(t, nil, read).Refused(t, barred, read)
	})
}

// TestK18FileCommands: with a bad descriptor a command that gets through answers EBADF.
func TestK18FileCommands(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		var tries []string
		for _, cmd := range []string{
			"0xC0045877", "0xC0045878", // FIFREEZE, FITHAW
			"0x40086602", "0x40049409", "0x4020940D", // FS_IOC_SETFLAGS, FICLONE, FICLONERANGE
			"0xB701", "0xB702", "0xB703", // NS_GET_USERNS, NS_GET_PARENT, NS_GET_NSTYPE
			"0x4C00", "0x4C05", "0x4C82", // LOOP_SET_FD, LOOP_GET_STATUS64, LOOP_CTL_GET_FREE
			"0x1260", "0x80081272", "0x125D", // BLKGETSIZE, BLKGETSIZE64, BLKROSET
			"0x8914", "0x8924", "0x89F0", // SIOCSIFFLAGS, SIOCSIFHWADDR, SIOCDEVPRIVATE
			"0x400454CA", "0xAE00", "0x8004AE98", // TUNSETIFF, KVM_GET_API_VERSION
			"0x40086610", "0xC0406619", // fscrypt
		} {
			tries = append(tries, systry("ioctl -1 "+cmd+" bad"))
		}
		allowed := systry("ioctl -1 0x5401 bad") // TCGETS
		b.Outside(t, append(tries, allowed)...).Refused(t, []string{"EBADF"}, append(tries, allowed)...)
		rep := b.Inside(t, nil, append(tries, allowed)...)
		rep.Refused(t, []string{"ENOTTY", "EPERM"}, tries...)
		rep.Refused(t, []string{"EBADF"}, allowed)
	})
}

// TestK19SessionToParent: CVE-2024-42318, where a child's keyctl(KEYCTL_SESSION_TO_PARENT) took Landlock off its parent.
func TestK19SessionToParent(t *testing.T) {
	suite.EachAside(t, func(t *testing.T, b *harness.Box) {
		secret := b.Canary(t, filepath.Join(b.Dir, "out/secret.txt"))
		call, read := systry("keyctl 18"), "open r "+secret.Path
		b.Inside(t, nil, call).Refused(t, barred, call)
		// With Landlock as the only wall, so that it is what refuses.
		abi, err := landlock.ABI()
		if err != nil || abi < 1 {
			t.Skipf("no Landlock: ABI %d, %v", abi, err)
		}
		exists := "stat " + secret.Path
		rep := weakened(t, b, []string{"mounts", "seccomp"}, nil, exists, read, "child "+call, "child "+call, read)
		rep.Allowed(t, exists)
		for _, o := range rep {
			if o.Attempt == read && o.Errno != "EACCES" {
				t.Errorf("around %s: %+v", call, o)
			}
		}
	})
}

// TestP18NoCoreFile crashes where the command may write.
func TestP18NoCoreFile(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		crash := []string{"/bin/sh", "-c", "ulimit -c unlimited; ulimit -c; kill -SEGV $$"}
		// What the same leaves outside is the control, but where the host lets nobody have a core, or pipes it to a handler.
		aside := filepath.Join(b.Dir, "crash")
		b.Mkdir(t, aside)
		res := b.Run(t, harness.Run{Bin: crash[0], Args: crash[1:], Dir: aside})
		pattern, _ := os.ReadFile("/proc/sys/kernel/core_pattern")
		if res.Code != 128+int(unix.SIGSEGV) {
			t.Errorf("outside: %v", res)
		}
		if cores, err := os.ReadDir(aside); strings.TrimSpace(string(res.Stdout)) == "unlimited" && !strings.ContainsAny(string(pattern), "|@/") && (err != nil || len(cores) != 1) {
			t.Errorf("outside: %d cores, %v, %v", len(cores), err, res)
		}
		res = b.Run(t, harness.Run{Flags: []string{"--workspace-mode", "rw"}, Argv: crash})
		if res.Code != 128+int(unix.SIGSEGV) {
			t.Errorf("want 139, got %v", res)
		}
		if out := strings.TrimSpace(string(res.Stdout)); out != "" && out != "0" {
			t.Errorf("a core limit of %s", out)
		}
		left, err := os.ReadDir(b.Work)
		if err != nil || len(left) > 0 {
			t.Errorf("left in the workspace: %v, %v", left, err)
		}
	})
}
