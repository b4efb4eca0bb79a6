package seccomp

import "gobox/seccomp/sysnum"

// UnknownCallError says that a name is no system call of the architecture.
type UnknownCallError = sysnum.UnknownError

// Number is the number of the named call on arch ("amd64" or "arm64"); the error is an *UnknownCallError.
func Number(name, arch string) (int, error) { return sysnum.Number(name, arch) }
