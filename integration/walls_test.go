package integration

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gobox/integration/harness"
	"gobox/landlock"
	"gobox/selftest/attempt"
)

// weakened runs the build that can leave walls out.
func weakened(t *testing.T, b *harness.Box, without []string, flags []string, attempts ...string) harness.Report {
	t.Helper()
	for _, layer := range without {
		flags = append(flags, "--without", layer)
	}
	return b.InsideRun(t, harness.Run{Bin: b.Wall, Flags: flags}, attempts...)
}

func TestWallsShippedBinaryCannotLowerThem(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for _, layer := range []string{"landlock", "seccomp", "mounts", "namespaces"} {
			if res := b.Run(t, harness.Run{Flags: []string{"--without", layer}, Argv: []string{"/bin/true"}}); res.Code != 125 {
				t.Errorf("--without %s: %v", layer, res)
			}
		}
	})
}

// TestWallSeccompAlone: the K rows do not lean on Landlock or the mount tree.
func TestWallSeccompAlone(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		tries := append(attempt.PrivilegedCalls(), systry("unshare 0x10000000"), "clone 0x10000000", "chroot /", systry("mount bad bad bad 0 bad"), systry("fsopen bad 0"), "ptrace 0x4206 1", "listener", "loosen", "setns /proc/self/ns/user 0")
		weakened(t, b, []string{"landlock", "mounts"}, nil, tries...).Refused(t, barred, tries...)
		families := []string{systry("socket 40 1 0"), systry("socket 38 5 0"), systry("socket 2 1 262")}
		weakened(t, b, []string{"landlock", "mounts"}, nil, families...).Refused(t, []string{"EPERM", "EAFNOSUPPORT", "EPROTONOSUPPORT", "ENOSYS"}, families...)
	})
}

// fileTries are rows F01, F02, F18, F19, F21 and F23 in short.
func fileTries(t *testing.T, b *harness.Box) (tries []string, check func()) {
	t.Helper()
	secret := b.Canary(t, filepath.Join(b.Dir, "out/secret.txt"))
	given := b.Canary(t, filepath.Join(b.Dir, "given/data.txt"))
	key := b.Canary(t, filepath.Join(b.Dir, "keys/id_ed25519"))
	for _, c := range []*harness.Canary{secret, key} {
		tries = append(tries, "open r "+c.Path, "open w "+c.Path, "open rtrunc "+c.Path, "truncate "+c.Path, "link "+c.Path+" "+b.Work+"/link", "rename "+c.Path+" "+b.Work+"/moved")
	}
	tries = append(tries, "open w "+given.Path, "truncate "+given.Path, "open rtrunc "+given.Path, "unlink "+given.Path, "open excl "+filepath.Dir(given.Path)+"/new", "mkdir "+filepath.Dir(given.Path)+"/new")
	return tries, func() {
		t.Helper()
		for _, c := range []*harness.Canary{secret, given, key} {
			c.Unchanged(t)
		}
	}
}

// TestWallMountTreeAlone: neither Landlock nor the filter is needed for the F rows.
func TestWallMountTreeAlone(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		tries, unchanged := fileTries(t, b)
		metadata := []string{"list " + b.Dir + "/out", "chmod " + b.Dir + "/given/data.txt", "utimes " + b.Dir + "/given/data.txt", "stat " + b.Dir + "/out/secret.txt", "open r /etc/shadow", "open r /proc/kcore", "open w /proc/sys/kernel/core_pattern", "list /sys/class", "open r /dev/kmsg"}
		rep := weakened(t, b, []string{"landlock", "seccomp"}, []string{"--workspace-mode", "rw", "--ro", filepath.Join(b.Dir, "given")}, append(tries, metadata...)...)
		rep.Refused(t, outside, append(tries, metadata...)...)
		unchanged()
	})
}

// TestWallLandlockAlone: with the host's tree in view and no filter, Landlock still keeps the canaries.
// They lie aside, since the rules for the sandbox's own /tmp and HOME then mean the host's.
func TestWallLandlockAlone(t *testing.T) {
	suite.EachAside(t, func(t *testing.T, b *harness.Box) {
		tries, unchanged := fileTries(t, b)
		if abi, err := landlock.ABI(); err == nil && abi < 3 {
			// LANDLOCK_ACCESS_FS_TRUNCATE came with Linux 6.2; before, the read-only mounts alone hold this.
			tries = slices.DeleteFunc(tries, func(a string) bool {
				return strings.HasPrefix(a, "truncate ") || strings.HasPrefix(a, "open rtrunc ")
			})
		}
		// The proof that the mount tree is really off: Landlock lets stat through, and the right to list
		// the root directory is one to list everything below.
		exists := []string{"stat " + b.Dir + "/out/secret.txt", "list " + b.Dir + "/out"}
		rep := weakened(t, b, []string{"mounts", "seccomp"}, []string{"--workspace-mode", "rw", "--ro", filepath.Join(b.Dir, "given")}, append(tries, exists...)...)
		rep.Refused(t, outside, tries...)
		rep.Allowed(t, exists...)
		unchanged()
	})
}

// TestWallCapabilities: without the filter, what it would refuse fails for want of a capability.
func TestWallCapabilities(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		tries := []string{"chroot /", "mknod c /tmp/mem", systry("sethostname bad 0"), systry("swapoff bad"), systry("reboot 0 0 0 0"), "open rw /proc/1/mem", "open r /proc/1/environ", "setns /proc/1/ns/mnt 0"}
		rep := weakened(t, b, []string{"seccomp", "landlock"}, nil, append(tries, "clone 0x10000000")...)
		rep.Refused(t, []string{"EPERM", "EACCES", "EBADF", "ENOENT"}, tries...)
		// K03: a nested user namespace, which would give every capability back.
		rep.Refused(t, []string{"EPERM", "ENOSPC", "EUSERS"}, "clone 0x10000000")
	})
}

// TestWallNetworkNamespaceAlone: nothing else is needed to keep the host's sockets away.
func TestWallNetworkNamespaceAlone(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		addr, conns := canaryTCP(t, "127.0.0.1:0")
		tries := []string{"dial tcp " + addr, "route 192.0.2.1"}
		rep := weakened(t, b, []string{"seccomp", "landlock"}, nil, append(tries, "interfaces")...)
		rep.Refused(t, unreachable, tries...)
		silent(t, conns)
		if o := rep.Of(t, "interfaces"); o.Detail != "lo" {
			t.Errorf("interfaces: %+v", o)
		}
	})
}

// TestWallInitSurvivesByItself: with Landlock off the command may signal init.
func TestWallInitSurvivesByItself(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		rep := weakened(t, b, []string{"landlock", "seccomp"}, nil, "kill-init", "kill -1 28", "ids")
		rep.Allowed(t, "kill-init", "ids")
		// Init has other credentials than the command when the caller is root.
		if o := rep.Of(t, "kill-init"); o.Ret == 0 && b.UID != 0 {
			t.Errorf("no signal was sent, so nothing is proven: %+v", o)
		}
	})
}
