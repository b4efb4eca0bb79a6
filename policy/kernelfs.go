package policy

import (
	"slices"

	"gobox/namespaces"
)

// addDev makes the devices that programs cannot do without and that give no way to the host.
func (b *builder) addDev() {
	b.step(namespaces.Step{Op: namespaces.OpDir, Target: "/dev", Why: "devices"})
	for _, name := range b.devices() {
		b.step(namespaces.Step{Op: namespaces.OpDevice, Source: "/dev/" + name, Target: "/dev/" + name, Attr: namespaces.ReadOnly | namespaces.NoSuid | namespaces.NoExec, Why: "devices"})
	}
	for _, link := range []namedLink{
		{path: "/dev/fd", text: "/proc/self/fd"},
		{path: "/dev/stdin", text: "/proc/self/fd/0"},
		{path: "/dev/stdout", text: "/proc/self/fd/1"},
		{path: "/dev/stderr", text: "/proc/self/fd/2"},
		{path: "/dev/ptmx", text: "pts/ptmx"},
	} {
		b.step(namespaces.Step{Op: namespaces.OpSymlink, Source: link.text, Target: link.path, Why: "devices"})
	}
	b.step(namespaces.Step{Op: namespaces.OpDevpts, Target: "/dev/pts", Attr: namespaces.NoSuid | namespaces.NoExec, Why: "devices"})
	b.step(namespaces.Step{Op: namespaces.OpScratch, Target: "/dev/shm", Attr: namespaces.NoSuid | namespaces.NoDev | namespaces.NoExec, Mode: 0o1777, Why: "shared memory"})
}

// devices are the nodes below /dev. /dev/tty is the controlling terminal of whoever opens it, and is
// there only when the command has a terminal of its own.
func (b *builder) devices() []string {
	names := []string{"null", "zero", "full", "random", "urandom"}
	if b.policy.TTY {
		names = append(names, "tty")
	}
	return names
}

// procMasks are the files of /proc that are not about the sandbox's own processes and that everybody may
// read. Those that only the host's root may open need no mask: the command never has that id. A mask costs some 15 microseconds
// of each start, so that what tells little is left: modules, kallsyms (without addresses), config.gz and
// version say which kernel it is, which uname(2) says too; iomem and ioports have only zeros.
func procMasks() []struct{ path, why string } {
	return []struct{ path, why string }{
		{"/proc/acpi", "power and sleep states of the machine"},
		{"/proc/asound", "sound devices, and who plays what"},
		{"/proc/bus", "devices of the machine"},
		{"/proc/cmdline", "boot parameters can hold tokens"},
		{"/proc/diskstats", "what other processes read and write, and when"},
		{"/proc/fs", "disks of the machine and how they are doing"},
		{"/proc/interrupts", "keystroke and network timing"},
		{"/proc/irq", "counts of interrupts, device by device"},
		{"/proc/kcore", "memory of the kernel"},
		{"/proc/key-users", "users of the host that hold keys"},
		{"/proc/keys", "names of the caller's keys"},
		{"/proc/kmsg", "messages of the kernel"},
		{"/proc/latency_stats", "what other processes wait for"},
		{"/proc/sched_debug", "names of the host's processes"},
		{"/proc/scsi", "can add and remove disks"},
		{"/proc/softirqs", "network and disk timing"},
		{"/proc/sys/kernel/random/boot_id", "tells this machine, since its start, from every other"},
		{"/proc/sysrq-trigger", "reboots the machine"},
		{"/proc/timer_list", "addresses in the kernel, names of the host's processes"},
	}
}

// addProc mounts a procfs of the sandbox's own pid namespace. All of it is read-only: /proc/sys,
// /proc/irq, /proc/bus and /proc/fs then need no mounts of their own, and no command has to write to its
// own entries there. init writes its id maps before, on the host's.
func (b *builder) addProc() {
	b.step(namespaces.Step{Op: namespaces.OpProc, Target: "/proc", Attr: namespaces.ReadOnly | namespaces.NoSuid | namespaces.NoDev | namespaces.NoExec, Why: "processes"})
	for _, m := range procMasks() {
		// These files are the same in every procfs, so the host's tells which there are.
		info, err := lstat(b.host.FS, m.path)
		if err != nil || info.Mode&0o007 == 0 {
			continue
		}
		b.step(namespaces.Step{Op: namespaces.OpMask, Target: m.path, Optional: true, Why: m.why})
	}
}

// addRunAndVar makes the folders that programs expect to exist and that hold nothing.
func (b *builder) addRunAndVar() {
	b.step(namespaces.Step{Op: namespaces.OpDir, Target: "/run", Why: "empty"})
	for _, link := range []namedLink{{path: "/var/run", text: "/run"}, {path: "/var/tmp", text: "/tmp"}} {
		// An image's /var may be a link.
		link.path = b.inside(link.path)
		if b.onPlan(link.path) {
			continue // such as /run, where the image's /var leads to /
		}
		if slices.ContainsFunc(b.claims, func(c claim) bool { return within(link.path, c.step.Target) }) {
			// A folder then, since something is mounted in it.
			continue
		}
		if b.above(link.path, b.system) == nil && b.above(link.path, b.claims) == nil {
			b.step(namespaces.Step{Op: namespaces.OpSymlink, Source: link.text, Target: link.path, Why: "scratch"})
		}
	}
}
