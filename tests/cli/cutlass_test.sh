#!/bin/sh
# troupe cutlass gemm: the same results as troupe matmul where both can do it, every kind of operand,
# and input that is no good.
# TROUPE_TEST("no tsan")
. "$(dirname "$0")/lib.sh"

if [ "$device" != host ]; then
    echo "skipped: on the host backend so far"
    exit 77
fi

matrix a f32 C 37 53
matrix b f32 F 53 29
matrix c f32 C 37 29
matrix bias f32 V 29 1
matrix rows f32 V 37 1

# gemm ARGS...: must work; the result is d.npy
gemm() {
    rm -f "$tmp/d.npy"
    run 0 cutlass gemm "$tmp/a.npy" "$tmp/b.npy" -o "$tmp/d.npy" --device host "$@"
}
# matmul ARGS...: the same with the other command, to want.npy
matmul() {
    rm -f "$tmp/want.npy"
    run 0 matmul "$tmp/a.npy" "$tmp/b.npy" -o "$tmp/want.npy" --device host --check "$@"
}

gemm && "$npy_tool" matmul a="$tmp/a.npy" b="$tmp/b.npy" d="$tmp/d.npy" || fail "wrong product"
says out '37 x 53 x 29 in f32'
gemm -e 'relu(acc + bias[col])' -w bias="$tmp/bias.npy"
matmul --bias "$tmp/bias.npy" --activation relu
same d want
gemm -e 'acc + c' -w c="$tmp/c.npy"
matmul --add "$tmp/c.npy" --beta 1
same d want
gemm -e 'alpha * acc' -w alpha=0.5 --type f16 --type-d f32
matmul --alpha 0.5 --type f16 --type-d f32
same d want
gemm --type i8
matmul --type i8
same d want
gemm --type f8e4m3 --type-b f8e5m2
matmul --type f8e4m3 --type-b f8e5m2 --type-d bf16
same d want

# Weights of 8 and 4 bits, in either order: integers, whose sums are exact.
matrix tokens i8 C 37 54
for order in C F; do
    matrix weights f32 $order 54 29
    run 0 cutlass gemm "$tmp/tokens.npy" "$tmp/weights.npy" -o "$tmp/want.npy" --device host \
        --type i8 --type-d f32
    for type in bf16,i8 f16,i4 bf16,i4; do
        run 0 cutlass gemm "$tmp/tokens.npy" "$tmp/weights.npy" -o "$tmp/d.npy" --device host \
            --type ${type%,*} --type-b ${type#*,} --type-d f32
        cmp "$tmp/d.npy" "$tmp/want.npy" || fail "other sums with weights as $type"
    done
done
run 1 cutlass gemm "$tmp/a.npy" "$tmp/b.npy" -o "$tmp/d.npy" --type f16 --type-b i4 --device host &&
    says err 'b: expected lines, b.ld and b.stride of even numbers of elements, got 53'
run 1 cutlass gemm "$tmp/a.npy" "$tmp/b.npy" -o "$tmp/d.npy" --type f32 --type-b i4 --device host &&
    says err 'must be of one type, .*got f32 and i4; see --type and --type-b'

# A statement stores what the result is made of; the largest value is that of the result.
gemm -e 'y = acc + bias[col]; x[row,col]:rowmajor = y; top[] = amax(y); y * rows[row]' \
    -w bias="$tmp/bias.npy" -w x="$tmp/x.npy" -w top="$tmp/top.npy" -w rows="$tmp/rows.npy"
matmul --bias "$tmp/bias.npy"
same x want
[ -s "$tmp/top.npy" ] || fail "no file of the largest value"
gemm -e 'acc + x[row,col] * rows[row]' -w x="$tmp/x.npy" -w rows="$tmp/rows.npy"

# --- refused ---
# refused STATUS PATTERN ARGS...: must fail with a message and leave no output.
refused() {
    expected=$1 pattern=$2
    shift 2
    rm -f "$tmp/d.npy"
    run "$expected" cutlass gemm "$tmp/a.npy" "$tmp/b.npy" -o "$tmp/d.npy" --device host "$@" &&
        says err "$pattern"
    [ ! -e "$tmp/d.npy" ] || fail "an output file was left"
}
refused 2 'column' -e 'acc +'
refused 2 'column' -e 'acc + relu(('
refused 2 'expected --with bias=FILE' -e 'acc + bias[col]'
refused 2 'expected --with s=NUMBER' -e 's * acc'
refused 2 'has no such name' -e 'acc' -w s=1
refused 2 'given before' -e 's * acc' -w s=1 -w s=2
refused 1 'expected 29 x 1 elements' -e 'acc + bias[col]' -w bias="$tmp/rows.npy"
refused 1 'expected 37 x 29 elements' -e 'acc + c' -w c="$tmp/a.npy"
refused 1 'No such file' -e 'acc + bias[col]' -w bias="$tmp/nothere.npy"
refused 1 'd.type: expected' --type f64 --type-d f16
refused 1 'TF32 goes with' --type bf16 --tf32
run 1 cutlass gemm "$tmp/a.npy" "$tmp/a.npy" -o "$tmp/d.npy" && says err 'do not agree'
run 2 cutlass gemm "$tmp/a.npy" "$tmp/b.npy" && says err 'expected -o'
run 2 cutlass frob && says err "unknown subcommand 'frob'"
run 2 cutlass && says err 'expected a subcommand'
run 0 cutlass --help && says out 'gemm '
run 0 help cutlass gemm && says out 'NAME=FILE'

finish
