package policy

import (
	"errors"
	"slices"
	"strings"

	"gobox/namespaces"
)

const hintWorkspace = "name the folder with --workspace DIR, or run without one: --workspace-mode none"

// addWorkspace puts the folder the command works on at its own path.
func (b *builder) addWorkspace() error {
	want := b.policy.Workspace
	switch want.Mode {
	case ModeNone:
		if want.Explicit {
			return &Error{Step: "workspace", Object: want.Path, Err: errors.New("a folder and --workspace-mode none contradict each other"), Hint: "give one of them"}
		}
		b.plan.Workspace = Workspace{Mode: ModeNone}
		return nil
	case ModeOverlay, ModeReadOnly, ModeReadWrite:
	default:
		return &Error{Step: "workspace", Object: string(want.Mode), Err: errors.New("no such mode"), Hint: "the modes are overlay, ro, rw and none"}
	}
	if !want.Explicit {
		want.Path = b.host.Dir
	}
	if want.Path == "" {
		return &Error{Step: "workspace", Err: errNoDir, Hint: "cd to a folder that exists, or " + hintWorkspace}
	}
	found, err := resolvePath(b.host.FS, b.host.Dir, want.Path)
	if err != nil {
		return &Error{Step: "workspace", Object: want.Path, Err: err, Hint: hintWorkspace}
	}
	if !found.Info.isDir() {
		return &Error{Step: "workspace", Object: want.Path, Err: errNotDir, Hint: "--ro FILE grants a single file"}
	}
	if found.Path == "/" {
		return b.refuseRoot(want)
	}
	if cause := b.refuseWorkspace(found.Path, want); cause != "" {
		return &Error{Step: "workspace", Object: found.Path, Err: errors.New(cause), Hint: hintWorkspace}
	}
	write := want.Mode != ModeReadOnly
	step := namespaces.Step{Op: namespaces.OpBind, Source: found.Path, Target: found.Path, Attr: namespaces.NoSuid | namespaces.NoDev, Why: whyWorkspace}
	switch want.Mode {
	case ModeReadOnly:
		step.Attr |= namespaces.ReadOnly
	case ModeOverlay:
		step.Op, step.Owned, step.OrReadOnly = namespaces.OpOverlay, true, want.OrReadOnly && b.policy.Scratch == ""
	}
	if want.Mode == ModeOverlay {
		if err := b.settleOverlay(&step); err != nil {
			return err
		}
		if b.plan.NoOverlay != "" {
			want.Mode, write = ModeReadOnly, false
		}
	}
	b.claims = append(b.claims, claim{step: step, info: found.Info, write: write, exec: true})
	b.ways = append(b.ways, way{step: "workspace", object: want.Path, flag: "--workspace", found: found, fixes: !write})
	b.addHops(found.Hops, whyWorkspace)
	b.plan.Workspace = Workspace{Path: found.Path, Mode: want.Mode, Explicit: want.Explicit}
	return nil
}

// refuseRoot refuses / in every mode. With it homes, /etc and the sockets below /run would be granted without a word about
// them; and it could be no layer: an ordinary user cannot have it without the /proc, /dev and /sys that are mounted there, nor put
// anything into it with gobox apply, and root's command would own all that is root's. In a container it is often current by accident.
func (b *builder) refuseRoot(want Workspace) error {
	refusal := &Error{Step: "workspace", Object: "/", Err: errors.New("the current directory is the root of the whole system, and that is no workspace")}
	if want.Explicit {
		refusal.Err = errors.New("the root of the whole system, with its homes, /etc and the sockets in /run, is no workspace in any mode")
	}
	refusal.Hint = "--workspace DIR names the folder to work on, --workspace-mode none runs without one; with either, --ro P, --rox P and --rw P grant what else is needed, and --rootfs DIR brings another system"
	return refusal
}

// refuseWorkspace says why dir cannot be the workspace, or nothing. A folder that only happens to be
// current is held to more: it must not bring in a home or everybody's files by accident.
func (b *builder) refuseWorkspace(dir string, want Workspace) string {
	if reserved(dir) {
		return "this folder is never visible"
	}
	if want.Mode == ModeReadWrite && slices.Contains(systemFolders(), dir) {
		return "system folders are read-only in every sandbox"
	}
	if want.Explicit {
		if b.socketFolder(dir) {
			return "services of the host have their sockets here, which are a way out"
		}
		return ""
	}
	switch {
	case within(dir, b.home):
		return "the current directory holds your home, and with it your keys and history"
	case b.holdsHome(dir):
		return "the current directory holds the home of a user of this host, and with it keys and history"
	case slices.Contains(systemFolders(), dir):
		return "the current directory is a system folder"
	case dir == "/tmp" || dir == "/var/tmp":
		return "the current directory holds everybody's temporary files"
	case slices.ContainsFunc([]string{"/etc", "/run", "/boot"}, func(d string) bool { return within(d, dir) }) ||
		slices.Contains([]string{"/var", "/home", "/root", "/srv", "/mnt", "/media"}, dir):
		return "the current directory belongs to the system"
	}
	return ""
}

// addHops makes the symbolic links on the way to a granted place work inside.
func (b *builder) addHops(hops []hop, why string) {
	for _, h := range hops {
		b.addLink(namedLink{path: h.Path, text: h.Text, why: why})
	}
}

func (b *builder) addLink(link namedLink) {
	if !slices.ContainsFunc(b.links, func(l namedLink) bool { return l.path == link.path }) {
		b.links = append(b.links, link)
	}
}

// inside rewrites a path that a caller wants inside, by the links of the plan, so that it is free of
// those. Links that lie in the host's folders are left to init, which resolves beneath the new root.
func (b *builder) inside(path string) string {
	for range maxHops {
		next := path
		for _, list := range [][]namedLink{b.links, b.systemLinks} {
			for _, link := range list {
				if within(link.path, next) {
					next = follow(link, next)
				}
			}
		}
		if next == path {
			return path
		}
		path = next
	}
	return path
}

func follow(link namedLink, path string) string {
	to := link.text
	if !strings.HasPrefix(to, "/") {
		to = join(parent(link.path), to)
	}
	return move(path, link.path, cleanPath(to))
}
