#!/bin/sh
# Runs every fuzz test of the module for the given time each, as many at once as there are processors:
#   sh scripts/fuzz.sh TIME [PATTERN]     (PATTERN: only fuzz tests whose "package name" line matches, as in grep -E)
# A failing input is left in the package's testdata/fuzz, where go test finds it from then on.
set -eu

if [ "$1" = one ]; then # one TIME BINARY PACKAGE FOLDER NAME
	log=$(mktemp)
	trap 'rm -f "$log"' EXIT
	status=0
	# The inputs that were found to be worth keeping are where go test -fuzz has them as well.
	(cd "$5" && "$3" -test.run '^$' -test.fuzz "^$6\$" -test.fuzztime "$2" -test.fuzzminimizetime 3s -test.parallel 1 \
		-test.fuzzcachedir "$(go env GOCACHE)/fuzz/$4") >"$log" 2>&1 || status=$?
	# Go before 1.27 may take the end of the time for a failure (https://go.dev/issue/75804); a real one has an
	# input or says more.
	if [ $status != 0 ] && ! grep -q 'Failing input\|panic\|fatal error' "$log" &&
		[ "$(grep -A1 '^--- FAIL' "$log" | tail -n 1 | tr -d ' ')" = contextdeadlineexceeded ]; then
		status=0
	fi
	if [ $status = 0 ]; then
		echo "ok   $4 $6: $(grep 'execs:' "$log" | tail -n 1 | sed 's/^fuzz: //')"
	else
		echo "FAIL $4 $6"
		cat "$log"
	fi
	exit $status
fi

time=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
: >"$work/all"
# One program for each package, with the instrumentation of -fuzz, and not one for each fuzz test.
go list -f '{{.ImportPath}} {{.Dir}}' ./... | while read -r pkg dir; do
	# By text first, or every package's tests would be built.
	grep -qs '^func Fuzz' "$dir"/*_test.go || continue
	bin=$work/$(echo "$pkg" | tr / _)
	# A package that does not build must not pass for one without fuzz tests.
	go test -c -fuzz . -o "$bin" "$pkg" || { : >"$work/broken" && break; }
	(cd "$dir" && "$bin" -test.list '^Fuzz') | sed -n "s|^Fuzz|$bin $pkg $dir &|p" >>"$work/all"
done
[ ! -e "$work/broken" ] || exit 1
# shellcheck disable=SC2016 # awk's fields
awk -v pattern="${2:-.}" '($2 " " $4) ~ pattern' "$work/all" >"$work/targets"
[ -s "$work/targets" ] || { echo "fuzz: error: no fuzz test found" >&2; exit 1; }
echo "fuzz: $(wc -l <"$work/targets") fuzz tests, $time each"
xargs -n 4 -P "$(nproc)" sh "$0" one "$time" <"$work/targets"
