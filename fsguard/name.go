package fsguard

import "strings"

const (
	nameMax = 255  // NAME_MAX of linux/limits.h, without the NUL
	pathMax = 4096 // PATH_MAX of linux/limits.h, with the NUL
)

// clean gives name without "." and empty components; the root itself is ".". It refuses what could mean
// something outside.
func clean(name string) (string, error) {
	if name == "" || name[0] == '/' {
		return "", ErrName
	}
	var out strings.Builder
	same := true // nothing had to be left out so far
	for start := 0; start <= len(name); {
		end := strings.IndexByte(name[start:], '/')
		if end < 0 {
			end = len(name)
		} else {
			end += start
		}
		part := name[start:end]
		switch {
		case part == "" || part == ".":
			if same {
				same = false
				out.WriteString(strings.TrimSuffix(name[:start], "/"))
			}
		case part == ".." || len(part) > nameMax || strings.IndexByte(part, 0) >= 0:
			return "", ErrName
		case !same:
			if out.Len() > 0 {
				out.WriteByte('/')
			}
			out.WriteString(part)
		}
		start = end + 1
	}
	if same {
		return name, nil
	}
	if out.Len() == 0 {
		return ".", nil
	}
	return out.String(), nil
}

// split parts a clean name into its directory, "." at the top, and its last component.
func split(name string) (dir, base string) {
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		return name[:i], name[i+1:]
	}
	return ".", name
}

// join is the inverse of split.
func join(dir, base string) string {
	if dir == "." {
		return base
	}
	return dir + "/" + base
}

// headOf gives the longest beginning of a clean name that one system call takes, and the rest.
func headOf(name string) (head, rest string) {
	if len(name) < pathMax {
		return name, ""
	}
	i := strings.LastIndexByte(name[:pathMax], '/')
	return name[:i], name[i+1:]
}
