// Package rlimit holds the resource limits of the command's own process (setrlimit(2)) and, later,
// the cgroup limits of its whole tree.
package rlimit
