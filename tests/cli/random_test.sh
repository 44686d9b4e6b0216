#!/bin/sh
# troupe random: arrays of every distribution and type, the same again and in parts, and options that
# are no good.
# TROUPE_TEST("no tsan")
# TROUPE_TEST_FAKE_GPU("no sanitizer")
. "$(dirname "$0")/lib.sh"

# random FILE ARGS...: must work; the result is FILE.npy
random() {
    file=$1
    shift
    run 0 random -o "$tmp/$file.npy" --device "$device" "$@"
}

# data FILE: the bytes behind the header
data() {
    tail -c "$2" "$tmp/$1.npy" | od -An -v -tx1 | tr -d ' \n'
}

random x --shape 3,4 --seed 7
has x '3, 4'
says out 'uniform: 3 x 4 f64'
header x | grep -q "'<f8'" || fail "expected <f8"
for dist in normal lognormal exponential laplace cauchy gumbel dropout; do
    random x --shape 100 --dist $dist
    random y --shape 2,50 --dist $dist --type f32
    has y '2, 50'
    says out "$dist: 2 x 50 f32"
    random y --shape 7,1,3 --dist $dist --type f16
    has y '7, 1, 3'
    random y --shape 33 --dist $dist --type bf16
done
for type in i64 i32 i8 u8; do
    random x --shape 5 --dist integers --low 1 --high 100 --endpoint --type $type
    says out "integers: 5 $type"
done
random x --shape 5 --dist bernoulli -p 0.25
header x | grep -q "'|b1'" || fail "expected |b1"
random x --shape 5 --dist normal --type c128 --loc 1,-2 --scale 3
header x | grep -q "'<c16'" || fail "expected <c16"
random x --shape 0,3
has x '0, 3'

# Philox4x32-10's known answer for zeros, and integers that can be one only.
random x --shape 4 --dist bits --type i32
[ "$(data x 16)" = d5e827668dc569e14cac57bcd8db009b ] || fail "got $(data x 16)"
random x --shape 3 --dist integers --low -5 --high -4 --type i8
[ "$(data x 3)" = fbfbfb ] || fail "expected three times -5, got $(data x 3)"
random x --shape 2 --dist integers --low 9223372036854775807 --high 9223372036854775807 --endpoint
[ "$(data x 16)" = ffffffffffffff7fffffffffffffff7f ] || fail "got $(data x 16)"

# The same again; another seed, stream and offset are others; a part is that of the whole.
random x --shape 1000 --dist normal --type f32 --seed 3 --stream 4 --offset 8
random y --shape 1000 --dist normal --type f32 --seed 3 --stream 4 --offset 8
whole=$(data x 4000)
[ "$(data y 4000)" = "$whole" ] || fail "other numbers in a second run"
for other in '--seed 4 --stream 4 --offset 8' '--seed 3 --stream 5 --offset 8' \
    '--seed 3 --stream 4 --offset 12'; do
    random y --shape 1000 --dist normal --type f32 $other
    [ "$(data y 4000)" != "$whole" ] || fail "the same numbers with $other"
done
random y --shape 500 --dist normal --type f32 --seed 3 --stream 4 --offset 508
[ "$(data y 2000)" = "$(data x 2000)" ] || fail "a part differs from the whole"

# said STATUS PATTERN ARGS...: must say so, and leave no file.
said() {
    status=$1 pattern=$2
    shift 2
    run "$status" random -o "$tmp/none.npy" --device "$device" "$@" && says err "$pattern"
    [ ! -e "$tmp/none.npy" ] || fail "an output file was left"
}
said 2 'expected --shape'
said 2 '--shape: expected one to eight sizes' --shape 1,2,
said 2 '--shape: expected one to eight sizes' --shape x
said 2 '--shape: expected one to eight sizes' --shape 1,1,1,1,1,1,1,1,1
said 2 '--dist: expected bits|integers' --shape 3 --dist gauss
said 2 '--type: expected f64|f32' --shape 3 --type f8e4m3
said 2 '--ends: expected half-open|open' --shape 3 --ends both
said 2 '--low: expected a number' --shape 3 --low x
said 2 '--low: expected an integer of 64 bits' --shape 3 --dist integers --low 0.5 --high 2
said 2 '--high: expected an integer of 64 bits' --shape 3 --dist integers --high 9223372036854775808
said 1 'high_integer: expected more than low_integer, 0, got 0' --shape 3 --dist integers
said 1 'high_integer: expected at most 127 [+] 1' --shape 3 --dist integers --high 200 --type i8
said 1 'high: expected a number so far above low, 2, that f64 has some between' --shape 3 --low 2 --high 1
said 1 'p: expected 0 to 1, got 1.5' --shape 3 --dist dropout -p 1.5
said 1 'p: expected none with uniform numbers' --shape 3 -p 0.5
said 1 'scale: expected 0 or more, got -1' --shape 3 --dist normal --scale -1
said 1 'y.type: expected one that normal numbers have, got i32' --shape 3 --dist normal --type i32
run 2 random --shape 3 && says err 'expected -o X.npy'
run 1 random -o "$tmp/no/x.npy" --shape 3 --device "$device" && says err 'No such file'

finish
