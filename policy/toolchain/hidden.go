package toolchain

import (
	"path"
	"slices"
	"strings"
)

// system says whether a path is in the folders that every sandbox sees.
func system(name string) bool {
	for _, dir := range [...]string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/etc/alternatives"} {
		if under(name, dir) {
			return true
		}
	}
	return false
}

// visible says whether a real path can be seen inside without a grant of ours.
func (r *resolver) visible(name string) bool {
	return system(name) || slices.ContainsFunc(r.Visible, func(dir string) bool { return under(name, dir) })
}

// volatile says whether a path is in a place that is fresh in every sandbox.
func volatile(name string) bool {
	for _, dir := range [...]string{"/tmp", "/run", "/var/run", "/var/tmp", "/dev", "/proc", "/sys"} {
		if under(name, dir) {
			return true
		}
	}
	return false
}

// hidden says whether a real path may never be granted, whatever leads there.
func (r *resolver) hidden(name string, file bool) bool {
	for _, home := range r.homes {
		if under(home, name) {
			return true
		}
		if rest, ok := strings.CutPrefix(name, home+"/"); ok && private(rest, file) {
			return true
		}
	}
	// A credentials folder is one in any home, not only in the caller's.
	if credentials(name) {
		return true
	}
	for _, dir := range [...]string{"/proc", "/sys", "/dev", "/boot"} {
		if under(name, dir) {
			return true
		}
	}
	if file {
		return false
	}
	for _, dir := range [...]string{"/etc", "/run", "/var/run"} {
		if under(name, dir) {
			return true
		}
	}
	switch path.Dir(name) {
	case "/", "/home", "/var", "/var/home", "/var/lib", "/export/home", "/usr/home":
		// A top-level folder, somebody's home, a service's state; /var/usrlocal and /var/opt are the
		// system's own on image-based hosts.
		return name != "/var/usrlocal" && name != "/var/opt"
	}
	return false
}

// private says whether rest, relative to a home directory, is a folder that mixes programs with what is
// the user's own, or a part of one of those that hold secrets.
func private(rest string, file bool) bool {
	first, deeper, nested := strings.Cut(rest, "/")
	if file {
		return false
	}
	switch first {
	case ".local", ".cargo", ".config", ".cache", ".rustup", ".npm", ".nvm", ".pyenv", ".rbenv", ".nodenv", ".goenv",
		".jenv", ".asdf", ".sdkman", ".volta", "bin", "go", "snap", "Desktop", "Documents", "Downloads":
		// Of these, only what is further down; ~/.local/share is as mixed as ~/.local.
		return !nested || first == ".local" && !strings.Contains(deeper, "/")
	}
	return false
}

// credentials says whether a path is in, or is, a folder where programs keep secrets.
func credentials(name string) bool {
	if strings.Contains(name+"/", "/.config/gcloud/") {
		return true
	}
	for part := range strings.SplitSeq(name, "/") {
		switch part {
		case ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".gcloud", ".password-store", ".mozilla",
			".thunderbird", "keyrings", "1Password", ".git-credentials", ".netrc", ".npmrc", ".pypirc":
			return true
		}
	}
	return false
}
