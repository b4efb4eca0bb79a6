package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// contender is one way to start /bin/true.
type contender struct {
	name string
	argv []string
	env  []string // beside the usual
}

// The files that gobox writes into its /etc, so that bwrap has as many to bring.
var etcFiles = map[string]string{
	"passwd":        "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
	"group":         "nogroup:x:65534:\n",
	"hosts":         "127.0.0.1 localhost\n",
	"hostname":      "sandbox\n",
	"resolv.conf":   "",
	"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}

const target = "/bin/true"

// baseline is what the ratios are taken against.
const baseline = "bwrap"

func (b *bench) contenders() []contender {
	readOnly := []string{b.gobox, "run", "--workspace", b.workspace, "--workspace-mode", "ro", "--", target}
	list := []contender{
		{name: "bare command", argv: []string{target}},
		{name: "unshare", argv: []string{"unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--net", "--ipc",
			"--uts", "--cgroup", "--mount-proc", target}},
		{name: baseline, argv: b.bwrap()},
		{name: "gobox", argv: readOnly},
		// As it is without flags: an overlay, and a look at what changed.
		{name: "gobox, overlay", argv: []string{b.gobox, "run", "--workspace", b.workspace, "--", target}},
		// What the start costs without the wait for the disk at the end.
		{name: "gobox, record on a tmpfs", argv: readOnly, env: []string{"XDG_STATE_HOME=" + b.memory}},
		{name: "firejail", argv: []string{"firejail", "--quiet", "--noprofile", "--private", "--net=none", "--seccomp", "--caps.drop=all", target}},
	}
	for _, runtime := range []string{"crun", "runc"} {
		argv := []string{runtime, "--root", filepath.Join(b.home, runtime)}
		if runtime == "crun" {
			// It refuses a host with both cgroup versions, and gobox sets none up either.
			argv = append(argv, "--cgroup-manager", "disabled")
		}
		list = append(list, contender{name: runtime, argv: append(argv, "run",
			"--bundle", filepath.Join(b.dir, "bundle"), fmt.Sprintf("gobox-bench-%d", os.Getpid()))})
	}
	return list
}

// bwrap builds the tree that gobox builds, from the same namespaces. It has no Landlock rules, filter or
// limits to set.
func (b *bench) bwrap() []string {
	argv := []string{"bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"}
	for _, d := range systemDirs() {
		if d.link != "" {
			argv = append(argv, "--symlink", d.link, d.path)
		} else {
			argv = append(argv, "--ro-bind", d.path, d.path)
		}
	}
	for name := range etcFiles {
		argv = append(argv, "--ro-bind", filepath.Join(b.dir, name), "/etc/"+name)
	}
	for _, p := range []string{"/etc/ld.so.cache", "/etc/ssl", "/etc/alternatives"} {
		argv = append(argv, "--ro-bind-try", p, p)
	}
	return append(argv, "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", b.home,
		"--ro-bind", b.workspace, b.workspace, "--chdir", b.workspace, "--clearenv",
		"--setenv", "PATH", "/usr/bin:/bin", "--setenv", "HOME", b.home, target)
}

type systemDir struct{ path, link string }

// systemDirs are the host's system folders, as folders or as the links of a merged /usr.
func systemDirs() []systemDir {
	var dirs []systemDir
	for _, p := range []string{"/usr", "/opt", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		info, err := os.Lstat(p)
		if err != nil {
			continue
		}
		link := ""
		if info.Mode()&os.ModeSymlink != 0 {
			if link, err = os.Readlink(p); err != nil {
				continue
			}
		}
		dirs = append(dirs, systemDir{p, link})
	}
	return dirs
}

// makeBundle writes an OCI bundle with the same tree for crun and runc (runtime-spec, config.json).
func (b *bench) makeBundle() error {
	root := filepath.Join(b.dir, "bundle", "rootfs")
	type mount struct {
		Destination string   `json:"destination"`
		Type        string   `json:"type,omitempty"`
		Source      string   `json:"source"`
		Options     []string `json:"options,omitempty"`
	}
	mounts := []mount{
		{"/proc", "proc", "proc", nil},
		{"/dev", "tmpfs", "tmpfs", []string{"nosuid", "mode=755"}},
		{"/tmp", "tmpfs", "tmpfs", []string{"nosuid", "nodev"}},
		{"/workspace", "bind", b.workspace, []string{"rbind", "ro"}},
	}
	points := []string{"proc", "dev", "tmp", "workspace"}
	for _, d := range systemDirs() {
		if d.link == "" {
			mounts = append(mounts, mount{d.path, "bind", d.path, []string{"rbind", "ro", "nosuid", "nodev"}})
			points = append(points, d.path)
		}
	}
	for _, p := range points {
		if err := os.MkdirAll(filepath.Join(root, p), 0o755); err != nil {
			return err
		}
	}
	for _, d := range systemDirs() {
		if d.link != "" {
			if err := os.Symlink(d.link, filepath.Join(root, d.path)); err != nil {
				return err
			}
		}
	}
	type object = map[string]any
	namespaces := []object{{"type": "pid"}, {"type": "network"}, {"type": "ipc"}, {"type": "uts"}, {"type": "mount"}}
	linux := object{}
	if b.id.uid != 0 {
		namespaces = append(namespaces, object{"type": "user"})
		linux["uidMappings"] = []object{{"containerID": 0, "hostID": b.id.uid, "size": 1}}
		linux["gidMappings"] = []object{{"containerID": 0, "hostID": b.id.gid, "size": 1}}
	}
	linux["namespaces"] = namespaces
	config := object{
		"ociVersion": "1.0.2",
		"process": object{"user": object{"uid": 0, "gid": 0}, "args": []string{target}, "env": []string{"PATH=/usr/bin:/bin"},
			"cwd": "/workspace", "noNewPrivileges": true},
		"root":     object{"path": "rootfs", "readonly": true},
		"hostname": "sandbox",
		"mounts":   mounts,
		"linux":    linux,
	}
	data, err := json.Marshal(config)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.dir, "bundle", "config.json"), data, 0o644)
}
