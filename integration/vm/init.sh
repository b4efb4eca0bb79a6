#!/bin/busybox sh
# First and second life of the guest's process 1. The root of an initramfs cannot be pivoted away, which every
# sandbox wants to do, so a tmpfs becomes the root first.
if [ ! -e /vm/second ]; then
	mount -t devtmpfs dev /dev
	mount -t tmpfs -o mode=755,size=90% root /newroot
	for d in /*; do
		case $d in
		/proc | /sys | /dev | /tmp | /newroot) mkdir -p "/newroot$d" ;;
		*) [ -e "/newroot$d" ] || cp -a "$d" /newroot/ ;;
		esac
	done
	rmdir /newroot/newroot
	: >/newroot/vm/second
	mount -o move /dev /newroot/dev
	exec switch_root /newroot /init
fi

export PATH=/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sys /sys
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs -o mode=1777 shm /dev/shm
mount -t tmpfs -o mode=1777 tmp /tmp
chown -R 1000:1000 /home/user
ip link set lo up
for m in /vm/modules/*.ko; do
	[ -e "$m" ] && insmod "$m" $(cat "${m%.ko}.parameters")
done
stty -F /dev/ttyS1 raw -echo
stty -F /dev/ttyS2 raw -echo
# Asked by the host when nothing comes from here any more.
sh /vm/dump.sh </dev/ttyS2 >/dev/console 2>&1 &
# Through a fifo, since a command whose output is a terminal behaves in another way; and at once, so that the host sees
# how far a script has come.
mkfifo /vm/output
cat </vm/output >/dev/ttyS1 &
exec 3>/vm/output
sh -c '. /vm/guest.sh; . /vm/script' </dev/null >&3 2>&1 3>&-
printf '\nGOBOX-VM-STATUS %d\n' $? >&3
wait # for the host, which ends the machine when it has read that
