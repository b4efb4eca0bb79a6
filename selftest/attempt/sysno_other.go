//go:build !amd64

package attempt

// ArchRefused are calls of this architecture only that the filter must refuse.
func ArchRefused() []string { return nil }
