#!/bin/sh
# troupe matmul: right results in every order and type, odd shapes, and input that is no good.
# shellcheck disable=SC2086  # shapes are split into words on purpose
# TROUPE_TEST("long", "no tsan")
# TROUPE_TEST_FAKE_GPU("no sanitizer")
. "$(dirname "$0")/lib.sh"

# product ARGS...: A times B must work and be right.
product() {
    rm -f "$tmp/c.npy"
    run 0 matmul "$tmp/a.npy" "$tmp/b.npy" -o "$tmp/c.npy" --device "$device" "$@" || return
    "$npy_tool" matmul a="$tmp/a.npy" b="$tmp/b.npy" d="$tmp/c.npy" || fail "wrong result: $*"
}

# general KEY=VALUE...: A times B with these options, --KEY VALUE, must work and be right; also for
# npy_tool. `_` stands for `-` in a name, FILE for $tmp/FILE.npy in a value.
general() {
    rm -f "$tmp/d.npy"
    options= keys=
    for pair; do
        name=${pair%%=*} value=${pair#*=}
        case $name=$value in
        gradient=*) # d:FILE
            file=$tmp/${value#*:}.npy
            options="$options --gradient ${value%%:*}=$file"
            keys="$keys gradient=${value%%:*}:$file"
            continue
            ;;
        add=* | bias=* | aux=* | scale_?=[a-z]*) value=$tmp/$value.npy ;;
        esac
        options="$options --$(echo "$name" | tr _ -) $value"
        keys="$keys $name=$value"
    done
    run 0 matmul "$tmp/a.npy" "$tmp/b.npy" -o "$tmp/d.npy" --device "$device" $options --check ||
        return
    "$npy_tool" matmul a="$tmp/a.npy" b="$tmp/b.npy" d="$tmp/d.npy" $keys ||
        fail "wrong result: $*"
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

# --- every type ---
# What is converted may also be laid out as a GPU needs it, whatever the order of the file.
for orders in 'C C' 'C F' 'F C' 'F F'; do
    set -- $orders
    matrix a f32 "$1" 48 64
    matrix b f32 "$2" 64 80
    general type=f8e4m3
    general type=bf16
    matrix a f16 "$1" 48 64
    matrix b f16 "$2" 64 80
    general
done
for type in f64 i8 c64 c128; do # as the files are, without an option; on GPUs i8 in this order only
    matrix a $type C 48 64
    matrix b $type F 64 80
    general
done
matrix a f32 C 48 64
matrix b f32 C 64 80
for type in f64 f16 f8e4m3 i8; do
    general type=$type
done
general type=f8e4m3 type_b=f8e5m2 type_d=bf16
general type=f8e5m2 type_b=f8e4m3 type_d=f16
general type=f16 type_d=f32
general type=f8e4m3 type_d=f32
matrix a f64 C 48 64
matrix b f64 F 64 80
general type=f32
general type=bf16
general type=f8e4m3
says out 'convert .*a.npy: f64 to f8e4m3'
matrix a i8 C 48 64
matrix b i8 F 64 80
matrix c i32 C 48 80
general alpha=3 add=c beta=-2
general type=f32
general type_d=i8 alpha=0.001

# --- transposes ---
for trans in 'n t' 't n' 't t'; do
    set -- $trans
    [ "$1" = n ] && matrix a f32 F 32 48 || matrix a f32 F 48 32
    [ "$2" = n ] && matrix b f32 C 48 64 || matrix b f32 C 64 48
    general trans_a=$1 trans_b=$2
    general type=f8e4m3 trans_a=$1 trans_b=$2
done
matrix a c64 C 20 30
matrix b c64 C 40 20
general trans_a=c trans_b=c
general trans_a=t trans_b=c alpha=0.5,-2
matrix c c64 C 30 40
general trans_a=c trans_b=t alpha=0,1 add=c beta=-1,0.5
matrix a c128 F 30 20
matrix b c128 F 20 40
general alpha=0.5,-2
matrix a c64 F 20 30 # in the other order than the result
matrix b c64 C 20 40
run 1 matmul "$tmp/a.npy" "$tmp/b.npy" -o "$tmp/d.npy" --trans-a c --device "$device" &&
    says err '^troupe: --trans-a: trans_a: '

# --- what is added, and activations ---
matrix a f32 C 48 64
matrix b f32 F 64 80
matrix c f32 C 48 80
matrix v f32 V 80 1
for type in f32 bf16 f8e4m3; do
    general type=$type alpha=0.5 bias=v
    general type=$type alpha=-1.5 add=c beta=0.25 bias=v activation=relu
    general type=$type activation=gelu
done
general add=c beta=1
matrix v f64 C 1 80
general bias=v
matrix v f64 F 80 1
general bias=v type=f16
matrix c f32 F 48 80
general type=bf16 add=c beta=1 # converted anyhow
[ "$device" != host ] || general bias=v activation=silu

# --- gradients: what the way forward left, and sums ---
matrix w f32 V 200 1
matrix a f32 C 48 64
matrix b f32 C 64 200
for type in f32 bf16; do
    general type=$type activation=relu aux=aux
    general type=$type activation=drelu aux=aux gradient=d:g
    general type=$type activation=gelu aux=aux bias=w
    general type=$type activation=dgelu aux=aux
    general type=$type activation=dgelu aux=aux gradient=d:g
done
general gradient=a:g
general gradient=b:g type=f16
matrix b f32 C 64 37 # lines of aux are padded
general activation=gelu aux=aux
general activation=relu aux=aux
general activation=drelu aux=aux gradient=d:g

# --- scale factors ---
matrix a f32 C 48 64
matrix b f32 C 64 80
matrix r f32 V 48 1
matrix s f32 V 80 1
matrix v f32 V 80 1
general type=f8e4m3 scale_a=2 scale_b=0.25 type_d=bf16
general type=f8e4m3 scale_a=r scale_b=s type_d=bf16
general type=f8e4m3 scale_a=0.5 scale_d=8 bias=v activation=relu
run 0 matmul "$tmp/a.npy" "$tmp/b.npy" -o "$tmp/d.npy" --device "$device" --type f8e4m3 --amax \
    --scale-d 4 --fast-accumulation --check && says out 'amax .*[0-9.]+, the largest'

# --- searches, and limits ---
TROUPE_CACHE_DIR=$tmp/cache
export TROUPE_CACHE_DIR
general tune=quick
general tune=full type=bf16 workspace=1048576

# --- options that don't go together, or not with the files ---
# said STATUS PATTERN ARGS...: the command with these must say so.
said() {
    status=$1 pattern=$2
    shift 2
    run "$status" matmul "$tmp/a.npy" "$tmp/b.npy" -o "$tmp/c2.npy" --device "$device" "$@" &&
        says err "$pattern"
}
matrix v5 f32 V 5 1
matrix f f32 F 48 80
matrix u f32 C 48 79
said 2 '--aux: expected --activation' --aux x.npy
said 2 '--activation drelu: expected --aux' --activation drelu
said 2 '--beta: expected --add' --beta 1
said 2 '--add: expected --beta' --add "$tmp/c.npy"
said 2 "--gradient: expected d=FILE, a=FILE or b=FILE, got 'x'" --gradient x
said 2 '--scale-d: expected a number' --scale-d v.npy
said 2 '--alpha: expected RE' --alpha 1,
said 2 '--alpha: expected RE' --alpha nan
said 2 '--type: expected f64.f32' --type f4
said 2 '--type-b: expected f8e4m3.f8e5m2' --type-b f32
said 2 'expected different files' --gradient "a=$tmp/c2.npy"
said 1 '--bias: expected 80 elements, one for each column of the result; .*v5.npy is 5 f32' \
    --bias "$tmp/v5.npy"
said 1 '--scale-a: expected 48 elements, one for each row' --type f8e4m3 --scale-a "$tmp/s.npy"
said 1 '--add: expected 48 x 80 elements; .*u.npy is 48 x 79 f32' --add "$tmp/u.npy" --beta 1
said 1 '--add: expected a file in C order' --add "$tmp/f.npy" --beta 1
said 1 '--add: expected elements that can be made i32' --type i8 --add "$tmp/c.npy" --beta 1
said 2 '--bias: expected none for a result of i32' --type i8 --bias "$tmp/v.npy"
said 1 '--aux: expected 48 x 16 elements, each eight bits' --activation drelu --aux "$tmp/u.npy"
said 1 '--scale-a: a.scale: ' --scale-a 2
said 1 '--scale-d: d.scale: ' --scale-d 2
said 1 '--amax: amax_d: ' --amax
said 1 '--type-d: d.type: c64 ' --type-d c64
said 2 '--fast-accumulation: ' --fast-accumulation
said 2 '--alpha: alpha: ' --alpha 1,1
said 1 '--type-b is for the two types of fp8' --type-b f8e5m2
said 1 'elements that can be made c64' --type c64
said 1 'no/such/bias.npy: No such file' --bias "$tmp/no/such/bias.npy"
said 1 'troupe: --type-b: b.type: f8e5m2' --type f8e5m2
[ ! -e "$tmp/c2.npy" ] || fail "an output file was left"
[ "$device" = host ] || said 1 '--activation: activation: silu' --activation silu

# --- where nothing can be written, nothing is done: there is no worker that could ---
for out in no/d.npy . no.npy/; do
    TROUPE_WORKER=/nowhere/worker run 1 matmul "$tmp/a.npy" "$tmp/b.npy" -o "$tmp/$out" --device "$device" &&
        says err "writing $tmp/"
done

# --- empty results, and empty sums ---
matrix a f32 C 5 6
matrix b f32 C 6 0
matrix c f32 C 5 0
general type=bf16 add=c beta=1
general activation=relu aux=aux
said 1 '--gradient: expected none for an empty result' --gradient "a=$tmp/g.npy"
matrix a f32 C 5 0
matrix b f32 C 0 4
general type=bf16

# --- options ---
matrix a f32 C 40 50
matrix b f32 F 50 60
product --tf32 --check
product --compute pedantic --check
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
    { "$npy_tool" matmul a="$tmp/s0.npy" b="$tmp/t0.npy" d="$tmp/s.npy" || fail "output onto A"; }
run 0 matmul "$tmp/s0.npy" "$tmp/t.npy" -o "$tmp/t.npy" --device "$device" &&
    { "$npy_tool" matmul a="$tmp/s0.npy" b="$tmp/t0.npy" d="$tmp/t.npy" || fail "output onto B"; }
run 0 matmul "$tmp/s0.npy" "$tmp/s0.npy" -o "$tmp/s.npy" --device "$device" &&
    { "$npy_tool" matmul a="$tmp/s0.npy" b="$tmp/s0.npy" d="$tmp/s.npy" || fail "a matrix squared"; }

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
run 2 matmul "$tmp/double.npy" "$tmp/d2.npy" -o "$tmp/c.npy" --tf32 && says err 'tf32'
run 2 matmul "$tmp/double.npy" "$tmp/d2.npy" -o "$tmp/c.npy" --tf32 --compute pedantic && says err 'contradict'
run 1 matmul "$tmp/double.npy" "$tmp/d2.npy" -o "$tmp/c.npy" --compute emulated --device host && says err 'TRP_COMPUTE_EMULATED'
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
