package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gobox/integration/harness"
)

// refusedWith fails the test unless gobox refused to run and said every one of words.
func refusedWith(t *testing.T, res harness.Result, words ...string) {
	t.Helper()
	if res.Code != 125 {
		t.Errorf("want a refusal, got %v", res)
	}
	for _, w := range words {
		if !strings.Contains(string(res.Stderr), w) {
			t.Errorf("no %q in %v", w, res)
		}
	}
}

// TestBreakoutSocketFolders: a read-only mount does not keep anyone from connecting to a socket in it.
func TestBreakoutSocketFolders(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for _, dir := range []string{"/run", "/var/run", "/run/"} {
			refusedWith(t, b.Run(t, harness.Run{Flags: []string{"--ro", dir}, Argv: []string{"/bin/true"}}), "sockets", "--ro /run/NAME")
			refusedWith(t, b.Run(t, harness.Run{Flags: []string{"--ro", dir + ":/mnt/x"}, Argv: []string{"/bin/true"}}), "sockets")
			refusedWith(t, b.Run(t, harness.Run{Flags: []string{"--workspace", dir}, Argv: []string{"/bin/true"}}), "sockets")
		}
		for _, dir := range []string{"/", "/proc", "/sys", "/dev", "/sys/kernel", "/dev/shm", "/etc"} {
			for _, flag := range []string{"--ro", "--rw"} {
				refusedWith(t, b.Run(t, harness.Run{Flags: []string{flag, dir}, Argv: []string{"/bin/true"}}), "hint: ")
			}
		}
	})
}

// TestBreakoutHomeOfOthers: with sudo, HOME may be one user's and the current directory another's.
func TestBreakoutHomeOfOthers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can be in anybody's home")
	}
	data, err := os.ReadFile("/etc/passwd")
	if err != nil || !strings.Contains(string(data), ":/root:") {
		t.Skipf("root has another home (%v)", err)
	}
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		if b.UID != 0 {
			return
		}
		refusedWith(t, b.Run(t, harness.Run{Dir: "/root", Argv: []string{"/bin/true"}}), "home of a user", "--workspace")
	})
}

// TestBreakoutDeniedPlaces: what gobox makes itself is no exception to --deny.
func TestBreakoutDeniedPlaces(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for _, path := range []string{"/dev/zero", "/dev/urandom", "/dev/shm", "/etc/passwd", "/etc/hosts", "/etc/ld.so.cache", "/etc/ssl/certs"} {
			if _, err := os.Stat(path); err != nil {
				continue
			}
			b.Inside(t, []string{"--deny", path}, "open r "+path).Refused(t, hidden, "open r "+path)
		}
		for _, path := range []string{"/dev", "/dev/null", "/etc", "/proc", "/proc/self", "/proc/cpuinfo"} {
			refusedWith(t, b.Run(t, harness.Run{Flags: []string{"--deny", path}, Argv: []string{"/bin/true"}}), "hint: ")
		}
	})
}

// TestBreakoutImageLinks: an image may have links where a host has folders.
func TestBreakoutImageLinks(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		probe, err := os.ReadFile(b.Probe)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"usr/var", "data/var", "/tmp", "/run", "../../../../.."} {
			image := filepath.Join(b.Dir, "image-"+strings.NewReplacer("/", "-", ".", "-").Replace(text))
			tool := b.File(t, image+"/usr/bin/probe", string(probe))
			b.Mkdir(t, image+"/usr/var")
			if err := os.Chmod(tool, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(text, image+"/var"); err != nil {
				t.Fatal(err)
			}
			res := b.Run(t, harness.Run{NoGrant: true, Flags: []string{"--rootfs", image}, Argv: []string{"/usr/bin/probe", "open", "r", "/"}})
			if res.Code == 125 && strings.Contains(string(res.Stderr), "hint: ") && !strings.Contains(string(res.Stderr), "file exists") {
				t.Logf("var -> %s: %v", text, res)
				continue
			}
			if res.Code != 0 {
				t.Errorf("var -> %s: %v", text, res)
			}
		}
	})
}

// TestBreakoutSmallLeaks: what tells the machine, its devices or what others do on it.
func TestBreakoutSmallLeaks(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		var tries []string
		for _, file := range []string{"cmdline", "sys/kernel/random/boot_id", "softirqs", "diskstats", "interrupts", "bus/input/devices", "bus/pci/devices", "fs/jbd2", "irq/1/spurious", "keys", "timer_list"} {
			if _, err := os.Stat("/proc/" + file); err == nil {
				tries = append(tries, "open r /proc/"+file)
			}
		}
		keep := []string{"open r /proc/stat", "open r /proc/meminfo", "open r /proc/cpuinfo", "open r /proc/loadavg", "open r /proc/uptime", "open r /proc/version", "open r /proc/filesystems", "open r /proc/mounts", "open r /proc/sys/kernel/random/uuid"}
		rep := b.Inside(t, nil, append(tries, keep...)...)
		rep.Refused(t, hidden, tries...)
		rep.Allowed(t, keep...)
		res := b.Run(t, harness.Run{Env: []string{"LC_TOKEN=canary", "LC_TIME=C", "LC_=canary"}, Argv: []string{"/usr/bin/env"}})
		if out := string(res.Stdout); strings.Contains(out, "canary") || !strings.Contains(out, "LC_TIME=C\n") {
			t.Errorf("%v", res)
		}
		res = b.Run(t, harness.Run{Flags: []string{"--memory", "256M"}, Argv: []string{"/bin/sh", "-c", "ulimit -s 262144 && ulimit -Hs && ulimit -s unlimited"}})
		if string(res.Stdout) != "262144\n" || res.Code == 0 {
			t.Errorf("the stack can grow past the memory limit: %v", res)
		}
	})
}

// TestBreakoutManyGrants: as many as nobody names by hand.
func TestBreakoutManyGrants(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		var flags []string
		last := ""
		for i := range 300 {
			last = b.File(t, filepath.Join(b.Dir, "many", itoa(i), "file"), "x")
			flags = append(flags, "--ro", filepath.Dir(last))
		}
		res := b.Run(t, harness.Run{Flags: flags, Argv: []string{"/bin/cat", last}})
		if b.UID == 0 {
			refusedWith(t, res, "more than the 240", "grant a folder")
		} else if string(res.Stdout) != "x" {
			t.Errorf("%v", res)
		}
		res = b.Run(t, harness.Run{Flags: flags[:2*200], Argv: []string{"/bin/cat", filepath.Join(b.Dir, "many/7/file")}})
		if string(res.Stdout) != "x" {
			t.Errorf("%v", res)
		}
	})
}
