#!/bin/bash
# The trainer learns; its losses are the same while its worker dies, and after a checkpoint.
set -euo pipefail
program=$1 text=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
small=(-layers 1 -width 32 -heads 2 -context 24 -batch 3)
for type in 0 1; do
    "$program" "$text" "${small[@]}" -steps 12 -bf16 $type > calm
    "$program" "$text" "${small[@]}" -steps 12 -bf16 $type -kill 3 > killed 2> log
    cmp calm killed
    grep -q SIGKILL log
    "$program" "$text" "${small[@]}" -steps 5 -bf16 $type -save half.npy > first
    "$program" "$text" "${small[@]}" -steps 7 -bf16 $type -load half.npy > second
    cat first second | cmp calm -
    awk '{ loss[NR] = $4 } END { exit !(NR == 12 && loss[12] < loss[1] - 0.1 && loss[12] > 0) }' calm
done
if "$program" "$text" "${small[@]}" -width 64 -load half.npy > /dev/null 2> log; then exit 1; fi
