# Pipelines, substitutions, jobs and traps.
set -euo pipefail
seq 1 1000 | grep 7 | sort -rn | awk '{ s += $1 } END { print "pipeline", s }'
diff <(printf 'a\nb\n') <(printf 'a\nc\n') > difference || true
echo "process substitution $(wc -l < difference)"
tee >(tr a-z A-Z > upper) <<< 'here string' > lower
while [ ! -s upper ]; do sleep 0.01; done
cat lower upper
cat << EOF
here document $((6 * 7)) ${BASH_VERSION%%.*}
EOF
trap 'echo trapped' USR1
kill -USR1 $$
sleep 60 &
kill $!
wait $! || echo "job ended with $?"
mkfifo pipe
printf 'through a fifo\n' > pipe &
cat pipe
wait
coproc BC { while read -r a b; do echo $((a + b)); done; }
echo 20 22 >&"${BC[1]}"
read -r answer <&"${BC[0]}"
echo "coprocess $answer"
exec {fd}> kept
echo kept >&"$fd"
exec {fd}>&-
find . -type f -name '[a-z]*' -print0 | sort -z | xargs -0 -P 2 -n 1 basename | sort | paste -sd ' '
printf '%s\n' one two three | xargs -I{} sh -c 'echo "<{}>"' | paste -sd ' '
tar cf - kept lower | gzip | gunzip | tar tf -
(ulimit -c; umask; echo "subshell $BASH_SUBSHELL")
[[ -c /dev/null && -r /dev/urandom && -w /dev/full ]] && echo devices
echo full 2>/dev/null > /dev/full || echo 'no space on /dev/full'
time -p true 2>/dev/null
set +o pipefail
yes | head -n 3 | paste -sd ' '
timeout 0.2 sleep 60 || echo "timeout $?"
( exit 42 ) || echo "status $?"
exit 9
