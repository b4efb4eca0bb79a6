package toolchain

import (
	"path"
	"runtime"
	"strings"
)

// goToolchain is the newer go that the go below goroot would switch to for the module or workspace of the
// working directory, if the module cache has it; "" if it would not switch (https://go.dev/doc/toolchain).
func (r *resolver) goToolchain(goroot string) string {
	choice := r.Env("GOTOOLCHAIN")
	if choice != "" && choice != "auto" || r.Home == "" {
		return "" // "local", or a choice that go makes and explains itself
	}
	text, ok := r.small(goroot + "/VERSION")
	if !ok {
		return ""
	}
	local, _, _ := strings.Cut(text, "\n")
	wanted := ""
	for _, name := range [...]string{"go.work", "go.mod"} {
		if name == "go.work" && r.Env("GOWORK") == "off" {
			continue
		}
		found := false
		upward(r.Dir, func(dir string) bool {
			text, ok := r.small(path.Join(dir, name))
			if ok {
				wanted, found = goWanted(text), true
			}
			return found
		})
		if found {
			break
		}
	}
	if !versionOK(wanted) || compareVersions(wanted, strings.TrimSpace(local)) <= 0 {
		return ""
	}
	cache := r.Env("GOMODCACHE")
	if !path.IsAbs(cache) {
		first, _, _ := strings.Cut(r.Env("GOPATH"), ":")
		if !path.IsAbs(first) {
			first = path.Join(r.Home, "go")
		}
		cache = path.Join(first, "pkg/mod")
	}
	file := path.Join(cache, "golang.org/toolchain@v0.0.1-"+wanted+".linux-"+runtime.GOARCH, "bin/go")
	if !r.runnable(file) {
		return ""
	}
	return file
}

// goWanted is the newer of the go and toolchain lines of a go.mod or go.work, as in "go1.26.1".
func goWanted(text string) string {
	wanted := ""
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "go" && f[0] != "toolchain" {
			continue
		}
		if v := "go" + strings.TrimPrefix(f[1], "go"); compareVersions(v, wanted) > 0 {
			wanted = v
		}
	}
	return wanted
}
