package integration

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gobox/integration/harness"
)

func noise(n int) []byte {
	seed := [32]byte{1}
	data := make([]byte, n)
	_, _ = rand.NewChaCha8(seed).Read(data)
	return data
}

func TestStdioPassesThrough(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		data := noise(8 << 20)
		copyIt := []string{b.Probe, "raw", "copy"}
		t.Run("pipes", func(t *testing.T) {
			res := b.Run(t, harness.Run{Stdin: bytes.NewReader(data), Argv: copyIt})
			if res.Code != 0 || !bytes.Equal(res.Stdout, data) {
				t.Errorf("exit %d, %d of %d bytes, %s", res.Code, len(res.Stdout), len(data), res.Stderr)
			}
		})
		t.Run("files", func(t *testing.T) {
			in, err := os.Open(b.File(t, filepath.Join(b.Dir, "io/in"), string(data)))
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			out, err := os.OpenFile(b.File(t, filepath.Join(b.Dir, "io/out"), "kept\n"), os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			res := b.Run(t, harness.Run{Stdin: in, Stdout: out, Argv: copyIt})
			got, err := os.ReadFile(out.Name())
			if err != nil || res.Code != 0 || !bytes.Equal(got, append([]byte("kept\n"), data...)) {
				t.Errorf("%v, %d bytes, %v", err, len(got), res)
			}
		})
		t.Run("sockets", func(t *testing.T) {
			fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			theirs, mine := os.NewFile(uintptr(fds[0]), "theirs"), os.NewFile(uintptr(fds[1]), "mine")
			conn, err := net.FileConn(mine)
			if err != nil {
				t.Fatal(err)
			}
			mine.Close()
			defer conn.Close()
			cmd := b.Command(t.Context(), harness.Run{Stdin: theirs, Stdout: theirs, Argv: copyIt})
			cmd.Stdin, cmd.Stdout = theirs, theirs
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			theirs.Close()
			go func() {
				_, _ = conn.Write(data[:1<<20])
				_ = conn.(*net.UnixConn).CloseWrite()
			}()
			_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
			got, err := io.ReadAll(conn)
			if err != nil || !bytes.Equal(got, data[:1<<20]) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
	})
}

func TestStdinThatLeadsElsewhere(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		secret := b.Canary(t, filepath.Join(b.Dir, "out/secret.txt"))
		dir, err := os.Open(filepath.Dir(secret.Path))
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		if res := b.Run(t, harness.Run{Stdin: dir, Argv: []string{"/bin/true"}}); res.Code != 125 || !bytes.HasPrefix(res.Stderr, []byte("gobox: error: ")) {
			t.Errorf("a directory on stdin: want a refusal, got %v", res)
		}
		for _, fd := range []string{"0", "1", "2"} {
			for _, path := range []string{filepath.Dir(secret.Path), secret.Path} {
				if res := b.Run(t, launched(b, []string{"path=" + fd + ":" + path}, nil, "/bin/true")); res.Code != 125 {
					t.Errorf("O_PATH of %s on %s: want a refusal, got %v", path, fd, res)
				}
			}
		}
		secret.Unchanged(t)
	})
}

// TestClosedStdio starts gobox without some of 0, 1 and 2: none of its own descriptors may end up there.
func TestClosedStdio(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for _, closed := range []string{"0", "1", "2", "0 1", "0 2", "1 2", "0 1 2"} {
			t.Run("without-"+strings.ReplaceAll(closed, " ", ""), func(t *testing.T) {
				var options []string
				for fd := range strings.FieldsSeq(closed) {
					options = append(options, "close="+fd)
				}
				list := filepath.Join(b.Work, "list"+strings.ReplaceAll(closed, " ", ""))
				script := `for n in 0 1 2 3 4 5 6 7 8 9 10 11 12; do t=$(readlink /proc/$$/fd/$n) && echo "$n $t"; done >` + list + `; exit 9`
				res := b.Run(t, launched(b, options, []string{"--workspace-mode", "rw"}, "/bin/sh", "-c", script))
				if res.Code != 9 {
					t.Fatalf("want exit 9, got %v", res)
				}
				data, err := os.ReadFile(list)
				if err != nil {
					t.Fatal(err)
				}
				for line := range strings.Lines(string(data)) {
					fd, target, _ := strings.Cut(strings.TrimSpace(line), " ")
					if slices.Contains(strings.Fields(closed), fd) && target != "/dev/null" && target != list && !strings.HasPrefix(target, "pipe:") || strings.Contains(target, "socket") || strings.Contains(target, "memfd") || strings.Contains(target, "pidfd") {
						t.Errorf("descriptor %s is %s", fd, target)
					}
					if fd > "2" && len(fd) == 1 && target != list && !strings.HasPrefix(target, "pipe:") {
						t.Errorf("descriptor %s is %s", fd, target)
					}
				}
			})
		}
	})
}

func TestReaderOfStdoutGone(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for _, argv := range [][]string{{"/usr/bin/yes"}, {b.Probe, "raw", "flood"}} {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			cmd := b.Start(t, harness.Run{Stdout: w, Argv: append(argv, b.Marker)})
			w.Close()
			if _, err := io.ReadFull(r, make([]byte, 1000)); err != nil {
				t.Error(err)
			}
			r.Close()
			_ = cmd.Wait()
			if code := harness.ExitCode(cmd.ProcessState); code != 141 && code != 3 {
				t.Errorf("%v: exit %d", argv, code)
			}
		}
		b.NoSurvivors(t)
	})
}

// TestStdoutEndsWithTheStream: a reader sees the end of what the command writes when the command closes it, not when the run is over.
func TestStdoutEndsWithTheStream(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		cmd := b.Start(t, harness.Run{Stdout: w, Flags: []string{"--timeout", "60s"}, Argv: []string{"/bin/sh", "-c", "echo out; exec >&-; exec " + b.Probe + " sleep 50s", b.Marker}})
		w.Close()
		_ = r.SetReadDeadline(time.Now().Add(30 * time.Second))
		if got, err := io.ReadAll(r); err != nil || string(got) != "out\n" {
			t.Errorf("%q, %v", got, err)
		}
		if cmd.Process.Signal(syscall.Signal(0)) != nil {
			t.Error("the run is over as well")
		}
	})
}

func TestArgumentsAreLiteral(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		args := []string{"", "a b", "line\nline", "tab\t", "; touch x", "$(id)", "`id`", "|", "&", "*", "~", "'", `"`, `\`, "--", "--bind", "-c", "\xff\xfe\x80", "é", "-", "%s", "${HOME}", strings.Repeat("x", 100_000), ""}
		res := b.Run(t, harness.Run{Argv: append([]string{b.Probe, "args"}, args...)})
		if res.Code != 0 {
			t.Fatalf("exit %d: %s", res.Code, res.Stderr)
		}
		var got [][]byte
		if err := json.Unmarshal([]byte(harness.Parse(t, res.Stdout)[0].Detail), &got); err != nil {
			t.Fatal(err)
		}
		if len(got) != len(args) {
			t.Fatalf("%d arguments of %d", len(got), len(args))
		}
		for i := range args {
			if string(got[i]) != args[i] {
				t.Errorf("argument %d: %.50q became %.50q", i, args[i], got[i])
			}
		}
		res = b.Run(t, harness.Run{Flags: []string{"--env", "V=a\nb$(id)\xff ;"}, Argv: []string{"/bin/sh", "-c", `printf %s "$V"`}})
		if string(res.Stdout) != "a\nb$(id)\xff ;" {
			t.Errorf("environment: %v", res)
		}
		// F41: a name that looks like a flag.
		if res := b.Run(t, harness.Run{Argv: []string{"--bind", "/", "/"}}); res.Code != 127 {
			t.Errorf("a command named --bind: %v", res)
		}
	})
}

// TestOrderOfStdoutAndStderr: on one pipe or file they stay in the order they were written.
func TestOrderOfStdoutAndStderr(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		const script = "for i in 1 2 3 4 5 6 7 8 9; do echo $i; echo e$i >&2; done"
		want := "1\ne1\n2\ne2\n3\ne3\n4\ne4\n5\ne5\n6\ne6\n7\ne7\n8\ne8\n9\ne9\n"
		for range 10 {
			cmd := b.Command(t.Context(), harness.Run{Argv: []string{"/bin/sh", "-c", script}})
			if out, err := cmd.CombinedOutput(); err != nil || string(out) != want {
				t.Errorf("one pipe: %q, %v", out, err)
			}
		}
		out, err := os.Create(filepath.Join(b.Dir, "out"))
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		cmd := b.Command(t.Context(), harness.Run{Argv: []string{"/bin/sh", "-c", script}})
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Run(); err != nil {
			t.Error(err)
		}
		if data, err := os.ReadFile(out.Name()); err != nil || string(data) != want {
			t.Errorf("one file: %q, %v", data, err)
		}
	})
}
