// Package namespaces owns what a sandbox is made of on the kernel's side: clone flags, id maps,
// the mount plan and its executor, /proc, /dev, the loopback interface and the gateway of the network.
//
// The types in step.go are pure data, built by package policy and executed by [Build] inside the
// new namespaces. See namespaces(7), user_namespaces(7), mount_namespaces(7), pivot_root(2).
package namespaces
