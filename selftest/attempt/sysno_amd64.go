package attempt

// ArchRefused are calls of this architecture only that the filter must refuse.
func ArchRefused() []string {
	return []string{"iopl 0", "ioperm 0 0 0", "uselib bad", "modify_ldt 99 bad 0", "_sysctl bad"}
}
