#!/bin/bash
# The trainer learns; its losses are the same while its worker dies, and after a checkpoint.
set -euo pipefail
program=$1 text=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
small=(-layers 1 -width 32 -heads 2 -context 24 -batch 3)
for type in 0 1; do
    half=half.$([ $type = 0 ] && echo npz || echo safetensors)
    "$program" "$text" "${small[@]}" -steps 12 -bf16 $type > calm
    "$program" "$text" "${small[@]}" -steps 12 -bf16 $type -kill 3 > killed 2> log
    cmp calm killed
    grep -q SIGKILL log
    "$program" "$text" "${small[@]}" -steps 12 -bf16 $type -in_place 1 | cmp calm -
    "$program" "$text" "${small[@]}" -steps 5 -bf16 $type -save $half > first
    "$program" "$text" "${small[@]}" -steps 7 -bf16 $type -load $half > second
    cat first second | cmp calm -
    awk '{ loss[NR] = $4 } END { exit !(NR == 12 && loss[12] < loss[1] - 0.1 && loss[12] > 0) }' calm
done
if "$program" "$text" "${small[@]}" -width 64 -load half.npz > /dev/null 2> log; then exit 1; fi
grep -q "bytes is" log

[ "${TROUPE_TEST_GPU:-}" != fake ] || exit 0 # slow there

# Killed from outside at random moments, up to 8 times a run: more than 16 in 10 s would take the device down. Between two
# deaths there are two steps, since a request that loses two workers fails.
"$program" "$text" "${small[@]}" -steps 60 >calm
for attempt in 1 2 3 4 5; do
    "$program" "$text" "${small[@]}" -steps 60 >killed 2>log &
    trainer=$!
    kills=0 next=1
    while [ $kills -lt 8 ] && kill -0 $trainer 2>/dev/null; do
        sleep 0.0$((RANDOM % 90 + 10))
        [ "$(wc -l <killed)" -ge $next ] || continue
        worker=$("$TROUPE_COMMAND" top $trainer --json 2>/dev/null | sed -n 's/.*"worker_pid": *\([1-9][0-9]*\).*/\1/p' | head -n 1) || true
        kill -KILL ${worker:-none} 2>/dev/null || continue
        kills=$((kills + 1)) next=$(($(wc -l <killed) + 3))
    done
    wait $trainer || { cat log; exit 1; }
    cmp calm killed
    deaths=$(grep -c SIGKILL log || true)
    [ "$deaths" -eq 0 ] || break # else it had ended before
done
echo "the same losses after $deaths deaths at random moments"
