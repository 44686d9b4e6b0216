#!/bin/sh
# troupe matmul: right results in every order and type, odd shapes, and input that is no good.
# shellcheck disable=SC2086  # shapes are split into words on purpose
. "$(dirname "$0")/lib.sh"

# product ARGS...: A times B must work and be right.
product() {
    rm -f "$tmp/c.npy"
    run 0 matmul "$tmp/a.npy" "$tmp/b.npy" -o "$tmp/c.npy" --device "$device" "$@" || return
    "$npy_tool" product "$tmp/a.npy" "$tmp/b.npy" "$tmp/c.npy" || fail "wrong result: $*"
}

# refused PATTERN A B: must fail with a message and leave no output.
refused() {
    rm -f "$tmp/c.npy"
    run 1 matmul "$tmp/$2.npy" "$tmp/$3.npy" -o "$tmp/c.npy" --device "$device" && says err "$1"
    [ ! -e "$tmp/c.npy" ] || fail "an output file was left"
}

# --- right results ---
for type in f32 f64; do
    for orders in 'C C' 'C F' 'F C' 'F F'; do
        set -- $orders
        matrix a $type "$1" 37 53
        matrix b $type "$2" 53 29
        product --check
        says out 'against float64'
        says out '37 x 53 x 29'
    done
done
for shape in '1 1 1' '1 300 1' '200 1 3' '1 7 130' '130 7 1' '257 129 65'; do
    set -- $shape
    matrix a f32 F "$1" "$2"
    matrix b f32 C "$2" "$3"
    product --check
done

# --- empty matrices ---
for shape in '5 0 4' '0 6 4' '5 6 0' '0 0 0' '0 0 4'; do
    set -- $shape
    matrix a f64 C "$1" "$2"
    matrix b f64 F "$2" "$3"
    product --check
done

# --- options ---
matrix a f32 C 40 50
matrix b f32 F 50 60
product --tf32 --check
product -q
[ ! -s "$tmp/out" ] || fail "--quiet printed something"
product --quiet --check
[ ! -s "$tmp/out" ] || fail "--quiet --check printed something"
run 0 matmul --output="$tmp/c.npy" --device="$device" -- "$tmp/a.npy" "$tmp/b.npy"
(cd "$tmp" && "$troupe" matmul a.npy b.npy -oc2.npy --device "$device" >out 2>err) ||
    fail "-oFILE in this folder"
cmp -s "$tmp/c.npy" "$tmp/c2.npy" || fail "the same product gave another file"

# Output onto an input, by either name.
matrix s f64 C 33 33
matrix t f64 F 33 33
cp "$tmp/s.npy" "$tmp/s0.npy"
cp "$tmp/t.npy" "$tmp/t0.npy"
run 0 matmul "$tmp/s.npy" "$tmp/t.npy" -o "$tmp/s.npy" --device "$device" &&
    { "$npy_tool" product "$tmp/s0.npy" "$tmp/t0.npy" "$tmp/s.npy" || fail "output onto A"; }
run 0 matmul "$tmp/s0.npy" "$tmp/t.npy" -o "$tmp/t.npy" --device "$device" &&
    { "$npy_tool" product "$tmp/s0.npy" "$tmp/t0.npy" "$tmp/t.npy" || fail "output onto B"; }
run 0 matmul "$tmp/s0.npy" "$tmp/s0.npy" -o "$tmp/s.npy" --device "$device" &&
    { "$npy_tool" product "$tmp/s0.npy" "$tmp/s0.npy" "$tmp/s.npy" || fail "a matrix squared"; }

# --- files that are no good ---
matrix good f32 C 2 3
refused 'No such file' nothere good
refused 'No such file' good nothere
: >"$tmp/empty.npy"
refused 'empty.npy: ' empty good
head -c 7 "$tmp/good.npy" >"$tmp/magic.npy"
refused 'magic.npy: ' magic good
head -c 60 "$tmp/good.npy" >"$tmp/header.npy"
refused 'header.npy: ' header good
head -c 150 "$tmp/good.npy" >"$tmp/short.npy"
refused 'short.npy: ' short good
{ printf '\223NUMPY\002\000\377\377\377\377'; head -c 1000 /dev/zero; } >"$tmp/huge.npy"
refused 'huge.npy: ' huge good
head -c 4096 /dev/urandom >"$tmp/noise.npy"
refused 'noise.npy: ' noise good
npy object "{'descr': '|O', 'fortran_order': False, 'shape': (2, 3), }" 48
refused 'object.npy: ' object good
npy int "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }" 24
refused 'int.npy: ' int good
npy big "{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3), }" 24
refused 'big.npy: .*endian' big good
npy cube "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, 1), }" 24
refused 'cube.npy: ' cube good
npy line "{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }" 24
refused 'line.npy: ' line good
npy giant "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 4), }" 16
refused 'giant.npy: ' giant good
mkdir "$tmp/folder.npy"
refused 'folder.npy: ' folder good

# --- matrices that do not go together ---
matrix other f32 C 4 5
refused 'good.npy is 2 x 3 f32, .*other.npy is 4 x 5 f32' good other
matrix double f64 C 3 4
refused 'good.npy is 2 x 3 f32, .*double.npy is 3 x 4 f64' good double
matrix d2 f64 C 4 4
run 1 matmul "$tmp/double.npy" "$tmp/d2.npy" -o "$tmp/c.npy" --tf32 && says err 'tf32'
# A result that no memory holds: from two files without any data.
npy tall "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 0), }" 0
npy wide "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4611686018427387904), }" 0
refused 'too large' tall wide
npy tall "{'descr': '<f4', 'fortran_order': False, 'shape': (4194304, 0), }" 0
npy wide "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4194304), }" 0
refused 'need .* of memory' tall wide

# --- output that can't be written ---
matrix b f32 C 3 2
run 1 matmul "$tmp/good.npy" "$tmp/b.npy" -o "$tmp/no/such/c.npy" --device "$device" &&
    says err 'no/such/c.npy: .*No such file'
run 1 matmul "$tmp/good.npy" "$tmp/b.npy" -o "$tmp/folder.npy" --device "$device" &&
    says err 'folder.npy: '
# Even root can't write here.
run 1 matmul "$tmp/good.npy" "$tmp/b.npy" -o /proc/c.npy --device "$device" &&
    says err '/proc/c.npy: '
# A failure leaves what was there.
cp "$tmp/b.npy" "$tmp/kept.npy"
run 1 matmul "$tmp/good.npy" "$tmp/other.npy" -o "$tmp/kept.npy" --device "$device"
cmp -s "$tmp/b.npy" "$tmp/kept.npy" || fail "a failure changed the output file"

# --- a worker that is not there ---
TROUPE_WORKER=$tmp/nothere "$troupe" matmul "$tmp/good.npy" "$tmp/b.npy" -o "$tmp/c.npy" \
    --device host >"$tmp/out" 2>"$tmp/err"
[ $? -eq 1 ] || fail "a missing worker: exit status other than 1"
says err 'nothere'
[ ! -e "$tmp/c.npy" ] || fail "an output file was left"

finish
