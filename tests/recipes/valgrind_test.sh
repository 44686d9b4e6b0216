#!/bin/bash
# memcheck has nothing to say about the library, and finds a mistake of a program: docs/recipes/debugging.md.
# Usage: valgrind_test.sh CALLS SCALE_CLAMP SCALE_CLAMP_ACTOR
set -euo pipefail
calls=$1 program=$2 actor=$3
command -v valgrind >/dev/null || { echo "skipped: valgrind is not installed"; exit 77; }
cd "${TMPDIR:-/tmp}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export TROUPE_CUDA_DRIVER=/nowhere/none # the host backend, wherever this runs
export OPENBLAS_CORETYPE=Haswell        # valgrind has no AVX-512
memcheck=(valgrind --error-exitcode=9 --leak-check=full --show-leak-kinds=definite,possible
    --errors-for-leak-kinds=definite,possible --log-file=log)

"${memcheck[@]}" "$calls" thread || { cat log; exit 1; }
"${memcheck[@]}" "$program" "$actor" -thread || { cat log; exit 1; }
# A source that is too short is found where the call reads it.
if "${memcheck[@]}" "$calls" thread overrun; then
    echo "memcheck has not found the overrun"
    exit 1
fi
grep -q 'Invalid read' log
grep -q 'trp_write' log
grep -q 'after a block of size 100 alloc' log
