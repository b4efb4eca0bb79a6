package harness

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// NobodyUID is the ordinary user of the suite when the tests themselves run as root.
const NobodyUID = 65534

// Box is one test's place and identity. Home and Work belong to the identity, Dir does not.
type Box struct {
	*Suite
	UID    int
	Dir    string // the test's own, removed afterwards; the command never gets it
	Home   string
	Work   string // the usual workspace
	Marker string // unique; put in argv or environment to find processes again
}

// Each runs f in parallel subtests "root" and "user", or only "user" when the tests run as one.
func (s *Suite) Each(t *testing.T, f func(t *testing.T, b *Box)) {
	t.Helper()
	s.each(t, s.Dir, f)
}

// EachAside is Each with the boxes in Aside, away from every directory that a default run may write to.
func (s *Suite) EachAside(t *testing.T, f func(t *testing.T, b *Box)) {
	t.Helper()
	s.each(t, s.Aside, f)
}

func (s *Suite) each(t *testing.T, place string, f func(t *testing.T, b *Box)) {
	t.Helper()
	t.Parallel()
	uids := map[string]int{"user": os.Getuid()}
	if os.Getuid() == 0 {
		uids = map[string]int{"root": 0, "user": NobodyUID}
	}
	for name, uid := range uids {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, s.newBox(t, place, uid))
		})
	}
}

func (s *Suite) newBox(t *testing.T, place string, uid int) *Box {
	t.Helper()
	dir, err := os.MkdirTemp(filepath.Join(place, "box"), "t")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		unlock(dir)
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove test directory: %v", err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	b := &Box{Suite: s, UID: uid, Dir: dir, Home: filepath.Join(dir, "home"), Work: filepath.Join(dir, "work")}
	b.Marker = "marker-" + filepath.Base(filepath.Dir(filepath.Dir(dir))) + "-" + filepath.Base(dir)
	b.Mkdir(t, b.Home)
	b.Mkdir(t, b.Work)
	return b
}

// unlock opens the folders that commands have closed, since an ordinary user could not remove what is in them.
func unlock(dir string) {
	if os.Getuid() == 0 {
		return
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil //nolint:nilerr // what cannot be removed is told by whoever removes it
		}
		if info, err := d.Info(); err == nil && info.Mode().Perm()&0o700 != 0o700 {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
}

// Mkdir makes a directory owned by the identity.
func (b *Box) Mkdir(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	b.own(t, path)
}

// File makes a file owned by the identity, in a directory owned by it, and gives its path.
func (b *Box) File(t *testing.T, path, content string) string {
	t.Helper()
	b.Mkdir(t, filepath.Dir(path))
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	b.own(t, path)
	return path
}

func (b *Box) own(t *testing.T, path string) {
	t.Helper()
	if os.Getuid() == 0 {
		if err := os.Lchown(path, b.UID, b.UID); err != nil {
			t.Fatal(err)
		}
	}
}

// Canary is a file whose bytes, mode, owner and times must stay as they are.
type Canary struct {
	Path string
	was  string
}

// Canary makes one with content that names it.
func (b *Box) Canary(t *testing.T, path string) *Canary {
	t.Helper()
	b.File(t, path, "canary "+path+"\n")
	return Watch(t, path)
}

// Watch makes an existing file a canary.
func Watch(t *testing.T, path string) *Canary {
	t.Helper()
	state, err := fingerprint(path)
	if err != nil {
		t.Fatal(err)
	}
	return &Canary{Path: path, was: state}
}

// Unchanged fails the test when the canary is not as it was.
func (c *Canary) Unchanged(t *testing.T) {
	t.Helper()
	now, err := fingerprint(c.Path)
	if err != nil {
		t.Errorf("canary %s: %v", c.Path, err)
	} else if now != c.was {
		t.Errorf("canary %s changed:\n was %s\n now %s", c.Path, c.was, now)
	}
}

func fingerprint(path string) (string, error) {
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil {
		return "", err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("sha256 %x mode %o uid %d gid %d links %d mtime %d.%d", sha256.Sum256(data), st.Mode, st.Uid, st.Gid, st.Nlink, st.Mtim.Sec, st.Mtim.Nsec), nil
}

// Run is one process to start. The zero value runs gobox with nothing.
type Run struct {
	Bin     string   // default: the shipped gobox
	Flags   []string // of `gobox run`, before --
	Argv    []string // after --
	Args    []string // the whole argument vector instead of Flags and Argv
	Env     []string // added to the minimal environment
	Dir     string   // default: Work
	Stdin   io.Reader
	Files   []*os.File // fd 3 and on
	Stdout  *os.File   // instead of being captured
	Attr    *syscall.SysProcAttr
	Groups  []uint32      // supplementary ones, where the tests run as root; default: none
	Timeout time.Duration // the test fails when it takes longer; default 40 s
	NoGrant bool          // without --rox of the probe's directory
}

// Result is how a process ended.
type Result struct {
	Stdout   []byte
	Stderr   []byte
	Code     int // 128+n when signal n ended the process itself
	Duration time.Duration
}

func (r Result) String() string {
	return fmt.Sprintf("exit %d after %v\nstdout: %.4000q\nstderr: %.4000s", r.Code, r.Duration.Round(time.Millisecond), r.Stdout, r.Stderr)
}

// Environ is the minimal environment of the identity.
func (b *Box) Environ(extra ...string) []string {
	return append([]string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + b.Home, "USER=tester", "LANG=C.UTF-8", "TERM=xterm"}, extra...)
}

// Command is Run as an *exec.Cmd that is not started yet.
func (b *Box) Command(ctx context.Context, r Run) *exec.Cmd {
	bin, args := r.Bin, r.Args
	if bin == "" {
		bin = b.Gobox
	}
	if args == nil {
		args = append([]string{"run"}, r.Flags...)
		if !r.NoGrant {
			args = append(args, "--rox", filepath.Dir(b.Probe))
		}
		args = append(append(args, "--"), r.Argv...)
	}
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Env = b.Environ(r.Env...)
	cmd.Dir = r.Dir
	if cmd.Dir == "" {
		cmd.Dir = b.Work
	}
	cmd.Stdin = r.Stdin
	cmd.ExtraFiles = r.Files
	// A process that outlives gobox and holds its pipes must not hang the suite.
	cmd.WaitDelay = 5 * time.Second
	cmd.SysProcAttr = r.Attr
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	b.become(cmd.SysProcAttr)
	if cmd.SysProcAttr.Credential != nil && r.Groups != nil {
		cmd.SysProcAttr.Credential.Groups = r.Groups
	}
	return cmd
}

func (b *Box) become(attr *syscall.SysProcAttr) {
	if os.Getuid() == 0 && attr.Cloneflags&syscall.CLONE_NEWUSER == 0 {
		attr.Credential = &syscall.Credential{Uid: uint32(b.UID), Gid: uint32(b.UID), Groups: []uint32{}}
	}
}

// Run starts the process and waits for its end.
func (b *Box) Run(t *testing.T, r Run) Result {
	t.Helper()
	timeout := r.Timeout
	if timeout == 0 {
		timeout = 40 * time.Second
	}
	if os.Getenv("GOBOX_SLOW") != "" { // on an emulated processor
		timeout *= 5
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	cmd := b.Command(ctx, r)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if r.Stdout != nil {
		cmd.Stdout = r.Stdout
	}
	begin := time.Now()
	err := cmd.Run()
	res := Result{Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), Duration: time.Since(begin), Code: -1}
	if cmd.ProcessState != nil {
		res.Code = ExitCode(cmd.ProcessState)
	}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		t.Fatalf("%v: still running after %v\n%v", cmd.Args, timeout, res)
	case errors.Is(err, exec.ErrWaitDelay):
		t.Errorf("%v: its pipes were still held after it ended\n%v", cmd.Args, res)
	case err != nil && !errors.As(err, &exit):
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	return res
}

// Start starts the process without its output and ends it with the test.
func (b *Box) Start(t *testing.T, r Run) *exec.Cmd {
	t.Helper()
	cmd := b.Command(context.Background(), r)
	if r.Stdout != nil {
		cmd.Stdout = r.Stdout
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

// ExitCode is the shell's view of a wait status.
func ExitCode(p *os.ProcessState) int {
	if ws := p.Sys().(syscall.WaitStatus); ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return p.ExitCode()
}

// Survivors gives the processes that carry the marker or run a program from the test's own directory,
// after waiting up to a few seconds for the kernel to finish with dying ones.
func (b *Box) Survivors(t *testing.T) []string {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		found := Processes(b.Marker, b.Dir+"/own/")
		if len(found) == 0 || time.Now().After(deadline) {
			return found
		}
	}
}

// NoSurvivors fails the test for every process that is left, and ends it.
func (b *Box) NoSurvivors(t *testing.T) {
	t.Helper()
	for _, line := range b.Survivors(t) {
		t.Errorf("process left: %s", line)
		var pid int
		if _, err := fmt.Sscan(line, &pid); err == nil {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// Own copies a program into the test's own directory, so that its processes can be told from those of
// other tests by the file they run, and gives the new path.
func (b *Box) Own(t *testing.T, program string) string {
	t.Helper()
	b.Mkdir(t, filepath.Join(b.Dir, "own"))
	path := filepath.Join(b.Dir, "own", filepath.Base(program))
	if err := copyExecutable(program, path); err != nil {
		t.Fatal(err)
	}
	b.own(t, path)
	return path
}

// Processes lists "PID argv" of the processes that have one of the needles in their arguments,
// environment or executable's path.
func Processes(needles ...string) []string {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var found []string
	for _, d := range dirs {
		if d == fmt.Sprintf("/proc/%d", os.Getpid()) {
			continue
		}
		line, _ := os.ReadFile(d + "/cmdline")
		env, _ := os.ReadFile(d + "/environ")
		exe, _ := os.Readlink(d + "/exe")
		for _, needle := range needles {
			if bytes.Contains(line, []byte(needle)) || bytes.Contains(env, []byte(needle)) || strings.Contains(exe, needle) {
				found = append(found, fmt.Sprintf("%s %s (%s)", filepath.Base(d), bytes.ReplaceAll(line, []byte{0}, []byte(" ")), exe))
				break
			}
		}
	}
	return found
}

// Mounts gives the lines of this process's mount table that have to do with the suite. Mounts that
// others make and undo meanwhile are the reason not to compare whole tables.
func (s *Suite) Mounts() []string {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return []string{err.Error()}
	}
	var lines []string
	for line := range strings.Lines(string(data)) {
		own := strings.Contains(line, s.Dir) || strings.Contains(line, s.Aside)
		if own || strings.Contains(line, "gobox") && !strings.Contains(line, "/gobox-suite-") { // another suite's, which runs at the same time
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// Mounts is [Suite.Mounts] without those of the other boxes, whose tests mount file systems of their own meanwhile.
func (b *Box) Mounts() []string {
	return slices.DeleteFunc(b.Suite.Mounts(), func(line string) bool {
		return !strings.Contains(line, b.Dir) && (strings.Contains(line, b.Suite.Dir) || strings.Contains(line, b.Suite.Aside))
	})
}
