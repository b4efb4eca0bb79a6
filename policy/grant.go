package policy

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"gobox/namespaces"
)

// findSystemLinks learns which system folders are links, so that a place inside that the caller names
// through one of them is known by its real path.
func (b *builder) findSystemLinks() error {
	dirs := systemFolders()
	if b.rootfs != "" {
		// An image may have links where a host never has, as var.
		entries, err := names(b.host.FS, b.rootfs)
		if err != nil {
			return rootfsError(b.rootfs, err)
		}
		dirs = dirs[:0]
		for _, name := range entries {
			if !replaced(name) {
				dirs = append(dirs, "/"+name)
			}
		}
	}
	for _, dir := range dirs {
		place := join(b.rootfs, dir[1:])
		if b.rootfs == "" {
			place = dir
		}
		if info, err := lstat(b.host.FS, place); err != nil || !info.isSymlink() {
			continue
		}
		if text, err := b.host.FS.Readlink(place); err == nil {
			b.systemLinks = append(b.systemLinks, namedLink{path: dir, text: text})
		}
	}
	return nil
}

// addGrants puts --ro, --rox, --rw, --rwx and --tmpfs into the tree.
func (b *builder) addGrants() error {
	for _, g := range b.policy.Grants {
		if err := b.addGrant(g); err != nil {
			return err
		}
	}
	for _, path := range b.policy.Deny {
		if found, err := resolvePath(b.host.FS, b.host.Dir, path); err == nil {
			b.ways = append(b.ways, way{step: "deny", object: path, flag: "--deny", found: found, fixes: true})
		}
	}
	for _, t := range b.policy.Tmpfs {
		dest, err := b.destination("--tmpfs", t.Dest)
		if err != nil {
			return err
		}
		step := namespaces.Step{Op: namespaces.OpScratch, Target: dest, Attr: namespaces.NoSuid | namespaces.NoDev, Mode: 0o700, Owned: true, Why: "--tmpfs"}
		if t.Size > 0 {
			step.Op, step.Size, step.Inodes = namespaces.OpTmpfs, t.Size, scratchInodes
		}
		if err := b.claim(claim{step: step, write: true, exec: true}); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) addGrant(g Grant) error {
	found, err := resolvePath(b.host.FS, b.host.Dir, g.Source)
	if err != nil {
		return &Error{Step: "grant", Object: g.Flag + " " + g.Source, Err: err, Hint: pathHint(err)}
	}
	const hintCopy = "copy what the command needs of it to a file, and grant that"
	refuse := func(cause, hint string) error {
		return &Error{Step: "grant", Object: g.Flag + " " + g.Source, Err: errors.New(cause), Hint: hint}
	}
	source := found.Path
	switch {
	case source == "/":
		return refuse("the whole host cannot be granted", "name the folders the command needs")
	case source == "/etc":
		return refuse("the host's /etc is never visible as a whole", "grant the files the command needs: "+g.Flag+" /etc/FILE")
	case reserved(source):
		return refuse("the sandbox has its own /proc and /dev and no /sys", hintCopy)
	case found.Info.isDir() && b.socketFolder(source):
		return refuse("services of the host have their sockets here, which are a way out", "name the file, folder or socket in it that the command needs: "+g.Flag+" "+join(source, "NAME"))
	case found.Info.isDevice():
		return refuse("device nodes cannot be granted", hintCopy)
	case g.Write && slices.Contains(systemFolders(), source):
		return refuse("system folders are read-only in every sandbox", "grant the folder below it that the command has to change")
	}
	target := source
	if g.Dest != "" {
		if target, err = b.destination(g.Flag, g.Dest); err != nil {
			var refusal *Error
			if errors.As(err, &refusal) {
				refusal.Object = g.Flag + " " + g.Source + ":" + g.Dest
			}
			return err
		}
	}
	step := namespaces.Step{Op: namespaces.OpBind, Source: source, Target: target, Attr: namespaces.NoSuid | namespaces.NoDev, Why: g.Flag}
	if !g.Write {
		step.Attr |= namespaces.ReadOnly
	}
	if !g.Exec {
		step.Attr |= namespaces.NoExec
	}
	b.ways = append(b.ways, way{step: "grant", object: g.Flag + " " + g.Source, flag: g.Flag, found: found, fixes: !g.Write})
	if g.Dest == "" {
		b.addHops(found.Hops, g.Flag)
	}
	return b.claim(claim{step: step, info: found.Info, write: g.Write, exec: g.Exec})
}

// pathHint says what to do about a path of the caller's that cannot be looked up.
func pathHint(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "grants must exist: correct the path, or make it first; --tmpfs DEST gives an empty folder"
	case errors.Is(err, fs.ErrPermission):
		return "you cannot look there yourself; gobox grants nothing that its caller does not have"
	}
	if errors.Is(err, errMagicLink) {
		return "the sandbox has its own /proc, which shows its own processes and covers what tells of the host; nothing in it can be named"
	}
	return "give the path of an ordinary file or folder; ls -ld shows what is there"
}

// destination checks a place inside that the caller chose.
func (b *builder) destination(flag, dest string) (string, error) {
	refuse := func(cause string) (string, error) {
		refusal := &Error{Step: "grant", Object: flag + " " + dest, Err: errors.New(cause)}
		refusal.Hint = "name a place of its own, such as /mnt/NAME"
		if onSystem(dest) {
			refusal.Hint = "--rootfs DIR brings a whole system"
		}
		return "", refusal
	}
	switch {
	case strings.IndexByte(dest, 0) >= 0:
		return refuse("contains a NUL byte")
	case !strings.HasPrefix(dest, "/"):
		return refuse("the place inside must be an absolute path")
	case cleanPath(dest) != strings.TrimRight(dest, "/") && cleanPath(dest) != "/":
		return refuse("the place inside must not contain . or .. or double slashes")
	}
	inside := b.inside(cleanPath(dest))
	switch {
	case reserved(inside):
		return refuse("this place belongs to the sandbox")
	case slices.Contains(systemFolders(), inside) || slices.Contains(systemFolders(), cleanPath(dest)):
		return refuse("a system folder cannot be replaced")
	}
	return inside, nil
}

// claim takes a place, which nobody else may have.
func (b *builder) claim(c claim) error {
	for _, other := range b.claims {
		if other.step.Target != c.step.Target {
			continue
		}
		if other.step.Op == c.step.Op && other.step.Source == c.step.Source && other.write == c.write && other.exec == c.exec {
			return nil
		}
		return &Error{Step: "grant", Object: c.step.Why + " " + c.step.Target,
			Err:  fmt.Errorf("the same place is already taken by %s", other.step.Why),
			Hint: "give one of them; a folder below may have other rights than the one above it"}
	}
	b.claims = append(b.claims, c)
	return nil
}

// addScratch adds the places that every command may write to. They give way to what the caller put on
// the same place.
func (b *builder) addScratch() error {
	for _, step := range []namespaces.Step{
		{Target: "/tmp", Mode: 0o1777, Why: "scratch"},
		{Target: b.home, Mode: 0o700, Owned: true, Why: "home"},
	} {
		if slices.ContainsFunc(b.claims, func(c claim) bool { return c.step.Target == step.Target }) {
			continue
		}
		step.Op, step.Attr = namespaces.OpScratch, namespaces.NoSuid|namespaces.NoDev
		b.claims = append(b.claims, claim{step: step, write: true, exec: true})
	}
	return nil
}

// addDenials covers every place inside where a denied path would show.
func (b *builder) addDenials() error {
	for _, path := range b.policy.Deny {
		real, exists, err := resolveMissing(b.host.FS, b.host.Dir, path)
		if err != nil {
			return &Error{Step: "deny", Object: path, Err: err, Hint: pathHint(err)}
		}
		inImage, err := b.denyInImage(path)
		if err != nil {
			return err
		}
		if !exists && !inImage && !b.mayAppear(real) {
			return &Error{Step: "deny", Object: path, Err: errors.New("does not exist, and nothing that is granted could bring it"),
				Hint: "correct the path; what is not granted is hidden in any case"}
		}
		for _, list := range [][]claim{b.claims, b.system} {
			for i := range list {
				if err := b.addDenial(path, real, exists, &list[i]); err != nil {
					return err
				}
			}
		}
		switch real {
		case "/dev", "/etc", "/proc":
			return &Error{Step: "deny", Object: path, Err: errors.New("every command needs " + real + ", and the sandbox has its own"),
				Hint: "name what is to be hidden in it"}
		case "/dev/null":
			return &Error{Step: "deny", Object: path, Err: errors.New("init needs it for streams that the caller has closed"), Hint: "leave it out: nothing can be read from it or kept in it"}
		}
		b.denied = append(b.denied, real)
		if clean := cleanPath(path); strings.HasPrefix(path, "/") && clean != real {
			b.denied = append(b.denied, clean)
		}
	}
	return nil
}

// denyInImage covers what an image has at a denied path, which on the host is something else or nothing.
func (b *builder) denyInImage(path string) (there bool, err error) {
	if b.rootfs == "" || !strings.HasPrefix(path, "/") {
		return false, nil
	}
	found, err := resolvePath(imageFS{FS: b.host.FS, root: b.rootfs, claims: b.claims}, "", path)
	if err != nil || found.Path == "/" {
		return false, nil
	}
	for i := range b.system {
		if err := b.addDenial(path, join(b.rootfs, found.Path[1:]), true, &b.system[i]); err != nil {
			return true, err
		}
	}
	return true, nil
}

// dropDenied leaves out what the plan makes itself where the caller denied it: devices, files of /etc.
func (b *builder) dropDenied() error {
	steps := &b.plan.Tree.Steps
	for _, path := range b.denied {
		if b.policy.TTY && within(path, "/dev/pts") {
			return &Error{Step: "deny", Object: path, Err: errors.New("the command has a terminal of its own there"), Hint: "run it without one: </dev/null, and a pipe for its output"}
		}
		*steps = slices.DeleteFunc(*steps, func(s namespaces.Step) bool {
			return s.Op != namespaces.OpMask && within(path, s.Target)
		})
	}
	return nil
}

// mayAppear tells a path that just is not there from one that is mistyped: its folder is there, and granted.
func (b *builder) mayAppear(real string) bool {
	info, err := lstat(b.host.FS, parent(real))
	return err == nil && info.isDir() && slices.ContainsFunc(slices.Concat(b.claims, b.system), func(c claim) bool {
		return c.bound() && below(c.step.Source, real)
	})
}

func (b *builder) addDenial(path, real string, exists bool, c *claim) error {
	switch {
	case !c.bound():
		return nil
	case within(real, c.step.Source):
		return &Error{Step: "deny", Object: path, Err: fmt.Errorf("would hide all of %s (%s)", c.step.Source, c.step.Why), Hint: "leave that grant out instead"}
	case !below(c.step.Source, real):
		return nil
	}
	target := move(real, c.step.Source, c.step.Target)
	if b.cover(target) != c || slices.ContainsFunc(b.claims, func(other claim) bool { return other.step.Target == target }) {
		return nil // something else is mounted over it
	}
	switch {
	case exists:
		if !slices.Contains(b.masks, target) {
			b.masks = append(b.masks, target)
		}
	case c.write && c.step.Op != namespaces.OpOverlay: // what is made in an overlay stays in it
		return &Error{Step: "deny", Object: path, Err: errors.New("does not exist, and the command could create it: there is nothing to cover"),
			Hint: "create it empty first, or grant " + c.step.Source + " read-only"}
	}
	return nil
}

// isDenied tells whether the caller hid the host's file, for files that are copied and not mounted.
func (b *builder) isDenied(path string) bool {
	return slices.ContainsFunc(b.policy.Deny, func(d string) bool {
		real, _, err := resolveMissing(b.host.FS, b.host.Dir, d)
		return err == nil && within(real, path)
	})
}
