package policy

import (
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gobox/seccomp"
)

// fakeFS is a host's file system in memory. Keys are real paths.
type fakeFS map[string]*fakeNode

type fakeNode struct {
	name string
	mode fs.FileMode
	uid  uint32
	gid  uint32
	text string // content, or text of a symbolic link
	size int64
}

func (n *fakeNode) Name() string               { return n.name }
func (n *fakeNode) Mode() fs.FileMode          { return n.mode }
func (n *fakeNode) IsDir() bool                { return n.mode.IsDir() }
func (n *fakeNode) ModTime() time.Time         { return time.Time{} }
func (n *fakeNode) Sys() any                   { return &syscall.Stat_t{Uid: n.uid, Gid: n.gid} }
func (n *fakeNode) Type() fs.FileMode          { return n.mode.Type() }
func (n *fakeNode) Info() (fs.FileInfo, error) { return n, nil }
func (n *fakeNode) Size() int64                { return max(n.size, int64(len(n.text))) }

// find looks a path up as the kernel does: its parents' links are followed, its own last part is not.
func (f fakeFS) find(op, name string) (*fakeNode, error) {
	fail := func(errno syscall.Errno) (*fakeNode, error) {
		return nil, &fs.PathError{Op: op, Path: name, Err: errno}
	}
	if !path.IsAbs(name) || strings.IndexByte(name, 0) >= 0 {
		return fail(syscall.EINVAL)
	}
	current, hops := "/", 0
	parts := strings.Split(name, "/")
	for i := 0; i < len(parts); i++ {
		part := parts[i]
		if part == "" || part == "." {
			continue
		}
		if part == ".." {
			current = path.Dir(current)
			continue
		}
		node := f[path.Join(current, part)]
		switch {
		case node == nil:
			return fail(syscall.ENOENT)
		case node.mode&fs.ModeSymlink != 0 && i < len(parts)-1:
			if hops++; hops > maxHops {
				return fail(syscall.ELOOP)
			}
			if path.IsAbs(node.text) {
				current = "/"
			}
			parts = append(strings.Split(node.text, "/"), parts[i+1:]...)
			i = -1
		case !node.mode.IsDir() && i < len(parts)-1:
			return fail(syscall.ENOTDIR)
		default:
			current = path.Join(current, part)
		}
	}
	return f[current], nil
}

func (f fakeFS) Lstat(name string) (fs.FileInfo, error) {
	node, err := f.find("lstat", name)
	if err != nil {
		return nil, err
	}
	return node, nil
}

func (f fakeFS) Readlink(name string) (string, error) {
	node, err := f.find("readlink", name)
	if err != nil {
		return "", err
	}
	if node.mode&fs.ModeSymlink == 0 {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: syscall.EINVAL}
	}
	return node.text, nil
}

func (f fakeFS) ReadFile(name string, limit int64) ([]byte, error) {
	real, err := resolvePath(f, "", name)
	if err != nil {
		return nil, err
	}
	text := f[real.Path].text
	return []byte(text[:min(int64(len(text)), limit)]), nil
}

func (f fakeFS) ReadDir(name string) ([]fs.DirEntry, error) {
	real, err := resolvePath(f, "", name)
	if err != nil {
		return nil, err
	}
	var list []fs.DirEntry
	for place, node := range f {
		if place != "/" && path.Dir(place) == real.Path {
			list = append(list, node)
		}
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, nil
}

func (f fakeFS) Executable(name string) bool {
	real, err := resolvePath(f, "", name)
	return err == nil && real.Info.Mode.IsRegular() && real.Info.Mode&0o111 != 0
}

func (f fakeFS) add(name string, node fakeNode) fakeFS {
	if name != "/" {
		if up := path.Dir(name); f[up] == nil {
			f.dir(up, 0)
		}
	}
	node.name = path.Base(name)
	f[name] = &node
	return f
}

func (f fakeFS) dir(name string, uid uint32) fakeFS {
	return f.add(name, fakeNode{mode: fs.ModeDir | 0o755, uid: uid, gid: uid})
}

func (f fakeFS) file(name, text string, uid uint32) fakeFS {
	return f.add(name, fakeNode{mode: 0o644, uid: uid, gid: uid, text: text})
}

// tool adds an ELF program.
func (f fakeFS) tool(names ...string) fakeFS {
	for _, name := range names {
		f.add(name, fakeNode{mode: 0o755, text: "\x7fELF"})
	}
	return f
}

func (f fakeFS) link(name, text string) fakeFS {
	return f.add(name, fakeNode{mode: fs.ModeSymlink | 0o777, text: text})
}

// fakeHost is a host with a caller on it.
func fakeHost(files fakeFS, uid uint32, home, dir string) Host {
	return Host{
		EUID:        uid,
		EGID:        uid,
		Environ:     []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + home, "SHELL=/bin/bash", "LANG=en_GB.UTF-8", "TERM=xterm", "AWS_SECRET_ACCESS_KEY=canary", "LD_PRELOAD=/evil.so"},
		Dir:         dir,
		FS:          files,
		Mounts:      func() ([]Mount, error) { return []Mount{{"/", "ext4"}, {"/proc", "proc"}, {"/sys", "sysfs"}}, nil },
		LandlockABI: 6,
		Kernel:      func() (seccomp.Kernel, error) { return seccomp.Kernel{Major: 6, Minor: 1}, nil },
		Seccomp:     true,
		HardLimit: func(resource int) uint64 {
			if resource == unix.RLIMIT_NOFILE {
				return 1 << 20
			}
			return ^uint64(0)
		},
	}
}

// debian is a merged-usr system with an ordinary user ann.
func debian() fakeFS {
	f := fakeFS{}
	f.dir("/", 0)
	for _, name := range []string{"bin", "sbin", "lib", "lib64"} {
		f.dir("/usr/"+name, 0).link("/"+name, "usr/"+name)
	}
	f.dir("/opt", 0).dir("/srv", 0).dir("/tmp", 0).dir("/var/tmp", 0).dir("/run", 0).dir("/root", 0).dir("/boot", 0).dir("/sys/kernel", 0).dir("/mnt", 0)
	f.tool("/usr/bin/python3.11", "/usr/bin/cat", "/usr/bin/bash").link("/usr/bin/python3", "python3.11").link("/usr/bin/sh", "bash")
	f.file("/etc/passwd", "root:x:0:0:root:/root:/bin/bash\nann:x:1000:1000:Ann:/home/ann:/bin/bash\nnobody:x:65534:65534::/nonexistent:/bin/false\n", 0)
	f.file("/etc/group", "root:x:0:\nann:x:1000:\n", 0)
	f.add("/etc/shadow", fakeNode{mode: 0o640, text: "root:secret"})
	f.add("/etc/ssl/private", fakeNode{mode: fs.ModeDir | 0o700})
	f.file("/etc/ssl/certs/ca.pem", "cert", 0).file("/etc/ssl/openssl.cnf", "conf", 0)
	f.file("/etc/ld.so.cache", "cache", 0).file("/etc/ld.so.conf", "conf", 0).file("/etc/resolv.conf", "nameserver 10.0.0.1\n", 0)
	f.link("/etc/alternatives/awk", "/usr/bin/mawk").link("/etc/localtime", "/usr/share/zoneinfo/Europe/Paris").file("/usr/share/zoneinfo/Europe/Paris", "TZif", 0)
	f.link("/etc/os-release", "../usr/lib/os-release").file("/usr/lib/os-release", "ID=debian\n", 0)
	f.file("/etc/bash.bashrc", "PS1=x", 0).dir("/etc/java-17-openjdk", 0).file("/etc/mime.types", "text/html html\n", 0)
	f.file("/etc/npmrc", "//registry/:_authToken=canary", 0).file("/etc/gitconfig", "x", 0).dir("/etc/ssh", 0)
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty", "sda"} {
		f.add("/dev/"+name, fakeNode{mode: fs.ModeDevice | fs.ModeCharDevice | 0o666})
	}
	f.add("/proc/keys", fakeNode{mode: 0o444}).add("/proc/kcore", fakeNode{mode: 0o400}).add("/proc/interrupts", fakeNode{mode: 0o444})
	f.add("/proc/acpi", fakeNode{mode: fs.ModeDir | 0o555}).add("/proc/cpuinfo", fakeNode{mode: 0o444})
	f.dir("/home/ann", 1000).dir("/home/ann/work", 1000).file("/home/ann/work/app.py", "print(1)", 1000).file("/home/ann/work/.env", "KEY=canary", 1000)
	f.dir("/home/ann/data", 1000).dir("/home/ann/.ssh", 1000).file("/home/ann/.ssh/id_ed25519", "key", 1000)
	f.dir("/proj", 0).dir("/proj/app", 0)
	return f
}

// split is a system from before merged-usr, with /bin and /lib of its own.
func split() fakeFS {
	f := debian()
	for _, name := range []string{"bin", "sbin", "lib", "lib64"} {
		delete(f, "/"+name)
		f.dir("/"+name, 0)
	}
	f.tool("/bin/bash", "/bin/cat")
	f.link("/bin/sh", "bash")
	return f
}

// image adds an unpacked image to a host.
func (f fakeFS) image(dir string) fakeFS {
	f.dir(dir+"/dev", 0).dir(dir+"/proc", 0).dir(dir+"/sys", 0).dir(dir+"/tmp", 0).dir(dir+"/run", 0).dir(dir+"/home", 0).dir(dir+"/var/lib", 0)
	f.tool(dir+"/usr/bin/app").dir(dir+"/usr/lib", 0).link(dir+"/bin", "usr/bin").link(dir+"/lib", "/usr/lib")
	f.file(dir+"/etc/passwd", "root:x:0:0::/:/bin/sh\n", 0).file(dir+"/usr/bin/text", "no program", 0)
	return f
}

func must(t *testing.T, p Policy, h Host) *Plan {
	t.Helper()
	plan, err := Resolve(p, h)
	if err != nil {
		t.Fatalf("resolve: %v", err)
	}
	return plan
}
