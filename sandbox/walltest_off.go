//go:build !gobox_walltest

package sandbox

// wallTest is true only in the binaries of the tests that prove each wall with the others off.
const wallTest = false
