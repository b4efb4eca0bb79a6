package integration

import (
	"slices"
	"strings"
	"testing"

	"gobox/integration/harness"
	"gobox/selftest/attempt"
)

func TestK01NoNewNamespaces(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		tries := attempt.NewNamespaces()
		b.OutsideAlone(t, "clone 0x20000").Allowed(t, "clone 0x20000")
		rep := b.Inside(t, nil, append(tries, "clone 0")...)
		rep.Refused(t, barred, tries...)
		rep.Allowed(t, "clone 0")
	})
}

func TestK02Clone3AndThreads(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		none, short := systry("clone3 bad 0"), systry("clone3 bad 64")
		b.OutsideAlone(t, none).Refused(t, []string{"EINVAL"}, none)
		rep := b.Inside(t, nil, none, short, "threads 20", "run /bin/true", "child threads 3")
		rep.Refused(t, []string{"ENOSYS"}, none, short)
		rep.Allowed(t, "threads 20", "run /bin/true", "child threads 3")
		if o := rep.Of(t, "threads 20"); o.Ret != 20 {
			t.Errorf("threads: %+v", o)
		}
	})
}

func TestK04PrivilegedCalls(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		// Enough of them get through without a filter to show that the probe reaches the kernel.
		reached := []string{systry("keyctl 99 0 0 0 0"), systry("add_key bad bad bad 0 0"), systry("mbind 0 0 99 bad 0 0xffff"), systry("listmount bad bad 0 0"), systry("sethostname bad 1")}
		rep := b.OutsideAlone(t, reached...)
		for _, r := range reached {
			if o := rep.Of(t, r); o.Errno == "EPERM" {
				t.Errorf("control %s: %+v", r, o)
			}
		}
		tries := attempt.PrivilegedCalls()
		b.Inside(t, nil, tries...).Refused(t, barred, tries...)
	})
}

// TestK05: libuv asks for io_uring at start; a process killed for it is a Node that does not start.
func TestK05IoUringIsAbsent(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		setup := systry("io_uring_setup 8 bad")
		b.Inside(t, nil, setup, "ids").Refused(t, []string{"ENOSYS"}, setup)
	})
}

func TestK06ThirtyTwoBitCalls(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		control := b.Outside(t, "child int80")
		if !strings.Contains(control[0].Detail, `"errno":""`) {
			t.Skipf("this kernel has no 32-bit entry: %+v", control[0])
		}
		wrongArchitecture(t, b.Inside(t, nil, "child int80")[0])
	})
}

// wrongArchitecture accepts SIGSYS or ENOSYS.
func wrongArchitecture(t *testing.T, o harness.Outcome) {
	t.Helper()
	if o.Detail != "signal SIGSYS" && !strings.Contains(o.Detail, `"errno":"ENOSYS"`) {
		t.Errorf("%+v", o)
	}
}

func TestK07X32Calls(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for _, nr := range []string{"0x40000027", "0x40000000", "0x40000208"} { // getpid, read, x32's own execve
			wrongArchitecture(t, b.Inside(t, nil, "child syscall "+nr+" bad bad bad")[0])
		}
	})
}

// TestK08 sets the bits that the kernel ignores in an int argument and a naive filter compares.
// CVE-2019-10063, CVE-2019-7303.
func TestK08HighBitsChangeNothing(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		tries := attempt.HighBits()
		refused := []string{"EPERM", "ENOSYS", "EAFNOSUPPORT", "EPROTONOSUPPORT", "EACCES", "ESOCKTNOSUPPORT"}
		b.Inside(t, nil, tries...).Refused(t, refused, tries...)

		same := b.Inside(t, nil, systry("socket 0x100000002 1 0"), systry("socket 2 1 0"), systry("prctl 0x10000000f bad"), systry("prctl 15 bad"))
		for i := 0; i < len(same); i += 2 {
			// A stricter verdict is no hole.
			if same[i].Errno != same[i+1].Errno && !slices.Contains(refused, same[i].Errno) {
				t.Errorf("%s: %q, %s: %q", same[i].Attempt, same[i].Errno, same[i+1].Attempt, same[i+1].Errno)
			}
		}
	})
}

func TestK09EveryNumber(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		rep := b.Inside(t, nil, "sweep 0 466", "sweep 480 1023", "syscall 9999", "child syscall -1", "syscall 0x3fffffff")
		rep.Refused(t, barred, "syscall 9999", "syscall 0x3fffffff")
		wrongArchitecture(t, rep.Of(t, "child syscall -1")) // it has the bit of x32 set
		unknown := rep.Of(t, "sweep 480 1023")
		if strings.Count(strings.TrimSpace(unknown.Detail), "\n") != 0 || !strings.HasPrefix(unknown.Detail, "ENOSYS ") {
			t.Errorf("numbers that no kernel has: %.300s", unknown.Detail)
		}
		refused := map[string]bool{}
		for line := range strings.Lines(rep.Of(t, "sweep 0 466").Detail) {
			words := strings.Fields(line)
			if slices.Contains(barred, words[0]) {
				for _, nr := range words[1:] {
					refused[nr] = true
				}
			}
		}
		for _, try := range attempt.PrivilegedCalls() {
			nr := strings.Fields(try)[1]
			if nr != sysno("vhangup") && len(nr) <= 3 && nr < "467" && !refused[nr] {
				t.Errorf("call %s reached the kernel", nr)
			}
		}
	})
}

func TestK10SocketFamilies(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		control := b.Outside(t, "families")[0].Detail
		if !strings.Contains(control, "16/raw") {
			t.Errorf("control: %s", control)
		}
		good := []string{"1/stream", "1/dgram", "1/seqpacket", "2/stream", "2/dgram", "10/stream", "10/dgram"}
		got := strings.Fields(b.Inside(t, nil, "families")[0].Detail)
		for _, f := range got {
			if !slices.Contains(append(good, "1/raw", "16/dgram", "16/raw"), f) {
				t.Errorf("a socket of %s", f)
			}
		}
		for _, f := range good[:2] {
			if !slices.Contains(got, f) {
				t.Errorf("no socket of %s", f)
			}
		}
	})
}

func TestK11Protocols(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		tries := attempt.Protocols()
		b.Inside(t, nil, tries...).Refused(t, []string{"EPERM", "EACCES", "ENOSYS", "EAFNOSUPPORT", "EPROTONOSUPPORT", "ESOCKTNOSUPPORT"}, tries...)
	})
}

func TestK12Socketpairs(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		inet, unixPair := systry("socketpair 2 1 0 bad"), systry("socketpair 1 1 0 bad")
		b.OutsideAlone(t, inet).Refused(t, []string{"EFAULT", "EOPNOTSUPP"}, inet)
		rep := b.Inside(t, nil, inet, systry("socketpair 30 1 0 bad"), unixPair)
		rep.Refused(t, []string{"EPERM", "ENOSYS", "EAFNOSUPPORT"}, inet, systry("socketpair 30 1 0 bad"))
		rep.Refused(t, []string{"EFAULT"}, unixPair)
	})
}

func TestK16FiltersOnlyTighten(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		b.OutsideAlone(t, "listener").Allowed(t, "listener")
		rep := b.Inside(t, nil, "listener", "loosen", systry("seccomp 1 0x18 bad"))
		rep.Refused(t, barred, "listener", "loosen", systry("seccomp 1 0x18 bad"))
	})
}

func TestK17Prctl(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		tries := attempt.Prctls()
		rep := b.Inside(t, nil, append(tries, "status")...)
		rep.Refused(t, []string{"EPERM", "EINVAL", "ENOSYS"}, tries...)
		confined(t, rep.Of(t, "status").Detail)
	})
}

func TestK20EveryThreadIsConfined(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		confined(t, b.Inside(t, nil, "status deep")[0].Detail)
	})
}

func TestK21WhatWorkloadsNeed(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		if o := b.Outside(t, "positive")[0]; o.Detail != "" {
			t.Fatalf("control: %s", o.Detail)
		}
		if o := b.Inside(t, nil, "positive")[0]; o.Errno != "" || o.Detail != "" {
			t.Errorf("failed inside: %+v", o)
		}
	})
}

func TestK23EveryThreadSharesItsDescriptors(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		tries, plain := attempt.OwnTables(), systry("close_range 2 1 4")
		b.OutsideAlone(t, tries...).Refused(t, []string{"EINVAL"}, tries...)
		rep := b.Inside(t, nil, append(tries, plain, "threads 20", "run /bin/true")...)
		rep.Refused(t, barred, tries...)
		rep.Refused(t, []string{"EINVAL"}, plain)
		rep.Allowed(t, "threads 20", "run /bin/true")
	})
}
