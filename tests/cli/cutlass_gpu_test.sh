#!/bin/sh
# troupe cutlass gemm on a GPU, or the fakes of one: kernels by name, searches, and --check.
# TROUPE_TEST_FAKE_GPU("no sanitizer", "cutlass")
. "$(dirname "$0")/lib.sh"

if [ "$device" = host ]; then
    echo "skipped: needs a GPU, or the fakes of one"
    exit 77
fi

mkdir -m 700 "$tmp/cache"
export TROUPE_CACHE_DIR="$tmp/cache"
matrix a f32 C 37 53
matrix b f32 F 53 29
matrix c f32 C 37 29
matrix bias f32 V 29 1

# gemm STATUS ARGS...: the result is d.npy
gemm() {
    status=$1
    shift
    run "$status" cutlass gemm "$tmp/a.npy" "$tmp/b.npy" -o "$tmp/d.npy" --device cuda "$@"
}

gemm 0 --type bf16 --type-d f32 -e 'relu(acc + bias[col]) + c' -w bias="$tmp/bias.npy" -w c="$tmp/c.npy" --check
says out 'the result against the host: relative error' && says out 'kernel  *s80_half'
gemm 0 --type bf16 --tune quick && says out 'if a search finds none that is faster'
gemm 0 --type bf16 && says out 'found by a search'
gemm 0 --type bf16 -e 'acc * 2' && says out 'kernel  *s' && ! grep -q 'found by a search' "$tmp/out" || fail "found by a search?"
gemm 0 --type bf16 --kernel s80_half_64x64x32_a1 --check && says out 's80_half_64x64x32_a1'
gemm 0 --type i8 --check
gemm 2 --type bf16 --kernel nonsense && says err "--kernel: no kernel is called 'nonsense'"
gemm 2 --tune fast && says err '--tune'
run 1 cutlass gemm "$tmp/a.npy" "$tmp/b.npy" -o "$tmp/d.npy" --device host --check
says err '--check compares a GPU.s results with the host'

# Groups of rows, and a convolution of one pixel, which is the product.
matrix stacked f32 C 106 29
group() {
    status=$1
    shift
    run "$status" cutlass grouped "$tmp/a.npy" "$tmp/stacked.npy" -o "$tmp/d.npy" --device cuda --sizes 20,17 --type bf16 "$@"
}
group 0 --tune quick --check && says out 'grouped_half.*if a search finds none that is faster'
group 0 && says out 'grouped_half.*found by a search'
group 0 --kernel s80_grouped_half_64x64x32_a1 && says out 's80_grouped_half_64x64x32_a1'
group 1 --kernel s80_half_64x64x32_a1 && says err 'computes products, not grouped products'
convolve() {
    run 0 cutlass conv "$tmp/x.npy" "$tmp/y.npy" -o "$tmp/d.npy" --device cuda --input 2,5,4 --filter 1,1 --type bf16 "$@"
}
matrix x f32 C 40 16
matrix y f32 C 24 16
convolve --tune quick --check && says out 'conv_half.*if a search finds none that is faster'
convolve && says out 'conv_half.*found by a search'

# What else begins with a flag.
run 0 cutlass gemm --list && says out '^s90_half_128x256x64_2x1'
run 0 cutlass conv --list && says out '^s90_half_128x256x64_2x1'
run 0 cutlass gemm --explain -m 64 -n 64 -k 64 && says out 'us  s90_half' && says out 'does not multiply'
run 0 cutlass gemm --bench --help && says out 'usage: troupe bench'

finish
