#!/bin/sh
# troupe demo: everything holds, and nothing is left behind.
# TROUPE_TEST_FAKE_GPU("no sanitizer")
. "$(dirname "$0")/lib.sh"

size=${TROUPE_TEST_DEMO_SIZE:-200}
run 0 demo --device "$device" --size "$size" --dir "$tmp" &&
    says out 'seed [0-9]+' &&
    says out 'A.npy: 200 x 240 f32, C order' &&
    says out 'B.npy: 240 x 180 f32, Fortran order' &&
    says out 'first product' && says out 'inject a fault' && says out 'TRP_E_FAULT' &&
    says out 'incarnation 2' && says out 'all as they were sent' && says out 'TRP_E_LOST' &&
    says out 'second product' && says out '^Held'
[ -s "$tmp/err" ] && fail "demo wrote to standard error"

# One as small as can be, in a folder that is not there, and files that are kept.
run 0 demo --device "$device" --size 1 --dir "$tmp" --seed 5 && says out 'seed 5'
run 1 demo --device "$device" --dir "$tmp/nothere" && says err 'No such file' && says out '^FAILED'
mkdir "$tmp/keep"
run 0 demo --device "$device" --size 50 --dir "$tmp/keep" --keep --seed 7
kept=$(echo "$tmp"/keep/troupe-demo-*)
"$npy_tool" matmul a="$kept/A.npy" b="$kept/B.npy" d="$kept/C.npy" || fail "the kept files are wrong"
rm -rf "$kept"

finish
