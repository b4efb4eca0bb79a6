package archive

import (
	"fmt"
	"strings"
)

// linksMax is MAXSYMLINKS of linux/namei.h: the kernel follows no more in one path.
const linksMax = 40

// checkLink follows a link through all others, as the kernel will, and refuses it when it leaves the folder
// on the way. What is not there is taken for a folder: it may be there some day.
func (t *tree) checkLink(path string) error {
	dir := ""
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		dir = path[:i]
	}
	rest := []string{t.targets[path]}
	for followed := 1; len(rest) > 0; {
		if err := t.ctx.Err(); err != nil {
			return err
		}
		part, more, _ := strings.Cut(rest[len(rest)-1], "/")
		if rest[len(rest)-1] = more; more == "" {
			rest = rest[:len(rest)-1]
		}
		switch part {
		case "", ".":
			continue
		case "..":
			if dir == "" {
				return fmt.Errorf("%w: its target is %q", ErrLink, t.targets[path])
			}
			dir = dir[:max(0, strings.LastIndexByte(dir, '/'))]
			continue
		}
		next := part
		if dir != "" {
			next = dir + "/" + part
		}
		target, isLink := t.targets[next]
		if !isLink {
			if dir = next; len(dir) > 2*targetMax {
				return fmt.Errorf("%w: its target is too long", ErrLink)
			}
			continue
		}
		if followed++; followed > linksMax {
			return nil // the kernel stops here: ELOOP
		}
		rest = append(rest, target)
	}
	return nil
}
