package selftest

import (
	"slices"
	"strings"

	"gobox/policy"
	"gobox/selftest/attempt"
)

// kernelRows are about system calls. Where the errno could also be that of a missing capability, the same attempt is made
// outside with every capability, and must get further there.
func (s *scene) kernelRows() []row {
	inval := append(barred(), "EINVAL")
	reached := []string{attempt.Syscall("keyctl 99 0 0 0 0"), attempt.Syscall("add_key bad bad bad 0 0"), attempt.Syscall("mbind 0 0 99 bad 0 0xffff"), attempt.Syscall("sethostname bad 1")}
	calls := raw(barred(), attempt.PrivilegedCalls()...)
	for i := range calls {
		calls[i].control = slices.Contains(reached, calls[i].name())
	}
	mounts := raw(barred(), attempt.MountCalls()...)
	for i := range mounts {
		// The last is younger than many kernels.
		mounts[i].control = i < 9
	}
	rows := []row{
		{id: "F17", title: "no file by handle", tries: append(raw(barred(), attempt.Syscall("name_to_handle_at -1 bad bad bad 0"), attempt.Syscall("open_by_handle_at -1 bad 0")),
			filtered(barred(), "open_by_handle_at", "handle /tmp")...)},
		{id: "F25", title: "no call that changes mounts", tries: mounts},
		{id: "F26", title: "no other root directory", tries: append(controlled(raw(barred(), "chroot /")), raw(barred(), "chroot /usr", attempt.Syscall("chroot bad"))...)},
		{id: "P03", title: "init cannot be traced or read", tries: append(
			raw(barred(), "ptrace 16 1", "ptrace 0x4206 1", attempt.Syscall("process_madvise -1 bad 1 0 0"), attempt.Syscall("kcmp 1 1 0 0 0")),
			controlled(raw(barred(), "vmread 1", "vmwrite 1", attempt.Syscall("pidfd_getfd -1 0 0")))...)},
		{id: "P04", title: "no namespace can be joined", tries: raw(barred(), "setns /proc/1/ns/mnt 0", "setns /proc/1/ns/net 0", "setns /proc/self/ns/user 0", "setns /proc/self/ns/mnt 0")},
		{id: "P15", title: "no input can be put into a terminal's queue", tries: raw(barred(), "tty-inject 0 0x5412", "tty-inject 0 0x100005412", "tty-ioctl 0 0x541c 0")},
		{id: "K01", title: "no new namespaces", tries: append(raw(barred(), attempt.NewNamespaces()...),
			// By a child, so that what makes the attempt outside stays where it is.
			controlled(raw(barred(), "clone 0x20000", "clone 0x10000000"))...)},
		{id: "K02", title: "clone3 is answered as by an older kernel, and threads start", tries: append(
			raw([]string{"ENOSYS"}, attempt.Syscall("clone3 bad 0"), attempt.Syscall("clone3 bad 64")), succeeds("threads 8"), succeeds("clone 0"))},
		{id: "K04", title: "no privileged or rare call reaches the kernel", tries: calls},
		{id: "K05", title: "io_uring is refused, and nobody is killed for asking", tries: raw([]string{"ENOSYS"}, attempt.Syscall("io_uring_setup 8 bad"))},
		{id: "K06", title: "no 32-bit system calls", tries: []try{checked("child int80", wrongArchitecture)}},
		{id: "K07", title: "no system calls of x32", tries: []try{
			checked("child syscall 0x40000027 bad bad bad", wrongArchitecture), checked("child syscall 0x40000000 bad bad bad", wrongArchitecture),
			checked("child syscall 0x40000208 bad bad bad", wrongArchitecture),
		}},
		{id: "K08", title: "bits that the kernel ignores change no verdict", tries: raw(noSocket(), attempt.HighBits()...)},
		{id: "K09", title: "numbers that no kernel has", tries: append(raw(barred(), "syscall 9999", "syscall 0x3fffffff"),
			checked("sweep 480 1023", func(o attempt.Outcome) string {
				if o.Errno != "" || !strings.HasPrefix(o.Detail, "ENOSYS ") || strings.Count(strings.TrimSpace(o.Detail), "\n") != 0 {
					return "not all are ENOSYS: " + told(o)
				}
				return ""
			}))},
		{id: "K10", title: "only sockets of unix, inet and inet6", tries: []try{{do: words("families"), check: s.families, call: "socket"}}},
		{id: "K11", title: "no protocols but TCP and UDP", tries: raw(noSocket(), attempt.Protocols()...)},
		{id: "K12", title: "no pairs of sockets but of unix", tries: append(raw(noSocket(), attempt.Syscall("socketpair 2 1 0 bad"), attempt.Syscall("socketpair 30 1 0 bad")),
			raw([]string{"EFAULT"}, attempt.Syscall("socketpair 1 1 0 bad"))...)},
		{id: "K14", title: "no other personality", tries: append(controlled(raw(barred(), attempt.Syscall("personality 0x0400000"))), raw(barred(), attempt.Syscall("personality 0x0040000"))...)},
		{id: "K16", title: "filters can only tighten", tries: append(controlled(raw(barred(), "listener")), raw(barred(), "loosen", attempt.Syscall("seccomp 1 0x18 bad"))...)},
		{id: "K17", title: "no process attribute that loosens", tries: raw(inval, attempt.Prctls()...)},
		{id: "K19", title: "no session keyring for the parent", tries: raw(barred(), attempt.Syscall("keyctl 18 0 0 0 0"))},
		{id: "E04", title: "no keyring can be named", tries: raw(barred(), attempt.Syscall("keyctl 0 -3 0 0 0"), attempt.Syscall("keyctl 0 -4 0 0 0"))},
		{id: "K21", title: "what programs need is there", tries: []try{checked("positive", func(o attempt.Outcome) string {
			if o.Errno != "" || o.Detail != "" {
				return "refused: " + strings.ReplaceAll(o.Detail, "\n", ", ")
			}
			return ""
		})}},
		{id: "K23", title: "no thread with a descriptor table of its own", tries: append(raw(barred(), attempt.OwnTables()...),
			raw([]string{"EINVAL"}, attempt.Syscall("close_range 2 1 4"))...)},
		{id: "N18", title: "no netlink but for reading addresses", tries: raw(noSocket(), attempt.Syscall("socket 16 3 6"), attempt.Syscall("socket 16 3 9"),
			attempt.Syscall("socket 16 3 12"), attempt.Syscall("socket 16 3 15"), attempt.Syscall("socket 16 3 16"))},
		{id: "N20", title: "no vsock", tries: raw(noSocket(), attempt.Syscall("socket 40 1 0"), attempt.Syscall("socket 40 2 0"), attempt.Syscall("socket 40 5 0"))},
	}
	for i := range rows {
		rows[i].layer, rows[i].skip = Seccomp, s.lacks(policy.LayerSeccomp)
		if rows[i].id == "K06" && rows[i].skip == "" && !s.has32bit {
			rows[i].skip = "this kernel takes no 32-bit system calls outside either"
		}
	}
	return rows
}

// wrongArchitecture accepts SIGSYS or ENOSYS.
func wrongArchitecture(o attempt.Outcome) string {
	if o.Detail != "signal SIGSYS" && !strings.Contains(o.Detail, `"errno":"ENOSYS"`) {
		return "got " + told(o)
	}
	return ""
}

// families judges the sockets that could be made.
func (s *scene) families(o attempt.Outcome) string {
	usual := []string{"1/stream", "1/dgram", "1/seqpacket", "1/raw", "2/stream", "2/dgram", "10/stream", "10/dgram", "16/dgram", "16/raw"}
	var more []string
	for _, f := range strings.Fields(o.Detail) {
		if !slices.Contains(usual, f) {
			more = append(more, f)
		}
	}
	if o.Errno != "" || more != nil {
		return "also " + strings.Join(more, " ") + " " + o.Errno
	}
	return ""
}
