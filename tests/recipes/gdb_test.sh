#!/bin/bash
# gdb stops in the code of an actor, in a thread of the program: docs/recipes/debugging.md.
# Usage: gdb_test.sh CALLS SCALE_CLAMP SCALE_CLAMP_ACTOR
set -euo pipefail
program=$2 actor=$3
command -v gdb >/dev/null || { echo "skipped: gdb is not installed"; exit 77; }
export TROUPE_CUDA_DRIVER=/nowhere/none # the host backend, wherever this runs
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
timeout 60 gdb -nx -batch -ex run --args /bin/true >probe 2>&1 || true
grep -q 'exited normally' probe || { echo "skipped: gdb can't run a program here"; tail -n 3 probe; exit 77; }

# expect TEXT: what must stand in the output.
expect() { grep -qE "$1" log || { echo "expected: $1"; cat log; exit 1; }; }

timeout 120 gdb -nx -batch -ex 'set breakpoint pending on' -ex 'break scale_clamp_actor.c:run' -ex run -ex backtrace \
    -ex 'print *(work *) memory' -ex delete -ex continue --args "$program" "$actor" -thread >log 2>&1
expect 'hit Breakpoint 1.* run '
expect '^#1 .* stream_main ' # the stream's thread, of the library
expect 'high = 40'
expect 'host: 0 of 100003 elements are wrong'
expect 'exited normally'
