package selftest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gobox/policy"
	"gobox/seccomp"
	"gobox/selftest/attempt"
)

// scene is what the attempts are about: files, listeners and a process of the host's, all of them this test's own.
type scene struct {
	dir    string // everything lies below it
	work   string // the workspace
	given  string // granted read-only
	closed string // mounted writable at closedInside, and not granted by Landlock
	secret string // a file beside them, not granted
	socket string // of a listener beside it
	exe    string // the copy of this program that runs inside
	input  string // what the command reads

	host    policy.Host
	policy  policy.Policy
	plan    *policy.Plan
	missing []policy.Layer
	profile seccomp.Profile // of the policy
	usual   seccomp.Profile // the built-in one

	canaries  []canary
	listeners []listener
	port      string // nobody's on the host's loopback
	abstract  string
	victim    *exec.Cmd
	victimIn  io.Closer
	victimEnd chan struct{}
	leaked    []int  // descriptors that are not close-on-exec
	has32bit  bool   // the kernel takes 32-bit system calls
	noOverlay string // why the last sandbox had none, though the plan would rather have one
}

// closedInside is where only Landlock is in the way.
const closedInside = "/gobox-selftest"

// marker is the value of variables that must not arrive inside.
const marker = "gobox-selftest-canary"

// newScene makes the files; the caller must remove them with close in any case.
func newScene(program string) (*scene, error) {
	s := &scene{}
	if err := s.place(program); err != nil {
		return s, err
	}
	s.work, s.given, s.closed = s.dir+"/work", s.dir+"/given", s.dir+"/closed"
	s.secret, s.socket = s.dir+"/outside/secret.txt", s.dir+"/outside/socket"
	for _, d := range []string{s.work, s.given, s.closed, s.dir + "/outside"} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return s, err
		}
	}
	for _, file := range []string{s.work + "/input.txt", s.given + "/data.txt", s.given + "/tool", s.closed + "/data.txt", s.secret} {
		mode := os.FileMode(0o644)
		if file == s.given+"/data.txt" {
			mode = 0o666 // so that its mount refuses, and not its owner, who is another than the command where nothing can be idmapped
		}
		text := "canary " + file + "\n"
		if strings.HasSuffix(file, "/tool") {
			mode, text = 0o755, "#!/bin/sh\nexit 0\n"
		}
		if err := s.write(file, text, mode); err != nil {
			return s, err
		}
	}
	return s, nil
}

// place finds a folder from which programs can be run, and puts the copy of this one there.
func (s *scene) place(program string) error {
	var last error
	tried := map[string]bool{}
	for _, base := range []string{os.TempDir(), "/var/tmp", "/tmp"} {
		if tried[base] {
			continue
		}
		tried[base] = true
		var fs unix.Statfs_t
		if err := unix.Statfs(base, &fs); err != nil {
			last = fmt.Errorf("%s: %w", base, err)
			continue
		}
		if fs.Flags&unix.ST_NOEXEC != 0 {
			last = fmt.Errorf("%s is mounted noexec", base)
			continue
		}
		// Links on the way would be other names for the same places.
		real, err := filepath.EvalSymlinks(base)
		// The last part is the ten digits that MkdirTemp puts there; sun_path has a final NUL (unix(7)).
		if name := real + "/gobox-selftest-/outside/socket"; err == nil && len(name)+10 >= len(unix.RawSockaddrUnix{}.Path) {
			err = fmt.Errorf("%s: too long for the names of sockets", real)
		}
		if err == nil {
			s.dir, err = os.MkdirTemp(real, "gobox-selftest-")
		}
		if err != nil {
			last = err
			continue
		}
		s.exe = s.dir + "/bin/gobox"
		if err := os.Chmod(s.dir, 0o755); err != nil {
			return err
		}
		if err := os.Mkdir(s.dir+"/bin", 0o755); err != nil {
			return err
		}
		return copyProgram(program, s.exe)
	}
	return last
}

func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close(), os.Chmod(to, 0o755))
}

func (s *scene) write(file, text string, mode os.FileMode) error {
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		return err
	}
	return os.Chmod(file, mode) // whatever the umask
}

// belong gives the folders that the command may write to, by their mode, to the user it runs as: an owner of root's would
// need a file system with id-mapped mounts.
func (s *scene) belong(uid, gid int) error {
	for _, path := range []string{s.work, s.work + "/input.txt", s.closed, s.closed + "/data.txt"} {
		if err := os.Lchown(path, uid, gid); err != nil {
			return err
		}
	}
	return nil
}

// canary is a file that must stay as it is.
type canary struct{ path, was string }

func (s *scene) watch(paths ...string) error {
	for _, path := range paths {
		was, err := fingerprint(path)
		if err != nil {
			return err
		}
		s.canaries = append(s.canaries, canary{path, was})
	}
	return nil
}

func fingerprint(path string) (string, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return "", &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%x %o %d:%d %d %d.%d", sha256.Sum256(data), st.Mode, st.Uid, st.Gid, st.Nlink, st.Mtim.Sec, st.Mtim.Nsec), nil
}

// changed names the canaries below prefix that are not as they were. Those of the folder that only Landlock protects are
// left to its rows.
func (s *scene) changed(prefix string) string {
	var list []string
	for _, c := range s.canaries {
		if !strings.HasPrefix(c.path, prefix) || prefix == "" && strings.HasPrefix(c.path, s.closed+"/") {
			continue
		}
		if now, err := fingerprint(c.path); err != nil || now != c.was {
			list = append(list, c.path+" changed")
		}
	}
	return strings.Join(list, "; ")
}

// added names what is in a folder beside the known names.
func added(dir string, known ...string) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err.Error()
	}
	var list []string
	for _, e := range entries {
		if !slices.Contains(known, e.Name()) {
			list = append(list, dir+"/"+e.Name()+" was made")
		}
	}
	return strings.Join(list, "; ")
}

// both joins what two effects tell.
func both(a, b string) string { return strings.TrimPrefix(strings.TrimSuffix(a+"; "+b, "; "), "; ") }

// listener is a socket of the host's that must hear nothing.
type listener struct {
	name string
	fd   int
}

// listen opens the host's sockets. A protocol that the host lacks is left out.
func (s *scene) listen() error {
	s.abstract = "@" + filepath.Base(s.dir)
	for _, name := range []string{s.socket, s.abstract} {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		s.listeners = append(s.listeners, listener{name, fd})
		if err := unix.Bind(fd, &unix.SockaddrUnix{Name: name}); err != nil {
			return &os.PathError{Op: "bind", Path: name, Err: err}
		}
		if err := unix.Listen(fd, 16); err != nil {
			return err
		}
	}
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		if fd, at, err := attempt.Listen(address); err == nil {
			s.listeners = append(s.listeners, listener{"tcp " + at, fd})
		}
	}
	if fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err == nil {
		u := listener{fd: fd}
		if unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}) == nil {
			at, _ := attempt.LocalAddress(fd)
			u.name = "udp " + at
		}
		s.listeners = append(s.listeners, u)
	}
	free, at, err := attempt.Listen("127.0.0.1:0")
	if err != nil {
		return err
	}
	s.port = at
	return unix.Close(free)
}

// heard tells what came to the listeners whose name begins with one of kinds.
func (s *scene) heard(kinds ...string) string {
	// A connection or datagram waits in the socket's queue: nobody takes it.
	var list []string
	for _, l := range s.listeners {
		fds := []unix.PollFd{{Fd: int32(l.fd), Events: unix.POLLIN}}
		if n, err := unix.Poll(fds, 0); n == 0 && err == nil {
			continue
		}
		for _, kind := range kinds {
			if strings.HasPrefix(l.name, kind) {
				list = append(list, fmt.Sprintf("the host's socket %s was reached", l.name))
			}
		}
	}
	return strings.Join(list, "; ")
}

// host starts a process of the host's that the command must not find.
func (s *scene) startVictim(again []string) error {
	s.victim = exec.Command(s.exe, append(again, "hold")...)
	s.victim.Env = []string{}
	in, err := s.victim.StdinPipe()
	if err != nil {
		return err
	}
	s.victimIn = in
	if err := s.victim.Start(); err != nil {
		return err
	}
	s.victimEnd = make(chan struct{})
	go func() {
		_ = s.victim.Wait()
		close(s.victimEnd)
	}()
	return nil
}

// hurt tells whether the process has ended.
func (s *scene) hurt() string {
	select {
	case <-s.victimEnd:
		return "a process of the host's was killed"
	case <-time.After(20 * time.Millisecond):
		return ""
	}
}

// leak opens what a careless parent would leave open across the start.
func (s *scene) leak() error {
	for path, flags := range map[string]int{s.secret: unix.O_RDWR, s.dir + "/outside": unix.O_RDONLY | unix.O_DIRECTORY} {
		fd, err := syscall.Open(path, flags, 0)
		if err != nil {
			return &os.PathError{Op: "open", Path: path, Err: err}
		}
		s.leaked = append(s.leaked, fd)
	}
	return nil
}

func (s *scene) close() error {
	if s.victimEnd != nil {
		_ = s.victimIn.Close()
		select {
		case <-s.victimEnd:
		case <-time.After(2 * time.Second):
			_ = s.victim.Process.Kill()
			<-s.victimEnd
		}
	}
	for _, l := range s.listeners {
		unix.Close(l.fd)
	}
	for _, fd := range s.leaked {
		unix.Close(fd)
	}
	if s.dir == "" {
		return nil
	}
	return os.RemoveAll(s.dir)
}
