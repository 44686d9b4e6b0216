#!/bin/sh
# troupe norm: its results against float64, and against each other; and input that is no good.
# TROUPE_TEST_DEVICE=cuda runs it on a GPU.
# TROUPE_TEST("no tsan")
. "$(dirname "$0")/lib.sh"

# norm X ARGS...: must work, and be right; the result is y.npy
norm() {
    x=$1
    shift
    rm -f "$tmp/y.npy"
    run 0 norm "$tmp/$x.npy" -o "$tmp/y.npy" --device "$device" --check "$@" &&
        says out 'against float64: relative error'
}

array x f32 C 4,6,5,7
array xf f32 F 4,6,5,7
array xd f64 C 3,6,11
array matrix f32 C 9,6
array scale f32 C 6
array bias f32 C 6
array inner f32 C 6,5,7
array shift f32 C 6,5,7
array last f32 C 7
array whole f32 F 5,7
array inner3 f64 C 6,11

# --- by channels ---
for mode in batch instance; do
    for in in x xf xd matrix; do
        [ $mode-$in = instance-matrix ] && continue # one element each
        norm $in --mode $mode --training --scale "$tmp/scale.npy" --bias "$tmp/bias.npy"
    done
    norm x --mode $mode --training --scale "$tmp/scale.npy" --epsilon 0.1 --layout nhwc
    norm x --mode $mode --training --scale "$tmp/scale.npy" --activation relu --type bf16
    norm x --mode $mode --training --scale "$tmp/scale.npy" --bias "$tmp/bias.npy" \
        --mean-out "$tmp/mean.npy" --inv-variance-out "$tmp/inv.npy"
    says out 'normalisation .*4 x 6 x 5 x 7 f32'
    mv "$tmp/y.npy" "$tmp/want.npy"
    case $mode in
    batch)
        has mean '6,'
        norm x --mode batch --scale "$tmp/scale.npy" --bias "$tmp/bias.npy" \
            --mean "$tmp/mean.npy" --inv-variance "$tmp/inv.npy"
        ;;
    instance)
        has mean '4, 6'
        has inv '4, 6'
        norm x --mode instance --scale "$tmp/scale.npy" --bias "$tmp/bias.npy"
        ;;
    esac
    same y want
done

# --- over the dimensions of scale ---
for mode in layer rms; do
    norm x --mode $mode --scale "$tmp/inner.npy"
    norm x --mode $mode --scale "$tmp/last.npy" --training --inv-variance-out "$tmp/inv.npy"
    has inv '4, 6, 5'
    norm xf --mode $mode --scale "$tmp/whole.npy"
    norm matrix --mode $mode --scale "$tmp/scale.npy" --type f16
    norm x --mode $mode --scale "$tmp/inner.npy" --layout nhwc --epsilon 0.01
done
norm x --mode layer --scale "$tmp/inner.npy" --bias "$tmp/shift.npy" --activation gelu
norm x --mode layer --scale "$tmp/inner.npy" --bias "$tmp/shift.npy" --training \
    --mean-out "$tmp/mean.npy"
has mean '4,'

# --- gradients ---
# gradient X DY ARGS...: must work, and be right; the gradients are dx.npy and dscale.npy
gradient() {
    x=$1 dy=$2
    shift 2
    rm -f "$tmp/dx.npy" "$tmp/dscale.npy" "$tmp/dbias.npy"
    run 0 norm "$tmp/$x.npy" --backward "$tmp/$dy.npy" --dx "$tmp/dx.npy" \
        --dscale "$tmp/dscale.npy" --device "$device" --check "$@" &&
        says out 'against float64: relative error'
}
array dy f32 C 4,6,5,7
array dyf f32 F 4,6,5,7
array dyd f64 C 3,6,11
array dmatrix f32 C 9,6
array wide f32 C 8,6,40,30
array dwide f32 C 8,6,40,30
for mode in batch instance; do
    for pair in x,dy xf,dy x,dyf xd,dyd matrix,dmatrix; do
        [ $mode-$pair = instance-matrix,dmatrix ] && continue
        gradient "${pair%,*}" "${pair#*,}" --mode $mode --scale "$tmp/scale.npy" \
            --dbias "$tmp/dbias.npy"
        has dscale '6,'
        has dbias '6,'
    done
    gradient x dy --mode $mode --scale "$tmp/scale.npy" --epsilon 0.1 --layout nhwc
    gradient x dy --mode $mode --scale "$tmp/scale.npy" --type bf16
    gradient wide dwide --mode $mode --scale "$tmp/scale.npy" --training
done
for mode in layer rms; do
    gradient x dy --mode $mode --scale "$tmp/inner.npy"
    has dx '4, 6, 5, 7'
    has dscale '6, 5, 7'
    gradient x dyf --mode $mode --scale "$tmp/last.npy" --epsilon 0.01
    gradient xf dy --mode $mode --scale "$tmp/whole.npy"
    gradient matrix dmatrix --mode $mode --scale "$tmp/scale.npy" --type f16
    gradient xd dyd --mode $mode --scale "$tmp/inner3.npy"
done
gradient x dy --mode layer --scale "$tmp/inner.npy" --bias "$tmp/shift.npy" --layout nhwc \
    --dbias "$tmp/dbias.npy"
has dbias '6, 5, 7'
# With the result and statistics, and again from those.
gradient x dy --mode batch --scale "$tmp/scale.npy" --bias "$tmp/bias.npy" -o "$tmp/y.npy" \
    --mean-out "$tmp/mean.npy" --inv-variance-out "$tmp/inv.npy"
says out 'normalisation .*4 x 6 x 5 x 7 f32'
says out 'gradient .*4 x 6 x 5 x 7 f32'
mv "$tmp/dx.npy" "$tmp/want.npy"
mv "$tmp/y.npy" "$tmp/wanty.npy"
gradient x dy --mode batch --scale "$tmp/scale.npy" --bias "$tmp/bias.npy" -o "$tmp/y.npy" \
    --mean "$tmp/mean.npy" --inv-variance "$tmp/inv.npy"
same dx want
same y wanty
gradient x dy --mode batch --scale "$tmp/scale.npy" --mean "$tmp/mean.npy" \
    --inv-variance "$tmp/inv.npy"
same dx want
run 0 norm "$tmp/x.npy" --mode rms --scale "$tmp/last.npy" --backward "$tmp/dy.npy" \
    --dscale "$tmp/only.npy" --device "$device" --check
has only '7,'

# --- refused ---
# refused STATUS PATTERN X ARGS...: must fail with a message and leave no output
refused() {
    expected=$1 pattern=$2 x=$3
    shift 3
    rm -f "$tmp/y.npy"
    run "$expected" norm "$tmp/$x.npy" -o "$tmp/y.npy" --device "$device" "$@" &&
        says err "$pattern"
    [ ! -e "$tmp/y.npy" ] || fail "an output file was left"
}
scale=$tmp/scale.npy
array none f32 C 0,6,5
array xc c64 C 4,6,5,7
refused 1 'X: expected 2 to 8 dimensions, n x channels x any sizes; .*scale.npy is 6 f32' scale \
    --mode layer --scale "$scale"
refused 1 'X: expected f64, f32, f16, i8 or u8, or --type' xc --mode layer --scale "$scale"
refused 1 'X: expected at least 1 in each dimension' none --mode layer --scale "$scale"
refused 1 '--scale: expected 7, the last dimensions of X; .*scale.npy is 6' x --mode layer \
    --scale "$scale"
refused 1 '--scale: expected 1 dimensions, the last ones of X' matrix --mode rms \
    --scale "$tmp/inner.npy"
refused 1 '--scale: expected 6, one for each channel; .*last.npy is 7' x --mode instance \
    --scale "$tmp/last.npy"
refused 1 '--bias: expected 6 x 5 x 7, the last dimensions of X; .*last' x --mode layer \
    --scale "$tmp/inner.npy" --bias "$tmp/last.npy"
refused 1 '--mean: expected 6, one for each channel; .*last.npy' x --mode batch --scale "$scale" \
    --mean "$tmp/last.npy" --inv-variance "$tmp/inv.npy"
refused 2 'expected --mode layer.batch.instance.rms' x --scale "$scale"
refused 2 '--mode: expected layer.batch.instance.rms, got .group' x --mode group --scale "$scale"
refused 2 'expected --scale FILE' x --mode layer
refused 2 '--mode batch: expected --mean FILE and --inv-variance FILE, or --training' x \
    --mode batch --scale "$scale"
refused 2 '--mean: expected --mode batch without --training, got layer' x --mode layer \
    --scale "$scale" --mean "$scale"
refused 2 '--inv-variance: expected --mode batch without --training, got batch with it' x \
    --mode batch --training --scale "$scale" --inv-variance "$scale"
refused 2 '--mean-out: expected --training' x --mode layer --scale "$scale" \
    --mean-out "$tmp/mean.npy"
refused 2 '--bias: expected none, for --mode rms' x --mode rms --scale "$scale" --bias "$scale"
refused 2 '--epsilon: expected none' x --mode batch --scale "$scale" --mean "$scale" \
    --inv-variance "$scale" --epsilon 1
refused 2 "--epsilon: expected a number, 0 or more, got '-1'" x --mode rms --scale "$scale" \
    --epsilon -1
refused 2 "--activation: expected .*got 'rely'" x --mode rms --scale "$scale" --activation rely
refused 1 'missing.npy: No such file' missing --mode rms --scale "$scale"
run 2 norm "$tmp/x.npy" --mode rms --scale "$scale" && says err 'expected -o Y.npy'
# refused_dy STATUS PATTERN ARGS...: the same of x.npy, with all options given
refused_dy() {
    expected=$1 pattern=$2
    shift 2
    rm -f "$tmp/y.npy"
    run "$expected" norm "$tmp/x.npy" --device "$device" "$@" && says err "$pattern"
    [ ! -e "$tmp/y.npy" ] || fail "an output file was left"
}
for option in dx dscale dbias; do
    refused_dy 2 "--$option: expected --backward DY.npy" --mode layer --scale "$tmp/last.npy" \
        -o "$tmp/y.npy" --$option "$tmp/y.npy"
done
refused_dy 2 '--backward: expected --dx, --dscale or --dbias FILE' --mode layer \
    --scale "$tmp/last.npy" --backward "$tmp/dy.npy"
refused_dy 2 '--dbias: expected none, for --mode rms' --mode rms --scale "$tmp/last.npy" \
    --backward "$tmp/dy.npy" --dbias "$tmp/y.npy"
refused_dy 2 '--activation: expected none with --backward' --mode layer --scale "$tmp/last.npy" \
    --backward "$tmp/dy.npy" --dx "$tmp/y.npy" --activation relu
refused_dy 2 '--mode batch: expected --mean FILE and --inv-variance FILE' --mode batch \
    --scale "$scale" --backward "$tmp/dy.npy" --dx "$tmp/y.npy" --mean "$tmp/mean.npy"
refused_dy 2 '--mean: expected --mode batch without --training, got layer' --mode layer \
    --scale "$tmp/last.npy" --backward "$tmp/dy.npy" --dx "$tmp/y.npy" --mean "$tmp/mean.npy"
refused_dy 1 '--backward: expected 4 x 6 x 5 x 7, as X has; .*dmatrix.npy is 9 x 6' --mode layer \
    --scale "$tmp/last.npy" --backward "$tmp/dmatrix.npy" --dx "$tmp/y.npy"
refused_dy 1 'missing.npy: No such file' --mode layer --scale "$tmp/last.npy" \
    --backward "$tmp/missing.npy" --dx "$tmp/y.npy"

finish
