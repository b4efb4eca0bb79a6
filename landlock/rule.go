package landlock

// Access is what a rule grants below its path, in the words of the command line. Build turns it
// into the kernel's access rights for the ABI in force.
type Access uint16

const (
	// Read opens files for reading and lists directories.
	Read Access = 1 << iota
	// Execute runs files (LANDLOCK_ACCESS_FS_EXECUTE), together with Read, which execve takes too.
	// Without it execve is refused; mapping a file executable is not, which is why such grants are also
	// mounted noexec.
	Execute
	// Write changes, creates, removes, renames and links files, directories, symbolic links, FIFOs and
	// sockets, also across directories (REFER), but makes no device nodes. A move to where the file
	// would gain rights it did not have (say, from a Write to a Write and Execute hierarchy) stays
	// refused with EXDEV, which mv(1) and libraries answer by copying.
	Write
	// WriteExisting opens existing files for writing and makes or removes nothing: device nodes.
	WriteExisting
	// Ioctl sends ioctl commands to devices (LANDLOCK_ACCESS_FS_IOCTL_DEV, ABI 5).
	Ioctl
	// List lists directories and opens no file in them: the root, and the parents of grants.
	List
)

// Rule grants Access to the file or directory hierarchy at Path, a path inside the sandbox.
type Rule struct {
	Path     string
	Access   Access
	Optional bool // a missing path is skipped
}

// Ruleset is the data of one Landlock domain.
type Ruleset struct {
	Rules []Rule
	// Scoped keeps the command from signalling processes and from connecting to abstract UNIX sockets
	// outside its domain (ABI 6).
	Scoped bool
	// ABI is the kernel's Landlock ABI version as probed; 0 when the kernel has none and the caller
	// accepted that.
	ABI int
}
