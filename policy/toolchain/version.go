package toolchain

import (
	"path"
	"strings"
)

// versionOK says whether a name from a version file can be one directory's name and nothing else.
func versionOK(v string) bool {
	if v == "" || v == "." || v == ".." || len(v) > 128 {
		return false
	}
	for _, c := range []byte(v) {
		if c <= ' ' || c == 0x7f || c == '/' || c == ':' || c == '\\' {
			return false
		}
	}
	return true
}

// small reads a whole regular file of at most 64 KiB; a longer one is no version file.
func (r *resolver) small(name string) (string, bool) {
	const limit = 64 << 10
	p := r.place(name)
	if !p.isRegular() {
		return "", false
	}
	if text, ok := r.texts[p.real]; ok {
		return text, true
	}
	data, err := r.FS.ReadFile(p.real, limit+1)
	if err != nil || len(data) > limit {
		return "", false
	}
	if r.texts == nil {
		r.texts = make(map[string]string)
	}
	r.texts[p.real] = string(data)
	return string(data), true
}

// firstWords gives the first word of each line that is neither empty nor a comment.
func firstWords(data string) []string {
	var words []string
	for line := range strings.Lines(data) {
		if f := strings.Fields(line); len(f) > 0 && f[0][0] != '#' && len(words) < 64 {
			words = append(words, f[0])
		}
	}
	return words
}

// compareVersions orders "3.9.18" before "3.11.7": runs of digits by value, all else by its letters.
func compareVersions(a, b string) int {
	for a != "" && b != "" {
		na, ra := digits(a)
		nb, rb := digits(b)
		if na != "" && nb != "" {
			na, nb = strings.TrimLeft(na, "0"), strings.TrimLeft(nb, "0")
			if len(na) != len(nb) {
				return len(na) - len(nb)
			}
			if c := strings.Compare(na, nb); c != 0 {
				return c
			}
			a, b = ra, rb
			continue
		}
		if a[0] != b[0] {
			return int(a[0]) - int(b[0])
		}
		a, b = a[1:], b[1:]
	}
	return len(a) - len(b)
}

func digits(s string) (run, rest string) {
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return s[:i], s[i:]
}

// prerelease says whether a version is one that "3.12" does not mean: 3.12-dev, 3.13.0rc1, 3.13.0t.
func prerelease(v string) bool {
	for _, s := range [...]string{"-dev", "-src", "-latest"} {
		if strings.HasSuffix(v, s) {
			return true
		}
	}
	t := strings.TrimRight(v, "0123456789")
	if t != v && (strings.HasSuffix(t, "a") || strings.HasSuffix(t, "b") || strings.HasSuffix(t, "rc")) {
		return true
	}
	return len(v) > 1 && v[len(v)-1] == 't' && v[len(v)-2] >= '0' && v[len(v)-2] <= '9'
}

// latest is the newest installed version in dir that prefix stands for, or "".
func (r *resolver) latest(dir, prefix string) string {
	entries, err := r.FS.ReadDir(dir)
	if err != nil {
		return ""
	}
	// "3.13t" is the free-threaded build of 3.13.
	wanted, threaded := strings.CutSuffix(prefix, "t")
	if threaded = threaded && wanted != "" && wanted[len(wanted)-1] >= '0' && wanted[len(wanted)-1] <= '9'; !threaded {
		wanted = prefix
	}
	best := ""
	for _, e := range entries {
		v := e.Name()
		stem := v
		if threaded {
			if stem = strings.TrimSuffix(v, "t"); stem == v {
				continue
			}
		}
		rest, ok := strings.CutPrefix(stem, wanted)
		if !ok || prefix != "" && (rest == "" || rest[0] != '.' && rest[0] != '-') || prerelease(stem) || !versionOK(v) ||
			prefix == "" && (v[0] < '0' || v[0] > '9') {
			continue
		}
		if best == "" || compareVersions(v, best) > 0 {
			// A virtualenv of pyenv-virtualenv is no version, though it may be named like one.
			if p := r.place(path.Join(dir, v)); p.isDir() && !strings.Contains(p.real, "/envs/") && !r.exists(p.real+"/pyvenv.cfg") {
				best = v
			}
		}
	}
	return best
}
