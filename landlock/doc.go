// Package landlock turns a policy's path grants into a Landlock ruleset (landlock(7)) through
// go-landlock's system call layer, probes the kernel's ABI, and says what each missing ABI costs.
//
// # Who enters the domain
//
// Build makes a ruleset and returns its descriptor; nothing here restricts the calling process. The
// command's own process enters the domain, between clone and execve, with no_new_privs set
// and landlock_restrict_self(2). init stays outside on purpose: a process may not trace, read the
// memory of, or (ABI 6) signal a process that is not in its own domain or in one nested in it. With
// init outside, init is out of the command's reach by this rule alone, whatever its credentials.
//
// For the same reason gobox is built with the tag landlocktsync. It leaves out of go-landlock the
// hooks that repeat a system call on every thread of a process, which gobox has no use for and would
// pay for at start-up.
//
// # What is handled
//
// Every file system right that the ABI in force knows is handled, so a right that no rule grants is
// refused everywhere. No network right is handled: the command has a network namespace of its own with
// nothing but a loopback interface, and test suites and language servers listen and connect there. A
// port list would break them and keep nothing out.
//
// RESOLVE_UNIX (ABI 9) only concerns sockets made outside the domain. A rule on a directory never
// grants it, so a socket that some host process left in the workspace is not a way out; a rule on the
// socket file itself does, since that names the one thing it could be for.
//
// # What is not
//
// Landlock is never the only wall: see docs/architecture.md. At every ABI it lets stat, chdir, chmod,
// setxattr and flock on ungranted paths through, files mapped executable, memory file descriptors
// executed, and descriptors used that were opened before.
package landlock
