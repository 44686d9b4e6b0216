#!/bin/sh
# troupe tune: what it understands, what it keeps, and where it can't.
# TROUPE_TEST("no tsan")
# TROUPE_TEST_FAKE_GPU("no sanitizer")
. "$(dirname "$0")/lib.sh"

TROUPE_CACHE_DIR=$tmp/cache
export TROUPE_CACHE_DIR

cat >"$tmp/p.txt" <<END
# two layers
48 64 80  type=bf16 trans=tn epilogue=bias+gelu+aux   # with what goes back
64 64 64 type=f8e4m3 type_d=bf16 trans=tn scale=tensor batch=3

	32 16 48
END

# --- lists ---
run 0 tune --list "$tmp/p.txt" && says out '^ *2  48 64 80 type=bf16 trans=tn epilogue=bias.gelu.aux ' &&
    says out '^ *5  32 16 48 ' && says out "a full search for 3 problems; .* $tmp/cache"
run 0 tune --list --quick "$tmp/p.txt" && says out 'a quick search'
[ ! -e "$tmp/cache" ] || fail "--list made the cache folder"
: >"$tmp/empty.txt"
run 0 tune "$tmp/empty.txt" && says out 'empty.txt: no problems'

# --- files that are no good ---
# wrong PATTERN LINE: must be refused, with file and line.
wrong() {
    printf '# comment\n%s\n' "$2" >"$tmp/wrong.txt"
    run 1 tune --list "$tmp/wrong.txt" && says err "wrong.txt:2: $1"
}
wrong "'1 2': expected m, n and k" '1 2'
wrong "'x': expected n, a size" '1 x 3'
wrong "'0': expected k, a size" '1 2 0'
wrong "'-1': expected m, a size" '-1 2 3'
wrong "'9223372036854775807': expected m" '9223372036854775807 1 1'
wrong "'tipe=f32': expected type=, " '1 2 3 tipe=f32'
wrong "'type=f33': expected type=a type" '1 2 3 type=f33'
wrong "'trans=x': expected trans=two letters" '1 2 3 trans=x'
wrong "'trans=tnn': expected" '1 2 3 trans=tnn'
wrong "'order=up': expected order=col, row" '1 2 3 order=up'
wrong "'batch=0': expected batch=a count" '1 2 3 batch=0'
wrong "'epilogue=bias.bios': expected epilogue=bias, relu" '1 2 3 epilogue=bias+bios'
wrong "'add=c': expected add=d" '1 2 3 add=c'
wrong "'fp8': expected type=" '1 2 3 fp8'
wrong 'the matrices are too large' '36028797018963967 36028797018963967 1'
run 1 tune /dev/zero && says err '/dev/zero:1: expected text'
run 1 tune "$tmp/nothere.txt" && says err 'nothere.txt: No such file'
run 1 tune "$tmp" && says err "$tmp: Is a directory"
run 2 tune && says err 'expected 1 operand, got 0'

# --- on the host ---
if [ "$device" = host ]; then
    run 0 tune --device host "$tmp/p.txt" && says out 'the host backend has nothing to search'
    finish
fi

# --- searches ---
run 0 tune --device "$device" --quick "$tmp/p.txt" && says out '1 of 3 .* 48 64 80 .* a product' &&
    says out "3 of 3 problems searched in .*; records are kept in $tmp/cache"
records_are() { [ "$(grep -la 'matmul tuning' "$tmp"/cache/store/*.entry | wc -l)" -eq "$1" ]; } # beside verdicts of proofs
records_are 3 || fail "there are not 3 records"
run 0 cache ls && says out 'matmul tuning 48 64 80 type=bf16 trans=tn epilogue=bias.gelu.aux sm_' &&
    says out 'type_d=bf16 trans=tn batch=3 scale=tensor'
run 0 cache stat && says out 'entries  [0-9]'
run 0 cache verify && says out '[0-9] good, 0 damaged'
run 0 cache explain && says out 'only entry of its kind and name'
run 0 tune --device "$device" "$tmp/p.txt"
run 0 tune --device "$device" "$tmp/p.txt" && says out 'no new record' && says out '0 of 3 problems searched'
records_are 3 || fail "a full search is not in the place of a quick one"
run 0 tune --device "$device" -q "$tmp/p.txt"
[ ! -s "$tmp/out" ] || fail "--quiet printed something"
cat >"$tmp/all.txt" <<END
64 64 64 type=f8e4m3 trans=tn scale=vector type_d=f16
64 64 64 type=f8e4m3 trans=tn scale_d amax fast epilogue=bias
128 64 32 order=row add=d epilogue=drelu+sums_d
128 64 32 order=rrr add=apart type=c64 tf32
64 64 64 order=rcr type=f16 type_d=f32 workspace=65536 batch=2 epilogue=sums_b
END
run 0 tune --device "$device" --quick "$tmp/all.txt"

# One that the library can't do; the rest is searched all the same.
printf '64 64 64 type=f8e4m3 trans=nt\n64 64 64\n' >"$tmp/some.txt"
run 1 tune --device "$device" --quick "$tmp/some.txt" && says err 'some.txt:1: 64 64 64 type=f8e4m3' &&
    says out '1 of 2 problems searched'

# --- packs ---
run 2 cache pack -o "$tmp/t.pack" && says err 'expected FILE, or --tuning'
run 2 cache pack --tuning --arch sm_90 -o "$tmp/t.pack" && says err 'arch belongs to FILE'
run 0 cache pack --tuning -o "$tmp/t.pack" && says out "[0-9]* records of searches in $tmp/t.pack"
# What the older format has left is in nobody's way.
echo old >"$tmp/cache/matmul-0123456789abcdef.records"
run 0 cache prune --size 0 && says out 'removed [0-9]* files'
run 0 cache clear && says out 'removed 0 files' && says out '0 files stay'
[ -e "$tmp/cache/matmul-0123456789abcdef.records" ] || fail "clear removed what is not its own"
TROUPE_CACHE_PACKS=$tmp/t.pack
export TROUPE_CACHE_PACKS
run 0 cache ls && says out 'in a pack .* 48 64 80 type=bf16'
run 0 tune --device "$device" "$tmp/p.txt" && says out '0 of 3 problems searched'
unset TROUPE_CACHE_PACKS
run 0 tune --device "$device" --quick "$tmp/p.txt" && says out '3 of 3 problems searched'
run 0 cache pack --tuning -q -o "$tmp/t.pack"
[ ! -s "$tmp/out" ] || fail "--quiet printed something"

# --- no folder for records ---
for folder in '' relative /proc/troupe-cache; do
    TROUPE_CACHE_DIR=$folder
    run 1 tune --device "$device" "$tmp/p.txt" && says err 'records can.t be stored'
done
mkdir -m 777 "$tmp/open"
TROUPE_CACHE_DIR=$tmp/open
run 1 tune --device "$device" "$tmp/p.txt" && says err 'only its owner can write'

finish
