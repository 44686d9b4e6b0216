#!/bin/sh
# troupe cutlass pack: what a file of kernels may say, and that programs find what was packed, wherever
# the headers lie. On the fakes of the driver and the compilers, which count what they do.
# TROUPE_TEST_FAKE_GPU("no sanitizer", "cutlass")
. "$(dirname "$0")/lib.sh"

if [ "$device" != cuda ] || [ -z "${TROUPE_NVRTC:-}" ]; then
    echo 'skipped: this needs the fakes'
    exit 77
fi
TROUPE_CACHE_DIR=
FAKE_CUTLASS=$tmp/fake
TMPDIR=$tmp
export TROUPE_CACHE_DIR FAKE_CUTLASS TMPDIR
mkdir "$FAKE_CUTLASS"

# headers NAME: a folder that is taken for CUTLASS's. It has an assert, which asks for paths.
headers() {
    mkdir -p "$tmp/$1/cutlass"
    echo "inline void check(int x) { assert(x); }${2:-}" >"$tmp/$1/cutlass/cutlass.h"
}
headers here
headers there
headers other ' // changed'
TROUPE_CUTLASS=$tmp/here
export TROUPE_CUTLASS

# spec ENTRY...: they are $tmp/spec.json, from line 2 on.
spec() {
    printf '[\n' >"$tmp/spec.json"
    separator=
    for entry in "$@"; do
        printf '%s%s' "$separator" "$entry" >>"$tmp/spec.json"
        separator=',
'
    done
    printf ']\n' >>"$tmp/spec.json"
}
# pack STATUS ARGS...
pack() {
    expected_status=$1
    shift
    run "$expected_status" cutlass pack --spec "$tmp/spec.json" -o "$tmp/k.pack" "$@"
}
# compiles: how often since the last time, the reference of proofs aside.
compiles() {
    [ -e "$FAKE_CUTLASS/compiles" ] || : >"$FAKE_CUTLASS/compiles"
    grep -vc reference "$FAKE_CUTLASS/compiles" || :
    : >"$FAKE_CUTLASS/compiles"
}

# --- mistakes, with entry and field ---
wrong() {
    spec '{"rows": "best", "type": "bf16"}' "$2"
    pack 1 --arch 90a && says err "spec.json: \[1\]$1"
    [ ! -e "$tmp/k.pack" ] || fail 'a pack of half a file'
}
wrong '.rows: expected "best", "all" or the name of a row .*, got "s90_none"' '{"rows": "s90_none", "type": "f16"}'
wrong ': expected rows' '{"type": "f16"}'
wrong ': expected a type, or a' '{"rows": "all"}'
wrong '.type: expected a type, such as bf16, got "half"' '{"rows": "best", "type": ["f16", "half"]}'
wrong '.a: expected a type, such as bf16, got 3' '{"rows": "best", "a": 3}'
wrong '.layouts: expected "tn" and the like.*, got "xy"' '{"rows": "best", "type": "f16", "layouts": ["tn", "xy"]}'
wrong '.compute: expected "default" or "tf32", got true or false' '{"rows": "best", "type": "f32", "compute": true}'
wrong '.epilogue: expected a text' '{"rows": "best", "type": "f16", "epilogue": 1}'
wrong ': epilogue: column 9: expected' '{"rows": "best", "type": "f16", "epilogue": "relu(acc"}'
wrong '.align: expected 1, 2, 4, 8 or 16, in bytes, got 3' '{"rows": "best", "type": "f16", "align": [16, 3]}'
wrong '.sizes: expected m, n and k as in "4096x4096x4096", got "1x2"' '{"rows": "best", "type": "f16", "sizes": "1x2"}'
wrong '.groups: expected elements along k that have one factor, 0: none, got 1.5' '{"rows": "best", "groups": 1.5}'
wrong '.zeros: expected true or false, got 1' '{"rows": "best", "zeros": 1}'
wrong ': groups: expected none but for a b of 8 or 4 bits' '{"rows": "best", "type": "f16", "groups": 128}'
wrong ': zeros: expected false without groups' '{"rows": "best", "a": "f16", "b": "i4", "zeros": true}'
wrong '.operation: expected "gemm", "grouped", "fprop", "dgrad" or "wgrad", got "conv"' '{"rows": "best", "operation": "conv"}'
wrong '.scale_a: expected "none", "block_16".*, got "vector"' '{"rows": "best", "scale_a": "vector"}'
wrong '.batch: expected 1 or more products, or groups, got 0' '{"rows": "best", "batch": 0}'
wrong '.dims: expected 2, which one dimension is too, or 3, got 4' '{"rows": "best", "dims": 4}'
wrong '.channels: expected 1 or more channels, got 0' '{"rows": "best", "channels": 0}'
wrong '.strided: expected true or false, got "no"' '{"rows": "best", "strided": "no"}'
wrong ': dims: expected none but for a convolution' '{"rows": "best", "type": "f16", "dims": 2}'
wrong ': strided: expected false but for dgrad' '{"rows": "best", "type": "f16", "operation": "fprop", "strided": true}'
wrong ': layouts: expected none for a convolution' '{"rows": "best", "type": "f16", "operation": "wgrad", "layouts": "tn"}'
wrong ': scale_a and scale_b: expected none but for gemm' '{"rows": "best", "type": "f8e4m3", "operation": "grouped", "scale_a": "block_128"}'
wrong ': a.type: expected f64, .*, got i8' '{"rows": "best", "type": "i8", "operation": "fprop"}'
wrong '.arch: expected "90a", 80 or the like, got "7"' '{"rows": "best", "type": "f16", "arch": "7"}'
wrong '.row: there is no such field' '{"row": "best"}'
wrong '.rows: it was there before' '{"rows": "best", "rows": "all"}'
wrong '.rows: expected at least one value, got an empty array' '{"rows": []}'
wrong ': expected an object, got an array' '[]'
wrong ': a.type: expected f64, .*, got i32' '{"rows": "best", "a": "i32"}'
wrong '.rows: no kernel for f16 tn on a device of 9.0: .*nodes' '{"rows": "best", "type": "f16", "epilogue": "d[row,col]:i8 = exp(acc) + x[row,col]:i8; acc", "align": 1}'
wrong '.rows: "s90_i8_128x128x128_1x1" applies to none of these kernels: .*does not multiply f16' '{"rows": "s90_i8_128x128x128_1x1", "type": "f16"}'
echo '[{"rows": }]' >"$tmp/spec.json"
pack 1 --arch 90a && says err "spec.json:1: no JSON: '}\]'"
echo '{}' >"$tmp/spec.json"
pack 1 --arch 90a && says err 'spec.json: expected an array of entries, got an object'
spec '{"rows": "best", "type": "bf16", "arch": 80}'
pack 1 --arch 90a && says err 'expected at least one kernel for these devices'
run 1 cutlass pack --spec "$tmp/nothere.json" --arch 80 -o "$tmp/k.pack" && says err 'nothere.json: No such file'
pack 2 && says err 'expected --arch'
pack 2 --arch 90a,x && says err '--arch: expected 90a, 80 or the like, with commas, got 90a,x'
pack 2 --arch 90a --jobs 0 && says err '--jobs: expected 1 to'
run 2 cutlass pack --arch 80 -o "$tmp/k.pack" && says err 'expected --spec KERNELS.json'
run 0 cutlass pack --help && says out '^usage: troupe cutlass pack --spec'
[ "$(compiles)" -eq 0 ] || fail 'it compiled'

# --- what is in it ---
# Weights of 4 bits, with and without factors.
spec '{"rows": "best", "a": "bf16", "b": "i4", "d": "bf16", "groups": [0, 128], "zeros": [false]}' \
    '{"rows": "best", "a": "bf16", "b": "i4", "groups": 32, "zeros": true}'
pack 0 --arch 90a,80 && says out 's90_mixed_i4_[^ ]* sm_90a bf16.i4>bf16 tn' &&
    says out 's90_mixed_i4_[^ ]* sm_90a bf16.i4.scale>bf16 tn' &&
    says out 's80_mixed_i4_[^ ]* sm_80 bf16.i4.scale>bf16 tn' &&
    says out 's80_mixed_i4_[^ ]* sm_90 bf16.i4.scale.zero>bf16 tn'
[ "$(compiles)" -eq 6 ] || fail 'not six kernels'

spec '{"rows": "all", "type": ["bf16", "f16"], "layouts": ["tn", "tt"], "epilogue": ["acc", "relu(acc + bias[col])"]}' \
    '{"rows": "all", "arch": "90a", "type": "bf16", "layouts": "ttn", "epilogue": "acc + bias[row]"}' \
    '{"rows": ["s80_f32_64x64x8", "s90_tf32_128x128x32_1x1"], "type": "f32", "compute": ["default", "tf32"]}'
pack 0 --arch 90a,sm_80 --jobs 3 && says out '^ *[0-9.]+ +[0-9]+  s90_half_128x256x64_2x1 sm_90a bf16>bf16 tn acc$' &&
    says out 's80_half_64x64x64_a8 sm_80 f16>f16 tt relu' && says out 's80_half_64x64x64_a8 sm_90 f16' &&
    says out 's80_f32_64x64x8 sm_80 f32>f32 tn$' && says out '^[0-9]+ kernels in .*k.pack: '
[ "$(grep -c 'sm_80' "$FAKE_CUTLASS/links")" -gt 20 ] || fail 'few kernels for sm_80'
grep -q 'sm_80 .*s90_' "$tmp/out" && fail 'a row of 3.x for 8.0'
compiled=$(compiles)
says out "^$compiled kernels in"
[ -z "$(find "$tmp" -name 'troupe-pack-*')" ] || fail 'a folder is left'

# The other operations, of which a program then compiles nothing either; and factors of blocks.
spec '{"rows": "best", "a": "f8e4m3", "scale_a": "block_128", "scale_b": "block_128x128"}' \
    '{"rows": "all", "operation": "grouped", "type": "bf16", "batch": 2, "layouts": "tt", "epilogue": "acc"}' \
    '{"rows": "all", "operation": ["fprop", "wgrad"], "type": "bf16", "dims": [2, 3], "epilogue": "acc"}' \
    '{"rows": "all", "operation": "dgrad", "type": "bf16", "arch": "90a", "strided": [false, true]}'
run 0 cutlass pack --spec "$tmp/spec.json" -o "$tmp/others.pack" --arch 90a &&
    says out 's90_fp8_blocks_[^ ]* sm_90a f8e4m3>bf16 tn$' &&
    says out 's90_grouped_half_[^ ]* sm_90a bf16>bf16 tt acc$' && says out 's90_conv_half_[^ ]* sm_90a bf16>bf16 wgrad 3d acc$' &&
    says out 's80_conv_half_[^ ]* sm_90 bf16>bf16 dgrad strided$'
compiles >/dev/null
matrix tokens i8 C 30 16
matrix weights i8 C 32 24
matrix image i8 C 30 8
matrix filter i8 C 16 8
TROUPE_CACHE_PACKS=$tmp/others.pack run 0 cutlass grouped "$tmp/tokens.npy" "$tmp/weights.npy" -o "$tmp/d.npy" \
    --device cuda --sizes 20,10 --type bf16
TROUPE_CACHE_PACKS=$tmp/others.pack run 0 cutlass conv "$tmp/image.npy" "$tmp/filter.npy" -o "$tmp/d.npy" --device cuda \
    --input 2,5,3 --filter 1,1 --type bf16
[ "$(compiles)" -eq 0 ] || fail 'groups or a convolution that are in a pack were compiled'

# What `make pack` is made of.
run 0 cutlass pack --spec "$here/../../share/troupe/default-pack.json" --arch 90a,80,86,89 -o "$tmp/default.pack" &&
    says out 's90_half_128x256x64_2x1 sm_90a bf16>bf16 tn$' && says out 's80_half_.* sm_86 f16>f16 nt$' &&
    says out ' sm_89 f8e4m3>bf16 tn$'
compiles >/dev/null

# --- programs find it, and compile nothing ---
matrix a f32 C 24 16
matrix b f32 C 16 40
matrix v f32 V 40 1
product() {
    expected_status=$1
    shift
    run "$expected_status" cutlass gemm "$tmp/a.npy" "$tmp/b.npy" -o "$tmp/d.npy" --device cuda --type bf16 "$@"
}
TROUPE_CACHE_PACKS=$tmp/k.pack
export TROUPE_CACHE_PACKS
product 0
product 0 --epilogue 'relu(acc + b[col])' --with "b=$tmp/v.npy"
[ "$(compiles)" -eq 0 ] || fail 'what is in the pack was compiled'
product 0 --epilogue 'silu(acc)'
[ "$(compiles)" -eq 1 ] || fail 'what is not in the pack was not compiled'
TROUPE_CUTLASS=$tmp/there product 0
[ "$(compiles)" -eq 0 ] || fail 'with the headers elsewhere it was compiled'
TROUPE_CUTLASS=$tmp/other product 0
[ "$(compiles)" -eq 1 ] || fail 'with other headers it was not compiled'
TROUPE_NVRTC=/nowhere/libnvrtc.so product 0
objcopy --remove-section .note.gnu.build-id "$TROUPE_NVRTC" "$tmp/libfakenvrtc.so"
TROUPE_NVRTC=$tmp/libfakenvrtc.so product 0
[ "$(compiles)" -eq 1 ] || fail 'with another compiler it was not compiled'

# The one that is installed with the library is found by itself, behind those that are named.
built=$(dirname "$troupe")/..
inst=$tmp/inst
mkdir -p "$inst/bin" "$inst/libexec/troupe" "$inst/share/troupe/cutlass"
ln -f "$troupe" "$inst/bin/troupe" 2>/dev/null || cp "$troupe" "$inst/bin/troupe"
cp "${TROUPE_WORKER:-$built/bin/troupe-worker}" "$inst/libexec/troupe/troupe-worker"
for part in templates shims; do
    cp -rL "$built/share/troupe/cutlass/$part" "$inst/share/troupe/cutlass"
done
cp "$tmp/k.pack" "$inst/share/troupe/default.trpk"
installed() {
    env -u TROUPE_WORKER "$@" "$inst/bin/troupe" cutlass gemm "$tmp/a.npy" "$tmp/b.npy" -o "$tmp/d.npy" \
        --device cuda --type bf16 >"$tmp/out" 2>"$tmp/err" || fail "installed: $*"
}
installed -u TROUPE_CACHE_PACKS
installed TROUPE_CACHE_PACKS=/nowhere
[ "$(compiles)" -eq 0 ] || fail 'what is in the installed pack was compiled'
installed TROUPE_CACHE_PACKS=
[ "$(compiles)" -eq 1 ] || fail 'without packs nothing was compiled'

# One that is damaged, or cut off, costs a compile and nothing else.
size=$(wc -c <"$tmp/k.pack")
cp "$tmp/k.pack" "$tmp/good.pack"
dd if=/dev/urandom of="$tmp/k.pack" bs=64 seek=1 count=$((size / 64 - 2)) conv=notrunc 2>/dev/null
product 0
[ "$(compiles)" -eq 1 ] || fail 'a damaged pack was used'
head -c 1000 "$tmp/good.pack" >"$tmp/k.pack"
product 0
[ "$(compiles)" -eq 1 ] || fail 'half a pack was used'

# --- when it goes wrong ---
spec '{"rows": ["s90_half_64x64x64_1x1_pingpong", "s80_half_64x64x64_a8"], "type": "bf16"}'
echo 'x.cuh(7): error: no such thing' >"$FAKE_CUTLASS/compile_fails"
rm "$tmp/k.pack"
pack 1 --arch 90a && says err 's80_half_64x64x64_a8 sm_90 bf16>bf16 tn: .*no such thing.*TRP_E_LIBRARY' &&
    says err 's90_half_64x64x64_1x1_pingpong sm_90a .*no such thing' && says err 'no pack is written'
[ ! -e "$tmp/k.pack" ] || fail 'a pack of nothing'
rm "$FAKE_CUTLASS/compile_fails"
echo 's80' >"$FAKE_CUTLASS/compile_fails_of"
echo 'x.cuh(7): error: not this one' >"$FAKE_CUTLASS/compile_fails_log"
pack 1 --arch 90a && says err 's80_half_64x64x64_a8 sm_90 .*not this one' && says out '^ *- +failed  s80_half' &&
    says out '^1 kernel in'
rm "$FAKE_CUTLASS/compile_fails_of"
run 0 cache verify && says out '1 good, 0 damaged'
run 1 cutlass pack --spec "$tmp/spec.json" --arch 90a -o "$tmp/no/k.pack" && says err 'no/k.pack'
TROUPE_NVRTC=/nowhere/none run 1 cutlass pack --spec "$tmp/spec.json" --arch 90a -o "$tmp/no/k.pack" &&
    says err 'no/k.pack'
TROUPE_NVRTC=/nowhere/libnvrtc.so pack 1 --arch 90a && says err 'NVRTC.*TRP_E_MISSING' && says err 'no pack is written'
[ "$(grep -c TRP_E_MISSING "$tmp/err")" -eq 1 ] || fail 'told more than once'
TROUPE_CUTLASS=/nowhere pack 1 --arch 90a && says err 'TROUPE_CUTLASS: expected a folder'

# Begins one, whose number is $pid, and waits until it compiles.
begin_pack() {
    : >"$FAKE_CUTLASS/compiles"
    "$troupe" cutlass pack --spec "$tmp/spec.json" --arch 90a -o "$tmp/k.pack" >"$tmp/out" 2>"$tmp/err" </dev/null &
    pid=$!
    i=0
    while [ $i -lt 600 ] && [ ! -s "$FAKE_CUTLASS/compiles" ]; do
        sleep 0.1
        i=$((i + 1))
    done
    [ -s "$FAKE_CUTLASS/compiles" ] || fail 'nothing is compiled'
}

# One that is ended in the middle leaves the old pack as it was; by a signal that it gets, nothing else.
cp "$tmp/k.pack" "$tmp/before.pack"
echo 100000 >"$FAKE_CUTLASS/compile_ms"
for signal in TERM KILL; do
    begin_pack
    kill -$signal $pid
    wait $pid
    cmp -s "$tmp/k.pack" "$tmp/before.pack" || fail "SIG$signal: another pack"
    [ $signal = KILL ] || [ -z "$(find "$tmp" -name 'troupe-pack-*')" ] || fail "SIG$signal: a folder is left"
done

# Its folder, and that of no command that lives nor of anybody else's making, is removed by the next one.
[ -n "$(find "$tmp" -name 'troupe-pack-*')" ] || fail 'SIGKILL left no folder'
left=$(echo "$tmp"/troupe-pack-??????)
begin_pack
[ ! -e "$left" ] || fail 'a folder of a command that was killed is left'
living=$(echo "$tmp"/troupe-pack-??????)
mkdir "$tmp/troupe-pack-longer-name" "$tmp/target"
: >"$tmp/target/file"
ln -s target "$tmp/troupe-pack-linked"
TROUPE_NVRTC=/nowhere/libnvrtc.so run 1 cutlass pack --spec "$tmp/spec.json" --arch 90a -o "$tmp/other.pack"
says err 'no pack is written'
[ -d "$living" ] || fail 'a folder of a command that lives was removed'
[ -d "$tmp/troupe-pack-longer-name" ] && [ -h "$tmp/troupe-pack-linked" ] && [ -e "$tmp/target/file" ] ||
    fail 'somebody else'"'"'s was removed'
kill $pid
wait $pid
rm -r "$tmp/troupe-pack-longer-name" "$tmp/troupe-pack-linked"
[ -z "$(find "$tmp" -name 'troupe-pack-*')" ] || fail 'a folder is left'
[ "$(find "$tmp" -maxdepth 1 -name '*k.pack*' | wc -l)" -eq 1 ] || fail 'half a file'

finish
