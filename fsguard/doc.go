// Package fsguard reads and writes files beneath one directory that somebody else may be changing at the same
// moment: what a sandboxed command left behind, or what an archive asks for.
//
// A [Root] holds that directory by descriptor. Every name is relative to it, with slashes, and may be any
// bytes a Linux file name can be. A name that is absolute or has a ".." is refused before the kernel sees it,
// and each resolution is one openat2(2) with RESOLVE_BENEATH, RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS and
// RESOLVE_NO_XDEV, so that no symbolic link is followed, no other mount entered, and there is no moment
// between a check and its use. [Options] gives up the last two where a caller can do without them.
//
// Only regular files are ever opened. The type is read from an O_PATH descriptor, which opens nothing, and
// the file is then opened through that descriptor in /proc/self/fd: a FIFO cannot hang the caller, a device's
// driver is never reached, and what was checked is what is opened.
//
// os.Root is not used: it follows links, enters mounts and opens devices. It serves the tests as a model.
//
// What the package cannot do: a directory that is moved out of the root while work goes on in it stays open,
// as for every program. Who can do that may write outside already. Another hard link to a file outside is a
// file of the root like any other.
//
// Linux 5.8 or later and a mounted /proc are needed (openat2, statx with STATX_ATTR_MOUNT_ROOT).
package fsguard
