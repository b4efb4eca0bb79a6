package integration

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gobox/integration/harness"
)

// batch is the probe's argument vector for several attempts, where the run itself may fail.
func batch(b *harness.Box, attempts ...string) []string {
	return append([]string{b.Probe}, strings.Fields(strings.Join(attempts, " + "))...)
}

// stdinPipe is the caller's own pipe, as a shell of the caller's makes it.
func stdinPipe(t *testing.T, b *harness.Box) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	if os.Getuid() == 0 {
		if err := r.Chown(b.UID, b.UID); err != nil {
			t.Fatal(err)
		}
	}
	return r, w
}

// TestBreakoutStdinPipeIsTheCallers: in `... | while read line; do gobox run CMD; done`, and where a shell reads
// its script from a pipe, whoever writes to that pipe decides what the caller does next. The command may
// read its stdin, and must not be able to write to it.
func TestBreakoutStdinPipeIsTheCallers(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		r, w := stdinPipe(t, b)
		var before syscall.Stat_t
		if err := syscall.Fstat(int(r.Fd()), &before); err != nil {
			t.Fatal(err)
		}
		b.Run(t, harness.Run{Stdin: r, Argv: batch(b, "reopen 0 w", "reopen 0 rw", "write /proc/self/fd/0 injected", "write /dev/stdin injected", "chmod /proc/self/fd/0")})
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if left, err := io.ReadAll(r); err != nil || len(left) > 0 {
			t.Errorf("the command wrote %q into the caller's pipe (%v)", left, err)
		}
		var after syscall.Stat_t
		if err := syscall.Fstat(int(r.Fd()), &after); err != nil || after.Mode != before.Mode {
			t.Errorf("%v, mode of the caller's pipe was %o and is %o", err, before.Mode, after.Mode)
		}
	})
}

// TestBreakoutStdinDescription: offset, flags and locks belong to the caller's open file and outlive the
// run. A shell that reads its script from stdin goes on where the offset is.
func TestBreakoutStdinDescription(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		path := b.File(t, filepath.Join(b.Dir, "io/script"), strings.Repeat("line\n", 100))
		in, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		b.InsideRun(t, harness.Run{Stdin: in}, "syscall "+itoa(unix.SYS_LSEEK)+" 0 123 0", systry("fcntl 0 4 "+itoa(unix.O_NONBLOCK)), "syscall "+itoa(unix.SYS_FLOCK)+" 0 2")
		if at, err := in.Seek(0, io.SeekCurrent); err != nil || at == 123 {
			t.Errorf("%v, the command moved the caller's offset to %d", err, at)
		}
		if flags, err := unix.FcntlInt(in.Fd(), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK != 0 {
			t.Errorf("%v, the command set flags %#x on the caller's open file", err, flags)
		}
		other, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		if err := unix.Flock(int(other.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			t.Errorf("a lock of the command's outlives it: %v", err)
		}
	})
}

// TestBreakoutStdinFileMetadata: Landlock lets chmod and its kin through, and the file's mount is the
// host's own.
func TestBreakoutStdinFileMetadata(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		file := b.Canary(t, filepath.Join(b.Dir, "io/in.txt"))
		in, err := os.Open(file.Path)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		b.InsideRun(t, harness.Run{Stdin: in}, "chmod /proc/self/fd/0", "utimes /dev/stdin", "setxattr /proc/self/fd/0", "syscall "+itoa(unix.SYS_FCHMOD)+" 0 "+itoa(0o6777))
		file.Unchanged(t)
		if n, err := unix.Getxattr(file.Path, "user.gobox-probe", make([]byte, 8)); err == nil {
			t.Errorf("the command set an attribute of %d bytes on the caller's file", n)
		}
	})
}

// TestBreakoutStdinKinds: only bytes may come in by stdin.
func TestBreakoutStdinKinds(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		open := func(path string, flags int) *os.File {
			t.Helper()
			f, err := os.OpenFile(path, flags, 0)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { f.Close() })
			return f
		}
		t.Run("namespace", func(t *testing.T) {
			res := b.Run(t, harness.Run{Stdin: open("/proc/self/ns/net", os.O_RDONLY), Argv: batch(b, "readlink /proc/self/fd/0")})
			if strings.Contains(string(res.Stdout), "net:[") {
				t.Errorf("a descriptor of the host's network namespace is inside: %v", res)
			}
		})
		t.Run("proc", func(t *testing.T) {
			res := b.Run(t, harness.Run{Stdin: open("/proc/self/mem", os.O_RDONLY), Argv: batch(b, "readlink /proc/self/fd/0")})
			if strings.Contains(string(res.Stdout), "/mem") {
				t.Errorf("a process's memory is inside: %v", res)
			}
		})
		t.Run("memfd", func(t *testing.T) {
			fd, err := unix.MemfdCreate("data", unix.MFD_CLOEXEC)
			if err != nil {
				t.Fatal(err)
			}
			m := os.NewFile(uintptr(fd), "memfd")
			defer m.Close()
			if _, err := m.WriteString("data"); err != nil {
				t.Fatal(err)
			}
			in := open("/proc/self/fd/"+itoa(fd), os.O_RDONLY)
			b.Run(t, harness.Run{Stdin: in, Argv: batch(b, "write /proc/self/fd/0 evil")})
			if got, _ := os.ReadFile("/proc/self/fd/" + itoa(fd)); string(got) != "data" {
				t.Errorf("the command changed the caller's memfd to %q", got)
			}
		})
		t.Run("write-only", func(t *testing.T) {
			path := b.File(t, filepath.Join(b.Dir, "io/log"), "private")
			res := b.Run(t, harness.Run{Stdin: open(path, os.O_WRONLY), Argv: batch(b, "cat /proc/self/fd/0")})
			if strings.Contains(string(res.Stdout), "private") {
				t.Errorf("what was opened for writing only can be read: %v", res)
			}
		})
	})
}

// TestBreakoutOutputFileOfOthers: a log file that gobox shares with other writers. splice(2) takes the
// offset before it waits, and puts it back afterwards over what others wrote meanwhile.
func TestBreakoutOutputFileOfOthers(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		path := filepath.Join(b.Dir, "log")
		log, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		cmd := b.Start(t, harness.Run{Stdout: log, Argv: []string{"/bin/sh", "-c", "echo first; sleep 1"}})
		waitFor(t, "the command's line", func() bool { data, _ := os.ReadFile(path); return len(data) > 0 })
		time.Sleep(200 * time.Millisecond)
		if _, err := log.WriteString("a line of the host's\n"); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		if _, err := log.WriteString("the end\n"); err != nil {
			t.Fatal(err)
		}
		if data, _ := os.ReadFile(path); string(data) != "first\na line of the host's\nthe end\n" {
			t.Errorf("the log is %q", data)
		}
	})
}
