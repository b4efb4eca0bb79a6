#!/bin/sh
# Links gobox for arm64 and throws the result away, where this machine has what that takes.
# Debian: dpkg --add-architecture arm64, then gcc-aarch64-linux-gnu and libseccomp-dev:arm64.
set -eu
cc=aarch64-linux-gnu-gcc
if [ "$(go env GOHOSTARCH)" = arm64 ]; then
	echo "arm64: this is arm64, nothing to cross-check"
	exit 0
fi
if ! command -v $cc >/dev/null 2>&1; then
	echo "arm64: not checked, there is no $cc here"
	exit 0
fi
lib=${ARM64_LIBDIR:-/usr/lib/aarch64-linux-gnu}
if [ ! -e "$lib/libseccomp.a" ]; then
	echo "arm64: not checked, there is no $lib/libseccomp.a here"
	exit 0
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
GOARCH=arm64 CC=$cc PKG_CONFIG_LIBDIR="$lib/pkgconfig" CGO_LDFLAGS="-L$lib" \
	go build -trimpath -ldflags "$1" -o "$out/gobox" ./cmd/gobox
go run ./scripts/checkstatic "$out/gobox" >/dev/null
echo "arm64: builds"
