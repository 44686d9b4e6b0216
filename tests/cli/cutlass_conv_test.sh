#!/bin/sh
# troupe cutlass conv: convolutions that are products, which troupe cutlass gemm computes too; and
# input that is no good. Elements are small integers, so that sums are exact.
# TROUPE_TEST("no tsan")
. "$(dirname "$0")/lib.sh"

if [ "$device" != host ]; then
    echo "skipped: on the host backend so far"
    exit 77
fi

# part NAME FROM ROW ROWS COL COLS
part() {
    "$npy_tool" part "$tmp/$2.npy" "$tmp/$1.npy" "$3" "$4" "$5" "$6" || fail "no part $*"
}
# transposed NAME FROM ROWS COLS: a matrix in C order, seen as its transpose in Fortran order.
transposed() {
    LC_ALL=C sed "1s/False, 'shape': ($3, $4), }/True, 'shape': ($4, $3), } /" \
        "$tmp/$2.npy" >"$tmp/$1.npy"
}
# reshaped NAME FROM SHAPE SHAPE: of the same length.
reshaped() {
    LC_ALL=C sed "1s/'shape': ($3), }/'shape': ($4), }/" "$tmp/$2.npy" >"$tmp/$1.npy"
}
# conv A B ARGS...: must work; the result is d.npy
conv() {
    a=$1 b=$2
    shift 2
    rm -f "$tmp/d.npy"
    run 0 cutlass conv "$tmp/$a.npy" "$tmp/$b.npy" -o "$tmp/d.npy" --device host --type f32 "$@"
}
# gemm A B ARGS...: likewise, to want.npy
gemm() {
    a=$1 b=$2
    shift 2
    run 0 cutlass gemm "$tmp/$a.npy" "$tmp/$b.npy" -o "$tmp/want.npy" --device host --type f32 "$@"
}

# 2 images of 3 x 5 with 4 channels; 6 filters of one pixel.
matrix x i8 C 30 4
matrix y i8 F 30 6
matrix w i8 C 6 4
matrix bias f32 V 6 1
transposed wt w 6 4
part yc y 0 30 0 6
transposed yt yc 30 6
conv x w -i 2,3,5 -f 1,1
says out '30 x 4 x 6 in f32'
gemm x wt
same d want
conv x w -i 2,15 -f 1 -e 'relu(acc+bias[col])' -w bias="$tmp/bias.npy"
gemm x wt -e 'relu(acc+bias[col])' -w bias="$tmp/bias.npy"
same d want
conv y w --operation dgrad -i 2,3,5,1 -f 1
gemm y w
same d want
conv y x --operation wgrad -i 2,3,5 -f 1
gemm yt x
same d want

# A filter as large as the image meets it once.
matrix image i8 C 30 2
matrix large i8 C 7 60
reshaped flat image '30, 2' '1, 60'
transposed larget large 7 60
conv image large -i 1,5,6 -f 5,6
gemm flat larget
same d want

# Every other pixel; zeros around; two groups of channels; where the filter's second pixel is.
conv x w -i 2,15 -f 1
part row0 d 0 1 0 6
part row2 d 2 1 0 6
part rows d 0 15 0 6
conv x w -i 2,15 -f 1 --stride 2
part second d 1 1 0 6
same second row2
conv x w -i 2,15 -f 1 --pad 3 --pad-after 1
part after d 3 15 0 6
same after rows
conv x w -i 2,3,5 -f 1 --pad 1,0
part first d 5 1 0 6
same first row0
matrix half i8 C 6 2
part x1 x 0 30 2 2
part half1 half 3 3 0 2
conv x1 half1 -i 2,3,5 -f 1
mv "$tmp/d.npy" "$tmp/want.npy"
conv x half -i 2,3,5 -f 1 --groups 2
part right d 0 30 3 3
same right want
matrix two i8 C 6 8
conv x two -i 2,15 -f 2 --dilation 3
mv "$tmp/d.npy" "$tmp/want.npy"
part t0 two 0 6 0 4
part t1 two 0 6 4 4
conv x t0 -i 2,15 -f 1 --pad 0 --pad-after 0
mv "$tmp/d.npy" "$tmp/first.npy"
part head first 0 12 0 6
part xtail x 3 12 0 4
conv xtail t1 -i 1,12 -f 1 -e 'acc+c' -w c="$tmp/head.npy"
part want12 want 0 12 0 6
same d want12
conv x two -i 2,15 -f 2 --flip
mv "$tmp/d.npy" "$tmp/flipped.npy"
conv x t1 -i 2,15 -f 1
mv "$tmp/d.npy" "$tmp/first.npy"
part head first 0 14 0 6
part xtail x 1 14 0 4
conv xtail t0 -i 1,14 -f 1 -e 'acc+c' -w c="$tmp/head.npy"
part flipped14 flipped 0 14 0 6
same d flipped14

# --- refused ---
# refused STATUS PATTERN ARGS...: must fail with a message and leave no output.
refused() {
    expected=$1 pattern=$2
    shift 2
    rm -f "$tmp/d.npy"
    run "$expected" cutlass conv "$tmp/x.npy" "$tmp/w.npy" -o "$tmp/d.npy" --device host \
        --type f32 "$@" && says err "$pattern"
    [ ! -e "$tmp/d.npy" ] || fail "an output file was left"
}
refused 2 'expected --input N,H,W' -f 1
refused 2 'expected --filter R,S' -i 2,15
refused 2 'expected images and one to three sizes' -i 2 -f 1
refused 2 'expected up to four numbers' -i 1,2,3,4,5 -f 1
refused 2 "got '2,,15'" -i 2,,15 -f 1
refused 2 "got '2,15,'" -i 2,15, -f 1
refused 2 "got '2,-15'" -i 2,-15 -f 1
refused 2 "got '2,2147483648'" -i 2,2147483648 -f 1
refused 2 'expected 2 numbers, one for each size' -i 2,3,5 -f 1,1,1
refused 1 'expected 24 rows, a pixel of the activation each' -i 2,3,4 -f 1
refused 1 'expected 16 columns, the channels of each' -i 2,3,5 -f 2
refused 1 'expected 2 rows, a pixel of the output each; .*x.npy' -i 2,3,5 -f 1 --operation dgrad \
    --pad 1 --stride 9
refused 2 'does not|expected one that fits' -i 2,3,5 -f 4,1
refused 2 'expected one that fits into' -i 2,3,5 -f 0
refused 1 'filters: expected a multiple of groups, 4' -i 2,3,5 -f 2,2 --groups 4
refused 1 'a.type: expected' -i 2,3,5 -f 1 --type i8
run 0 help cutlass conv && says out 'fprop.dgrad.wgrad'

finish
