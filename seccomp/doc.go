// Package seccomp holds the default-deny system call policy as commented tables, compiles it with
// libseccomp, carries the compiled form of the built-in policy, and reads OCI seccomp profiles.
//
//	tables -> Default -> Profile -> Allow, Deny -> Compile -> Program
//	file   -> ParseOCI -> Profile
//	go generate: Default -> CompileFor -> default_ARCH.bpf -> Embedded
//
// A Program is loaded by seccomp(2) in the thread that will execve the command, with no_new_privs set; this package
// loads none. See seccomp(2), seccomp_rule_add(3) and docs/syscalls.md.
package seccomp
