#!/bin/sh
# Installs what building and testing gobox need and this machine lacks; asks no package manager when
# nothing is missing. Works without make:  sh scripts/setup.sh [build|test|bench]...   (default: build test)
set -eu

need= # Debian packages that are missing
want() { # want PACKAGE COMMAND...: one of the commands is enough
	pkg=$1
	shift
	for c in "$@"; do
		command -v "$c" >/dev/null 2>&1 && return 0
	done
	need="$need $pkg"
}
# A static link needs lib*.a. Only the compiler knows where it looks; it echoes the bare name of what
# it does not find.
want_archive() { # want_archive PACKAGE FILE
	case $(gcc -print-file-name="$2" 2>/dev/null || true) in
	*/*) ;;
	*) need="$need $1" ;;
	esac
}

check_build() {
	want make make
	want git git
	want gcc gcc
	want pkg-config pkg-config pkgconf
	want_archive libc6-dev libc.a
	want_archive libseccomp-dev libseccomp.a
	want python3 python3 # examples/hello.py
}

# The workloads that must run inside as they run outside, and what the isolation tests compare with.
check_test() {
	want perl perl
	want nodejs node
	want npm npm
	want cargo cargo
	want rustc rustc
	want default-jdk-headless javac
	want bubblewrap bwrap
	want strace strace
	want tmux tmux
	want expect expect
	want vim-tiny vim vim.tiny
	want util-linux setpriv
	want qemu-system-x86 qemu-system-x86_64 # integration/vm
	want busybox-static busybox
	want xz-utils xz
	want bzip2 bzip2 # gobox extract is compared with what these unpack
	want zstd zstd
	want zip zip
	want unzip unzip
	want e2fsprogs mkfs.ext4 # what workspaces lie on
	want xfsprogs mkfs.xfs
	want btrfs-progs mkfs.btrfs
	want curl curl # integration/clients
	want wget wget
	want openssh-client ssh
	[ -x /usr/bin/pip3 ] || need="$need python3-pip" # an ordinary user's, not one of a caller's pyenv
	want postgresql-client psql
	set -- /usr/lib/postgresql/*/bin/postgres
	[ -x "$1" ] || want postgresql postgres
	# Debian's python3 has no ensurepip of its own, and venv needs it.
	python3 -c 'import ensurepip, sqlite3, ssl' >/dev/null 2>&1 || need="$need python3-venv"
}

check_bench() {
	want bubblewrap bwrap
	want util-linux unshare
	want firejail firejail
	want crun crun
	want runc runc
	want iproute2 ip # the network part
	want slirp4netns slirp4netns
	want passt pasta
}

go_version() {
	if ! command -v go >/dev/null 2>&1; then
		echo "setup: error: go is not on PATH" >&2
		echo "setup: hint: install Go 1.26 or later, see https://go.dev/doc/install" >&2
		exit 1
	fi
	minor=$(go env GOVERSION | sed -n 's/^go1\.\([0-9]*\).*/\1/p')
	if [ "${minor:-99}" -lt 26 ] && [ "$(go env GOTOOLCHAIN)" = local ]; then
		echo "setup: error: $(go env GOVERSION) is older than go1.26" >&2
		echo "setup: hint: install Go 1.26 or later, see https://go.dev/doc/install" >&2
		exit 1
	fi
}

refuse() { # refuse WHY
	echo "setup: error: $1" >&2
	echo "setup: missing packages (Debian names):$need" >&2
	echo "setup: hint: have an administrator run: apt-get update && apt-get install -y$need" >&2
	exit 1
}

name_others() {
	echo "setup: error: no apt-get on this system, so nothing was installed" >&2
	echo "setup: missing packages (Debian names):$need" >&2
	if command -v dnf >/dev/null 2>&1; then
		echo "setup: hint: sudo dnf install gcc make git pkgconf-pkg-config glibc-static libseccomp-devel libseccomp-static python3" >&2
		echo "setup: hint: for the tests also: perl nodejs npm cargo rust java-latest-openjdk-devel bubblewrap strace tmux expect vim-minimal util-linux qemu-system-x86 busybox xz bzip2 zstd zip unzip curl wget openssh-clients python3-pip postgresql postgresql-server" >&2
	elif command -v pacman >/dev/null 2>&1; then
		echo "setup: hint: sudo pacman -S --needed gcc make git pkgconf libseccomp python (libseccomp.a has to be there too)" >&2
		echo "setup: hint: for the tests also: perl nodejs npm rust jdk-openjdk bubblewrap strace tmux expect vim util-linux qemu-system-x86 busybox xz bzip2 zstd zip unzip curl wget openssh python-pip postgresql" >&2
	elif command -v apk >/dev/null 2>&1; then
		echo "setup: hint: apk add gcc musl-dev linux-headers make git pkgconf libseccomp-dev libseccomp-static python3" >&2
		echo "setup: hint: for the tests also: perl nodejs npm cargo rust openjdk17-jdk bubblewrap strace tmux expect vim setpriv qemu-system-x86_64 busybox-static xz bzip2 zstd zip unzip curl wget openssh-client py3-pip postgresql" >&2
	else
		echo "setup: hint: needed are gcc, make, git, pkg-config, and static libc and libseccomp (libc.a, libseccomp.a, seccomp.h)" >&2
	fi
	exit 1
}

[ $# -gt 0 ] || set -- build test
go_version
for part in "$@"; do
	case $part in
	build) check_build ;;
	test) check_test ;;
	bench) check_bench ;;
	*)
		echo "usage: sh scripts/setup.sh [build|test|bench]..." >&2
		exit 2
		;;
	esac
done
[ -n "$need" ] || exit 0

command -v apt-get >/dev/null 2>&1 || name_others
if [ "$(id -u)" = 0 ]; then
	sudo=
elif ! command -v sudo >/dev/null 2>&1; then
	refuse "installing packages takes root, and there is no sudo"
elif sudo -n true 2>/dev/null || [ -t 0 ]; then
	sudo=sudo
else
	refuse "installing packages takes root, and sudo would ask for a password without a terminal"
fi
# The server's programs are wanted and no database of this machine's: no cluster is made, and nothing starts where there is an init.
no_services() {
	cluster=/etc/postgresql-common/createcluster.conf policy=/usr/sbin/policy-rc.d
	if [ ! -e $cluster ]; then
		$sudo mkdir -p ${cluster%/*}
		echo 'create_main_cluster = false' | $sudo tee $cluster >/dev/null
	fi
	if [ ! -e $policy ]; then
		trap '$sudo rm -f $policy' EXIT
		trap 'exit 130' INT TERM HUP
		printf '#!/bin/sh\nexit 101\n' | $sudo tee $policy >/dev/null
		$sudo chmod 755 $policy
	fi
}

echo "setup: installing:$need" >&2
case " $need " in
*" postgresql "*) no_services ;;
esac
# An old list is better than none: without a network the packages may still be in apt's cache.
$sudo apt-get -q update >&2 || echo "setup: apt-get update failed, trying with the lists at hand" >&2
# shellcheck disable=SC2086 # need is a list
$sudo env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends $need >&2 ||
	refuse "apt-get could not install the packages"
