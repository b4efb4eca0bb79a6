package policy

import (
	"path"
	"slices"
)

// Why of the steps that are found again by it.
const (
	whyWorkspace = "workspace"
	whySystem    = "system"
	whyRootfs    = "--rootfs"
)

// systemFolders are those that every program may need and that hold no secrets: read-only, as the host
// has them, links (merged-usr) kept as links. Never /home, /root, /run, /var, /sys, /srv, /mnt, /media,
// /boot.
func systemFolders() []string {
	return []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt"}
}

// kernelFolders are made new for every sandbox; nothing of the host's can be granted below them.
func kernelFolders() []string { return []string{"/proc", "/sys", "/dev"} }

// onSystem tells whether path is a system folder or below one.
func onSystem(path string) bool {
	return slices.ContainsFunc(systemFolders(), func(dir string) bool { return within(dir, path) })
}

// reserved tells whether path is one that the plan makes itself and that no folder of the host may take.
func reserved(path string) bool {
	return path == "/" || path == "/etc" ||
		slices.ContainsFunc(kernelFolders(), func(dir string) bool { return within(dir, path) })
}

// socketFolder tells whether a folder is one in which services of the host have their sockets: the session
// bus, container engines, keyrings. Whoever connects to those is as good as outside, and a read-only mount does not stop a
// connection. Single files in them may be named, and so may folders that services keep for data, as /run/secrets.
func (b *builder) socketFolder(path string) bool {
	switch path {
	case "/run", "/var/run", "/run/user", "/run/dbus", "/run/systemd", "/run/docker", "/run/containerd", "/run/podman", "/run/crio":
		return true
	case "/var":
		info, err := lstat(b.host.FS, "/var/run")
		return err == nil && info.isDir()
	}
	// XDG_RUNTIME_DIR.
	return parent(path) == "/run/user"
}

// cleanPath removes what a path has in vain; ".." is taken by its letters.
func cleanPath(p string) string { return path.Clean(p) }
