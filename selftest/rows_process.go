package selftest

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"gobox/policy"
	"gobox/selftest/attempt"
)

// leastPID is one that no process inside has: a sandbox begins to count at 1.
const leastPID = 200

// processRows are about processes, and about PID 1, which is gobox's own.
func (s *scene) processRows() []row {
	pid := strconv.Itoa(s.victim.Process.Pid)
	supervisor := strconv.Itoa(os.Getpid())
	small := ""
	if s.victim.Process.Pid < leastPID || os.Getpid() < leastPID {
		small = "this host's process ids are too small to be told from those inside"
	}
	return []row{
		{id: "P01", layer: Namespaces, title: "no signal reaches a process of the host's", skip: small, effect: s.hurt,
			// 9 is KILL; 28 is WINCH, which whoever gets it by mistake ignores.
			tries: refused(foreign(), "kill "+pid+" 9", "tgkill "+pid+" 9", "pidfd-open "+pid, "kill -"+pid+" 9", "kill "+supervisor+" 28", "pidfd-open "+supervisor)},
		{id: "P05", layer: Namespaces, title: "only the sandbox's own processes are there", tries: []try{
			checked("procs", func(o attempt.Outcome) string {
				switch {
				case o.Errno != "" || o.Ret < 1 || o.Ret > 3:
					return fmt.Sprintf("there are %d processes: %s", o.Ret, told(o))
				case strings.Contains(o.Detail, s.exe+"\\x00selftest\\x00--inside\\x00hold"):
					return "the host's are listed"
				}
				return ""
			}),
		}},
		{id: "P17", layer: Namespaces, title: "processes of the host's cannot be tuned", skip: small, tries: append(
			refused([]string{"ESRCH", "EPERM", "ENOSYS"}, attempt.Syscall("sched_setaffinity "+pid+" 0 0"), attempt.Syscall("ioprio_set 1 "+pid+" 0x4007")),
			refused([]string{"ESRCH", "EPERM", "ENOSYS"}, attempt.Syscall("setpriority 0 "+pid+" 19"), attempt.Syscall("prlimit64 "+pid+" 7 0 0"))...)},
		{id: "K03", layer: Namespaces, title: "the sandbox's user namespace can have no other in it", tries: []try{
			checked("cat /proc/sys/user/max_user_namespaces", func(o attempt.Outcome) string {
				if strings.TrimSpace(o.Detail) != "0" {
					return "the limit is " + told(o) + " and not 0"
				}
				return ""
			}),
		}},
		{id: "K20", layer: Privileges, title: "no capability, no new privileges and a filter, in every thread and child", tries: []try{checked("status deep", s.confined)}},
		{id: "F30", layer: Privileges, title: "no set-user-ID file raises anybody", tries: []try{checked("cat /proc/self/mountinfo", nosuid)}},
		{id: "P02", layer: Init, title: "init survives every signal, and says nothing", tries: []try{
			succeeds("kill-init"), {do: words("kill 1 0"), want: []string{"", "EPERM"}},
		}},
		{id: "F05", layer: Init, title: "no folder of the caller's is a way out", tries: s.leaks()},
		{id: "F06", layer: Init, title: "only stdin, stdout and stderr are open", tries: []try{checked("fds", func(o attempt.Outcome) string {
			if o.Errno != "" || o.Ret != 3 {
				return fmt.Sprintf("there are %d: %s", o.Ret, told(o))
			}
			return ""
		})}},
		{id: "F07", layer: Init, title: "stdin cannot be opened again with more rights", effect: func() string { return s.changed(s.input) },
			tries: refused([]string{"EROFS", "EACCES", "EPERM", "ENOENT"}, "reopen 0 w", "reopen 0 rw", "reopen 0 trunc", "open rw /dev/stdin")},
		{id: "F08", layer: Init, title: "the program that init runs is out of reach",
			tries: refused(append(unread(), "ETXTBSY"), "open w /proc/1/exe", "open rw /proc/1/exe", "open r /proc/1/exe", "open path /proc/1/exe", "readlink /proc/1/exe")},
		{id: "F09", layer: Init, title: "init cannot be read", tries: append(
			refused(unread(), "open r /proc/1/mem", "open rw /proc/1/mem", "open r /proc/1/environ", "open r /proc/1/maps", "list /proc/1/fd", "readlink /proc/1/ns/mnt",
				"open r /proc/1/ns/user", "open r /proc/1/auxv", "cat /proc/1/syscall", "list /proc/1/map_files", "open w /proc/1/oom_score_adj"),
			succeeds("open r /proc/self/environ"), succeeds("open r /proc/self/maps"))},
		{id: "P01", layer: Landlock, title: "the command may not even signal init", skip: s.scopeSkip(), tries: refused([]string{"EPERM"}, "kill 1 0", "kill 1 28")},
	}
}

// scopeSkip says why signals to init prove nothing about Landlock.
func (s *scene) scopeSkip() string {
	switch {
	case s.lacks(policy.LayerLandlock) != "":
		return s.lacks(policy.LayerLandlock)
	case s.host.LandlockABI < 6:
		return "Landlock scopes signals from ABI 6 (Linux 6.12) on, and this host has ABI " + strconv.Itoa(s.host.LandlockABI)
	case s.plan.Identity.Root:
		return "as root, init has another user than the command, which is refused anyway"
	}
	return ""
}

// leaks look for the descriptors that the scene left open across the start.
func (s *scene) leaks() []try {
	var tries []try
	for fd := 3; fd <= 40; fd++ {
		n := strconv.Itoa(fd)
		tries = append(tries, refused([]string{"ENOENT", "EACCES", "EPERM", "ENOTDIR"}, "open r /proc/self/fd/"+n+"/secret.txt", "list /proc/1/fd/"+n)...)
	}
	return append(tries, checked("getcwd", func(o attempt.Outcome) string {
		if o.Errno != "" || !strings.HasPrefix(o.Detail, "/") {
			return "the working directory is " + told(o)
		}
		return ""
	}))
}

// confined judges the lines of /proc/PID/status that package attempt gives.
func (s *scene) confined(o attempt.Outcome) string {
	text := strings.ReplaceAll(o.Detail, `\n`, "\n")
	var list []string
	want := []string{"NoNewPrivs 1"}
	if s.lacks(policy.LayerSeccomp) == "" {
		want = append(want, "Seccomp 2")
	}
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		want = append(want, set+" 0000000000000000")
	}
	for _, w := range want {
		name, _, _ := strings.Cut(w, " ")
		if strings.Count(text, name+" ") == 0 || strings.Count(text, name+" ") != strings.Count(text, w) {
			list = append(list, "not everywhere "+w)
		}
	}
	if o.Errno != "" {
		list = append(list, told(o))
	}
	return strings.Join(list, "; ")
}

// nosuid judges every line of mountinfo, see proc_pid_mountinfo(5).
func nosuid(o attempt.Outcome) string {
	if o.Errno != "" {
		return told(o)
	}
	var list []string
	for line := range strings.Lines(o.Detail) {
		fields := strings.Fields(line)
		if len(fields) > 5 && !strings.Contains(","+fields[5]+",", ",nosuid,") {
			list = append(list, fields[4])
		}
	}
	if list != nil {
		return "mounted without nosuid: " + strings.Join(list, " ")
	}
	return ""
}
