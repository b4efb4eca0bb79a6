package changes

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gobox/fsguard"
)

// Helper processes are this test binary again, told apart by this variable.
const helperEnv = "GOBOX_CHANGES_HELPER"

func TestMain(m *testing.M) {
	switch os.Getenv(helperEnv) {
	case "":
		os.Exit(m.Run())
	case "overlay":
		os.Exit(overlayHelper(os.Args[1], os.Args[2], os.Args[3]))
	case "apply":
		os.Exit(applyHelper(os.Args[1], os.Args[2], os.Args[3], os.Args[4]))
	}
}

// overlayHelper runs a script in an overlay over lower, in a user namespace of its own and as the sandbox
// mounts it; then it says so and waits for the end of stdin.
func overlayHelper(scratch, lower, script string) int {
	fail := func(what string, err error) int {
		fmt.Printf("fail %s: %v\n", what, err)
		return 1
	}
	if err := unix.Mount("tmpfs", scratch, "tmpfs", unix.MS_NODEV|unix.MS_NOSUID, "size=64m"); err != nil {
		return fail("mount tmpfs", err)
	}
	for _, d := range []string{"upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(scratch, d), 0o755); err != nil {
			return fail("mkdir", err)
		}
	}
	merged := filepath.Join(scratch, "merged")
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s/upper,workdir=%s/work,userxattr", lower, scratch, scratch)
	if err := unix.Mount("overlay", merged, "overlay", 0, options); err != nil {
		return fail("mount overlay", err)
	}
	cmd := exec.Command("/bin/sh", "-euc", script)
	cmd.Dir = merged
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fail("script "+strings.ReplaceAll(string(out), "\n", " "), err)
	}
	if err := unix.Unmount(merged, 0); err != nil {
		return fail("unmount", err)
	}
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadByte()
	return 0
}

// inOverlay runs a script over lower and gives the upper directory it leaves. What lacks the kernel's leave skips.
func inOverlay(t *testing.T, lower, script string) *fsguard.Root {
	t.Helper()
	scratch := tempDir(t)
	cmd := exec.Command("/proc/self/exe", scratch, lower, script)
	cmd.Env = append(os.Environ(), helperEnv+"=overlay")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
		Pdeathsig:   unix.SIGKILL,
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skipf("no user namespace here: %v", err)
	}
	t.Cleanup(func() { stdin.Close(); cmd.Wait() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	switch {
	case strings.HasPrefix(line, "fail mount"):
		t.Skipf("no overlay in a user namespace here: %s", strings.TrimSpace(line))
	case line != "ready\n":
		t.Fatalf("overlay: %s %v", line, err)
	}
	upper, err := fsguard.OpenRoot(fmt.Sprintf("/proc/%d/root%s/upper", cmd.Process.Pid, scratch), fsguard.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { upper.Close() })
	return upper
}

// tempDir is a temporary folder that takes care of what a test has locked.
func tempDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() {
		_ = filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
			if d != nil && d.IsDir() {
				_ = os.Chmod(p, 0o700)
			}
			return nil
		})
	})
	return dir
}

func openRoot(t *testing.T, dir string) *fsguard.Root {
	t.Helper()
	r, err := fsguard.OpenRoot(dir, fsguard.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func shell(t *testing.T, dir, script string) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-euc", "umask 022\n"+script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
}

// brief is a set in one line per entry.
func brief(s *Set) string {
	var b strings.Builder
	side := func(st *State) string {
		if st == nil {
			return "-"
		}
		switch st.Type {
		case Folder:
			return fmt.Sprintf("folder %o", st.Mode)
		case Symlink:
			return "link " + st.Target
		case Special:
			return "special"
		}
		return fmt.Sprintf("file %o %d", st.Mode, st.Size)
	}
	for _, e := range s.Entries {
		fmt.Fprintf(&b, "%s %q: %s > %s", e.Kind, e.Path, side(e.Old), side(e.New))
		if e.RenamedFrom != "" {
			fmt.Fprintf(&b, " from %q", e.RenamedFrom)
		}
		b.WriteByte('\n')
	}
	for _, n := range s.Dropped {
		fmt.Fprintf(&b, "dropped %q: %s\n", n.Path, n.What)
	}
	if s.Refused != "" {
		fmt.Fprintf(&b, "refused: %s\n", s.Refused)
	}
	return b.String()
}

var overlayCases = []struct{ name, lower, script, want string }{
	{"nothing", "echo a >a; mkdir d", "cat a; ls d; : >new; rm new", ""},
	{"touched", "echo a >a; mkdir d; echo b >d/b", "touch a; touch d d/b; chmod 600 a; chmod 644 a", ""},
	{"file", "echo a >a", "echo b >b; echo aa >a", `modified "a": file 644 2 > file 644 3
added "b": - > file 644 2
`},
	{"deep", "mkdir -p x/y/z; echo a >x/y/z/a", "echo b >>x/y/z/a; mkdir x/y/n; chmod 750 x/y", `mode "x/y": folder 755 > folder 750
added "x/y/n": - > folder 755
modified "x/y/z/a": file 644 2 > file 644 4
`},
	{"mode", "echo a >a", "chmod 755 a", "mode \"a\": file 644 2 > file 755 2\n"},
	{"setuid", "echo a >a", "chmod 6755 a; mkdir d; chmod 1777 d", `mode "a": file 644 2 > file 755 2
added "d": - > folder 777
dropped "a": its setuid, setgid or sticky bit
`},
	{"delete", "echo a >a; mkdir -p d/e; echo f >d/e/f; ln -s x d/l", "rm a; rm -r d", `deleted "a": file 644 2 > -
deleted "d": folder 755 > -
deleted "d/e": folder 755 > -
deleted "d/e/f": file 644 2 > -
deleted "d/l": link x > -
`},
	{"replaced folder", "mkdir -p d/e; echo f >d/e/f; echo g >d/g; echo h >d/h", "rm -r d; mkdir -p d/e; echo f >d/e/f; echo G >d/g", `modified "d/g": file 644 2 > file 644 2
deleted "d/h": file 644 2 > -
`},
	{"opaque with a file for a folder", "mkdir -p d/e; echo f >d/e/f; echo k >d/k", "rm -r d; mkdir d; echo f >d/e; mkdir d/k", `type "d/e": folder 755 > file 644 2
deleted "d/e/f": file 644 2 > -
type "d/k": file 644 2 > folder 755
`},
	{"types", "mkdir d; echo f >d/f; echo a >a; ln -s a l", "rm -r d; ln -s a d; rm a; mkdir a; echo x >a/x; rm l; echo l >l", `type "a": file 644 2 > folder 755
added "a/x": - > file 644 2
type "d": folder 755 > link a
deleted "d/f": file 644 2 > -
type "l": link a > file 644 2
`},
	{"links", "ln -s a l; ln -s a k", "ln -sfn b l; ln -s /etc/passwd m; ln -sfn a k", `modified "l": link a > link b
added "m": - > link /etc/passwd
`},
	{"rename", "echo content >a; mkdir d; echo other >d/b", "mv a z; mv d e", `deleted "a": file 644 8 > -
deleted "d": folder 755 > -
deleted "d/b": file 644 6 > -
added "e": - > folder 755
added "e/b": - > file 644 6 from "d/b"
added "z": - > file 644 8 from "a"
`},
	{"special", "mkfifo p; echo a >a", "rm p; mkfifo q; rm a; mkfifo a", `deleted "p": special > -
dropped "a": a device, FIFO or socket
dropped "q": a device, FIFO or socket
`},
	{"names", "echo a >a", `printf x >"$(printf 'n\nl')"; printf x >"$(printf '\377')"; printf x >" "`, `added "\n": - > file 644 1
`},
	{"locked", "mkdir -p d/e; echo a >d/e/a; echo b >b", "rm -r d; mkdir -p d/e; echo A >d/e/a; echo n >n; chmod 000 n b d/e/a d/e d", `mode "b": file 644 2 > file 0 2
mode "d": folder 755 > folder 0
mode "d/e": folder 755 > folder 0
modified "d/e/a": file 644 2 > file 0 2
added "n": - > file 0 2
`},
}

func TestCollectOverlay(t *testing.T) {
	for _, test := range overlayCases {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			lower, run := tempDir(t), tempDir(t)
			shell(t, lower, test.lower)
			upper := inOverlay(t, lower, "umask 022\n"+test.script)
			set, err := Collect(context.Background(), upper, openRoot(t, lower), openRoot(t, run), Options{Started: time.Now()})
			if err != nil {
				t.Fatal(err)
			}
			want := test.want
			if test.name == "names" {
				want = "added \" \": - > file 644 1\nadded \"n\\nl\": - > file 644 1\nadded \"\\xff\": - > file 644 1\n"
			}
			if got := brief(set); got != want {
				t.Errorf("got\n%swant\n%s", got, want)
			}
			loaded, err := Load(openRoot(t, run))
			if want == "" {
				if err != ErrNone {
					t.Errorf("loading nothing: %v", err)
				}
				if left, _ := os.ReadDir(run); len(left) > 0 {
					t.Errorf("%v was left for no change", left)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if loaded.Hash != set.Hash || brief(loaded) != want {
				t.Errorf("loaded\n%s", brief(loaded))
			}
		})
	}
}

// TestRealGit commits, branches and repacks in the overlay, and applies what that made to the repository.
func TestRealGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git here")
	}
	const settings = `
export HOME=/nonexistent GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'
`
	lower, run := tempDir(t), tempDir(t)
	shell(t, lower, settings+"git init -q .; for i in $(seq 200); do echo $i >f$i; done; git add .; git commit -qm one")
	before := tree(t, lower)
	upper := inOverlay(t, lower, settings+"echo changed >f7; git rm -q f8; git mv f9 g9; git add -A; git commit -qm two; git checkout -qb side; echo x >new; git add new; git commit -qm three; git gc -q; echo dirty >f1")
	if got := tree(t, lower); got != before {
		t.Fatal("the lower directory was changed")
	}
	set, err := Collect(t.Context(), upper, openRoot(t, lower), openRoot(t, run), Options{Workspace: lower})
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, workspace: lower, run: run, set: set}
	if _, err := f.apply(Request{}); err != nil {
		t.Fatal(err)
	}
	shell(t, lower, settings+`git fsck --strict; test "$(git log --format=%s | tr '\n' ' ')" = "three two one "
test "$(git status --porcelain)" = " M f1"; test "$(git branch --show-current)" = side; ! test -e f8; test -e g9`)
	if left, _ := filepath.Glob(lower + "/" + stagingPrefix + "*"); len(left) > 0 {
		t.Errorf("%v was left", left)
	}
}
