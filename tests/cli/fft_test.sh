#!/bin/sh
# troupe fft: its results against sums, there and back, and input that is no good.
# TROUPE_TEST("no tsan")
. "$(dirname "$0")/lib.sh"

# fft X ARGS...: must work, and be right; the result is y.npy
fft() {
    x=$1
    shift
    rm -f "$tmp/y.npy"
    run 0 fft "$tmp/$x.npy" -o "$tmp/y.npy" --device host --check "$@" &&
        says out 'against float64: relative error'
}

array c c64 C 3,4,10
array cf c128 F 5,6,7
array r f32 C 2,3,9
array d f64 F 4,100
array v c64 C 67
array w c128 C 1000
for norm in backward ortho forward; do
    fft c --norm $norm
    has y '3, 4, 10'
    says out 'c2c along several axes: 3 x 4 x 10 c64'
    fft c --inverse --axes -1 --norm $norm
    says out 'c2c, inverse, along one axis'
    fft cf --axes 2,0 --norm $norm
    has y '5, 6, 7'
    fft r --norm $norm
    has y '2, 3, 5'
    fft d --axes 0 --norm $norm
    has y '3, 100'
    fft d --kind r2c --axes 0,1 --inverse --norm $norm
    has y '4, 51'
    fft c --kind c2r --inverse --norm $norm
    has y '3, 4, 18'
    fft cf --kind c2r --axes 2,1 --length 7,9 --norm $norm
    has y '5, 9, 7'
    fft c --length 5,2,16 --norm $norm
    has y '5, 2, 16'
done
fft v
fft w --inverse
fft w --length 1009
has y '1009,'
array large c64 C 300,2000
fft large
says out 'of 600000 elements compared'

# There and back: the same numbers.
fft c
mv "$tmp/y.npy" "$tmp/spectrum.npy"
fft spectrum --inverse
same y c
fft r
mv "$tmp/y.npy" "$tmp/spectrum.npy"
fft spectrum --kind c2r --inverse --length 2,3,9
same y r

# Onto the input, and through pipes.
cp "$tmp/c.npy" "$tmp/own.npy"
fft c
run 0 fft "$tmp/own.npy" -o "$tmp/own.npy" --device host -q
[ ! -s "$tmp/out" ] || fail "--quiet printed something"
same own y
"$troupe" fft - -o - --device host <"$tmp/c.npy" >"$tmp/piped.npy" 2>"$tmp/err" || fail "through pipes"
same piped y

# Of nothing, and of no numbers.
npy none "{'descr': '<c8', 'fortran_order': False, 'shape': (0, 3), }" 0
run 0 fft "$tmp/none.npy" -o "$tmp/y.npy" --axes 1 --device host --check
has y '0, 3'
run 1 fft "$tmp/none.npy" -o "$tmp/y2.npy" --device host && says err 'axis 0 has no elements to transform'

# said STATUS PATTERN X ARGS...: must say so, and leave no file.
said() {
    status=$1 pattern=$2 x=$3
    shift 3
    run "$status" fft "$tmp/$x.npy" -o "$tmp/y2.npy" --device host "$@" && says err "$pattern"
    [ ! -e "$tmp/y2.npy" ] || fail "an output file was left"
}
said 2 '--axes: expected different numbers from -3 to 2' c --axes 3
said 2 '--axes: expected different numbers from -3 to 2' c --axes -4
said 2 '--axes: expected different numbers from -3 to 2' c --axes 1,-2
said 2 '--axes: expected different numbers' c --axes 0,1,2,0
said 2 '--axes: expected different numbers' c --axes x
said 2 '--axes: expected different numbers' c --axes 0,
said 2 '--length: expected 3 numbers from 1 on' c --length 4
said 2 '--length: expected 3 numbers from 1 on' c --length 4,4,4,4
said 2 '--length: expected 1 number from 1 on' c --axes 0 --length 0
said 2 '--kind: expected c2c|r2c|c2r' c --kind c2d
said 2 '--norm: expected backward|ortho|forward' c --norm none
said 2 '--kind r2c: expected real numbers; .*c.npy is 3 x 4 x 10 c64' c --kind r2c
said 2 '--kind c2c: expected complex numbers; .*r.npy is 2 x 3 x 9 f32; convert it with .astype.np.complex64' r --kind c2c
array h f16 C 4,4
said 1 'X: expected c64, c128, f32 or f64' h
array one c64 C 4,1
said 1 'axis 1 has no elements to transform' one --kind c2r
run 2 fft "$tmp/c.npy" && says err 'expected -o Y.npy'
run 1 fft "$tmp/no.npy" -o "$tmp/y2.npy" --device host && says err 'No such file'
run 1 fft "$tmp/c.npy" -o "$tmp/no/y.npy" --device host && says err 'No such file'

finish
