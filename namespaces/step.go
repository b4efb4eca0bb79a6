package namespaces

import "strings"

// Op names what a Step does to the new root. The text form is what `--dry-run` prints.
type Op string

const (
	// OpDir makes the directory Target and its missing parents (Mode is for the last one).
	OpDir Op = "dir"
	// OpSymlink makes Target a symbolic link whose text is Source.
	OpSymlink Op = "symlink"
	// OpFile writes Content to the new file Target.
	OpFile Op = "file"
	// OpCopy copies the small host file Source to the new file Target; a copy costs less than a mount.
	OpCopy Op = "copy"
	// OpBind mounts the host's Source, with what is mounted below it, on Target. Source must be free of
	// symbolic links: the opener refuses them, so a path swapped after planning is an error and no grant.
	OpBind Op = "bind"
	// OpOverlay shows the host's Source on Target as the lower layer of an overlayfs whose upper layer is on the
	// root's tmpfs: what is written stays there. There is one such step at the most.
	OpOverlay Op = "overlay"
	// OpDevice binds one of the host's device nodes, the only kind of mount without nodev.
	OpDevice Op = "device"
	// OpTmpfs mounts a new tmpfs with Size and Inodes on Target.
	OpTmpfs Op = "tmpfs"
	// OpScratch makes Target a writable window on the root's own tmpfs, so that all scratch shares one
	// size and one inode limit while the root itself is read-only.
	OpScratch Op = "scratch"
	// OpOutput is OpScratch of which Build gives a descriptor, so that somebody outside can look at it in the end. There is one
	// such step at the most.
	OpOutput Op = "output"
	// OpProc mounts a new procfs on Target.
	OpProc Op = "proc"
	// OpDevpts mounts a new devpts instance on Target.
	OpDevpts Op = "devpts"
	// OpMask covers Target with an empty read-only file or directory.
	OpMask Op = "mask"
	// OpPivot makes the new tree the root, detaches the old one and makes the root mount read-only.
	// No step may follow it.
	OpPivot Op = "pivot"
)

// Attr is a set of mount attributes that a step adds; none is ever taken away from what the host's
// mount has (mount_setattr(2)).
type Attr uint8

const (
	ReadOnly Attr = 1 << iota
	NoSuid
	NoDev
	NoExec
)

// String gives the mount(8) names, comma separated, and "rw" for a mount without ReadOnly.
func (a Attr) String() string {
	names := []string{"rw"}
	if a&ReadOnly != 0 {
		names[0] = "ro"
	}
	for _, f := range []struct {
		bit  Attr
		name string
	}{{NoSuid, "nosuid"}, {NoDev, "nodev"}, {NoExec, "noexec"}} {
		if a&f.bit != 0 {
			names = append(names, f.name)
		}
	}
	return strings.Join(names, ",")
}

// Step is one action on the new root. Steps run in order; Target is absolute, clean and, like every
// path of a plan, names the same place inside as it does on the host. It is resolved beneath the new
// root without following magic links (openat2(2), RESOLVE_IN_ROOT).
type Step struct {
	Op      Op
	Source  string
	Target  string
	Attr    Attr
	Mode    uint32 // permission bits of what is made; 0 means 0755 for directories, 0644 for files
	Size    uint64 // bytes, 0 for no limit; tmpfs only
	Inodes  uint64 // 0 for no limit; tmpfs only
	Content []byte // OpFile
	Owned   bool   // what is made belongs to the command's user and not to init's
	// Optional lets the step be skipped when its source, or what it would mask, does not exist. Nothing else is forgiven.
	Optional bool
	// OrReadOnly lets an overlay that cannot be had become a read-only mount of Source.
	OrReadOnly bool
	// OnDisk says that the upper layer of an overlay is on what an earlier step has mounted on Staging.
	OnDisk bool
	// Owner is the on-disk owner of Source when the caller is root; see Identity.Idmap.
	Owner *Owner
	// Held says of a bind that it is of what the tree already shows at Target, of a symbolic link the link itself; Source
	// is only its name on the host. So it has the owners of the mount that it lies in, and needs no descriptor.
	Held bool
	// Why says in a few words what asked for this step ("system", "--ro", "workspace", "python (pyenv 3.11.7)").
	Why string
}

// Owner is a pair of host ids that a bind maps to the sandbox user's host ids (mount_setattr(2),
// MOUNT_ATTR_IDMAP), so that the unprivileged command can use what the owner can use, and what it
// creates belongs to the owner.
type Owner struct {
	UID uint32
	GID uint32
}

// Identity says who the command is, inside and on the host.
//
// Started by an ordinary user, the caller's ids are mapped to themselves and nothing else is mapped.
// Started by root (Root true), 0 is mapped to 0 for init's mounts, and UID and GID are mapped to the
// unprivileged HostUID and HostGID that the command runs with (user_namespaces(7)).
type Identity struct {
	UID     uint32
	GID     uint32
	HostUID uint32
	HostGID uint32
	Root    bool
}

// Root is the tmpfs that becomes the new root directory and backs all scratch.
type Root struct {
	Size   uint64 // bytes
	Inodes uint64
}

// Tree is the whole mount plan.
type Tree struct {
	Root  Root
	Steps []Step
	// OwnNetwork says that the network namespace is the command's own.
	OwnNetwork bool
}
