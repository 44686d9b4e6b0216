#!/bin/sh
# troupe cache warm and pack: what they understand, and that programs find what they have made.
# TROUPE_TEST("long", "no tsan")
. "$(dirname "$0")/lib.sh"

TROUPE_CACHE_DIR=$tmp/cache
export TROUPE_CACHE_DIR

mkdir "$tmp/in"
cat >"$tmp/in/scale.cu" <<END
#include "value.h"
template <class T, int N> __global__ void scale(T *x, T a) { x[threadIdx.x] *= a * N * VALUE; }
__constant__ float table[4];
END
echo '#define VALUE 3' >"$tmp/in/value.h"
cat >"$tmp/in/all.txt" <<END
# two kernels
scale.cu -DM=4 --name "scale<float, 4>" --name &table --header value.h=value.h  # in memory

scale.cu --include . '--name=scale<double, 2>' --output ptx --as own.cu
END

# --- files and words that are no good ---
# wrong PATTERN LINE: must be refused, with file and line.
wrong() {
    printf '# comment\n%s\n' "$2" >"$tmp/in/wrong.txt"
    run 1 cache warm "$tmp/in/wrong.txt" --arch sm_90 && says err "wrong.txt:2: .*$1"
}
wrong "'-DN=4': expected the path of a source" '-DN=4 scale.cu'
wrong "'N=4': expected an option, --name" 'scale.cu -D N=4'
wrong "'--name': expected EXPRESSION behind it" 'scale.cu --name'
wrong "'--include': expected DIR" 'scale.cu --include='
wrong "'x.h': expected --header NAME=PATH" 'scale.cu --header x.h'
wrong "'elf': expected --output cubin, ptx, ltoir or cubin-lto" 'scale.cu --output elf'
wrong 'a quote has no end' 'scale.cu --name "scale<float'
wrong 'none.cu: No such file' none.cu
wrong 'none.h: No such file' 'scale.cu --header a=none.h'
wrong 'expected a file of at most' .
printf 'a\0b' >"$tmp/in/zero.cu"
wrong 'zero.cu: expected text' zero.cu
wrong 'nothere.txt' nothere.txt
run 1 cache warm "$tmp/nothere.txt" --arch sm_90 && says err 'nothere.txt: No such file'
run 1 cache pack "$tmp" --arch sm_90 -o "$tmp/p" && says err "$tmp: Is a directory"
run 2 cache warm "$tmp/in/all.txt" && says err 'expected at least one --arch'
run 2 cache pack "$tmp/in/all.txt" --arch sm_90 && says err 'expected -o PACK'
run 2 cache warm --arch sm_90 && says err 'expected 1 operand'
for arch in foo 90 sm_1 sm_90x ''; do
    run 2 cache warm "$tmp/in/all.txt" --arch sm_90 --arch "$arch" && says err "--arch: expected .*sm_90"
    run 2 cache pack "$tmp/in/all.txt" --arch "$arch" -o "$tmp/p" && says err '--arch: expected .*sm_90'
    run 2 cache explain "$tmp/in/all.txt:2" --arch "$arch" && says err '--arch: expected .*sm_90'
done
run 0 cache warm --help && says out '--name EXPRESSION' && says out '--arch sm_90a'
: >"$tmp/in/empty.txt"
run 0 cache warm "$tmp/in/empty.txt" --arch sm_90 && says out 'empty.txt: no kernels'
run 1 cache pack "$tmp/in/empty.txt" --arch sm_90 -o "$tmp/p" && says err 'no pack is written'
run 1 cache warm /dev/zero --arch sm_90 && says err '/dev/zero:1: expected text'
run 1 cache pack /dev/zero --arch sm_90 -o "$tmp/p" && says err '/dev/zero:1: expected text'
head -c 1100000 /dev/zero | tr '\0' x >"$tmp/in/long.txt"
run 1 cache warm "$tmp/in/long.txt" --arch sm_90 && says err 'long.txt:1: expected lines of at most 1 MiB'
[ ! -e "$tmp/cache" ] || fail "a folder was made for nothing"

# --- without NVRTC ---
missing() {
    TROUPE_NVRTC=/nowhere/libnvrtc.so.13 "$troupe" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
}
missing cache warm "$tmp/in/all.txt" --arch sm_90 && fail 'warm without NVRTC'
says err 'all.txt:2: sm_90: .*TROUPE_NVRTC.*TRP_E_MISSING'
[ "$(wc -l <"$tmp/err")" -eq 1 ] || fail "told more than once"
missing cache pack "$tmp/in/all.txt" --arch sm_90 -o "$tmp/p" && fail 'pack without NVRTC'
says err 'no pack is written'
if ! "$troupe" cache warm -q "$tmp/in/all.txt" --arch sm_90 2>"$tmp/err" && grep -q "NVRTC.*MISSING" "$tmp/err"; then
    [ $failures -eq 0 ] && echo 'skipped: NVRTC is not installed' && exit 77
    finish
fi

# entries: how many there are in the cache folder.
entries() {
    find "$tmp/cache/store" -name '*.entry' | wc -l
}

# --- warm ---
run 0 cache clear
run 0 cache warm "$tmp/in/all.txt" --arch sm_90 --arch=sm_100 && says out '4 of 4 kernels .* 4 of them new' &&
    says out '1 of 4 .*sm_90 scale.cu -DM=4'
[ "$(entries)" -eq 4 ] || fail "$(entries) entries"
run 0 cache warm -q "$tmp/in/all.txt" --arch sm_100 --arch sm_90
[ ! -s "$tmp/out" ] || fail "--quiet printed something"
[ "$(entries)" -eq 4 ] || fail "$(entries) entries"
run 0 cache ls && says out 'own.cu .*sm_100 .*ptx' && says out 'kernel.cu .*sm_90 .*cubin'
echo '#error wanted' >"$tmp/in/bad.cu"
printf '#define HEADER(x, y) <x.h>\n#include HEADER(value, 1)\n' >"$tmp/in/unsure.cu"
echo 'unsure.cu --include .' >"$tmp/in/unsure.txt"
printf 'bad.cu\nscale.cu --include=. --output=ptx\n' >"$tmp/in/some.txt"
run 1 cache warm "$tmp/in/some.txt" --arch sm_90 && says err 'some.txt:1: sm_90: .*wanted' &&
    says out '1 of 2 kernels .* 1 of them new'
run 1 cache warm "$tmp/in/some.txt" --arch sm_11 && says err 'some.txt:2: sm_11: '
run 1 cache warm "$tmp/in/unsure.txt" --arch sm_90 && says err "unsure.txt:1: sm_90: it can't be cached"
TROUPE_CACHE_DIR='' "$troupe" cache warm "$tmp/in/all.txt" --arch sm_90 2>"$tmp/err" && fail 'no folder'
says err 'there is no cache folder'

# --- pack ---
run 0 cache clear
TMPDIR=$tmp
export TMPDIR
run 1 cache pack "$tmp/in/some.txt" --arch sm_90 -o "$tmp/some.pack" && says err 'no pack is written'
[ ! -e "$tmp/some.pack" ] || fail "half a pack"
run 0 cache pack "$tmp/in/all.txt" --arch sm_90 --arch sm_100 -o "$tmp/all.pack" &&
    says out '4 kernels of 2 lines, for 2 architectures, in .*all.pack'
[ "$(entries)" -eq 0 ] || fail "pack wrote to the cache"
[ -z "$(find "$tmp" -name 'troupe-pack-*')" ] || fail "a folder is left"
run 1 cache pack "$tmp/in/all.txt" --arch sm_90 -o "$tmp/no/all.pack" && says err 'no/all.pack'
TROUPE_NVRTC=/nowhere/none run 1 cache pack "$tmp/in/all.txt" --arch sm_90 -o "$tmp/no/all.pack" &&
    says err 'no/all.pack'

# One that is interrupted ends soon, whatever is being compiled, and leaves nothing.
{
    echo 'template <int K, int I> __device__ unsigned g(unsigned x)'
    echo '{ if constexpr (I > 0) return g<K, I - 1>(x * (I + K) + threadIdx.x); else return x; }'
    echo 'extern "C" __global__ void slow(unsigned *x) {'
    i=0
    while [ $i -lt 400 ]; do
        echo "x[$i] = g<$i, 150>(x[1]);"
        i=$((i + 1))
    done
    echo '}'
} >"$tmp/in/slow.cu"
echo slow.cu >"$tmp/in/slow.txt"
for signal in TERM HUP; do
    "$troupe" cache pack "$tmp/in/slow.txt" --arch sm_90 -o "$tmp/slow.pack" >"$tmp/out" 2>"$tmp/err" </dev/null &
    pid=$!
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        [ -n "$(find "$tmp" -name 'troupe-pack-*')" ] && break
        sleep 1
    done
    sleep 1
    kill -$signal $pid
    i=0
    while [ $i -lt 60 ] && kill -0 $pid 2>/dev/null; do
        sleep 1
        i=$((i + 1))
    done
    kill -9 $pid 2>/dev/null && fail "SIG$signal did not end it"
    wait $pid
    says err '^troupe: interrupted$'
    [ -z "$(find "$tmp" -name 'troupe-pack-*')" ] || fail "a folder is left by SIG$signal"
    [ ! -e "$tmp/slow.pack" ] || fail "half a pack"
done

# Whoever compiles the same finds it there, and needs no compiler.
TROUPE_CACHE_PACKS=$tmp/all.pack
export TROUPE_CACHE_PACKS
run 0 cache ls && says out 'in a pack .*own.cu'
run 0 cache verify && says out '4 good, 0 damaged'
run 0 cache warm "$tmp/in/all.txt" --arch sm_100 --arch sm_90 && says out '4 of 4 kernels .* 0 of them new'
[ "$(entries)" -eq 0 ] || fail "what a pack has was compiled"
missing cache warm "$tmp/in/all.txt" --arch sm_90 || fail 'a pack without NVRTC'
[ "$(entries)" -eq 0 ] || fail "what a pack has was written"
cp -r "$tmp/in" "$tmp/moved"
missing cache warm "$tmp/moved/all.txt" --arch sm_90 || fail 'a pack, for headers that lie elsewhere'
echo 'scale.cu --include . --include .. "--name=scale<double, 2>" --output ptx --as own.cu' >"$tmp/moved/folders.txt"
missing cache warm "$tmp/moved/folders.txt" --arch sm_90 && fail 'one more folder'
echo '#define VALUE __LINE__ + sizeof(__FILE__)' | tee "$tmp/in/value.h" >"$tmp/moved/value.h"
printf 'scale.cu --include . "--name=scale<int, 2>"\n' | tee "$tmp/in/path.txt" >"$tmp/moved/path.txt"
run 0 cache pack "$tmp/in/path.txt" --arch sm_90 -o "$tmp/path.pack"
TROUPE_CACHE_PACKS=$tmp/path.pack missing cache warm "$tmp/in/path.txt" --arch sm_90 || fail 'its own path'
TROUPE_CACHE_PACKS=$tmp/path.pack missing cache warm "$tmp/moved/path.txt" --arch sm_90 && fail 'the path of another place'
# A request may say that the paths do not matter: then they must not be there.
echo '#define VALUE __LINE__ + sizeof("" __FILE__) / 4096' | tee "$tmp/in/value.h" >"$tmp/moved/value.h"
printf 'scale.cu --include . --portable "--name=scale<int, 2>"\n' | tee "$tmp/in/any.txt" >"$tmp/moved/any.txt"
run 0 cache pack "$tmp/in/any.txt" --arch sm_90 -o "$tmp/any.pack"
TROUPE_CACHE_PACKS=$tmp/any.pack missing cache warm "$tmp/moved/any.txt" --arch sm_90 || fail 'a portable kernel, elsewhere'
cat >"$tmp/in/value.h" <<'END'
__device__ inline char letter(int i) { return __FILE__[i]; }
#define VALUE letter(x[1])
END
run 1 cache pack "$tmp/in/any.txt" --arch sm_90 -o "$tmp/not.pack" && says err "it can't be cached: .*portable"
echo '#define VALUE __LINE__ + sizeof(__FILE__)' >"$tmp/in/value.h"
run 0 cache pack "$tmp/in/all.txt" --arch sm_90 --arch sm_100 -o "$tmp/again.pack"
cmp -s "$tmp/again.pack" "$tmp/all.pack" && fail 'two headers, one pack'
rm -r "$tmp/moved"
echo '#define VALUE 4' >"$tmp/in/value.h"
missing cache warm "$tmp/in/all.txt" --arch sm_90 && fail 'another header'
run 0 cache warm "$tmp/in/all.txt" --arch sm_90 && says out '2 of them new'
[ "$(entries)" -eq 2 ] || fail "$(entries) entries, for another header"

# --- a full disk ---
mkdir "$tmp/full"
if mount -t tmpfs -o size=16k,mode=700 none "$tmp/full" 2>/dev/null; then
    (TROUPE_CACHE_DIR=$tmp/full; export TROUPE_CACHE_DIR
     run 1 cache warm "$tmp/in/all.txt" --arch sm_90 && says err 'not all kernels were stored: No space left'
     [ $failures -eq 0 ]) || failures=$((failures + 1))
    umount "$tmp/full"
fi

# --- explain a line ---
unset TROUPE_CACHE_PACKS
run 0 cache explain "$tmp/in/all.txt:4" --arch sm_90 --arch sm_100 && says out 'sm_90 scale.cu .*: the cache has it, as' &&
    says out 'sm_100 scale.cu .*: not there' && says out 'target: sm_100, not sm_90'
echo '#define VALUE 5' >"$tmp/in/value.h"
sed '4 s/ptx/ptx -DM=5/' "$tmp/in/all.txt" >"$tmp/in/other.txt"
run 0 cache explain "$tmp/in/other.txt:4" --arch sm_90 && says out 'option: -DM=5 is new' &&
    says out 'header: file include_paths\[0\]/value.h: another content'
echo '#define VALUE 3' >"$tmp/in/value.h"
export TROUPE_CACHE_PACKS="$tmp/all.pack"
run 0 cache explain "$tmp/in/all.txt:4" --arch sm_90 && says out ': a pack has it'
[ "$(entries)" -eq 2 ] || fail "explain wrote to the cache"
run 1 cache explain "$tmp/in/all.txt:1" --arch sm_90 && says err 'all.txt:1: there is no kernel in this line'
run 2 cache explain "$tmp/in/all.txt:2" && says err 'expected at least one --arch'
run 2 cache explain --arch sm_90 && says err 'arch belongs to FILE:LINE'

finish
