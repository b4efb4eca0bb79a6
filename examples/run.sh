#!/bin/sh
# Runs hello.py in the sandbox with the python3 that the caller has, and says how it ended.
set -eu
gobox=$(realpath "$1")
cd "$(dirname "$0")"
echo "\$ cd examples && gobox run -- python3 hello.py"
echo
status=0
# A secret in the environment, for the script to look for.
DEMO_TOKEN=hunter2 "$gobox" run -- python3 hello.py || status=$?
echo
if [ -e pi.txt ]; then
	echo "A wall was missing: pi.txt, which the script wrote, is in examples." >&2
	exit 1
fi
case $status in
0) echo "The script did its work, every wall stood, and what it wrote is kept apart until you apply it." ;;
1) echo "A wall was missing: see IT COULD above." >&2 ;;
*) echo "gobox ended with exit status $status." >&2 ;;
esac
exit $status
