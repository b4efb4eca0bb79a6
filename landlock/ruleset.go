package landlock

import (
	"errors"
	"fmt"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

const (
	readRights = ll.AccessFSReadFile | ll.AccessFSReadDir

	changeRights = ll.AccessFSWriteFile | ll.AccessFSTruncate

	writeRights = changeRights | ll.AccessFSRemoveDir | ll.AccessFSRemoveFile | ll.AccessFSMakeDir |
		ll.AccessFSMakeReg | ll.AccessFSMakeSock | ll.AccessFSMakeFifo | ll.AccessFSMakeSym | ll.AccessFSRefer

	// fileRights are those that the kernel accepts in a rule on something other than a directory.
	fileRights = ll.AccessFSExecute | ll.AccessFSWriteFile | ll.AccessFSReadFile | ll.AccessFSTruncate |
		ll.AccessFSIoctlDev | ll.AccessFSResolveUnix
)

// NoRule is the Index of an Error that concerns the ruleset and none of its rules.
const NoRule = -1

// Error is a failure of Build: the rule's place in Rules, its path, and an errno.
type Error struct {
	Index int
	Path  string
	Err   error
}

func (e *Error) Error() string {
	if e.Index == NoRule {
		return fmt.Sprintf("create landlock ruleset: %v", e.Err)
	}
	return fmt.Sprintf("add landlock rule for %s: %v", e.Path, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// handled gives the file system rights and the scopes that the ABI knows.
func handled(abi int) (fs, scopes uint64) {
	// ABI 1 ends with MAKE_SYM; the rights since then were added one by one.
	fs = ll.AccessFSMakeSym<<1 - 1
	if abi >= 2 {
		fs |= ll.AccessFSRefer
	}
	if abi >= 3 {
		fs |= ll.AccessFSTruncate
	}
	if abi >= 5 {
		fs |= ll.AccessFSIoctlDev
	}
	if abi >= 6 {
		scopes = ll.ScopeAbstractUnixSocket | ll.ScopeSignal
	}
	if abi >= 9 {
		fs |= ll.AccessFSResolveUnix
	}
	return fs, scopes
}

// rights gives the kernel's rights for a, as far as they are handled.
func (a Access) rights(handled uint64) uint64 {
	var r uint64
	if a&Read != 0 {
		r |= readRights
	}
	if a&List != 0 {
		r |= ll.AccessFSReadDir
	}
	if a&Execute != 0 {
		r |= ll.AccessFSExecute
	}
	if a&Write != 0 {
		r |= writeRights
	}
	if a&WriteExisting != 0 {
		r |= changeRights
	}
	if a&Ioctl != 0 {
		r |= ll.AccessFSIoctlDev
	}
	return r & handled
}

// Build makes the kernel's ruleset for r.ABI with all its rules. The caller owns the descriptor, which
// is closed on execve, and enters the domain with landlock_restrict_self(2). Paths are looked up now,
// so the mounts must be final. A path with a symbolic link anywhere in it fails with ELOOP: where a
// link leads is the planner's business, and is not decided again here. Errors are of type *Error and
// wrap an errno; there is no ruleset then. An ABI below 1 fails with ENOSYS.
func (r Ruleset) Build() (fd int, err error) {
	if r.ABI < 1 {
		return -1, &Error{Index: NoRule, Err: unix.ENOSYS}
	}
	fs, scopes := handled(r.ABI)
	attr := ll.RulesetAttr{HandledAccessFS: fs}
	if r.Scoped {
		attr.Scoped = scopes
	}
	fd, err = ll.LandlockCreateRuleset(&attr, 0)
	if err != nil {
		return -1, &Error{Index: NoRule, Err: err}
	}
	for i := range r.Rules {
		if err := r.Rules[i].add(fd, fs); err != nil {
			unix.Close(fd)
			return -1, &Error{Index: i, Path: r.Rules[i].Path, Err: err}
		}
	}
	return fd, nil
}

func (r *Rule) add(ruleset int, handled uint64) error {
	if r.Access == 0 || r.Access >= List<<1 || r.Path == "" || r.Path[0] != '/' {
		return unix.EINVAL
	}
	// Without O_NOFOLLOW, which together with O_PATH would open a final symbolic link itself and so
	// make a rule that grants nothing.
	how := unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	var fd int
	var err error
	for {
		fd, err = unix.Openat2(unix.AT_FDCWD, r.Path, &how)
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			break
		}
	}
	if err != nil {
		if r.Optional && errors.Is(err, unix.ENOENT) {
			return nil
		}
		return err
	}
	defer unix.Close(fd)

	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	rights := r.Access.rights(handled)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
	case unix.S_IFLNK:
		return unix.ELOOP
	case unix.S_IFSOCK:
		if r.Access&(Write|WriteExisting) != 0 {
			rights |= ll.AccessFSResolveUnix & handled
		}
		fallthrough
	default:
		if r.Access == List {
			return unix.ENOTDIR
		}
		rights &= fileRights
	}
	if rights == 0 {
		// Only a right that this ABI does not hold was asked for, so it is granted already.
		return nil
	}
	return ll.LandlockAddPathBeneathRule(ruleset, &ll.PathBeneathAttr{AllowedAccess: rights, ParentFd: fd}, 0)
}
