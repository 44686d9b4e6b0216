#!/bin/sh
# troupe attention: its results and gradients against float64, and against each other; and input that
# is no good. TROUPE_TEST_DEVICE=cuda runs it on a GPU, which has f16 and bf16 only.
# TROUPE_TEST("no tsan")
. "$(dirname "$0")/lib.sh"

types='f32 f64 f16 bf16'
[ "$device" = cuda ] && types='f16 bf16'

# attention Q K V ARGS...: must work, and be right; the result is y.npy
attention() {
    q=$1 k=$2 v=$3
    shift 3
    rm -f "$tmp/y.npy"
    run 0 attention "$tmp/$q.npy" "$tmp/$k.npy" "$tmp/$v.npy" -o "$tmp/y.npy" --device "$device" \
        --check "$@" &&
        says out 'against float64: relative error'
}
# backward ARGS...: all gradients, right
backward() {
    rm -f "$tmp"/d[qkv].npy
    attention q k v "$@" --backward "$tmp/dy.npy" --dq "$tmp/dq.npy" --dk "$tmp/dk.npy" \
        --dv "$tmp/dv.npy"
    has dq '2, 4, 33, 16'
    has dk '2, 2, 40, 16'
    has dv '2, 2, 40, 24'
}

array q f32 C 2,4,33,16
array k f32 C 2,2,40,16
array v f32 C 2,2,40,24
array dy f32 C 2,4,33,24
array bias f32 C 4,33,40
array shared f32 F 2,1,1,40
array slopes f32 C 4

for type in $types; do
    attention q k v --type "$type"
    says out 'attention .*2 x 4 x 33 x 24 f'
    has y '2, 4, 33, 24'
    attention q k v --type "$type" --causal --stats "$tmp/stats.npy"
    has stats '2, 4, 33'
    backward --type "$type" --causal
done
type=bf16
attention q k v --type $type --causal --bottom-right --window 7
attention q k v --type $type --window 5 --scale -0.5
attention q k v --type $type --causal --lengths 20,33
attention q k v --type $type --lengths 33 --lengths-kv 7,40
attention q k v --type $type --bias "$tmp/bias.npy"
attention q k v --type $type --bias "$tmp/shared.npy" --causal
attention q k v --type $type --slopes "$tmp/slopes.npy" --causal
backward --type $type --causal --lengths 9,30 --window 11
backward --type $type --scale 0.1 --bias "$tmp/bias.npy" --dbias "$tmp/dbias.npy"
has dbias '4, 33, 40'

attention q k v --type $type --dropout 0.3 --seed 7
attention q k v --type $type --dropout 0.9 --seed 7 --offset 12345678901234 --causal
backward --type $type --dropout 0.25 --seed 9223372036854775807 --causal
backward --type $type --dropout 0.5 --bias "$tmp/bias.npy" --dbias "$tmp/dbias.npy" --lengths 9,30

# --- the same in other ways ---
attention q k v --type $type --dropout 0.5 --seed 3
mv "$tmp/y.npy" "$tmp/want.npy"
attention q k v --type $type --dropout 0.5 --seed 3
same y want
attention q k v --type $type --dropout 0.5 --seed 4
"$npy_tool" near "$tmp/y.npy" "$tmp/want.npy" >/dev/null 2>&1 && fail "another seed changes nothing"
attention q k v --type $type
mv "$tmp/y.npy" "$tmp/want.npy"
attention q k v --type $type --window 80
same y want
attention q k v --type $type --dropout 0 --seed 5
same y want
attention q k v --type $type --lengths 33 --lengths-kv 40,40
same y want
attention q k v --type $type --scale 0.25
same y want
rm -f "$tmp/dq.npy"
run 0 attention "$tmp/q.npy" "$tmp/k.npy" "$tmp/v.npy" --device "$device" --type $type --check \
    --backward "$tmp/dy.npy" --dq "$tmp/dq.npy" # alone
mv "$tmp/dq.npy" "$tmp/want.npy"
backward --type $type
same dq want
array q1 f32 C 3,1,10,16
array k1 f32 C 3,1,12,16
array v1 f32 C 3,1,12,8
attention q1 k1 v1 --type $type --causal
shape want y 3,1,10,8
shape q2 q1 3,10,1,16
shape k2 k1 3,12,1,16
shape v2 v1 3,12,1,8
attention q2 k2 v2 --type $type --causal --layout bshd
has y '3, 10, 1, 8'
shape y2 y 3,1,10,8
same y2 want
array q3 f32 C 2,9,6,16
array k3 f32 C 2,9,3,16
array v3 f32 F 2,9,3,8
[ "$device" = cuda ] || attention q3 k3 v3 --layout bshd --causal --lengths 9,4

# --- refused ---
# refused STATUS PATTERN ARGS...: must fail with a message and leave no output
refused() {
    expected=$1 pattern=$2
    shift 2
    rm -f "$tmp/y.npy"
    run "$expected" attention "$@" --device "$device" && says err "$pattern"
    [ ! -e "$tmp/y.npy" ] || fail "an output file was left"
}
q=$tmp/q.npy k=$tmp/k.npy v=$tmp/v.npy y=$tmp/y.npy
array flat f32 C 4,16
array none f32 C 2,0,33,16
array three f32 C 2,3,40,16
array bytes i8 C 2,4,33,16
refused 1 'Q: expected 4 dimensions, batch x heads x rows x depth; .*flat.npy is 4 x 16 f32' \
    "$tmp/flat.npy" "$k" "$v" -o "$y"
refused 1 'Q: expected at least 1 in each dimension' "$tmp/none.npy" "$k" "$v" -o "$y"
refused 1 'Q: expected f64, f32 or f16, or --type; .*bytes' "$tmp/bytes.npy" "$k" "$v" -o "$y"
refused 1 'K: expected heads that divide the 4 of Q, got 3' "$q" "$tmp/three.npy" "$v" -o "$y"
refused 1 'K: expected 2 x 2 x 40 x 16, batches and depth of Q; .*v.npy is 2 x 2 x 40 x 24' \
    "$q" "$v" "$v" -o "$y"
refused 1 'V: expected 2 x 2 x 40 x 16, batches, heads and rows of K; .*three.npy' "$q" "$k" \
    "$tmp/three.npy" -o "$y"
refused 1 '--bias: expected 1 or 33 in dimension 0; .*flat.npy' "$q" "$k" "$v" -o "$y" \
    --bias "$tmp/flat.npy"
refused 1 '--bias: expected 2 to 4 dimensions, the last ones of' "$q" "$k" "$v" -o "$y" \
    --bias "$tmp/slopes.npy"
refused 1 '--slopes: expected 4, one for each head; .*flat.npy is 4 x 16' "$q" "$k" "$v" -o "$y" \
    --slopes "$tmp/flat.npy"
refused 1 '--backward: expected 2 x 4 x 33 x 24, as the result has; .*q.npy' "$q" "$k" "$v" \
    --backward "$q" --dq "$y"
for bad in 3,4,5 34 -1 x 1,,2 '3,'; do
    refused 2 "--lengths: expected 2 numbers of 0 to 33, one for each batch or one for all, got '$bad'" \
        "$q" "$k" "$v" -o "$y" --lengths "$bad"
done
refused 2 "--lengths-kv: expected 2 numbers of 0 to 40, .* got '41'" "$q" "$k" "$v" -o "$y" \
    --lengths 33 --lengths-kv 41
refused 2 'expected 3 operands, got 2' "$q" "$k" -o "$y"
refused 2 'expected -o Y.npy' "$q" "$k" "$v"
refused 2 '--bottom-right: expected --causal' "$q" "$k" "$v" -o "$y" --bottom-right
refused 2 '--lengths-kv: expected --lengths' "$q" "$k" "$v" -o "$y" --lengths-kv 3
refused 2 "--scale: expected a number, got 'much'" "$q" "$k" "$v" -o "$y" --scale much
for bad in 1 -0.5 x nan 1e9; do
    refused 2 "--dropout: expected a number from 0 to below 1, got '$bad'" "$q" "$k" "$v" -o "$y" \
        --dropout "$bad"
done
refused 2 '--seed: expected --dropout' "$q" "$k" "$v" -o "$y" --seed 3
refused 2 '--offset: expected --dropout' "$q" "$k" "$v" -o "$y" --offset 3
refused 2 '--seed: expected' "$q" "$k" "$v" -o "$y" --dropout 0.5 --seed -3
refused 2 '--window: expected less than 2.29' "$q" "$k" "$v" -o "$y" --window 600000000
refused 2 '--dk: expected --backward' "$q" "$k" "$v" -o "$y" --dk "$y"
refused 2 '--backward: expected --dq, --dk, --dv or --dbias' "$q" "$k" "$v" --backward "$q"
refused 2 '--dbias: expected --bias' "$q" "$k" "$v" --backward "$q" --dbias "$y"
refused 2 '--type: expected f64.f32.f16.bf16' "$q" "$k" "$v" -o "$y" --type i8
refused 1 'missing.npy: No such file' "$tmp/missing.npy" "$k" "$v" -o "$y"

finish
