#!/bin/sh
# troupe conv: its results against float64, and against other ways to the same; and input that is no
# good. TROUPE_TEST_DEVICE=cuda runs it on a GPU.
# TROUPE_TEST("no tsan")
. "$(dirname "$0")/lib.sh"

# conv A B ARGS...: must work, and be right; the result is y.npy
conv() {
    a=$1 b=$2
    shift 2
    rm -f "$tmp/y.npy"
    run 0 conv "$tmp/$a.npy" "$tmp/$b.npy" -o "$tmp/y.npy" --device "$device" --check "$@" &&
        says out 'against float64: relative error'
}

# --- forward: sizes, groups, layouts, types ---
array x f32 C 2,6,9,7
array w f32 C 4,6,3,3
conv x w
has y '2, 4, 7, 5'
says out 'read .*x.npy: 2 x 6 x 9 x 7 f32, C order'
says out 'convolution .*2 x 4 x 7 x 5 f32 at .*FLOP/s'
mv "$tmp/y.npy" "$tmp/plain.npy"
conv x w --layout nhwc
same y plain
says out 'convert .*nhwc'
conv x w --layout nchw
same y plain
conv x w --pad 1
has y '2, 4, 9, 7'
conv x w --pad 2,1 --pad-after 0,3 --stride 2,1 --dilation 1,2
has y '2, 4, 5, 7'
conv x w --stride 3 --flip
has y '2, 4, 3, 2'
array wg f32 C 4,3,2,3
conv x wg
has y '2, 4, 8, 5'
conv x wg --groups 2
array wd f32 C 12,1,3,3
conv x wd --layout nhwc --pad 1
array x1 f32 C 3,4,20
array w1 f32 C 5,4,7
conv x1 w1 --stride 2
has y '3, 5, 7'
array x3 f64 C 2,2,5,6,4
array w3 f64 C 3,2,2,3,2
conv x3 w3 --pad 1,0,1
has y '2, 3, 6, 4, 5'
conv x3 w3 --pad 1,0,1 --layout nhwc
# Without images there is nothing to do.
array none f32 C 0,6,9,7
conv none w
has y '0, 4, 7, 5'

# A file in Fortran order holds the same array, seen with other strides: only the strides differ.
array xf f32 F 2,6,9,7
array wf f32 F 4,6,3,3
conv xf wf
says out 'x*f.npy: 2 x 6 x 9 x 7 f32, Fortran order'
has y '2, 4, 7, 5'
mv "$tmp/y.npy" "$tmp/plain.npy"
conv xf wf --layout nchw
same y plain
conv xf wf --layout nhwc
same y plain
# One that is symmetric under both orders: 1 x 1 x 1 x n.
shape line x 1,1,1,756
shape linef x 1,1,1,756 F
shape tap w 1,1,1,216
conv line tap
mv "$tmp/y.npy" "$tmp/plain.npy"
conv linef tap
same y plain

for type in f16 bf16 f8e4m3 f8e5m2 f64; do
    conv x w --type $type
done
conv x w --type f16 --type-y f32
has y '2, 4, 7, 5'
array xi i8 C 2,6,9,7
array wi i8 C 4,6,3,3
conv xi wi
says out '2 x 4 x 7 x 5 i32'
conv xi wi --alpha 0.001 --type-y i8 --activation relu
says out '2 x 4 x 7 x 5 i8'
conv x w --type i8

# --- what goes with it ---
array bias f32 C 4
array z f32 C 2,4,7,5
conv x w --bias "$tmp/bias.npy" --add "$tmp/z.npy" --alpha 0.5 --beta -2
for activation in relu relu:0,6 relu:0,,0.1 relu:-1,1,0.5 tanh sigmoid elu elu:0.5 gelu gelu-tanh \
    softplus softplus:2 swish swish:1.5; do
    conv x w --bias "$tmp/bias.npy" --activation $activation
done
conv x w --type bf16 --bias "$tmp/bias.npy" --add "$tmp/z.npy" --beta 1 --activation gelu --layout nhwc
conv x w --tf32

# --- gradients ---
array dy f32 C 2,4,7,5
conv dy w --pass data
has y '2, 6, 9, 7'
conv x dy --pass filter
has y '4, 6, 3, 3'
conv x dy --pass filter --layout nhwc --alpha 3 --add "$tmp/w.npy" --beta 0.5
array dys f32 C 2,4,4,4
conv dys w --pass data --stride 2 --pad 0,1 --size 9,7
has y '2, 6, 9, 7'
conv dys w --pass data --stride 2 --pad 0,1 --size 10,8
has y '2, 6, 10, 8'
conv x dys --pass filter --stride 2 --pad 0,1 --size 3,3
has y '4, 6, 3, 3'
array dyg f32 C 2,4,8,5
conv dyg wg --pass data --groups 2
has y '2, 6, 9, 7'
conv x dyg --pass filter --groups 2
has y '4, 3, 2, 3'
conv dyg wg --pass data --groups 2 --flip --type f16

# --- the same by other ways ---
# A filter of one pixel is a matrix, and an image of any shape another.
array image f32 C 1,6,4,5
array one f32 C 8,6,1,1
shape left one 8,6
shape right image 6,20
conv image one
shape got y 8,20
run 0 matmul "$tmp/left.npy" "$tmp/right.npy" -o "$tmp/want.npy" --device "$device"
"$npy_tool" shape "$tmp/want.npy" "$tmp/wanted.npy" 8,20 C
same got wanted
# The gradient of an image is a convolution with the filter turned over; that of a filter is one
# with the gradient for a filter.
array a f32 C 1,1,9,8
array f f32 C 1,1,3,4
array da f32 C 1,1,7,5
conv da f --pass data
mv "$tmp/y.npy" "$tmp/want.npy"
conv da f --flip --pad 2,3
same y want
conv a da --pass filter
mv "$tmp/y.npy" "$tmp/want.npy"
conv a da
same y want

# --- refused ---
# refused STATUS PATTERN A B ARGS...: must fail with a message and leave no output
refused() {
    expected=$1 pattern=$2 a=$3 b=$4
    shift 4
    rm -f "$tmp/y.npy"
    run "$expected" conv "$tmp/$a.npy" "$tmp/$b.npy" -o "$tmp/y.npy" --device "$device" "$@" &&
        says err "$pattern"
    [ ! -e "$tmp/y.npy" ] || fail "an output file was left"
}
shape flat x 12,63
shape six x 1,2,6,9,7,1
refused 1 'X: expected 3 to 5 dimensions, n x channels x 1 to 3 sizes; .*flat.npy is 12 x 63 f32' flat w
refused 1 'X: expected 3 to 5 dimensions' six w
refused 1 'W: expected 4 dimensions, k x channels x sizes; .*w1.npy is 5 x 4 x 7 f32' x w1
refused 1 'DY: expected 4 dimensions, as the first file has' x w1 --pass filter
refused 1 'both arrays must be of one type: .*x.npy is .*f32, .*wi.npy is .*i8; see --type' x wi
array xc c64 C 2,6,9,7
refused 1 'X: expected f64, f32, f16, i8 or u8, or --type; .*xc.npy is' xc xc
refused 1 'X: expected elements that can be made f32; .*xc.npy' xc w --type f32
array wbad f32 C 4,5,3,3
refused 1 'W: expected 6 in dimension 1, the channels of X, or a part of them; .*4 x 5 x 3 x 3' x wbad
refused 1 'W: expected 3 in dimension 1, the channels of X divided by --groups' x w --groups 2
array w2 f32 C 5,3,3,3
refused 1 'W: expected a multiple of the 2 groups for the 5 filters' x w2
refused 1 'W: expected at least 1 in each dimension' x none
array big f32 C 4,6,3,8
refused 1 'W: expected a filter that fits into 7 and its padding in dimension 3' x big
refused 1 'W: expected a filter that fits into 9 .* in dimension 2' x w --dilation 5
refused 1 '--add: expected 2 x 4 x 7 x 5, as the result has; .*x.npy is 2 x 6' x w --beta 1 --add "$tmp/x.npy"
refused 1 '--bias: expected 4, one for each filter; .*z.npy' x w --bias "$tmp/z.npy"
refused 2 '--pad: expected 2 numbers, one for each size of the images' x w --pad 1,1,1
refused 2 '--pad: expected up to four numbers' x w --pad 1,x
refused 2 '--stride: expected at least 1' x w --stride 0
refused 2 'expected --size H,W, the sizes of the result' dys w --pass data --stride 2
refused 1 'DY: expected 5 in dimension 2, as many as a filter of 3 has places in 11 with' \
    dys w --pass data --stride 2 --pad 0,1 --size 11,7
refused 1 'DY: expected 4 in dimension 1, the number of filters; ' x w --pass data
refused 1 'DY: expected 2 in dimension 0, the images of X' x image --pass filter
refused 2 'X: expected channels that --groups 4 divides' x dy --pass filter --groups 4
refused 2 "--activation: expected relu.tanh.*got 'rely'" x w --activation rely
refused 2 "--activation: expected .*got 'tanh:1'" x w --activation tanh:1
refused 2 "--activation: expected .*got 'elu:1,2'" x w --activation elu:1,2
refused 2 "--activation: expected .*got 'relu:a'" x w --activation relu:a
refused 2 "--activation: expected .*got 'relu:'" x w --activation relu:
refused 1 'parameter\[1\]: expected at least the lower clip' x w --activation relu:1,0
refused 2 '--bias: expected --pass forward, got data' dy w --pass data --bias "$tmp/bias.npy"
refused 2 '--activation: expected --pass forward, got filter' x dy --pass filter --activation relu
refused 2 '--beta: expected --add FILE' x w --beta 2
TROUPE_WORKER=/nowhere/worker run 1 conv "$tmp/x.npy" "$tmp/w.npy" -o "$tmp/no/y.npy" --device "$device" &&
    says err "writing $tmp/no/y.npy"
refused 2 '--add: expected --beta' x w --add "$tmp/z.npy"
refused 2 '--alpha: expected a real number' x w --alpha 1,1
refused 2 '--size: expected --pass data or filter' x w --size 3,3
refused 2 '--pass: expected forward.data.filter' x w --pass backward
refused 2 '--type: expected f64' x w --type c64
refused 2 '--layout: expected nchw.nhwc' x w --layout chwn
run 2 conv "$tmp/x.npy" "$tmp/w.npy" && says err 'expected -o Y.npy'
run 2 conv "$tmp/x.npy" -o "$tmp/y.npy" && says err 'expected 2 operands, got 1'
refused 1 'missing.npy: No such file' missing w
npy wrong "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 6, 9, 7), }" 1512
refused 1 "wrong.npy: integer dtype '<i2': expected" wrong w
npy short "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 6, 9, 7), }" 3023
refused 1 'short.npy: truncated data: shape \(2, 6, 9, 7\) of 4-byte elements is 3024 bytes' short w
npy nine "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1, 1, 1), }" 4
refused 1 'nine.npy: 9-D array .*: expected 1 to 8 dimensions' nine w
npy huge "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 6, 9, 4294967296), }" 0
refused 1 'X: expected dimensions below 2\^31; .*huge.npy' huge w
# Other commands take matrices and vectors alone.
run 1 matmul "$tmp/x.npy" "$tmp/w.npy" -o "$tmp/y.npy" --device "$device" &&
    says err '4-D array of shape \(2, 6, 9, 7\): expected a matrix, 2-D, or a vector, 1-D'
run 0 help conv && says out 'forward.data.filter'

finish
