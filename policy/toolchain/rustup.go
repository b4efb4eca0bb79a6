package toolchain

import (
	"path"
	"runtime"
	"strings"
)

// rustupProxy says whether rustup installs a proxy of this name.
func rustupProxy(name string) bool {
	switch name {
	case "cargo", "rustc", "rustdoc", "rustfmt", "cargo-fmt", "cargo-clippy", "cargo-miri", "clippy-driver",
		"rust-analyzer", "rust-gdb", "rust-gdbgui", "rust-lldb", "rls":
		return true
	}
	return false
}

// rustup is the program that a proxy stands for.
func (r *resolver) rustup(tool string) (string, error) {
	home := r.Env("RUSTUP_HOME")
	if !path.IsAbs(home) {
		if r.Home == "" {
			return "", refuse(tool, "set RUSTUP_HOME", "rustup: no home directory to look for toolchains in")
		}
		home = path.Join(r.Home, ".rustup")
	}
	r.addRoot(home, "rustup")
	data, _ := r.small(home + "/settings.toml")
	conf := settings(data)
	name, origin, err := r.rustToolchain(tool, home, conf)
	if err != nil {
		return "", err
	}
	if path.IsAbs(name) && origin == "RUSTUP_TOOLCHAIN" {
		// The caller's own environment may name any toolchain; it has to look like one.
		if p := r.place(name); !p.isDir() || !r.exists(p.real+"/lib/rustlib") {
			return "", notInstalled(tool, "rustup", name, origin, "")
		}
		return path.Join(name, "bin", tool), nil
	}
	if !versionOK(name) {
		return "", hostile(tool, "rustup", name, origin)
	}
	dir := r.rustupDir(home, name, conf)
	if dir == "" {
		return "", notInstalled(tool, "rustup", name, origin, "rustup toolchain install "+show(name))
	}
	r.vouch(dir, home, "rust (rustup "+name+")")
	file := path.Join(dir, "bin", tool)
	if !r.runnable(file) {
		e := lacks(tool, "rustup", path.Base(dir), origin)
		e.Hint = "rustup component add " + strings.TrimPrefix(tool, "cargo-") + " --toolchain " + path.Base(dir)
		return "", e
	}
	return file, nil
}

// rustToolchain is the toolchain's name by rustup's order: environment, then the nearest of directory
// override and toolchain file, then the default.
func (r *resolver) rustToolchain(tool, home string, conf []setting) (name, origin string, err error) {
	if v := r.Env("RUSTUP_TOOLCHAIN"); v != "" {
		return v, "RUSTUP_TOOLCHAIN", nil
	}
	start := r.Dir
	if p := r.place(r.Dir); p.err == nil {
		start = p.real
	}
	upward(start, func(dir string) bool {
		for _, s := range conf {
			if s.section == "overrides" && len(s.values) == 1 && s.key == dir {
				name, origin = s.values[0], "rustup override of "+dir
				return true
			}
		}
		for _, file := range [...]string{"rust-toolchain", "rust-toolchain.toml"} {
			origin = path.Join(dir, file)
			data, ok := r.small(origin)
			if !ok {
				continue
			}
			name, err = channel(tool, data, origin)
			if err != nil || name != "" {
				return true
			}
		}
		return false
	})
	if name != "" || err != nil {
		return name, origin, err
	}
	origin = home + "/settings.toml"
	for _, s := range conf {
		if s.section == "" && s.key == "default_toolchain" && len(s.values) == 1 {
			return s.values[0], origin, nil
		}
	}
	return "", "", &Error{Kind: NotInstalled, Object: tool, Err: errorString("rustup: no default toolchain is set"),
		Hint: "rustup default stable"}
}

// channel reads a rust-toolchain file: one line, or TOML. It is empty where the file sets none.
func channel(tool, data, origin string) (string, error) {
	if words := strings.Fields(data); len(words) == 1 && !strings.ContainsAny(words[0], "[=") {
		return words[0], nil
	}
	for _, s := range settings(data) {
		if s.section != "toolchain" {
			continue
		}
		switch {
		case s.key == "channel" && len(s.values) == 1:
			return s.values[0], nil
		case s.key == "channel":
			return "", refuse(tool, "set RUSTUP_TOOLCHAIN", "rustup: channel in %s is not understood", show(origin))
		case s.key == "path":
			return "", refuse(tool, "set RUSTUP_TOOLCHAIN to its path, or grant it with --rox",
				"rustup: %s names a toolchain by path", show(origin))
		}
	}
	return "", nil
}

// rustupDir is where a toolchain is installed: by its whole name, or with the host's triple added.
func (r *resolver) rustupDir(home, name string, conf []setting) string {
	all := home + "/toolchains/"
	arch := "x86_64"
	if runtime.GOARCH == "arm64" {
		arch = "aarch64"
	}
	triples := []string{"", "-" + arch + "-unknown-linux-gnu", "-" + arch + "-unknown-linux-musl"}
	for _, s := range conf {
		if s.section == "" && s.key == "default_host_triple" && len(s.values) == 1 && versionOK(s.values[0]) {
			triples = []string{"", "-" + s.values[0]}
		}
	}
	for _, triple := range triples {
		if r.place(all + name + triple).isDir() {
			return all + name + triple
		}
	}
	return ""
}
