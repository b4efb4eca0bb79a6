// Package vm boots other kernels than the host's and runs a script in them: Debian's cloud kernels in
// qemu-system-x86_64 by software emulation, with an initramfs of busybox and the files of the test.
//
// Nothing is installed: kernels are downloaded and unpacked into a cache (GOBOX_VM_CACHE, by default a folder of
// the user's cache). The guest has no network and no disk.
package vm
