package seccomp

// Program is a compiled filter, ready for seccomp(2) SECCOMP_SET_MODE_FILTER.
type Program struct {
	// Name says where the filter comes from: "default", "default+allow ptrace", or a profile's file name.
	Name string
	// BPF is an array of struct sock_filter (<linux/filter.h>, 8 bytes each) in native byte order.
	BPF []byte
}
