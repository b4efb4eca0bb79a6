package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"gobox/policy"
	"gobox/sandbox"
)

// decoys opens files, which take the lowest numbers that are free, and gives what somebody has written to one.
func decoys(t *testing.T) func() string {
	t.Helper()
	dir := t.TempDir()
	for i := range 64 {
		f, err := os.Create(filepath.Join(dir, fmt.Sprint(i)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
	}
	return func() string {
		for i := range 64 {
			if b, _ := os.ReadFile(filepath.Join(dir, fmt.Sprint(i))); len(b) > 0 {
				return fmt.Sprintf("file %d has %d bytes: %.40q", i, len(b), b)
			}
		}
		return ""
	}
}

// TestLateOutput: what Run could not pass on in time goes nowhere else afterwards, when the caller has closed its file and
// opened others.
func TestLateOutput(t *testing.T) {
	for name, script := range map[string]string{
		"timeout":  "head -c 300000 /dev/zero | tr '\\0' x; sleep 60",
		"overflow": "head -c 300000 /dev/zero | tr '\\0' x; sleep 60",
		"stderr":   "head -c 300000 /dev/zero | tr '\\0' x >&2; sleep 60",
	} {
		t.Run(name, func(t *testing.T) {
			p := plan("/bin/sh", "-c", script)
			defer os.RemoveAll(p.Workspace.Path)
			p.Limits.Timeout, p.Limits.Grace = 300*time.Millisecond, 0
			if name == "overflow" {
				p.Limits.Output = 100_000
			}
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			stdio := null()
			if stdio.Out = w; name == "stderr" {
				stdio.Out, stdio.Err = stdio.Err, w
			}
			res, err := sandbox.Run(t.Context(), sandbox.Spec{ID: "late", Plan: p, Stdio: stdio})
			if err != nil || res.Outcome != sandbox.TimedOut && res.Outcome != sandbox.Output {
				t.Fatal(res.Outcome, err)
			}
			w.Close()
			written := decoys(t)
			_ = r.SetReadDeadline(time.Now().Add(10 * time.Second))
			got, err := io.ReadAll(r)
			if err != nil {
				t.Errorf("the end of the output does not come: %v", err)
			}
			if n := bytes.Count(got, []byte("x")); n != len(got) || n == 0 || n > 300000 {
				t.Errorf("%d bytes of which %d are the command's", len(got), n)
			}
			time.Sleep(100 * time.Millisecond)
			if what := written(); what != "" {
				t.Error(what)
			}
		})
	}
}

// TestClosedMeanwhile: a file that the caller closes while the command runs is no other file's number for Run.
func TestClosedMeanwhile(t *testing.T) {
	p := plan("/bin/sh", "-c", "echo one; sleep 0.5; echo two; echo three >&2; cat")
	defer os.RemoveAll(p.Workspace.Path)
	open := func() (r, w *os.File) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close(); w.Close() })
		return r, w
	}
	r, w := open()
	in, feed := open()
	spec := sandbox.Spec{ID: "closed", Plan: p, Stdio: sandbox.Stdio{In: in, Out: w, Err: w}}
	begun := make(chan struct{})
	spec.Observe = func(e sandbox.Event) {
		if e.Kind == "started" {
			close(begun)
		}
	}
	done := make(chan error, 1)
	go func() {
		res, err := sandbox.Run(context.Background(), spec)
		if err == nil && (res.Outcome != sandbox.Exited || res.OutputError != nil) {
			err = fmt.Errorf("%+v", res)
		}
		done <- err
	}()
	<-begun
	time.Sleep(100 * time.Millisecond)
	w.Close()
	in.Close()
	written := decoys(t)
	fmt.Fprintln(feed, "four")
	feed.Close()
	got, err := io.ReadAll(r)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err != nil || string(got) != "one\ntwo\nthree\nfour\n" {
		t.Errorf("%q %v", got, err)
	}
	if what := written(); what != "" {
		t.Error(what)
	}
}

// TestSharedInput: of two that read the same pipe or socket, neither can keep the other's Run from its end.
func TestSharedInput(t *testing.T) {
	for name, open := range map[string]func() (*os.File, *os.File, error){"pipe": os.Pipe, "blocking pipe": blockingPipe, "socket": socketpair} {
		t.Run(name, func(t *testing.T) {
			in, feed, err := open()
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			defer feed.Close()
			const runs = 4
			done := make(chan string, runs)
			for i := range runs {
				p := plan("/bin/cat")
				defer os.RemoveAll(p.Workspace.Path)
				p.Limits.Timeout, p.Limits.Grace = time.Second, 0
				stdio := null()
				stdio.In = in
				go func() {
					res, err := sandbox.Run(context.Background(), sandbox.Spec{ID: fmt.Sprint("shared-", i), Plan: p, Stdio: stdio})
					done <- fmt.Sprintf("%s %v", res.Outcome, err)
				}()
			}
			// All of them wake up for each byte, and none comes once their time is nearly over.
			go func() {
				for begin := time.Now(); time.Since(begin) < 700*time.Millisecond; time.Sleep(time.Millisecond) {
					_, _ = feed.WriteString("x")
				}
			}()
			end := time.After(15 * time.Second)
			for range runs {
				select {
				case got := <-done:
					if got != "timeout <nil>" {
						t.Error(got)
					}
				case <-end:
					t.Fatal("a run whose time is over does not end")
				}
			}
		})
	}
}

// TestInputError: a file that cannot be read to its end has not ended where the command met an end.
func TestInputError(t *testing.T) {
	for script, want := range map[string]int{"cat >/dev/null": policy.ExitOutput, "cat >/dev/null; exit 5": 5} {
		// A page that is there, and then one that is not.
		mem, err := os.Open("/proc/self/mem")
		if err != nil {
			t.Fatal(err)
		}
		defer mem.Close()
		page, err := unix.Mmap(-1, 0, 2*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unix.Munmap(page) }()
		copy(page, "text")
		end := page[os.Getpagesize():]
		if err := unix.Mprotect(end, unix.PROT_NONE); err != nil {
			t.Fatal(err)
		}
		if _, err := mem.Seek(int64(uintptr(unsafe.Pointer(&page[0]))), io.SeekStart); err != nil {
			t.Fatal(err)
		}
		p := plan("/bin/sh", "-c", script)
		defer os.RemoveAll(p.Workspace.Path)
		stdio := null()
		stdio.In = mem
		res, err := sandbox.Run(t.Context(), sandbox.Spec{ID: "input", Plan: p, Stdio: stdio})
		var e *policy.Error
		if err != nil || res.Outcome != sandbox.Exited || res.Status() != want || !errors.As(res.InputError, &e) || !errors.Is(e, unix.EIO) {
			t.Errorf("%s: %d %+v %v", script, res.Status(), res, err)
		}
	}
}
