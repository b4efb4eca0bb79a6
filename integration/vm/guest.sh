# Functions for the scripts of tests; /bin/in_cgroup and /bin/as_user are programs, to be used with exec and each other.

# cgroup2: mount version 2 as systemd does, with every controller enabled for the root's children.
cgroup2() {
	mount -t cgroup2 -o "${1:-nsdelegate}" cgroup2 /sys/fs/cgroup || return
	for c in $(cat /sys/fs/cgroup/cgroup.controllers); do
		echo "+$c" >/sys/fs/cgroup/cgroup.subtree_control || return
	done
}

# delegate NAME: a cgroup that belongs to uid 1000, in the way systemd's Delegate= gives it away.
delegate() {
	mkdir "/sys/fs/cgroup/$1" || return
	for f in . cgroup.procs cgroup.subtree_control cgroup.threads; do
		chown 1000:1000 "/sys/fs/cgroup/$1/$f" || return
	done
}
