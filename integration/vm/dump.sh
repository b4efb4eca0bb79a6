# Tells on the console what every process waits for, each time a line "dump" comes in.
while read -r line; do
	[ "$line" = dump ] || continue
	echo 8 >/proc/sys/kernel/printk
	uptime
	for p in /proc/[0-9]*; do
		[ -n "$(cat "$p/cmdline" 2>/dev/null)" ] || continue
		echo "--- $p $(tr '\0' ' ' <"$p/cmdline") $(cat "$p/cgroup")"
		for t in "$p"/task/*; do
			echo "$t $(grep -E '^(State|SigPnd|ShdPnd|SigBlk)' "$t/status" | tr '\n' ' ')"
			cat "$t/wchan" "$t/syscall" "$t/stack"
		done
	done
	for f in $(find /sys/fs/cgroup -name 'gobox-*'); do
		echo "--- $f"
		cat "$f/cgroup.procs" "$f/cgroup.events" "$f/cpu.max" "$f/cpu.stat"
	done
	tail -n 40 /tmp/*/err
	echo l >/proc/sysrq-trigger
	echo w >/proc/sysrq-trigger
	cat /proc/interrupts /proc/loadavg
	echo 4 >/proc/sys/kernel/printk
done
