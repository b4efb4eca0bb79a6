// Package cgroup limits and accounts for a command's whole process tree by control groups, version 2 and
// version 1 (cgroups(7)), and measures the tree from /proc where there is no cgroup to use.
//
// A [Group] holds the command and its descendants and not gobox's init: the limits are exactly the command's, a
// fork bomb takes no thread from init, and memory.oom.group does not end the process that has to report it.
// So the command enters the group in its own process, between clone and execve, in one of two ways:
//
//   - [Group.FD] with CLONE_INTO_CGROUP (clone(2)), version 2 only;
//   - writing "0" to each descriptor of [Group.Doors], either version.
//
// Both exist for speed. Writing a pid to cgroup.procs makes the kernel wait for an RCU grace period, 5 to 35
// ms; a new process in its group, or one thread that moves itself through version 1's tasks file, takes some
// microseconds. So version 1 should use the doors and version 2 the descriptor, where the kernel allows it.
//
// The kernel's text is Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/.
package cgroup
