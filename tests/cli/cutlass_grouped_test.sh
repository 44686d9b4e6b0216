#!/bin/sh
# troupe cutlass grouped: each group's part is the product of its parts; and input that is no good.
# Elements are small integers, so that sums are exact.
# TROUPE_TEST("no tsan")
. "$(dirname "$0")/lib.sh"

if [ "$device" != host ]; then
    echo "skipped: on the host backend so far"
    exit 77
fi

# part NAME FROM ROW ROWS COL COLS
part() {
    "$npy_tool" part "$tmp/$2.npy" "$tmp/$1.npy" "$3" "$4" "$5" "$6" || fail "no part $*"
}
# grouped A B ARGS...: must work; the result is d.npy
grouped() {
    a=$1 b=$2
    shift 2
    rm -f "$tmp/d.npy"
    run 0 cutlass grouped "$tmp/$a.npy" "$tmp/$b.npy" -o "$tmp/d.npy" --device host --type f32 "$@"
}
# gemm ARGS...: the product of pa.npy and pb.npy must be pd.npy.
gemm() {
    run 0 cutlass gemm "$tmp/pa.npy" "$tmp/pb.npy" -o "$tmp/want.npy" --device host --type f32 "$@"
    same pd want
}

matrix tokens i8 C 37 53
matrix weights i8 F 159 29
matrix bias f32 C 3 29
matrix one f32 V 29 1
matrix gate f32 V 37 1
matrix c f32 C 37 29

# Rows, of which one group has none.
for order in '' "-e acc+bias[col] -w bias=$tmp/bias.npy" "-e acc*gate[row]+c -w gate=$tmp/gate.npy -w c=$tmp/c.npy"; do
    # shellcheck disable=SC2086  # these are options
    grouped tokens weights --sizes 12,0,25 $order
    says out '37 x 53 x 29 in f32'
    for group in '0 0 12' '2 12 25'; do
        # shellcheck disable=SC2086
        set -- $group
        part pa tokens "$2" "$3" 0 53
        part pb weights $(($1 * 53)) 53 0 29
        part pd d "$2" "$3" 0 29
        part pbias bias "$1" 1 0 29
        part pc c "$2" "$3" 0 29
        "$npy_tool" part "$tmp/gate.npy" "$tmp/pgate.npy" "$2" "$3" 0 1
        case $order in
        '') gemm ;;
        *bias*) gemm -e 'acc+bias[col]' -w bias="$tmp/pbias.npy" ;;
        *) gemm -e 'acc*gate[row]+c' -w gate="$tmp/pgate.npy" -w c="$tmp/pc.npy" ;;
        esac
    done
done

# One bias for all, and a number.
grouped tokens weights --sizes 12,0,25 -e 's*acc+bias[col]' -w bias="$tmp/one.npy" -w s=0.5
part pa tokens 0 12 0 53
part pb weights 0 53 0 29
part pd d 0 12 0 29
gemm -e 's*acc+bias[col]' -w bias="$tmp/one.npy" -w s=0.5

# Columns of B, and gradients.
matrix stacked i8 C 24 10
matrix wide i8 C 10 31
grouped stacked wide --along n --sizes 30,1,0
part pa stacked 8 8 0 10
part pb wide 0 10 30 1
part pd d 0 8 30 1
gemm
matrix left i8 F 7 40
matrix right i8 C 40 9
grouped left right --along k --sizes 5,0,35
part pa left 0 7 5 35
part pb right 5 35 0 9
part pd d 14 7 0 9
gemm
part pd d 7 7 0 9 # of no products
part pb right 0 0 0 9
"$npy_tool" part "$tmp/d.npy" "$tmp/zero.npy" 7 7 0 9
head -c 380 "$tmp/zero.npy" | tail -c 252 | tr -d '\000' | grep -q . && fail "sums of nothing are not 0"

# --- refused ---
# refused STATUS PATTERN ARGS...: must fail with a message and leave no output.
refused() {
    expected=$1 pattern=$2
    shift 2
    rm -f "$tmp/d.npy"
    run "$expected" cutlass grouped "$tmp/tokens.npy" "$tmp/weights.npy" -o "$tmp/d.npy" \
        --device host --type f32 "$@" && says err "$pattern"
    [ ! -e "$tmp/d.npy" ] || fail "an output file was left"
}
refused 2 'expected --sizes'
refused 2 "expected numbers like 3,0,5.*got '3,x'" --sizes 3,x
refused 2 'below 2.31 in all' --sizes 2147483647,1
refused 2 'expected numbers' --sizes 1,,36
refused 2 'expected groups of 37 rows in all, got 36' --sizes 12,0,24
refused 1 'expected matrices of 2 groups on top of each other' --sizes 12,25
refused 1 'do not agree' --sizes 37
refused 2 'expected groups of 53 columns in all' --sizes 12,0,25 --along k
refused 1 'expected 29 x 1 elements' --sizes 12,0,25 -e 'acc+b[col]' -w b="$tmp/gate.npy"
refused 1 'which grouped products can.t do' --sizes 12,0,25 -e 'y = acc; x[row,col] = y; y' \
    -w x="$tmp/x.npy"
refused 1 'a.type: expected' --sizes 12,0,25 --type i8
run 0 help cutlass grouped && says out 'N,N,...'

finish
