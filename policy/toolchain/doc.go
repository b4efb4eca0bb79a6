// Package toolchain finds what a command name really is on this host, and which installations have to
// be visible for it to run, without running anything.
//
// `python` is often no program but a way to one: a pyenv shim, a venv's link, a rustup proxy. Resolve
// takes the way with lstat, readlink and small reads only, and gives back what to execute, the
// installation prefixes to grant, the links that keep host paths true, and a PATH in which the shims
// are replaced by what they would have chosen. Nothing else of the home directory becomes visible.
//
// What the workspace contains is not trusted: a version file can only choose among what is installed, and
// a link, `#!` line or pyvenv.cfg in the workspace can only lead into what a
// package manager owns.
package toolchain
