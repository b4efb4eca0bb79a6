package selftest

import (
	"os"
	"slices"
	"strings"

	"gobox/policy"
	"gobox/selftest/attempt"
)

// fileRows are about the tree that the command sees. Landlock would refuse much of this as well; the errno tells which wall it
// was: what is not mounted is ENOENT, what is mounted read-only EROFS.
func (s *scene) fileRows() []row {
	const r, w = policy.AccessRead, policy.AccessWrite
	var f01, f03, f18, f19, f21, f23, f24 []try
	for _, p := range []string{s.secret, "/etc/shadow", "/etc/gshadow", "/root/.ssh"} {
		f01 = append(f01, onPath("open r", p, r, hidden()...), onPath("open w", p, w, hidden()...))
		f24 = append(f24, onPath("stat", p, r, hidden()...), onPath("access", p, r, hidden()...), onPath("open path", p, r, hidden()...))
	}
	for _, from := range []string{".", "/", "/tmp", "/proc/self"} {
		f03 = append(f03, onPath("walkup "+from, s.secret, r, hidden()...))
	}
	for _, p := range []string{s.given + "/data.txt", s.exe} {
		want := append(frozen(), "ETXTBSY")
		if p == s.exe {
			want = append(want, "EACCES") // from its owner, whom it belongs to where nothing can be idmapped
		}
		f21 = append(f21, onPath("open w", p, w, want...), onPath("open rtrunc", p, w, want...), onPath("truncate", p, w, want...))
		for _, verb := range []string{"chmod", "chown", "utimes", "setxattr"} {
			f23 = append(f23, onPath(verb, p, w, append(frozen(), "ENOTSUP", "EOPNOTSUPP")...))
		}
	}
	f21 = append(f21, onPath("unlink", s.given+"/data.txt", w, frozen()...), onPath("open excl", s.given+"/new", w, frozen()...), onPath("mkdir", s.given+"/new", w, frozen()...))
	for _, from := range []string{s.secret, s.given + "/data.txt"} {
		want := []string{"ENOENT", "EXDEV", "EROFS", "EBUSY"}
		f18 = append(f18, onPair("link", from, w, "/tmp/gobox-selftest-link", want...))
		f19 = append(f19, onPair("rename", from, w, "/tmp/gobox-selftest-name", want...), onPair("exchange", from, w, "/tmp/gobox-selftest-name", want...))
	}
	rows := []row{
		{id: "F01", layer: Mounts, title: "files that nobody granted are not there", tries: f01},
		{id: "F02", layer: Mounts, title: "a symbolic link leads nowhere outside", tries: []try{
			{do: []string{"symlink", s.secret, "/tmp/gobox-selftest-out"}, want: []string{""}},
			{do: words("open r /tmp/gobox-selftest-out"), want: hidden(), path: s.secret, access: r},
			{do: words("write /tmp/gobox-selftest-out x"), want: hidden(), path: s.secret, access: w},
		}, effect: func() string { return s.changed(s.secret) }},
		{id: "F03", layer: Mounts, title: "the way up ends at the new root", tries: f03},
		{id: "F04", layer: Mounts, title: "/proc/PID/root and cwd lead to nothing else", tries: []try{
			{do: []string{"open", "r", "/proc/self/root" + s.secret}, want: hidden()},
			{do: words("list /proc/1/root"), want: unread()}, {do: words("list /proc/1/cwd"), want: unread()},
			{do: []string{"open", "r", "/proc/1/root" + s.secret}, want: unread()},
		}},
		{id: "F10", layer: Mounts, title: "kernel settings cannot be changed", tries: settings()},
		{id: "F11", layer: Mounts, title: "what /proc tells of the host is covered", tries: procTells()},
		{id: "F12", layer: Mounts, title: "there is no /sys", tries: refused(unread(), "open w /sys/kernel/uevent_helper", "open w /sys/power/state",
			"list /sys/kernel/debug", "list /sys/class", "list /sys/firmware", "list /sys/fs/bpf")},
		{id: "F13", layer: Mounts, title: "there are no cgroups to write to", tries: refused(unread(), "list /sys/fs/cgroup", "open w /sys/fs/cgroup/cgroup.procs",
			"open w /sys/fs/cgroup/memory/release_agent", "mkdir /sys/fs/cgroup/gobox-selftest")},
		{id: "F14", layer: Mounts, title: "no devices but the harmless ones", tries: s.devices()},
		{id: "F18", layer: Mounts, title: "no hard link to what is outside or read-only", tries: f18},
		{id: "F19", layer: Mounts, title: "no renaming of what is outside or read-only", tries: f19},
		{id: "F21", layer: Mounts, title: "what is read-only cannot be written or removed", tries: f21, effect: func() string {
			return both(added(s.given, "data.txt", "tool"), added(s.dir+"/outside", "secret.txt", "socket", "attempts"))
		}},
		{id: "F23", layer: Mounts, title: "modes, owners, times and attributes of read-only files stay", tries: f23},
		{id: "F24", layer: Mounts, title: "not even the existence of a file is told", tries: f24},
		{id: "F27", layer: Mounts, title: "the mount table names nothing outside", tries: []try{checked("cat /proc/self/mountinfo", func(o attempt.Outcome) string {
			if o.Errno != "" || !strings.Contains(o.Detail, " / ") {
				return "the table cannot be read: " + told(o)
			}
			if strings.Contains(o.Detail, s.dir+"/outside") {
				return "it names " + s.dir + "/outside"
			}
			return ""
		})}},
		{id: "F28", layer: Mounts, title: "what is granted for reading cannot be executed", tries: []try{
			onPath("run", s.given+"/tool", policy.AccessExecute, "EACCES", "EPERM"),
		}},
		{id: "F32", layer: Mounts, title: "sockets of the host's cannot be found", tries: append([]try{
			onPath("connect-unix stream", s.socket, r, hidden()...),
		}, refused(unread(), "stat /var/run/docker.sock", "stat /run/docker.sock", "stat /run/containerd/containerd.sock", "stat /run/dbus/system_bus_socket", "list /tmp/.X11-unix")...),
			effect: func() string { return s.heard(s.socket) }},
		{id: "F42", layer: Mounts, title: "every file of the host's is as it was", tries: []try{succeeds("cat " + s.exe)}, effect: func() string { return s.changed("") }},
	}
	if s.plan.Workspace.Mode == policy.ModeReadOnly {
		rows = append(rows, row{id: "F21", layer: Mounts, title: "a read-only workspace cannot be written to", tries: []try{
			onPath("open w", s.work+"/input.txt", w, frozen()...), onPath("open excl", s.work+"/new", w, frozen()...), onPath("unlink", s.work+"/input.txt", w, frozen()...),
			succeeds("open r " + s.work + "/input.txt"),
		}})
	}
	if s.plan.Workspace.Mode == policy.ModeOverlay {
		rows = append(rows, row{id: overlayRow, layer: Mounts, title: "what is written to an overlay does not reach the workspace", tries: []try{
			succeeds("write " + s.work + "/input.txt changed"), succeeds("write " + s.work + "/made x"), succeeds("unlink " + s.work + "/input.txt"),
		}, effect: func() string {
			problem := s.changed(s.work)
			if _, err := os.Lstat(s.work + "/made"); err == nil {
				problem += "a file was made in the workspace"
			}
			return problem
		}})
	}
	return append(rows, s.landlockRow())
}

// overlayRow can only be tested where there came to be an overlay, which the plan does not know.
const overlayRow = "F38"

// landlockRow is about a folder that is mounted writable and belongs to the command's user: only the ruleset does not have it.
func (s *scene) landlockRow() row {
	file := closedInside + "/data.txt"
	var tries []try
	denied := func(line string, want ...string) {
		tries = append(tries, try{do: words(line), want: append(want, "EACCES")})
	}
	for _, line := range []string{
		"open r " + file, "open w " + file, "open rtrunc " + file,
		"open excl " + closedInside + "/new", "mkdir " + closedInside + "/new", "unlink " + file, "mknod p " + closedInside + "/fifo",
	} {
		denied(line)
	}
	denied("symlink x " + closedInside + "/link")
	if s.host.LandlockABI >= 3 {
		denied("truncate " + file)
	}
	denied("link "+file+" /tmp/gobox-selftest-taken", "EXDEV")
	denied("rename "+file+" /tmp/gobox-selftest-taken", "EXDEV")
	// The proof that nothing else is in the way: Landlock does not look at these. (Nor does it refuse to list: the right to
	// list the root folder is one to list everything below it.)
	tries = append(tries, succeeds("stat "+file), succeeds("access "+file))
	return row{id: "F21", layer: Landlock, title: "what is mounted writable and not granted stays closed", tries: tries, skip: s.lacks(policy.LayerLandlock),
		effect: func() string { return both(s.changed(s.closed), added(s.closed, "data.txt")) }}
}

// lacks says that the policy let a wall go that this host does not have.
func (s *scene) lacks(layer policy.Layer) string {
	if slices.Contains(s.missing, layer) {
		return "this host has no " + string(layer) + ", and --allow-missing accepts that"
	}
	return ""
}

func settings() []try {
	var tries []try
	for _, name := range []string{"kernel/core_pattern", "kernel/hostname", "kernel/domainname", "user/max_user_namespaces", "vm/overcommit_memory", "vm/drop_caches",
		"net/ipv4/ip_forward", "net/ipv4/ping_group_range", "kernel/modprobe", "fs/binfmt_misc/register"} {
		tries = append(tries, try{do: words("open w /proc/sys/" + name), want: []string{"EROFS", "EACCES", "EPERM", "ENOENT"}})
	}
	return tries
}

// procTells may be there and empty.
func procTells() []try {
	empty := func(o attempt.Outcome) string {
		if o.Errno == "" && o.Ret != 0 {
			return "got " + told(o)
		}
		return ""
	}
	var tries []try
	for _, name := range []string{"kcore", "kmsg", "keys", "key-users", "timer_list", "interrupts", "latency_stats", "sched_debug", "kpagecount", "vmallocinfo", "slabinfo"} {
		tries = append(tries, checked("cat /proc/"+name, empty))
	}
	for _, name := range []string{"acpi", "scsi", "asound"} {
		tries = append(tries, checked("list /proc/"+name, empty))
	}
	return append(tries, try{do: words("open w /proc/sysrq-trigger"), want: []string{"EROFS", "EACCES", "EPERM", "ENOENT"}})
}

func (s *scene) devices() []try {
	var tries []try
	for _, name := range []string{"mem", "kmsg", "kvm", "fuse", "net/tun", "vda", "sda", "nvme0n1", "vhost-net", "userfaultfd", "loop-control", "uinput", "dri/card0"} {
		tries = append(tries, onPath("open r", "/dev/"+name, policy.AccessRead, unread()...))
	}
	tries = append(tries, filtered([]string{"EPERM", "EACCES", "ENOSYS"}, "mknod", "mknod c /tmp/gobox-selftest-mem", "mknod b /tmp/gobox-selftest-ram")...)
	return append(tries, succeeds("open rw /dev/null"), succeeds("open r /dev/urandom"), checked("list /dev", func(o attempt.Outcome) string {
		var more []string
		for _, name := range strings.Fields(o.Detail) {
			if !slices.Contains([]string{"null", "zero", "full", "random", "urandom", "fd", "stdin", "stdout", "stderr", "ptmx", "pts", "shm", "tty"}, name) &&
				!s.permits(try{path: "/dev/" + name, access: policy.AccessRead}) {
				more = append(more, name)
			}
		}
		if o.Errno != "" || more != nil {
			return "there is " + told(o) + " " + strings.Join(more, " ")
		}
		return ""
	}))
}
