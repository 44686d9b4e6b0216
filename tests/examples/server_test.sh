#!/bin/bash
# The inference server under 16 clients that check every answer, while its worker is killed KILLS times at random
# moments; its metrics; and its end. With `thread` its worker is a thread, and nobody is killed.
# Usage: server_test.sh FOLDER_OF_PROGRAMS KILLS|thread [MS_BETWEEN_KILLS]
set -euo pipefail
programs=$1 kills=$2 every=${3:-30}
work=$(mktemp -d)
server=
end() {
    code=$?
    [ $code = 0 ] || grep -v "^troupe: worker" log || true
    [ -z "$server" ] || kill -KILL "$server" 2>/dev/null || true
    rm -rf "$work"
}
trap end EXIT
cd "$work"
"$programs/load" -make weights.safetensors
arguments=() storm=()
[ "$kills" = thread ] && arguments=(-thread)
"$programs/server" weights.safetensors "${arguments[@]}" >out 2>log &
server=$!
until grep -q ready out; do
    kill -0 $server 2>/dev/null || { cat log; exit 1; }
    sleep 0.02
done
port=$(sed -n 's/^ready on port //p' out)

# metrics: what http://localhost:PORT/metrics answers.
metrics() {
    exec 3<>"/dev/tcp/127.0.0.1/$port"
    printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3
    cat <&3
    exec 3>&-
}
# value NAME: the sum of the values of a metric, whatever its labels are.
value() { awk -v name="$1" '{ n = $1; sub(/{.*/, "", n) } n == name { sum += $NF; seen = 1 } END { if (!seen) exit 1; print sum }' text; }

[ "$kills" = thread ] || storm=(-pid $server -kills "$kills" -every "$every")
"$programs/load" weights.safetensors "$port" -clients 16 -requests 1000 "${storm[@]}" | tee load
metrics >text
grep -q '^HTTP/1.0 200 OK' text
grep -q '^Content-Type: text/plain; version=0.0.4' text
[ "$(value server_answers_total)" -ge 1000 ]
[ "$(value server_batches_total)" -ge 63 ]
[ "$kills" = thread ] || [ "$(value troupe_restarts_total)" -ge "$kills" ]

# Nonsense is hung up on, and bothers nobody; so are clients that go away with their request under way.
printf 'nonsense' >"/dev/tcp/127.0.0.1/$port"
printf 'GET' >"/dev/tcp/127.0.0.1/$port"
head -c 1032 /dev/zero | sed 's/^..../REQ1/' >"/dev/tcp/127.0.0.1/$port" || true
"$programs/load" weights.safetensors "$port" -clients 3 -requests 50 >load
grep -q ' 0 wrong, 0 failed' load

kill -TERM $server
wait $server || { echo "the server ended with $?"; cat log; exit 1; }
server=
tail -n 1 out
grep -q 'answers in' out
