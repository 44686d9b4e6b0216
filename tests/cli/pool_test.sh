#!/bin/sh
# troupe pool: its results against float64, and against a convolution; and input that is no good.
# TROUPE_TEST_DEVICE=cuda runs it on a GPU.
# TROUPE_TEST("no tsan")
. "$(dirname "$0")/lib.sh"

# pool X ARGS...: must work, and be right; the result is y.npy
pool() {
    x=$1
    shift
    rm -f "$tmp/y.npy"
    run 0 pool "$tmp/$x.npy" -o "$tmp/y.npy" --device "$device" --check "$@" &&
        says out 'against float64: relative error'
}

array x f32 C 2,3,9,8
array xf f32 F 2,3,9,8
array x1 f64 C 2,3,20
array x3 f32 C 1,2,5,6,7
array dy f32 C 2,3,4,4
array dyp f32 C 2,3,5,4
for mode in max average average-padded; do
    pool x --window 2 --mode $mode
    has y '2, 3, 4, 4'
    says out 'pooling .*2 x 3 x 4 x 4 f32'
    pool x --window 3,2 --stride 2 --pad 1,0 --mode $mode
    has y '2, 3, 5, 4'
    pool x --window 3,2 --stride 2 --pad 0 --pad-after 2,1 --mode $mode --layout nhwc
    pool xf --window 2,3 --stride 1 --mode $mode
    pool x1 --window 4 --pad 2 --mode $mode
    has y '2, 3, 6'
    pool x3 --window 2,3,2 --stride 2,1,3 --mode $mode
    has y '1, 2, 2, 4, 2'
    pool x --window 2 --mode $mode --type bf16
    pool x --window 2 --mode $mode --backward "$tmp/dy.npy"
    has y '2, 3, 9, 8'
    pool x --window 3,2 --stride 2 --pad 1,0 --mode $mode --backward "$tmp/dyp.npy" --layout nhwc
    pool xf --window 3,2 --stride 2 --pad 1,0 --mode $mode --backward "$tmp/dyp.npy"
done

# An index says the same as the images.
pool x --window 3,2 --stride 2 --pad 1,0 --index "$tmp/index.npy"
has index '2, 3, 5, 4'
pool x --window 3,2 --stride 2 --pad 1,0 --backward "$tmp/dyp.npy"
mv "$tmp/y.npy" "$tmp/want.npy"
pool x --window 3,2 --stride 2 --pad 1,0 --backward "$tmp/dyp.npy" --index "$tmp/index.npy"
same y want

# The mean is a convolution of each channel with a filter of equal elements.
{
    printf '\223NUMPY\001\000\166\000'
    printf '%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 1, 2, 2), }"
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12; do
        printf '\000\000\200\076' # 0.25
    done
} >"$tmp/mean.npy"
pool x --window 2 --stride 1 --pad 1 --mode average-padded
run 0 conv "$tmp/x.npy" "$tmp/mean.npy" -o "$tmp/want.npy" --pad 1 --device "$device"
same y want

# --- refused ---
# refused STATUS PATTERN X ARGS...: must fail with a message and leave no output
refused() {
    expected=$1 pattern=$2 x=$3
    shift 3
    rm -f "$tmp/y.npy"
    run "$expected" pool "$tmp/$x.npy" -o "$tmp/y.npy" --device "$device" "$@" &&
        says err "$pattern"
    [ ! -e "$tmp/y.npy" ] || fail "an output file was left"
}
shape flat x 6,72
array xc c64 C 2,3,9,8
refused 1 'X: expected 3 to 5 dimensions, n x channels x 1 to 3 sizes; .*flat.npy' flat --window 2
refused 1 'X: expected f64, f32, f16, i8 or u8, or --type' xc --window 2
refused 2 'expected --window H,W' x
refused 2 '--window: expected 2 numbers, one for each size' x --window 2,2,2
refused 2 '--window: expected at least 1' x --window 0
refused 2 '--window: expected one that fits into dimension 3 and its padding, 8, got 9' x --window 9
refused 2 "--pad: expected less than the window, 2, got '2'" x --window 2 --pad 2
refused 2 "--pad-after: expected less than the window, 2, got '3'" x --window 2 --pad-after 3
refused 2 '--stride: expected at least 1' x --window 2 --stride 0
refused 1 '--backward: expected 2 x 3 x 4 x 4, a window each; .*dyp.npy' x --window 2 \
    --backward "$tmp/dyp.npy"
refused 1 '--index: expected i8; .*dy.npy' x --window 2 --backward "$tmp/dy.npy" \
    --index "$tmp/dy.npy"
refused 2 '--index: expected --mode max, got average' x --window 2 --mode average \
    --index "$tmp/index.npy"
refused 2 '--mode: expected max.average' x --window 2 --mode least
refused 1 'missing.npy: No such file' missing --window 2
npy short "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, 9, 8), }" 1727
refused 1 'short.npy: truncated data: shape \(2, 3, 9, 8\)' short --window 2
run 2 pool "$tmp/x.npy" --window 2 && says err 'expected -o Y.npy'
run 2 pool && says err 'expected 1 operand, got 0'

finish
