package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
)

// ErrUnavailable is in the chain of an error that says what this machine lacks for virtual machines.
var ErrUnavailable = errors.New("no virtual machine here")

// Kernel is an unpacked kernel package.
type Kernel struct {
	Release string // uname -r
	Image   string // the host's path of vmlinuz
	Modules string // the host's path of /lib/modules/RELEASE
}

// metapackages are Debian's names for "the newest cloud kernel of this series".
func metapackage(series string) string {
	if series == "6.1" {
		return "linux-image-cloud-amd64" // of Debian 12
	}
	return "linux-image-" + series + "-cloud-amd64" // backports and later releases
}

func cacheDir() (string, error) {
	if dir := os.Getenv("GOBOX_VM_CACHE"); dir != "" {
		return dir, nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, fmt.Sprintf("gobox-vm-%d", os.Getuid())), nil
}

// Find gives the newest cached or downloadable cloud kernel of a series, "6.1" or "6.12". The first call for a
// series downloads some 30 MB.
func Find(ctx context.Context, series string) (*Kernel, error) {
	if runtime.GOARCH != "amd64" {
		return nil, fmt.Errorf("%w: these kernels are for amd64", ErrUnavailable)
	}
	cache, err := cacheDir()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cache, series)
	if k, err := unpacked(dir); err == nil {
		return k, nil
	}
	for _, tool := range []string{"apt-get", "apt-cache", "dpkg"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, fmt.Errorf("%w: kernel %s is not in %s, and there is no %s to fetch it", ErrUnavailable, series, cache, tool)
		}
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, err
	}
	// Test binaries of several packages may come here at once.
	lock, err := os.OpenFile(filepath.Join(cache, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return nil, err
	}
	if k, err := unpacked(dir); err == nil {
		return k, nil
	}
	return fetch(ctx, series, cache, dir)
}

func unpacked(dir string) (*Kernel, error) {
	images, err := filepath.Glob(filepath.Join(dir, "boot", "vmlinuz-*"))
	if err != nil || len(images) == 0 {
		return nil, fmt.Errorf("no kernel in %s", dir)
	}
	release := strings.TrimPrefix(filepath.Base(images[0]), "vmlinuz-")
	k := &Kernel{Release: release, Image: images[0]}
	for _, lib := range []string{"lib", "usr/lib"} {
		modules := filepath.Join(dir, lib, "modules", release)
		if _, err := os.Stat(modules); err == nil {
			k.Modules = modules
		}
	}
	return k, nil
}

func fetch(ctx context.Context, series, cache, dir string) (*Kernel, error) {
	work, err := os.MkdirTemp(cache, "fetch-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	err = download(ctx, series, work)
	if err != nil && os.Geteuid() == 0 {
		// A fresh machine has no lists yet, and old ones name a package that a fix has replaced.
		_ = exec.CommandContext(ctx, "apt-get", "-q", "update").Run()
		err = download(ctx, series, work)
	}
	if err != nil {
		return nil, err
	}
	debs, err := filepath.Glob(filepath.Join(work, "*.deb"))
	if err != nil || len(debs) != 1 {
		return nil, fmt.Errorf("download a kernel of Linux %s: %d packages, %w", series, len(debs), err)
	}
	tree := filepath.Join(work, "tree")
	if out, err := exec.CommandContext(ctx, "dpkg", "-x", debs[0], tree).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("unpack %s: %w\n%s", debs[0], err, out)
	}
	if _, err := unpacked(tree); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if err := os.Rename(tree, dir); err != nil {
		return nil, err
	}
	return unpacked(dir)
}

// download puts the package with the kernel of a series into a folder.
func download(ctx context.Context, series, into string) error {
	name, err := concrete(ctx, series)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "apt-get", "-q", "download", name)
	cmd.Dir = into
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: download %s: %w\n%s", ErrUnavailable, name, err, out)
	}
	return nil
}

// concrete is the package that a metapackage stands for.
func concrete(ctx context.Context, series string) (string, error) {
	meta := metapackage(series)
	out, err := exec.CommandContext(ctx, "apt-cache", "depends", meta).Output()
	if err == nil {
		m := regexp.MustCompile(`Depends: (linux-image-` + regexp.QuoteMeta(series) + `\.\S+-cloud-amd64)\b`).FindSubmatch(out)
		if m != nil {
			return string(m[1]), nil
		}
	}
	return "", fmt.Errorf("%w: apt offers no %s of Linux %s (apt-get update?)", ErrUnavailable, meta, series)
}

// module reads a module as the kernel wants it.
func (k *Kernel) module(ctx context.Context, name string) ([]byte, error) {
	var found string
	err := filepath.WalkDir(k.Modules, func(p string, d os.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), name+".ko") {
			found = p
			return filepath.SkipAll
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	switch filepath.Ext(found) {
	case ".ko":
		return os.ReadFile(found)
	case ".xz":
		return exec.CommandContext(ctx, "xz", "-dc", found).Output()
	}
	return nil, fmt.Errorf("kernel %s has no module %s", k.Release, name)
}
