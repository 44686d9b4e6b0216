#!/bin/bash
# The reference BLAS's own test programs (Debian's libblas-test) on the blas actor, through the preloaded
# blas_bridge/: levels 1, 2 and 3 of all types. Error exits are left out, for the actor refuses by a status, and so
# are routines that it has not. Every call that a program counts must have come to the bridge.
set -uo pipefail
folder=$(compgen -G '/usr/lib/*/blas/xblat1d') || { echo "no test programs of libblas-test: skipped"; exit 77; }
folder=$(dirname "${folder%%$'\n'*}")
[ -n "${TROUPE_BLAS_BRIDGE:-}" ] || { echo "no bridge in a build with a sanitizer: skipped"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1
served=$(nm -D --defined-only "$TROUPE_BLAS_BRIDGE" | awk '{print toupper($3)}')
failures=0 total=0

# level type: runs one program and counts.
run() {
    local program=$folder/xblat$1$2 input=/dev/null calls counted
    if [ "$1" != 1 ]; then
        input=$tmp/in
        awk -v served="$served" 'BEGIN { n = split(served, names); for (i = 1; i <= n; i++) is[names[i]] = 1 }
            /TO TEST ERROR EXITS/ { sub(/^T/, "F") }
            /PUT F FOR NO TEST/ { if (!is[$1 "_"]) sub(/ T /, " F ") }
            { print }' "$folder/$2blat$1.in" >"$input"
    fi
    rm -f calls
    LD_PRELOAD=$TROUPE_BLAS_BRIDGE TROUPE_BLAS_CALLS=$tmp/calls "$program" <"$input" >out 2>&1
    local status=$?
    [ "$1" = 1 ] || cat "$2blat$1.out" >>out
    calls=$(cat calls 2>/dev/null || echo 0)
    counted=$(grep -oE '\( *[0-9]+ CALLS\)' out | tr -dc '0-9\n' | awk '{ sum += $1 } END { print sum + 0 }')
    total=$((total + calls))
    if [ $status != 0 ] || grep -qE 'FAIL|\*{5}|SUSPECT|LESS THAN HALF' out || ! grep -q PASS out || [ "$calls" -lt "$counted" ] ||
        [ "$calls" = 0 ]; then
        failures=$((failures + 1))
        echo "xblat$1$2: exit status $status, $calls calls came to the bridge, the program counted $counted"
        tail -n 60 out
    else
        echo "xblat$1$2: $calls calls"
    fi
}

for type in s d c z; do
    for level in 1 2 3; do
        run $level $type
    done
done
echo "$total calls, $failures programs failed"
[ $failures = 0 ]
